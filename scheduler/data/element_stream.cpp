#include "troupe/scheduler/data/element_stream.hpp"

#include <algorithm>
#include <utility>

#include <troupe/messages/error.hpp>
#include <troupe/messages/overloaded.hpp>
#include <troupe/messages/philox.hpp>
#include <troupe/scheduler/data/batch_assembly.hpp>
#include <troupe/scheduler/data/buffering_streams.hpp>
#include <troupe/scheduler/data/counting_stream.hpp>
#include <troupe/scheduler/data/element_table.hpp>
#include <troupe/scheduler/data/splits_stream.hpp>
#include <troupe/scheduler/data/stage_call.hpp>

namespace troupe {
namespace {

using data::Element;
using data::StageRef;
using Stream = std::unique_ptr<ElementStream>;

class TableStream final : public ElementStream {
 public:
  explicit TableStream(const StageRef& stage) : stage_(stage), table_(open_table(stage)) {}
  void start(std::uint64_t epoch) override {
    epoch_ = epoch;
    index_ = 0;
  }
  std::optional<Element> next() override {
    if (index_ >= *stage_->size) return std::nullopt;
    return table_->read(epoch_, index_++);
  }
  bool next_row(std::int64_t row, std::span<Tensor> out) override {
    if (index_ >= *stage_->size) return false;
    table_->read_row(epoch_, index_++, row, out);
    return true;
  }
  void save(StreamPosition& out) const override { out.push_back(index_); }
  void restore(PositionReader& in) override {
    index_ = in.take();
    if (index_ > *stage_->size) refuse_position(*stage_);
  }

 private:
  StageRef stage_;
  std::shared_ptr<const ElementTable> table_;
  std::uint64_t epoch_ = 0, index_ = 0;
};

class MapStream final : public CountingStream {
 public:
  using CountingStream::CountingStream;
  std::optional<Element> next() override {
    const auto given = take();
    if (!given) return std::nullopt;
    return mapped(*stage_, *given, {epoch_, taken_ - 1});
  }
  bool next_row(std::int64_t row, std::span<Tensor> out) override {
    const auto given = take();
    if (given) mapped_to_row(*stage_, *given, {epoch_, taken_ - 1}, row, out);
    return given.has_value();
  }
};

class FilterStream final : public CountingStream {
 public:
  using CountingStream::CountingStream;
  std::optional<Element> next() override {
    auto element = take();
    while (element && !call_stage(*stage_, [&] { return kind<data::FilterStage>().keep(*element); })) element = take();
    return element;
  }
};

class TakeStream final : public CountingStream {
 public:
  using CountingStream::CountingStream;
  std::optional<Element> next() override {
    const auto& [first, count] = kind<data::TakeStage>();
    while (taken_ < first)
      if (!take()) return std::nullopt;
    if (taken_ - first >= count) return std::nullopt;
    return take();
  }
};

class ShardStream final : public CountingStream {
 public:
  using CountingStream::CountingStream;
  std::optional<Element> next() override {
    const auto& [shards, index] = kind<data::ShardStage>();
    auto element = take();
    while (element && (taken_ - 1) % shards != index) element = take();
    return element;
  }
};

class BatchStream final : public CountingStream {
 public:
  using CountingStream::CountingStream;
  std::optional<Element> next() override {
    const auto& how = kind<data::BatchStage>();
    std::vector<Element> elements;
    while (std::ssize(elements) < how.size) {
      auto element = take();
      if (!element) break;
      elements.push_back(std::move(*element));
    }
    if (elements.empty() || (how.drop_rest && std::ssize(elements) < how.size)) return std::nullopt;
    return assemble_batch(how, stage_->name, stage_->inputs[0]->schema, elements);
  }
};

class RepeatStream final : public ElementStream {
 public:
  RepeatStream(StageRef stage, Stream input) : stage_(std::move(stage)), input_(std::move(input)) {}
  void start(std::uint64_t epoch) override {
    epoch_ = epoch;
    begin(0);
  }
  std::optional<Element> next() override {
    while (round_ < times()) {
      if (auto element = input_->next()) return element;
      if (++round_ < times()) begin(round_);
    }
    return std::nullopt;
  }
  void save(StreamPosition& out) const override {
    out.push_back(round_);
    input_->save(out);
  }
  void restore(PositionReader& in) override {
    begin(in.take());
    input_->restore(in);
  }

 private:
  std::uint64_t times() const { return std::get<data::RepeatStage>(stage_->kind).times; }
  void begin(std::uint64_t round) {
    round_ = round;
    input_->start(epoch_ * std::max<std::uint64_t>(times(), 1) + round);
  }
  StageRef stage_;
  Stream input_;
  std::uint64_t epoch_ = 0, round_ = 0;
};

// Streams with several inputs.
class JoiningStream : public ElementStream {
 public:
  JoiningStream(StageRef stage, std::vector<Stream> inputs) : stage_(std::move(stage)), inputs_(std::move(inputs)) {}
  void start(std::uint64_t epoch) override {
    epoch_ = epoch;
    at_ = 0;
    for (const Stream& input : inputs_) input->start(epoch);
  }
  void save(StreamPosition& out) const override {
    out.push_back(at_);
    for (const Stream& input : inputs_) input->save(out);
  }
  void restore(PositionReader& in) override {
    at_ = in.take();
    for (const Stream& input : inputs_) input->restore(in);
  }

 protected:
  StageRef stage_;
  std::vector<Stream> inputs_;
  std::uint64_t epoch_ = 0;
  std::uint64_t at_ = 0;  // the input, or the number of the next element
};

class ZipStream final : public JoiningStream {
 public:
  using JoiningStream::JoiningStream;
  std::optional<Element> next() override {
    Element out;
    for (const Stream& input : inputs_) {
      auto element = input->next();
      if (!element) return std::nullopt;
      std::ranges::move(*element, std::back_inserter(out));
    }
    return out;
  }
};

class ConcatenateStream final : public JoiningStream {
 public:
  using JoiningStream::JoiningStream;
  std::optional<Element> next() override {
    for (; at_ < inputs_.size(); ++at_)
      if (auto element = inputs_[at_]->next()) return element;
    return std::nullopt;
  }
};

class SampleStream final : public JoiningStream {
 public:
  using JoiningStream::JoiningStream;
  std::optional<Element> next() override {
    const auto& [weights, seed] = std::get<data::SampleStage>(stage_->kind);
    double sum = 0;
    for (const double weight : weights) sum += weight;
    const PhiloxBlock words = PhiloxStream{seed, mix64(epoch_)}.block(at_++);
    double left = uniform_double(words[0], words[1]) * sum;
    std::size_t drawn = 0;
    while (drawn + 1 < weights.size() && left >= weights[drawn]) left -= weights[drawn++];
    while (weights[drawn] == 0) --drawn;  // rounding has gone beyond the last that can be drawn
    return inputs_[drawn]->next();
  }
};

template <class T>
Stream of_one(const StageRef& stage, std::vector<Stream>& inputs) {
  return std::make_unique<T>(stage, std::move(inputs.at(0)));
}

Stream stream_of(const StageRef& stage, std::vector<Stream> inputs) {
  return std::visit(
      Overloaded{
          [&](const data::SplitsStage&) { return splits_stream(stage); },

          [&](const data::MapStage&) { return of_one<MapStream>(stage, inputs); },
          [&](const data::FilterStage&) { return of_one<FilterStream>(stage, inputs); },
          [&](const data::FlatMapStage&) { return flat_map_stream(stage, std::move(inputs.at(0))); },
          [&](const data::TakeStage&) { return of_one<TakeStream>(stage, inputs); },
          [&](const data::ShardStage&) { return of_one<ShardStream>(stage, inputs); },
          [&](const data::RepeatStage&) { return of_one<RepeatStream>(stage, inputs); },
          [&](const data::ShuffleStage&) { return shuffle_stream(stage, std::move(inputs.at(0))); },
          [&](const data::BatchStage&) { return of_one<BatchStream>(stage, inputs); },
          [&](const data::UnbatchStage&) { return unbatch_stream(stage, std::move(inputs.at(0))); },
          [&](const data::WindowStage&) { return window_stream(stage, std::move(inputs.at(0))); },
          [&](const data::ZipStage&) -> Stream { return std::make_unique<ZipStream>(stage, std::move(inputs)); },
          [&](const data::ConcatenateStage&) -> Stream {
            return std::make_unique<ConcatenateStream>(stage, std::move(inputs));
          },
          [&](const data::SampleStage&) -> Stream { return std::make_unique<SampleStream>(stage, std::move(inputs)); },
          [&](const data::TensorsStage&) -> Stream { return std::make_unique<TableStream>(stage); },
          [&](const data::IndexedStage&) -> Stream { return std::make_unique<TableStream>(stage); },
          [&](const data::RangeStage&) -> Stream { return std::make_unique<TableStream>(stage); }},
      stage->kind);
}

}  // namespace

bool ElementStream::next_row(std::int64_t row, std::span<Tensor> out) {
  const auto element = next();
  if (element) data::copy_to_row(*element, row, out);
  return element.has_value();
}

void refuse_position(const data::Stage& stage) {
  fail(Code::data_loss, "stage '{}': the position is none of this pipeline", stage.name);
}

std::uint64_t PositionReader::take() {
  if (left_.empty()) fail(Code::data_loss, "the position of a stream ends too early");
  const std::uint64_t number = left_.front();
  left_ = left_.subspan(1);
  return number;
}

std::unique_ptr<ElementStream> open_stream(const StageRef& stage) {
  if (stage->forward_because.empty()) return std::make_unique<TableStream>(stage);
  std::vector<Stream> inputs;
  for (const StageRef& input : stage->inputs) inputs.push_back(open_stream(input));
  return stream_of(stage, std::move(inputs));
}

}  // namespace troupe
