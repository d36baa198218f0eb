#include "troupe/kernels/common/row_groups.hpp"

#include <algorithm>
#include <numeric>

namespace troupe {

Tensor RowGroups::packed() const {
  Tensor out(DType::i64, Shape{static_cast<std::int64_t>(begins.size() + order.size() + rows.size())});
  std::int64_t* to = out.mutable_data<std::int64_t>();
  for (const auto* part : {&begins, &order, &rows}) to = std::ranges::copy(*part, to).out;
  return out;
}

RowGroups group_rows(std::span<const std::int64_t> rows) {
  RowGroups groups;
  groups.order.resize(rows.size());
  std::iota(groups.order.begin(), groups.order.end(), 0);
  const auto row_at = [&](std::int64_t position) { return rows[static_cast<std::size_t>(position)]; };
  std::ranges::stable_sort(groups.order, {}, row_at);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t row = row_at(groups.order[i]);
    if (i > 0 && row == groups.rows.back()) continue;
    groups.begins.push_back(static_cast<std::int64_t>(i));
    groups.rows.push_back(row);
  }
  groups.begins.push_back(std::ssize(rows));
  return groups;
}

}  // namespace troupe
