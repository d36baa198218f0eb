#include "troupe/scheduler/data/interleave_stream.hpp"

#include <utility>

#include <troupe/messages/error.hpp>
#include <troupe/scheduler/data/counting_stream.hpp>
#include <troupe/scheduler/data/stage_call.hpp>

namespace troupe {
namespace {

// The position: the number of places, whose turn it is, how many elements it has given; for each place the position of
// the input before the element whose sub-pipeline it has, and the position there; that of the input.
class InterleaveStream final : public CountingStream {
 public:
  using CountingStream::CountingStream;
  void start(std::uint64_t epoch) override {
    CountingStream::start(epoch);
    places_.clear();
    turn_ = given_ = 0;
  }
  std::optional<PendingElement> next_pending() override {
    std::optional<PendingElement> element;
    if (!next_from([&](ElementStream& stream) { return (element = stream.next_pending()).has_value(); }))
      return std::nullopt;
    tally_.add();
    const Place& place = places_[last_];
    return PendingElement::kept(place.stage, std::move(*element), tally_.count(), tally_.counter());
  }
  bool skip() override {
    return next_from([](ElementStream& stream) { return stream.skip(); });
  }
  void save(StreamPosition& out) const override {
    out.insert(out.end(), {places_.size(), turn_, given_});
    for (const Place& place : places_) {
      out.insert(out.end(), place.before.begin(), place.before.end());
      place.stream->save(out);
    }
    CountingStream::save(out);
  }
  void restore(PositionReader& in) override {
    const std::uint64_t places = in.take();
    turn_ = in.take();
    given_ = in.take();
    const auto& how = kind<data::InterleaveStage>();
    if (places > how.cycle || given_ >= how.block || turn_ >= std::max<std::uint64_t>(places, 1))
      refuse_position(*stage_);
    places_.clear();
    for (std::uint64_t i = 0; i < places; ++i) {
      CountingStream::restore(in);
      Place place;
      if (!open(place)) refuse_position(*stage_);
      place.stream->restore(in);
      places_.push_back(std::move(place));
    }
    CountingStream::restore(in);
  }

 private:
  struct Place {
    data::StageRef stage{};
    std::unique_ptr<ElementStream> stream{};
    StreamPosition before{};  // of the input: the element that the sub-pipeline is made of
  };

  // Opens the sub-pipeline of the input's next element; false if there is none.
  bool open(Place& place) {
    StreamPosition before;
    CountingStream::save(before);
    const auto element = take_made();
    if (!element) return false;
    data::StageRef stage = call_stage(*stage_, [&] {
      return kind<data::InterleaveStage>().function(*element, {epoch_, taken_ - 1});
    });
    if (stage->schema != stage_->schema)
      fail(Code::data_loss, "stage '{}' made a pipeline of {}, expected {}", stage_->name, to_string(stage->schema),
           to_string(stage_->schema));
    auto stream = open_stream(stage);
    call_stage(*stage_, [&] { stream->start(epoch_); });
    place = {std::move(stage), std::move(stream), std::move(before)};
    return true;
  }

  // Calls `take` for the sub-pipeline whose turn it is, of place last_; those that have ended give their place away.
  template <class Take>
  bool next_from(Take&& take) {
    const auto& how = kind<data::InterleaveStage>();
    while (places_.size() < how.cycle) {
      Place place;
      if (!open(place)) break;
      places_.push_back(std::move(place));
    }
    while (!places_.empty()) {
      last_ = turn_;
      Place& place = places_[turn_];
      if (call_stage(*stage_,
                     [&] { return timed(tally_.counter(), tally_.count(), [&] { return take(*place.stream); }); })) {
        if (++given_ == how.block) {
          given_ = 0;
          turn_ = (turn_ + 1) % places_.size();
        }
        return true;
      }
      given_ = 0;
      if (open(place)) continue;
      places_.erase(places_.begin() + static_cast<std::ptrdiff_t>(turn_));
      if (turn_ == places_.size()) turn_ = 0;
    }
    return false;
  }

  std::vector<Place> places_;
  std::uint64_t turn_ = 0;
  std::uint64_t given_ = 0;  // elements of this turn
  std::uint64_t last_ = 0;   // the place that gave the last
};

}  // namespace

std::unique_ptr<ElementStream> interleave_stream(const data::StageRef& stage, std::unique_ptr<ElementStream> input,
                                                 StageCounter* counter) {
  return std::make_unique<InterleaveStream>(stage, std::move(input), counter);
}

}  // namespace troupe
