// Row numbers that come several times: which positions have the same. On the host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe {

struct RowGroups {
  std::vector<std::int64_t> begins;  // of each row's positions in `order`, and the end: one more than there are rows
  std::vector<std::int64_t> order;   // positions, those of one row next to each other and in order
  std::vector<std::int64_t> rows;    // different ones, ascending

  // The three, one after the other: i64, on the host.
  Tensor packed() const;
};
RowGroups group_rows(std::span<const std::int64_t> rows);

}  // namespace troupe
