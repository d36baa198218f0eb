#include "troupe/scheduler/data/element_stream.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include <troupe/messages/error.hpp>
#include <troupe/messages/overloaded.hpp>
#include <troupe/messages/philox.hpp>
#include <troupe/scheduler/data/bucket_stream.hpp>
#include <troupe/scheduler/data/buffering_streams.hpp>
#include <troupe/scheduler/data/cache_stream.hpp>
#include <troupe/scheduler/data/counting_stream.hpp>
#include <troupe/scheduler/data/element_table.hpp>
#include <troupe/scheduler/data/interleave_stream.hpp>
#include <troupe/scheduler/data/splits_stream.hpp>
#include <troupe/scheduler/data/stage_call.hpp>

namespace troupe {
namespace {

using data::Element;
using data::StageRef;
using Stream = std::unique_ptr<ElementStream>;

class TableStream final : public ElementStream {
 public:
  TableStream(const StageRef& stage, const PipelineStatistics* statistics)
      : stage_(stage), table_(open_table(stage, statistics)) {}
  void start(std::uint64_t epoch) override {
    epoch_ = epoch;
    index_ = 0;
  }
  std::optional<PendingElement> next_pending() override {
    if (index_ >= *stage_->size) return std::nullopt;
    return PendingElement::of_table(table_, epoch_, index_++);
  }
  bool skip() override {
    if (index_ >= *stage_->size) return false;
    ++index_;
    return true;
  }
  bool next_row(std::int64_t row, std::span<Tensor> out) override {
    if (index_ >= *stage_->size) return false;
    table_->count(1);
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
  std::optional<PendingElement> next_pending() override {
    auto given = take();
    if (!given) return std::nullopt;
    return PendingElement::mapped(*stage_, {epoch_, taken_ - 1}, std::move(*given), tally_.counter());
  }
  bool next_row(std::int64_t row, std::span<Tensor> out) override {
    const auto given = take_made();
    if (given) mapped_to_row(*stage_, *given, {epoch_, taken_ - 1}, row, out, tally_.counter());
    return given.has_value();
  }
  bool skip() override { return pass_over(); }
};

class FilterStream final : public CountingStream {
 public:
  using CountingStream::CountingStream;
  std::optional<PendingElement> next_pending() override {
    if (!kind<data::FilterStage>().keep) return next_whole();
    while (auto element = take_made()) {
      const bool kept = call_stage(*stage_, [&] {
        return timed(tally_.counter(), taken_ - 1, [&] { return kind<data::FilterStage>().keep(*element); });
      });
      if (!kept) continue;
      tally_.add();
      return PendingElement(std::move(*element));
    }
    return std::nullopt;
  }

 private:
  // The next that is not damaged.
  std::optional<PendingElement> next_whole() {
    while (const auto element = take()) try {
        PendingElement made(element->make());
        tally_.add();
        return made;
      } catch (const Error& error) {
        if (error.code() != Code::data_loss) throw;
        if (tally_.counter()) tally_.counter()->skip();
      }
    return std::nullopt;
  }
};

class TakeStream final : public CountingStream {
 public:
  using CountingStream::CountingStream;
  std::optional<PendingElement> next_pending() override {
    auto element = at_next() ? take() : std::nullopt;
    if (element) tally_.add();
    return element;
  }
  bool next_row(std::int64_t row, std::span<Tensor> out) override {
    const bool taken = at_next() && input_->next_row(row, out);
    if (taken) ++taken_;
    if (taken) tally_.add();
    return taken;
  }
  bool skip() override { return at_next() && pass_over(); }

 private:
  // Goes to the first; false after the last.
  bool at_next() {
    const auto& [first, count] = kind<data::TakeStage>();
    while (taken_ < first)
      if (!pass_over()) return false;
    return taken_ - first < count;
  }
};

class ShardStream final : public CountingStream {
 public:
  using CountingStream::CountingStream;
  std::optional<PendingElement> next_pending() override {
    auto element = at_next() ? take() : std::nullopt;
    if (element) tally_.add();
    return element;
  }
  bool skip() override { return at_next() && pass_over(); }

 private:
  bool at_next() {
    const auto& [shards, index] = kind<data::ShardStage>();
    while (taken_ % shards != index)
      if (!pass_over()) return false;
    return true;
  }
};

class BatchStream final : public CountingStream {
 public:
  using CountingStream::CountingStream;
  std::optional<PendingElement> next_pending() override {
    const auto& how = kind<data::BatchStage>();
    std::vector<PendingElement> elements;
    while (std::ssize(elements) < how.size) {
      auto element = take();
      if (!element) break;
      elements.push_back(std::move(*element));
    }
    if (elements.empty() || (how.drop_rest && std::ssize(elements) < how.size)) return std::nullopt;
    return PendingElement::grouped(*stage_, how, std::move(elements), tally_.counter());
  }
  bool skip() override {
    const auto& how = kind<data::BatchStage>();
    std::int64_t passed = 0;
    while (passed < how.size && pass_over()) ++passed;
    return how.drop_rest ? passed == how.size : passed > 0;
  }
};

class RepeatStream final : public ElementStream {
 public:
  RepeatStream(StageRef stage, Stream input, StageCounter* counter)
      : stage_(std::move(stage)), input_(std::move(input)), tally_(counter) {}
  void start(std::uint64_t epoch) override {
    epoch_ = epoch;
    begin(0);
  }
  std::optional<PendingElement> next_pending() override {
    std::optional<PendingElement> element;
    if (rounds([&] { return (element = input_->next_pending()).has_value(); })) tally_.add();
    return element;
  }
  bool skip() override {
    return rounds([&] { return input_->skip(); });
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
  // Whether `take` has found an element in this round or in one of the next.
  template <class Take>
  bool rounds(Take&& take) {
    while (round_ < times()) {
      if (take()) return true;
      if (++round_ < times()) begin(round_);
    }
    return false;
  }
  std::uint64_t times() const { return std::get<data::RepeatStage>(stage_->kind).times; }
  void begin(std::uint64_t round) {
    round_ = round;
    input_->start(epoch_ * std::max<std::uint64_t>(times(), 1) + round);
  }
  StageRef stage_;
  Stream input_;
  std::uint64_t epoch_ = 0, round_ = 0;
  StageTally tally_;
};

// Streams with several inputs.
class JoiningStream : public ElementStream {
 public:
  JoiningStream(StageRef stage, std::vector<Stream> inputs, StageCounter* counter)
      : stage_(std::move(stage)), inputs_(std::move(inputs)), tally_(counter) {}
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
  StageTally tally_;      // elements passed on
};

class ZipStream final : public JoiningStream {
 public:
  using JoiningStream::JoiningStream;
  std::optional<PendingElement> next_pending() override {
    std::vector<PendingElement> elements;
    for (const Stream& input : inputs_) {
      auto element = input->next_pending();
      if (!element) return std::nullopt;
      elements.push_back(std::move(*element));
    }
    tally_.add();
    return PendingElement::zipped(*stage_, std::move(elements));
  }
  bool skip() override {
    return std::ranges::all_of(inputs_, [](const Stream& input) { return input->skip(); });
  }
};

class ConcatenateStream final : public JoiningStream {
 public:
  using JoiningStream::JoiningStream;
  std::optional<PendingElement> next_pending() override {
    for (; at_ < inputs_.size(); ++at_)
      if (auto element = inputs_[at_]->next_pending()) {
        tally_.add();
        return element;
      }
    return std::nullopt;
  }
  bool skip() override {
    for (; at_ < inputs_.size(); ++at_)
      if (inputs_[at_]->skip()) return true;
    return false;
  }
};

class SampleStream final : public JoiningStream {
 public:
  using JoiningStream::JoiningStream;
  std::optional<PendingElement> next_pending() override {
    if (at_ == kOver) return std::nullopt;
    auto element = draw().next_pending();
    if (element)
      tally_.add();
    else
      at_ = kOver;
    return element;
  }
  bool skip() override {
    const bool passed = at_ != kOver && draw().skip();
    if (!passed) at_ = kOver;
    return passed;
  }

 private:
  static constexpr std::uint64_t kOver = ~std::uint64_t{0};  // one of the inputs has ended
  ElementStream& draw() {
    const auto& [weights, seed] = std::get<data::SampleStage>(stage_->kind);
    double sum = 0;
    for (const double weight : weights) sum += weight;
    const PhiloxBlock words = PhiloxStream{seed, mix64(epoch_)}.block(at_++);
    double left = uniform_double(words[0], words[1]) * sum;
    std::size_t drawn = 0;
    while (drawn + 1 < weights.size() && left >= weights[drawn]) left -= weights[drawn++];
    while (weights[drawn] == 0) --drawn;  // rounding has gone beyond the last that can be drawn
    return *inputs_[drawn];
  }
};

Stream stream_of(const StageRef& stage, std::vector<Stream> inputs, const PipelineStatistics* statistics) {
  StageCounter* const counter = counter_of(statistics, *stage);
  const auto of_one = [&]<class T>(std::type_identity<T>) -> Stream {
    return std::make_unique<T>(stage, std::move(inputs.at(0)), counter);
  };
  const auto of_several = [&]<class T>(std::type_identity<T>) -> Stream {
    return std::make_unique<T>(stage, std::move(inputs), counter);
  };
  const auto table = [&] { return std::make_unique<TableStream>(stage, statistics); };
  return std::visit(
      Overloaded{
          [&](const data::SplitsStage&) { return splits_stream(stage, counter); },
          [&](const data::MapStage&) { return of_one(std::type_identity<MapStream>()); },
          [&](const data::FilterStage&) { return of_one(std::type_identity<FilterStream>()); },
          [&](const data::FlatMapStage&) { return flat_map_stream(stage, std::move(inputs.at(0)), counter); },
          [&](const data::TakeStage&) { return of_one(std::type_identity<TakeStream>()); },
          [&](const data::ShardStage&) { return of_one(std::type_identity<ShardStream>()); },
          [&](const data::RepeatStage&) { return of_one(std::type_identity<RepeatStream>()); },
          [&](const data::ShuffleStage&) { return shuffle_stream(stage, std::move(inputs.at(0)), counter); },
          [&](const data::BatchStage&) { return of_one(std::type_identity<BatchStream>()); },
          [&](const data::BucketStage&) { return bucket_stream(stage, std::move(inputs.at(0)), counter); },
          [&](const data::InterleaveStage&) { return interleave_stream(stage, std::move(inputs.at(0)), counter); },
          [&](const data::CacheStage&) { return cache_stream(stage, std::move(inputs.at(0)), counter); },
          [&](const data::UnbatchStage&) { return unbatch_stream(stage, std::move(inputs.at(0)), counter); },
          [&](const data::WindowStage&) { return window_stream(stage, std::move(inputs.at(0)), counter); },
          [&](const data::ZipStage&) { return of_several(std::type_identity<ZipStream>()); },
          [&](const data::ConcatenateStage&) { return of_several(std::type_identity<ConcatenateStream>()); },
          [&](const data::SampleStage&) { return of_several(std::type_identity<SampleStream>()); },
          [&](const data::TensorsStage&) -> Stream { return table(); },
          [&](const data::IndexedStage&) -> Stream { return table(); },
          [&](const data::RangeStage&) -> Stream { return table(); }},
      stage->kind);
}

}  // namespace

std::optional<Element> ElementStream::next() {
  const auto element = next_pending();
  return element ? std::optional(element->make()) : std::nullopt;
}

bool ElementStream::next_row(std::int64_t row, std::span<Tensor> out) {
  const auto element = next_pending();
  if (element) element->make_row(row, out);
  return element.has_value();
}

bool ElementStream::skip() { return next_pending().has_value(); }

void refuse_position(const data::Stage& stage) {
  fail(Code::data_loss, "stage '{}': the position is none of this pipeline", stage.name);
}

std::uint64_t PositionReader::take() {
  if (left_.empty()) fail(Code::data_loss, "the position of a stream ends too early");
  const std::uint64_t number = left_.front();
  left_ = left_.subspan(1);
  return number;
}

std::unique_ptr<ElementStream> open_stream(const StageRef& stage, const PipelineStatistics* statistics) {
  if (stage->forward_because.empty()) return std::make_unique<TableStream>(stage, statistics);
  std::vector<Stream> inputs;
  for (const StageRef& input : stage->inputs) inputs.push_back(open_stream(input, statistics));
  return stream_of(stage, std::move(inputs), statistics);
}

}  // namespace troupe
