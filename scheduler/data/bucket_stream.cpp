#include "troupe/scheduler/data/bucket_stream.hpp"

#include <algorithm>
#include <utility>

#include <troupe/messages/error.hpp>
#include <troupe/scheduler/data/counting_stream.hpp>
#include <troupe/scheduler/data/stage_call.hpp>

namespace troupe {
namespace {

// The position: the numbers of the elements that wait, the position of the input before the first of them, and how many
// elements were taken; to go there the input is read again from that first one on.
class BucketStream final : public CountingStream {
 public:
  using CountingStream::CountingStream;
  void start(std::uint64_t epoch) override {
    CountingStream::start(epoch);
    buckets_.assign(how().sizes.size(), {});
  }
  std::optional<PendingElement> next_pending() override {
    auto elements = next_bucket();
    if (!elements) return std::nullopt;
    tally_.add();
    return PendingElement::grouped(*stage_, how().batch, std::move(*elements), tally_.counter());
  }
  bool skip() override { return next_bucket().has_value(); }
  void save(StreamPosition& out) const override {
    std::vector<const Waiting*> all;
    for (const auto& bucket : buckets_)
      for (const Waiting& waiting : bucket) all.push_back(&waiting);
    std::ranges::sort(all, {}, &Waiting::number);
    out.push_back(all.size());
    for (const Waiting* waiting : all) out.push_back(waiting->number);
    out.push_back(taken_);
    if (all.empty())
      CountingStream::save(out);
    else
      out.insert(out.end(), all[0]->before.begin(), all[0]->before.end());
  }
  void restore(PositionReader& in) override {
    std::uint64_t most = 0;
    for (const std::int64_t size : how().sizes) most += static_cast<std::uint64_t>(size);
    const std::uint64_t count = in.take();
    if (count > most) refuse_position(*stage_);
    std::vector<std::uint64_t> numbers(count);
    for (std::uint64_t& number : numbers) number = in.take();
    const std::uint64_t taken = in.take();
    CountingStream::restore(in);
    buckets_.assign(how().sizes.size(), {});
    for (const std::uint64_t number : numbers) {
      if (number < taken_ || number >= taken) refuse_position(*stage_);
      pass_to(number);
      if (!put_next()) refuse_position(*stage_);
    }
    pass_to(taken);
  }

 private:
  struct Waiting {
    data::Element element{};
    std::uint64_t number = 0;
    StreamPosition before{};  // of the input: the element
  };
  const data::BucketStage& how() const { return kind<data::BucketStage>(); }

  void pass_to(std::uint64_t number) {
    while (taken_ < number)
      if (!pass_over()) refuse_position(*stage_);
  }

  // Puts the input's next element into its bucket, which it returns; null at the end.
  std::vector<Waiting>* put_next() {
    StreamPosition before;
    CountingStream::save(before);
    auto element = take_made();
    if (!element) return nullptr;
    const std::int64_t length = call_stage(
        *stage_, [&] { return timed(tally_.counter(), taken_ - 1, [&] { return how().length(*element); }); });
    const auto bucket = std::ranges::upper_bound(how().boundaries, length) - how().boundaries.begin();
    auto& waiting = buckets_[static_cast<std::size_t>(bucket)];
    waiting.push_back({std::move(*element), taken_ - 1, std::move(before)});
    return &waiting;
  }

  std::optional<std::vector<PendingElement>> next_bucket() {
    while (auto* bucket = put_next())
      if (std::ssize(*bucket) == how().sizes[static_cast<std::size_t>(bucket - buckets_.data())]) return empty(*bucket);
    if (!how().batch.drop_rest)
      for (auto& bucket : buckets_)
        if (!bucket.empty()) return empty(bucket);
    return std::nullopt;
  }
  static std::vector<PendingElement> empty(std::vector<Waiting>& bucket) {
    std::vector<PendingElement> out;
    for (Waiting& waiting : bucket) out.emplace_back(std::move(waiting.element));
    bucket.clear();
    return out;
  }

  std::vector<std::vector<Waiting>> buckets_;
};

}  // namespace

std::unique_ptr<ElementStream> bucket_stream(const data::StageRef& stage, std::unique_ptr<ElementStream> input,
                                             StageCounter* counter) {
  return std::make_unique<BucketStream>(stage, std::move(input), counter);
}

}  // namespace troupe
