// Groups the positions of equal row numbers. On the host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe {

struct RowGroups {
  std::vector<std::int64_t>
      begins;  // start of each row's positions in `order`, and the end: one more than there are rows
  std::vector<std::int64_t> order;  // positions, grouped by row, ascending within a row
  std::vector<std::int64_t> rows;   // distinct, ascending

  // begins, order and rows concatenated: i64, on the host.
  Tensor packed() const;
};
RowGroups group_rows(std::span<const std::int64_t> rows);

}  // namespace troupe
