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

// What tables have in common: each element is made of one of each input.
class StageTable : public ElementTable {
 public:
  StageTable(StageCounter* counter, std::vector<TableRef> inputs) : counter_(counter), inputs_(std::move(inputs)) {}
  void count(std::uint64_t elements) const override {
    if (counter_) counter_->add(elements);
    for (const TableRef& input : inputs_) input->count(elements);
  }

 protected:
  const ElementTable& input() const { return *inputs_[0]; }
  StageCounter* const counter_;  // null: counts nothing
  const std::vector<TableRef> inputs_;
};

class TensorsTable final : public StageTable {
 public:
  TensorsTable(const data::TensorsStage& stage, StageCounter* counter)
      : StageTable(counter, {}), tensors_(stage.tensors) {}
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
  void read_rows(std::uint64_t epoch, std::span<const std::uint64_t> indices, std::int64_t row,
                 std::span<Tensor> out) const override {
    timed(counter_, 0, [&] {
      for (const std::uint64_t index : indices) read_row(epoch, index, row++, out);
    });
  }

 private:
  std::vector<Tensor> tensors_;
};

class RangeTable final : public StageTable {
 public:
  RangeTable(const data::RangeStage& stage, StageCounter* counter) : StageTable(counter, {}), stage_(stage) {}
  Element read(std::uint64_t, std::uint64_t index) const override {
    // Wraps only for what the range does not have.
    return {Tensor::scalar(static_cast<std::int64_t>(static_cast<std::uint64_t>(stage_.begin) +
                                                     index * static_cast<std::uint64_t>(stage_.step)))};
  }

 private:
  data::RangeStage stage_;
};

class IndexedTable final : public StageTable {
 public:
  IndexedTable(StageRef stage, StageCounter* counter) : StageTable(counter, {}), stage_(std::move(stage)) {}
  Element read(std::uint64_t, std::uint64_t index) const override {
    Element out = call_stage(*stage_, [&] { return timed(counter_, index, [&] { return source().read(index); }); });
    data::check_element(*stage_, out);
    return out;
  }
  void read_row(std::uint64_t, std::uint64_t index, std::int64_t row, std::span<Tensor> out) const override {
    call_stage(*stage_, [&] { timed(counter_, index, [&] { source().read_row(index, row, out); }); });
  }

 private:
  const data::IndexedSource& source() const { return *std::get<data::IndexedStage>(stage_->kind).source; }

  StageRef stage_;
};

class MapTable final : public StageTable {
 public:
  MapTable(StageRef stage, TableRef input, StageCounter* counter)
      : StageTable(nullptr, {std::move(input)}), stage_(std::move(stage)), calls_(counter) {}
  Element read(std::uint64_t epoch, std::uint64_t index) const override {
    return mapped(*stage_, input().read(epoch, index), {epoch, index}, calls_);
  }
  void read_row(std::uint64_t epoch, std::uint64_t index, std::int64_t row, std::span<Tensor> out) const override {
    mapped_to_row(*stage_, input().read(epoch, index), {epoch, index}, row, out, calls_);
  }

 private:
  StageRef stage_;
  StageCounter* const calls_;  // counted one by one
};

// Elements of another table, under other numbers: take, shard, repeat, shuffle.
template <class Number>
class RenumberedTable final : public StageTable {
 public:
  RenumberedTable(TableRef input, Number number, StageCounter* counter)
      : StageTable(counter, {std::move(input)}), number_(std::move(number)) {}
  Element read(std::uint64_t epoch, std::uint64_t index) const override {
    const auto [in_epoch, at] = number_(epoch, index);
    return input().read(in_epoch, at);
  }
  void read_row(std::uint64_t epoch, std::uint64_t index, std::int64_t row, std::span<Tensor> out) const override {
    const auto [in_epoch, at] = number_(epoch, index);
    input().read_row(in_epoch, at, row, out);
  }
  void read_rows(std::uint64_t epoch, std::span<const std::uint64_t> indices, std::int64_t row,
                 std::span<Tensor> out) const override {
    std::vector<std::uint64_t> numbers;  // of one epoch of the input
    numbers.reserve(indices.size());
    std::uint64_t of = 0;
    const auto read = [&] {
      input().read_rows(of, numbers, row, out);
      row += std::ssize(numbers);
      numbers.clear();
    };
    for (const std::uint64_t index : indices) {
      const auto [in_epoch, at] = number_(epoch, index);
      if (!numbers.empty() && in_epoch != of) read();
      of = in_epoch;
      numbers.push_back(at);
    }
    read();
  }

 private:
  const Number number_;
};

template <class Number>
TableRef renumbered(TableRef input, Number number, StageCounter* counter) {
  return std::make_shared<RenumberedTable<Number>>(std::move(input), std::move(number), counter);
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
class GroupTable final : public StageTable {
 public:
  GroupTable(StageRef stage, data::BatchStage how, std::uint64_t shift, TableRef input, StageCounter* counter)
      : StageTable(counter, {std::move(input)}), stage_(std::move(stage)), how_(std::move(how)), shift_(shift) {}
  Element read(std::uint64_t epoch, std::uint64_t index) const override {
    const std::uint64_t first = index * shift_;
    const std::uint64_t count =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(how_.size), *stage_->inputs[0]->size - first);
    input().count(count);
    std::vector<Element> elements;
    for (std::uint64_t i = 0; i < count; ++i) elements.push_back(input().read(epoch, first + i));
    return timed(counter_, 0, [&] { return assemble_batch(how_, stage_->name, stage_->inputs[0]->schema, elements); });
  }
  void count(std::uint64_t elements) const override {
    if (counter_) counter_->add(elements);  // those of the input vary
  }

 private:
  const StageRef stage_;
  const data::BatchStage how_;
  const std::uint64_t shift_;
};

class UnbatchTable final : public StageTable {
 public:
  UnbatchTable(const Stage& stage, TableRef input, StageCounter* counter)
      : StageTable(counter, {std::move(input)}),
        rows_(static_cast<std::uint64_t>(stage.inputs[0]->schema[0].shape.dim(0))) {}
  Element read(std::uint64_t epoch, std::uint64_t index) const override {
    Element out = input().read(epoch, index / rows_);
    const auto row = static_cast<std::int64_t>(index % rows_);
    for (Tensor& tensor : out)
      tensor = tensor.rows(row, row + 1).reshaped(tensor.shape().sub(1, tensor.shape().rank()));
    return out;
  }

 private:
  const std::uint64_t rows_;
};

class ZipTable final : public StageTable {
 public:
  ZipTable(const Stage& stage, std::vector<TableRef> inputs, StageCounter* counter)
      : StageTable(counter, std::move(inputs)) {
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
  std::vector<std::size_t> widths_;
};

class ConcatenatedTable final : public StageTable {
 public:
  ConcatenatedTable(const Stage& stage, std::vector<TableRef> inputs, StageCounter* counter)
      : StageTable(counter, std::move(inputs)), first_(*stage.inputs[0]->size) {}
  Element read(std::uint64_t epoch, std::uint64_t index) const override {
    const auto [table, at] = find(index);
    table.count(1);
    return table.read(epoch, at);
  }
  void read_row(std::uint64_t epoch, std::uint64_t index, std::int64_t row, std::span<Tensor> out) const override {
    const auto [table, at] = find(index);
    table.count(1);
    table.read_row(epoch, at, row, out);
  }
  void count(std::uint64_t elements) const override {
    if (counter_) counter_->add(elements);  // whose they are is known when they are read
  }

 private:
  std::pair<const ElementTable&, std::uint64_t> find(std::uint64_t index) const {
    if (index < first_) return {*inputs_[0], index};
    return {*inputs_[1], index - first_};
  }
  const std::uint64_t first_;
};

// The elements of the first epoch, kept once they are made.
class CachedTable final : public StageTable {
 public:
  CachedTable(StageRef stage, TableRef input, StageCounter* counter)
      : StageTable(counter, {std::move(input)}), stage_(std::move(stage)) {}
  Element read(std::uint64_t, std::uint64_t index) const override {
    data::ElementCache& cache = *std::get<data::CacheStage>(stage_->kind).cache;
    if (auto kept = cache.find(index)) return std::move(*kept);
    input().count(1);
    Element element = input().read(0, index);
    call_stage(*stage_, [&] { cache.put(index, element); });
    return element;
  }
  void count(std::uint64_t elements) const override {
    if (counter_) counter_->add(elements);
  }

 private:
  const StageRef stage_;
};

using Place = std::pair<std::uint64_t, std::uint64_t>;  // epoch and number in the input

[[noreturn]] TableRef no_table(const Stage& stage) { fail(Code::internal, "stage '{}' has no table", stage.name); }

TableRef table_of(const StageRef& stage, std::vector<TableRef> inputs, StageCounter* counter) {
  const auto one = [&] { return std::move(inputs.at(0)); };
  return std::visit(
      Overloaded{
          [&](const data::TensorsStage& s) -> TableRef { return std::make_shared<TensorsTable>(s, counter); },
          [&](const data::RangeStage& s) -> TableRef { return std::make_shared<RangeTable>(s, counter); },
          [&](const data::IndexedStage&) -> TableRef { return std::make_shared<IndexedTable>(stage, counter); },
          [&](const data::MapStage&) -> TableRef { return std::make_shared<MapTable>(stage, one(), counter); },
          [&](const data::TakeStage& s) -> TableRef {
            return renumbered(
                one(), [first = s.first](std::uint64_t e, std::uint64_t i) { return Place(e, first + i); }, counter);
          },
          [&](const data::ShardStage& s) -> TableRef {
            return renumbered(
                one(), [s](std::uint64_t e, std::uint64_t i) { return Place(e, s.index + i * s.shards); }, counter);
          },
          [&](const data::RepeatStage& s) -> TableRef {
            return renumbered(
                one(),
                [times = s.times, size = *stage->inputs[0]->size](std::uint64_t e, std::uint64_t i) {
                  return Place(e * times + i / size, i % size);
                },
                counter);
          },
          [&](const data::ShuffleStage& s) -> TableRef {
            return renumbered(
                one(),
                [each = s.each_epoch, orders = std::make_shared<Orders>(s.seed, *stage->size)](
                    std::uint64_t e, std::uint64_t i) { return Place(e, orders->at(each ? e : 0, i)); },
                counter);
          },
          [&](const data::BatchStage& s) -> TableRef {
            return std::make_shared<GroupTable>(stage, s, static_cast<std::uint64_t>(s.size), one(), counter);
          },
          [&](const data::WindowStage& s) -> TableRef {
            return std::make_shared<GroupTable>(stage, data::BatchStage{.size = s.size},
                                                static_cast<std::uint64_t>(s.shift), one(), counter);
          },
          [&](const data::CacheStage&) -> TableRef { return std::make_shared<CachedTable>(stage, one(), counter); },
          [&](const data::UnbatchStage&) -> TableRef { return std::make_shared<UnbatchTable>(*stage, one(), counter); },
          [&](const data::ZipStage&) -> TableRef {
            return std::make_shared<ZipTable>(*stage, std::move(inputs), counter);
          },
          [&](const data::ConcatenateStage&) -> TableRef {
            return std::make_shared<ConcatenatedTable>(*stage, std::move(inputs), counter);
          },
          [&](const data::SplitsStage&) -> TableRef { return no_table(*stage); },
          [&](const data::FilterStage&) -> TableRef { return no_table(*stage); },
          [&](const data::FlatMapStage&) -> TableRef { return no_table(*stage); },
          [&](const data::BucketStage&) -> TableRef { return no_table(*stage); },
          [&](const data::InterleaveStage&) -> TableRef { return no_table(*stage); },
          [&](const data::SampleStage&) -> TableRef { return no_table(*stage); }},
      stage->kind);
}

}  // namespace

void ElementTable::read_row(std::uint64_t epoch, std::uint64_t index, std::int64_t row, std::span<Tensor> out) const {
  data::copy_to_row(read(epoch, index), row, out);
}

void ElementTable::read_rows(std::uint64_t epoch, std::span<const std::uint64_t> indices, std::int64_t row,
                             std::span<Tensor> out) const {
  for (const std::uint64_t index : indices) read_row(epoch, index, row++, out);
}

std::shared_ptr<const ElementTable> open_table(const StageRef& stage, const PipelineStatistics* statistics) {
  if (!stage->forward_because.empty())
    fail(Code::failed_precondition, "the pipeline is read in order: {}", stage->forward_because);
  std::vector<TableRef> inputs;
  for (const StageRef& input : stage->inputs) inputs.push_back(open_table(input, statistics));
  return table_of(stage, std::move(inputs), counter_of(statistics, *stage));
}

}  // namespace troupe
