// A place in the data of a training from which a reader can go on, without what comes before.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <troupe/messages/fields.hpp>

namespace troupe {

struct DataPlace {
  std::uint32_t epoch = 0;
  std::uint64_t step = 0;  // of the epoch: of which the next example is the first
  // A few numbers that readers of equal data understand. Empty: there is no place.
  std::vector<std::uint64_t> position{};
  bool operator==(const DataPlace&) const = default;
  TROUPE_FIELDS(epoch, step, position)
};

inline constexpr std::size_t kMaxPosition = 4096;  // numbers

}  // namespace troupe
