// The latest places that readers have told of.
#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include <troupe/messages/data_place.hpp>

namespace troupe {

class DataPlaces {
 public:
  void add(const DataPlace& place) {
    if (place.position.empty() || place.position.size() > kMaxPosition) return;
    places_[{place.epoch, place.step}] = place;
    if (places_.size() > kKept) places_.erase(places_.begin());
  }
  // The latest from which this step can be reached; an empty one if there is none.
  DataPlace before(std::uint32_t epoch, std::uint64_t step) const {
    const auto later = places_.upper_bound({epoch, step});
    return later == places_.begin() ? DataPlace() : std::prev(later)->second;
  }
  bool empty() const { return places_.empty(); }

 private:
  static constexpr std::size_t kKept = 16;
  std::map<std::pair<std::uint32_t, std::uint64_t>, DataPlace> places_;
};

}  // namespace troupe
