#include "troupe/kernels/common/row_groups.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace troupe {

Tensor RowGroups::packed() const {
  Tensor out(DType::i64, Shape{static_cast<std::int64_t>(begins.size() + order.size() + rows.size())});
  std::int64_t* to = out.mutable_data<std::int64_t>();
  for (const auto* part : {&begins, &order, &rows}) to = std::ranges::copy(*part, to).out;
  return out;
}

namespace {

constexpr std::size_t kFewRows = 256;

// The positions in the order of their rows, equal ones ascending. Rows and positions below 2^32 are sorted as one word
// each, by the bytes that rows have (a radix sort from the lowest byte): four times as fast from some thousands on.
std::vector<std::int64_t> order_of_rows(std::span<const std::int64_t> rows) {
  std::vector<std::int64_t> order(rows.size());
  std::uint64_t all = rows.size();
  for (const std::int64_t row : rows) all |= static_cast<std::uint64_t>(row);
  if (rows.size() < kFewRows || all >> 32 != 0) {
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {},
                             [&](std::int64_t position) { return rows[static_cast<std::size_t>(position)]; });
    return order;
  }
  std::vector<std::uint64_t> words(rows.size()), room(rows.size());
  all = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    all |= static_cast<std::uint64_t>(rows[i]);
    words[i] = static_cast<std::uint64_t>(rows[i]) << 32 | i;
  }
  for (int shift = 0; all >> shift != 0; shift += 8) {
    std::array<std::size_t, 257> starts{};
    const auto digit = [shift](std::uint64_t word) { return (word >> (32 + shift)) & 0xff; };
    for (const std::uint64_t word : words) ++starts[digit(word) + 1];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    for (const std::uint64_t word : words) room[starts[digit(word)]++] = word;
    words.swap(room);
  }
  std::ranges::transform(words, order.begin(), [](std::uint64_t word) { return static_cast<std::uint32_t>(word); });
  return order;
}

}  // namespace

RowGroups group_rows(std::span<const std::int64_t> rows) {
  RowGroups groups;
  groups.order = order_of_rows(rows);
  groups.rows.reserve(rows.size());
  groups.begins.reserve(rows.size() + 1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t row = rows[static_cast<std::size_t>(groups.order[i])];
    if (i > 0 && row == groups.rows.back()) continue;
    groups.begins.push_back(static_cast<std::int64_t>(i));
    groups.rows.push_back(row);
  }
  groups.begins.push_back(std::ssize(rows));
  return groups;
}

}  // namespace troupe
