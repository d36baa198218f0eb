// ONNX models that run as they are, for onnx.backend: inputs and outputs by position, of any type that ONNX has.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <tuple>

#include "apps/python/bindings.hpp"
#include "apps/python/dtypes.hpp"
#include "apps/python/fork.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/tensor_list.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// One for all models that run now.
std::shared_ptr<Task> task_of_models() {
  static std::mutex mutex;
  static std::weak_ptr<Task> shared;
  const std::lock_guard lock(mutex);
  auto task = shared.lock();
  if (!task) shared = task = std::make_shared<Task>();
  return task;
}

// A tensor, a list of values, or None for an optional value that is absent.
Tensor value_of(nb::handle given, const OnnxType& type) {
  if (!type.is_list()) return nb::cast<Tensor>(given);
  std::vector<Tensor> items;
  if (type.lists.front() == OnnxType::List::sequence)
    for (nb::handle item : given) items.push_back(value_of(item, type.item()));
  else if (!given.is_none())
    items.push_back(value_of(given, type.item()));
  return make_list(std::move(items));
}

nb::object object_of(const Tensor& value, const OnnxType& type) {
  if (value.dtype() != DType::list) return nb::cast(value);
  const bool optional = type.is_list() && type.lists.front() == OnnxType::List::optional;
  nb::list out;
  for (const Tensor& item : list_items(value)) out.append(object_of(item, type.is_list() ? type.item() : type));
  if (!optional) return out;
  return nb::len(out) == 0 ? nb::none() : nb::object(out[0]);
}

// (name, dtype, shape, kinds of lists from the outside)
using Types = std::vector<std::tuple<std::string, std::string, Dims, std::vector<std::string>>>;
Types types_of(const std::vector<OnnxValue>& values) {
  Types out;
  for (const OnnxValue& v : values) {
    std::vector<std::string> lists;
    for (const OnnxType::List list : v.type.lists)
      lists.emplace_back(list == OnnxType::List::sequence ? "sequence" : "optional");
    out.emplace_back(v.name, std::string(long_name(v.type.dtype)), dims_of_shape(v.type.shape), std::move(lists));
  }
  return out;
}

class OnnxProgram {
 public:
  // `folder` has the model's external data.
  OnnxProgram(const nb::bytes& model, const std::optional<std::string>& folder, bool inference) {
    check_not_forked();
    const std::string_view bytes(model.c_str(), model.size());
    const nb::gil_scoped_release released;
    model_ = parse_onnx(bytes, {.weights = OnnxImportOptions::Weights::constants}, folder);
    task_ = task_of_models();
    SessionOptions options;
    if (inference) options.inference = InferencePasses{};
    session_ = std::make_unique<Session>(*task_, *model_.graph, std::move(options));
  }
  OnnxProgram(OnnxProgram&&) = delete;
  ~OnnxProgram() {
    const nb::gil_scoped_release released;
    if (is_forked()) {
      (void)session_.release();
      (void)new std::shared_ptr<Task>(std::move(task_));
    }
    session_.reset();
    task_.reset();
  }

  Types inputs() const { return types_of(model_.inputs); }
  Types outputs() const { return types_of(model_.outputs); }

  // Later inputs may be left out if the model can do without them.
  nb::list run(const nb::list& given) {
    check_not_forked();
    if (given.size() > model_.inputs.size())
      invalid_argument("the model has {} inputs, not {}", model_.inputs.size(), given.size());
    Feeds feeds;
    for (std::size_t i = 0; i < given.size(); ++i)
      feeds.emplace_back(model_.inputs[i].output, value_of(given[i], model_.inputs[i].type));
    Outputs fetches;
    for (const OnnxValue& v : model_.outputs) fetches.push_back(v.output);
    std::vector<Tensor> found;
    {
      const nb::gil_scoped_release released;
      found = session_->run(feeds, fetches);
    }
    nb::list out;
    for (std::size_t i = 0; i < found.size(); ++i) out.append(object_of(found[i], model_.outputs[i].type));
    return out;
  }

 private:
  OnnxModel model_;
  std::shared_ptr<Task> task_;
  std::unique_ptr<Session> session_;
};

}  // namespace

void bind_onnx(nb::module_& m) {
  nb::class_<OnnxProgram>(m, "OnnxProgram")
      .def(nb::init<const nb::bytes&, const std::optional<std::string>&, bool>(), "model"_a, "folder"_a.none(),
           "inference"_a = false)
      .def_prop_ro("inputs", &OnnxProgram::inputs)
      .def_prop_ro("outputs", &OnnxProgram::outputs)
      .def("run", &OnnxProgram::run, "inputs"_a);
}

}  // namespace troupe::python
