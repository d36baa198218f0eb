#include "troupe/scheduler/data/splits_stream.hpp"

#include <algorithm>
#include <utility>

#include <troupe/messages/error.hpp>
#include <troupe/scheduler/data/counting_stream.hpp>
#include <troupe/scheduler/data/permutation.hpp>
#include <troupe/scheduler/data/stage_call.hpp>

namespace troupe {
namespace {

// The position: the places of the turn, the next of them, how many splits have begun; for each place whether it is
// open, its split's number in the epoch's order and its position there.
class SplitsStream final : public ElementStream {
 public:
  SplitsStream(data::StageRef stage, StageCounter* counter)
      : stage_(std::move(stage)),
        how_(std::get<data::SplitsStage>(stage_->kind)),
        all_(how_.source->splits()),
        tally_(counter) {}

  void start(std::uint64_t epoch) override {
    order_.clear();
    if (how_.shuffle) order_ = permutation(how_.seed, epoch, all_);
    places_.clear();
    places_.resize(std::min(how_.cycle, all_));
    begun_ = turn_ = 0;
    for (Place& place : places_) begin(place);
  }

  std::optional<PendingElement> next_pending() override {
    std::unique_ptr<const data::UnmadeElement> element;
    if (!next_from([&](data::ElementCursor& cursor) { return (element = cursor.next_unmade()) != nullptr; }))
      return std::nullopt;
    tally_.add();
    return PendingElement(*stage_, std::move(element), tally_.count(), tally_.counter());
  }
  bool skip() override {
    return next_from([](data::ElementCursor& cursor) { return cursor.skip(); });
  }
  bool next_row(std::int64_t row, std::span<Tensor> out) override {
    const bool found = next_from([&](data::ElementCursor& cursor) { return cursor.next_row(row, out); });
    if (found) tally_.add();
    return found;
  }

  void save(StreamPosition& out) const override {
    out.insert(out.end(), {places_.size(), turn_, begun_});
    for (const Place& place : places_) {
      out.push_back(place.split);
      out.push_back(place.cursor ? place.cursor->position() : place.position);
    }
  }

  void restore(PositionReader& in) override {
    const std::uint64_t places = in.take();
    turn_ = in.take();
    begun_ = in.take();
    if (places > std::min(how_.cycle, all_) || begun_ > all_ || turn_ >= std::max<std::uint64_t>(places, 1))
      refuse_position(*stage_);
    places_.clear();
    for (std::uint64_t i = 0; i < places; ++i) {
      Place place{.split = in.take()};
      if (place.split >= begun_) refuse_position(*stage_);
      place.position = in.take();
      places_.push_back(std::move(place));
    }
  }

 private:
  struct Place {
    std::uint64_t split = 0;     // in the epoch's order
    std::uint64_t position = 0;  // to open it at; kAtBegin: its beginning
    std::unique_ptr<data::ElementCursor> cursor{};
  };
  static constexpr std::uint64_t kAtBegin = ~std::uint64_t{0};

  // Calls `take` for the split whose turn it is; those that have ended give their place away.
  template <class Take>
  bool next_from(Take&& take) {
    while (!places_.empty()) {
      Place& place = places_[turn_];
      if (call_stage(*stage_, [&] {
            data::ElementCursor& cursor = cursor_of(place);
            return timed(tally_.counter(), tally_.count(), [&] { return take(cursor); });
          })) {
        turn_ = (turn_ + 1) % places_.size();
        return true;
      }
      if (begun_ < all_) {
        begin(place);
        continue;
      }
      places_.erase(places_.begin() + static_cast<std::ptrdiff_t>(turn_));
      if (turn_ == places_.size()) turn_ = 0;
    }
    return false;
  }
  void begin(Place& place) { place = {.split = begun_++, .position = kAtBegin, .cursor = nullptr}; }
  // Opened when it is needed: a stream that goes to another position has opened nothing for it.
  data::ElementCursor& cursor_of(Place& place) const {
    if (!place.cursor) {
      place.cursor = how_.source->open(order_.empty() ? place.split : order_[place.split]);
      if (place.position != kAtBegin) place.cursor->seek(place.position);
    }
    return *place.cursor;
  }

  const data::StageRef stage_;
  const data::SplitsStage& how_;
  const std::uint64_t all_;
  std::vector<std::uint32_t> order_;  // of splits; empty: as they are numbered
  std::vector<Place> places_;
  std::uint64_t turn_ = 0;
  std::uint64_t begun_ = 0;
  StageTally tally_;  // elements read
};

}  // namespace

std::unique_ptr<ElementStream> splits_stream(const data::StageRef& stage, StageCounter* counter) {
  return std::make_unique<SplitsStream>(stage, counter);
}

}  // namespace troupe
