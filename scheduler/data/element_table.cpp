#include "troupe/scheduler/data/element_table.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include <troupe/messages/error.hpp>
#include <troupe/messages/overloaded.hpp>
#include <troupe/scheduler/data/batch_assembly.hpp>
#include <troupe/scheduler/data/permutation.hpp>
#include <troupe/scheduler/data/stage_call.hpp>

namespace troupe {
namespace {

using data::Element;
using data::Stage;
using data::StageRef;
using TableRef = std::shared_ptr<const ElementTable>;

class TensorsTable final : public ElementTable {
 public:
  explicit TensorsTable(const data::TensorsStage& stage) : tensors_(stage.tensors) {}
  Element read(std::uint64_t, std::uint64_t index) const override {
    Element out;
    const auto at = static_cast<std::int64_t>(index);
    for (const Tensor& tensor : tensors_) {
      const Tensor row = tensor.rows(at, at + 1);
      out.push_back(row.reshaped(tensor.shape().sub(1, tensor.shape().rank())));
    }
    return out;
  }
  void read_row(std::uint64_t, std::uint64_t index, std::int64_t row, std::span<Tensor> out) const override {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Tensor& from = tensors_[i];
      if (from.dtype() == DType::string) {
        const std::int64_t width = from.num_elements() / from.shape()[0];
        std::copy_n(from.data<std::string>() + static_cast<std::int64_t>(index) * width, width,
                    out[i].mutable_data<std::string>() + row * width);
        continue;
      }
      const std::size_t bytes = from.num_bytes() / static_cast<std::size_t>(from.shape()[0]);
      std::memcpy(out[i].mutable_raw() + static_cast<std::size_t>(row) * bytes, from.raw() + index * bytes, bytes);
    }
  }

 private:
  std::vector<Tensor> tensors_;
};

class RangeTable final : public ElementTable {
 public:
  explicit RangeTable(const data::RangeStage& stage) : stage_(stage) {}
  Element read(std::uint64_t, std::uint64_t index) const override {
    // Wraps only for what the range does not have.
    return {Tensor::scalar(static_cast<std::int64_t>(static_cast<std::uint64_t>(stage_.begin) +
                                                     index * static_cast<std::uint64_t>(stage_.step)))};
  }

 private:
  data::RangeStage stage_;
};

class IndexedTable final : public ElementTable {
 public:
  explicit IndexedTable(StageRef stage) : stage_(std::move(stage)) {}
  Element read(std::uint64_t, std::uint64_t index) const override {
    Element out = call_stage(*stage_, [&] { return source().read(index); });
    data::check_element(*stage_, out);
    return out;
  }
  void read_row(std::uint64_t, std::uint64_t index, std::int64_t row, std::span<Tensor> out) const override {
    call_stage(*stage_, [&] { source().read_row(index, row, out); });
  }

 private:
  const data::IndexedSource& source() const { return *std::get<data::IndexedStage>(stage_->kind).source; }

  StageRef stage_;
};

class MapTable final : public ElementTable {
 public:
  MapTable(StageRef stage, TableRef input) : stage_(std::move(stage)), input_(std::move(input)) {}
  Element read(std::uint64_t epoch, std::uint64_t index) const override {
    return mapped(*stage_, input_->read(epoch, index), {epoch, index});
  }
  void read_row(std::uint64_t epoch, std::uint64_t index, std::int64_t row, std::span<Tensor> out) const override {
    mapped_to_row(*stage_, input_->read(epoch, index), {epoch, index}, row, out);
  }

 private:
  StageRef stage_;
  TableRef input_;
};

// Elements of another table, under other numbers: take, shard, repeat.
template <class Number>
class RenumberedTable final : public ElementTable {
 public:
  RenumberedTable(TableRef input, Number number) : input_(std::move(input)), number_(std::move(number)) {}
  Element read(std::uint64_t epoch, std::uint64_t index) const override {
    const auto [in_epoch, at] = number_(epoch, index);
    return input_->read(in_epoch, at);
  }
  void read_row(std::uint64_t epoch, std::uint64_t index, std::int64_t row, std::span<Tensor> out) const override {
    const auto [in_epoch, at] = number_(epoch, index);
    input_->read_row(in_epoch, at, row, out);
  }

 private:
  TableRef input_;
  Number number_;
};

template <class Number>
TableRef renumbered(TableRef input, Number number) {
  return std::make_shared<RenumberedTable<Number>>(std::move(input), std::move(number));
}

// The orders of the last epochs asked for: tasks read a few at a time.
class Orders {
 public:
  Orders(std::uint64_t seed, std::uint64_t elements) : seed_(seed), elements_(elements) {}
  std::uint64_t at(std::uint64_t epoch, std::uint64_t index) {
    const std::lock_guard lock(mutex_);
    auto found = orders_.find(epoch);
    if (found == orders_.end()) {
      if (orders_.size() >= kKept) orders_.erase(epoch > orders_.begin()->first ? orders_.begin() : --orders_.end());
      found = orders_.emplace(epoch, permutation(seed_, epoch, elements_)).first;
    }
    return found->second[index];
  }

 private:
  static constexpr std::size_t kKept = 2;
  const std::uint64_t seed_, elements_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<std::uint32_t>> orders_;
};

// Several elements of a table as one: batch, window.
class GroupTable final : public ElementTable {
 public:
  GroupTable(StageRef stage, data::BatchStage how, std::uint64_t shift, TableRef input)
      : stage_(std::move(stage)), how_(std::move(how)), shift_(shift), input_(std::move(input)) {}
  Element read(std::uint64_t epoch, std::uint64_t index) const override {
    const std::uint64_t first = index * shift_;
    const std::uint64_t count =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(how_.size), *stage_->inputs[0]->size - first);
    std::vector<Element> elements;
    for (std::uint64_t i = 0; i < count; ++i) elements.push_back(input_->read(epoch, first + i));
    return assemble_batch(how_, stage_->name, stage_->inputs[0]->schema, elements);
  }

 private:
  StageRef stage_;
  data::BatchStage how_;
  std::uint64_t shift_;
  TableRef input_;
};

class UnbatchTable final : public ElementTable {
 public:
  UnbatchTable(const Stage& stage, TableRef input)
      : rows_(static_cast<std::uint64_t>(stage.inputs[0]->schema[0].shape.dim(0))), input_(std::move(input)) {}
  Element read(std::uint64_t epoch, std::uint64_t index) const override {
    Element out = input_->read(epoch, index / rows_);
    const auto row = static_cast<std::int64_t>(index % rows_);
    for (Tensor& tensor : out)
      tensor = tensor.rows(row, row + 1).reshaped(tensor.shape().sub(1, tensor.shape().rank()));
    return out;
  }

 private:
  std::uint64_t rows_;
  TableRef input_;
};

class ZipTable final : public ElementTable {
 public:
  ZipTable(const Stage& stage, std::vector<TableRef> inputs) : inputs_(std::move(inputs)) {
    for (const StageRef& input : stage.inputs) widths_.push_back(input->schema.size());
  }
  Element read(std::uint64_t epoch, std::uint64_t index) const override {
    Element out;
    for (const TableRef& input : inputs_)
      for (Tensor& tensor : input->read(epoch, index)) out.push_back(std::move(tensor));
    return out;
  }
  void read_row(std::uint64_t epoch, std::uint64_t index, std::int64_t row, std::span<Tensor> out) const override {
    for (std::size_t i = 0; i < inputs_.size(); out = out.subspan(widths_[i++]))
      inputs_[i]->read_row(epoch, index, row, out.first(widths_[i]));
  }

 private:
  std::vector<TableRef> inputs_;
  std::vector<std::size_t> widths_;
};

class ConcatenatedTable final : public ElementTable {
 public:
  ConcatenatedTable(const Stage& stage, std::vector<TableRef> inputs)
      : first_(*stage.inputs[0]->size), inputs_(std::move(inputs)) {}
  Element read(std::uint64_t epoch, std::uint64_t index) const override {
    return index < first_ ? inputs_[0]->read(epoch, index) : inputs_[1]->read(epoch, index - first_);
  }
  void read_row(std::uint64_t epoch, std::uint64_t index, std::int64_t row, std::span<Tensor> out) const override {
    return index < first_ ? inputs_[0]->read_row(epoch, index, row, out)
                          : inputs_[1]->read_row(epoch, index - first_, row, out);
  }

 private:
  std::uint64_t first_;
  std::vector<TableRef> inputs_;
};

using Place = std::pair<std::uint64_t, std::uint64_t>;  // epoch and number in the input

[[noreturn]] TableRef no_table(const Stage& stage) { fail(Code::internal, "stage '{}' has no table", stage.name); }

TableRef table_of(const StageRef& stage, std::vector<TableRef> inputs) {
  const auto one = [&] { return std::move(inputs.at(0)); };
  return std::visit(
      Overloaded{
          [&](const data::TensorsStage& s) -> TableRef { return std::make_shared<TensorsTable>(s); },
          [&](const data::RangeStage& s) -> TableRef { return std::make_shared<RangeTable>(s); },
          [&](const data::IndexedStage&) -> TableRef { return std::make_shared<IndexedTable>(stage); },
          [&](const data::MapStage&) -> TableRef { return std::make_shared<MapTable>(stage, one()); },
          [&](const data::TakeStage& s) -> TableRef {
            return renumbered(one(),
                              [first = s.first](std::uint64_t e, std::uint64_t i) { return Place(e, first + i); });
          },
          [&](const data::ShardStage& s) -> TableRef {
            return renumbered(one(),
                              [s](std::uint64_t e, std::uint64_t i) { return Place(e, s.index + i * s.shards); });
          },
          [&](const data::RepeatStage& s) -> TableRef {
            return renumbered(one(),
                              [times = s.times, size = *stage->inputs[0]->size](std::uint64_t e, std::uint64_t i) {
                                return Place(e * times + i / size, i % size);
                              });
          },
          [&](const data::ShuffleStage& s) -> TableRef {
            return renumbered(one(),
                              [each = s.each_epoch, orders = std::make_shared<Orders>(s.seed, *stage->size)](
                                  std::uint64_t e, std::uint64_t i) { return Place(e, orders->at(each ? e : 0, i)); });
          },
          [&](const data::BatchStage& s) -> TableRef {
            return std::make_shared<GroupTable>(stage, s, static_cast<std::uint64_t>(s.size), one());
          },
          [&](const data::WindowStage& s) -> TableRef {
            return std::make_shared<GroupTable>(stage, data::BatchStage{.size = s.size},
                                                static_cast<std::uint64_t>(s.shift), one());
          },
          [&](const data::UnbatchStage&) -> TableRef { return std::make_shared<UnbatchTable>(*stage, one()); },
          [&](const data::ZipStage&) -> TableRef { return std::make_shared<ZipTable>(*stage, std::move(inputs)); },
          [&](const data::ConcatenateStage&) -> TableRef {
            return std::make_shared<ConcatenatedTable>(*stage, std::move(inputs));
          },
          [&](const data::SplitsStage&) -> TableRef { return no_table(*stage); },
          [&](const data::FilterStage&) -> TableRef { return no_table(*stage); },
          [&](const data::FlatMapStage&) -> TableRef { return no_table(*stage); },
          [&](const data::SampleStage&) -> TableRef { return no_table(*stage); }},
      stage->kind);
}

}  // namespace

void ElementTable::read_row(std::uint64_t epoch, std::uint64_t index, std::int64_t row, std::span<Tensor> out) const {
  data::copy_to_row(read(epoch, index), row, out);
}

std::shared_ptr<const ElementTable> open_table(const StageRef& stage) {
  if (!stage->forward_because.empty())
    fail(Code::failed_precondition, "the pipeline is read in order: {}", stage->forward_because);
  std::vector<TableRef> inputs;
  for (const StageRef& input : stage->inputs) inputs.push_back(open_table(input));
  return table_of(stage, std::move(inputs));
}

}  // namespace troupe
