// The groups of GroupNorm, for all device types.
#pragma once

#include <cstdint>
#include <string_view>

#include <troupe/messages/error.hpp>
#include <troupe/messages/shape.hpp>

namespace troupe {

// x as [examples, groups, channels of a group, positions].
struct ChannelGroups {
  std::int64_t examples = 0;
  std::int64_t groups = 0;
  std::int64_t channels = 0;  // of a group
  std::int64_t positions = 0;

  std::int64_t count() const { return examples * groups; }
  std::int64_t size() const { return channels * positions; }  // elements of a group
};

inline void check_has_channels(std::string_view what, const Shape& x) {
  if (x.rank() < 2) invalid_argument("{} must be [n, channels, ...], but is {}", what, x.to_string());
}

// The number of groups that an attribute asks for: 0 means one per channel. Throws invalid_argument if it does not
// divide the channels.
inline std::int64_t checked_groups(std::int64_t groups, const Shape& x) {
  check_has_channels("GroupNorm: x", x);
  if (groups == 0) return x[1];
  if (groups < 0 || x[1] % groups != 0)
    invalid_argument("GroupNorm: {} groups do not divide the {} channels of x {}", groups, x[1], x.to_string());
  return groups;
}

// The groups of which `statistic`, [examples, groups], holds a value each. Throws if they do not divide the channels.
inline ChannelGroups channel_groups(const Shape& x, const Shape& statistic) {
  const std::int64_t groups = statistic.rank() == 2 ? statistic[1] : 0;
  if (groups < 0 || (groups == 0 ? x[1] != 0 : x[1] % groups != 0))
    invalid_argument("GroupNorm: {} groups do not divide the channels of {}", groups, x.to_string());
  ChannelGroups g{.examples = x[0], .groups = groups, .channels = groups == 0 ? 0 : x[1] / groups};
  g.positions = x.sub(2, x.rank()).num_elements();
  return g;
}

}  // namespace troupe
