// Data sets of troupe.keras: arrays, which are not copied, and batches that Python makes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "apps/python/keras.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/kernels/readers/digits.hpp>
#include <troupe/kernels/readers/idx.hpp>
#include <troupe/scheduler/data/tensor_dataset.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// The batches of another source, in its order or of its first steps only.
class ChosenBatches final : public BatchSource {
 public:
  ChosenBatches(std::shared_ptr<const BatchSource> source, bool shuffle, std::optional<std::uint64_t> steps,
                std::int64_t batch)
      : source_(std::move(source)), shuffle_(shuffle), steps_(steps), batch_(batch) {}

  const BatchSchema& schema() const override { return source_->schema(); }
  std::optional<std::uint64_t> examples() const override {
    const auto all = source_->examples();
    if (!all || !steps_) return all;
    return std::min(*all, *steps_ * static_cast<std::uint64_t>(batch_));
  }
  std::optional<std::int64_t> batch() const override { return source_->batch(); }
  bool addressable() const override { return source_->addressable(); }
  std::string description() const override {
    return source_->description() + (shuffle_ ? "" : "in order\n") +
           (steps_ ? fmt::format("first steps: {}\n", *steps_) : "");
  }
  std::vector<StageFigures> stages() const override { return source_->stages(); }
  std::unique_ptr<BatchReader> open(const BatchPlan& plan) const override {
    BatchPlan own = plan;
    own.shuffle = plan.shuffle && shuffle_;
    return std::make_unique<Reader>(source_->open(own), steps_);
  }

 private:
  class Reader final : public BatchReader {
   public:
    Reader(std::unique_ptr<BatchReader> reader, std::optional<std::uint64_t> steps)
        : reader_(std::move(reader)), steps_(steps) {}
    std::optional<UnmadeBatch> begin(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) override {
      if (steps_ && step >= *steps_) return std::nullopt;
      return reader_->begin(epoch, step, slot);
    }
    Batch make(UnmadeBatch&& unmade) const override { return reader_->make(std::move(unmade)); }
    void go_on_from(const DataPlace& place) override { reader_->go_on_from(place); }

   private:
    std::unique_ptr<BatchReader> reader_;
    std::optional<std::uint64_t> steps_;
  };

  std::shared_ptr<const BatchSource> source_;
  bool shuffle_;
  std::optional<std::uint64_t> steps_;
  std::int64_t batch_;
};

// Batches made by Python: next(epoch, step) returns a list of tensors, or None when the epoch is over. Steps come in
// ascending order; one that comes again begins the epoch again.
class PythonBatches final : public BatchSource {
 public:
  PythonBatches(BatchSchema schema, nb::object next, std::optional<std::uint64_t> examples)
      : schema_(std::move(schema)), next_(std::move(next)), examples_(examples) {
    check_schema(schema_);
  }
  ~PythonBatches() override {
    if (!Py_IsInitialized()) {
      (void)next_.release();  // the interpreter has ended
      return;
    }
    const nb::gil_scoped_acquire held;
    next_.reset();
  }

  const BatchSchema& schema() const override { return schema_; }
  std::optional<std::uint64_t> examples() const override { return examples_; }
  bool addressable() const override { return false; }
  std::unique_ptr<BatchReader> open(const BatchPlan& plan) const override {
    if (plan.slots != 1) invalid_argument("batches that Python makes are for one slot, not {}", plan.slots);
    return std::make_unique<Reader>(*this);
  }

 private:
  class Reader final : public BatchReader {
   public:
    explicit Reader(const PythonBatches& source) : source_(source) {}
    std::optional<UnmadeBatch> begin(std::uint32_t epoch, std::uint64_t step, std::uint32_t slot) override {
      auto batch = source_.next(epoch, step);
      if (!batch) return std::nullopt;
      const std::int64_t examples = batch->examples;
      return UnmadeBatch{epoch, step, slot, examples, std::make_shared<const Batch>(std::move(*batch))};
    }
    Batch make(UnmadeBatch&& unmade) const override { return *static_cast<const Batch*>(unmade.noted.get()); }

   private:
    const PythonBatches& source_;
  };

  std::optional<Batch> next(std::uint32_t epoch, std::uint64_t step) const {
    const nb::gil_scoped_acquire held;
    try {
      const nb::object made = next_(epoch, step);
      if (made.is_none()) return std::nullopt;
      Batch batch;
      for (const nb::handle tensor : made) batch.components.push_back(nb::cast<Tensor>(tensor).clone());
      check(batch, step);
      batch.examples = batch.components[0].shape()[0];
      return batch;
    } catch (const nb::python_error& error) {
      // The exception itself is raised by whoever asked for the batches.
      fail(Code::aborted, "batch {} of the data could not be made: {}", step, error.what());
    }
  }

  void check(const Batch& batch, std::uint64_t step) const {
    if (batch.components.size() != schema_.size())
      invalid_argument("batch {} of the data has {} arrays, but the first has {}", step, batch.components.size(),
                       schema_.size());
    for (std::size_t i = 0; i < schema_.size(); ++i) {
      const BatchComponent& component = schema_[i];
      const Tensor& tensor = batch.components[i];
      const Shape wanted = component.batch_shape(kUnknown);
      if (tensor.dtype() != component.dtype || !tensor.shape().compatible_with(wanted))
        invalid_argument("batch {} of the data: '{}' is {}{}, but was {}{} in the first", step, component.name,
                         name(tensor.dtype()), tensor.shape().to_string(), name(component.dtype), wanted.to_string());
      if (tensor.shape()[0] != batch.components[0].shape()[0] || tensor.shape()[0] == 0)
        invalid_argument("batch {} of the data: '{}' has {} examples, '{}' has {}", step, component.name,
                         tensor.shape()[0], schema_[0].name, batch.components[0].shape()[0]);
    }
  }

  BatchSchema schema_;
  nb::object next_;
  std::optional<std::uint64_t> examples_;
};

using Components = std::vector<std::tuple<std::string, std::string, Dims>>;  // name, dtype, shape of an example

BatchSchema schema_of(const Components& components) {
  BatchSchema out;
  for (const auto& [name, dtype, shape] : components)
    out.push_back({.name = name, .dtype = dtype_named(dtype), .shape = shape_of_dims(shape)});
  return out;
}

// Train images and labels, test images and labels.
std::vector<Tensor> drawn_digits(int train, int test, std::uint64_t seed) {
  const DataSplits data = draw_digits({.train = train, .test = test, .seed = seed});
  return {data.train.images, data.train.labels, data.test.images, data.test.labels};
}

}  // namespace

void bind_keras_data(nb::module_& m) {
  m.def(
      "arrays",
      [](const std::vector<std::pair<std::string, Tensor>>& components) {
        return PyBatchSource{std::make_shared<TensorDataset>(components)};
      },
      "components"_a);
  m.def(
      "python_batches",
      [](const Components& components, nb::object next, std::optional<std::uint64_t> examples) {
        return PyBatchSource{std::make_shared<PythonBatches>(schema_of(components), std::move(next), examples)};
      },
      "components"_a, "next"_a, "examples"_a.none());
  m.def(
      "read_idx", [](const std::string& path) { return read_idx(path); }, "path"_a,
      nb::call_guard<nb::gil_scoped_release>());
  m.def("draw_digits", &drawn_digits, "train"_a, "test"_a, "seed"_a, nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "batch_of", [](const PyBatchSource& source) { return source.source->batch(); }, "source"_a);
  m.def(
      "chosen",
      [](const PyBatchSource& source, bool shuffle, std::optional<std::uint64_t> steps, std::int64_t batch) {
        return PyBatchSource{std::make_shared<ChosenBatches>(source.source, shuffle, steps, batch)};
      },
      "source"_a, "shuffle"_a, "steps"_a.none(), "batch"_a);
}

}  // namespace troupe::python
