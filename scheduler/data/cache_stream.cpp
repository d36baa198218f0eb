#include "troupe/scheduler/data/cache_stream.hpp"

#include <utility>

#include <troupe/messages/error.hpp>
#include <troupe/scheduler/data/counting_stream.hpp>
#include <troupe/scheduler/data/stage_call.hpp>

namespace troupe {
namespace {

// The position: the number of the next element. The input is read as far as an element is not in the cache, and from
// its beginning if it has gone further.
class CacheStream final : public ElementStream {
 public:
  CacheStream(data::StageRef stage, std::unique_ptr<ElementStream> input, StageCounter* counter)
      : stage_(std::move(stage)),
        cache_(*std::get<data::CacheStage>(stage_->kind).cache),
        input_(std::move(input)),
        tally_(counter) {}

  void start(std::uint64_t) override { index_ = 0; }
  std::optional<PendingElement> next_pending() override {
    if (over()) return std::nullopt;
    if (auto kept = cache_.find(index_)) {
      ++index_;
      tally_.add();
      return PendingElement(std::move(*kept));
    }
    std::optional<PendingElement> element;
    if (!from_input([&] { return (element = input_->next_pending()).has_value(); })) return std::nullopt;
    tally_.add();
    return PendingElement::cached(*stage_, index_++, std::move(*element));
  }
  bool skip() override {
    if (over()) return false;
    // Whether there is such an element is known of those in the cache, and below a known size.
    const bool known = cache_.size() || cache_.find(index_);
    if (!known && !from_input([&] { return input_->skip(); })) return false;
    ++index_;
    return true;
  }
  void save(StreamPosition& out) const override { out.push_back(index_); }
  void restore(PositionReader& in) override {
    index_ = in.take();
    if (const auto size = cache_.size(); size && index_ > *size) refuse_position(*stage_);
  }

 private:
  bool over() const {
    const auto size = cache_.size();
    return size && index_ >= *size;
  }
  // Calls `take` for element index_ of the input. False if there is none: then the size is known.
  template <class Take>
  bool from_input(Take&& take) {
    if (!std::exchange(started_, false) || at_ > index_) {  // what fails in the middle begins anew
      input_->start(0);
      at_ = 0;
    }
    while (at_ < index_ && input_->skip()) ++at_;
    if (at_ < index_ || !take()) {
      cache_.set_size(at_);
      return false;
    }
    ++at_;
    return started_ = true;
  }

  const data::StageRef stage_;
  data::ElementCache& cache_;
  const std::unique_ptr<ElementStream> input_;
  StageTally tally_;
  std::uint64_t index_ = 0;  // of the next element
  bool started_ = false;     // the input
  std::uint64_t at_ = 0;     // its next element
};

}  // namespace

std::unique_ptr<ElementStream> cache_stream(const data::StageRef& stage, std::unique_ptr<ElementStream> input,
                                            StageCounter* counter) {
  return std::make_unique<CacheStream>(stage, std::move(input), counter);
}

}  // namespace troupe
