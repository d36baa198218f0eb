#include "troupe/scheduler/training/kept_value.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace troupe {
namespace {

std::size_t row_bytes(const Tensor& value) {
  const std::int64_t rows = value.shape()[0];
  return rows == 0 ? 0 : value.num_bytes() / static_cast<std::size_t>(rows);
}

std::byte* row_at(Tensor& value, std::int64_t row, std::size_t bytes) {
  return value.mutable_raw() + static_cast<std::size_t>(row) * bytes;
}
const std::byte* row_at(const Tensor& value, std::int64_t row, std::size_t bytes) {
  return value.raw() + static_cast<std::size_t>(row) * bytes;
}

}  // namespace

Tensor rows_of(const Tensor& value, const Tensor& rows) {
  const auto wanted = rows.values<std::int64_t>();
  Shape shape = value.shape();
  shape.set_dim(0, std::ssize(wanted));
  Tensor out(value.dtype(), shape);
  const std::size_t bytes = row_bytes(value);
  std::byte* to = out.mutable_raw();
  constexpr std::size_t kAhead = 4, kLine = 64, kMost = 1024;
  for (std::size_t i = 0; i < wanted.size(); ++i, to += bytes) {
    if (i + kAhead < wanted.size()) {  // rows are anywhere in memory
      const std::byte* later = row_at(value, wanted[i + kAhead], bytes);
      for (std::size_t at = 0; at < std::min(bytes, kMost); at += kLine) __builtin_prefetch(later + at);
    }
    std::memcpy(to, row_at(value, wanted[i], bytes), bytes);
  }
  return out;
}

KeptValue KeptValue::of_whole(Tensor value) {
  KeptValue out;
  out.whole_ = std::move(value);
  return out;
}

KeptValue KeptValue::of_rows(const Tensor& rows, const Tensor& values) {
  const auto given = rows.values<std::int64_t>();
  KeptValue out;
  if (std::ranges::adjacent_find(given, std::greater_equal<>()) == given.end()) {  // of one slot
    out.rows_ = rows;
    out.values_ = values;
    return out;
  }
  std::vector<std::int64_t> order(given.size());
  std::iota(order.begin(), order.end(), 0);
  const auto row = [&](std::int64_t at) { return given[static_cast<std::size_t>(at)]; };
  std::ranges::stable_sort(order, {}, row);
  order.erase(std::ranges::unique(order, {}, row).begin(), order.end());
  out.values_ = rows_of(values, Tensor::of<std::int64_t>(Shape{std::ssize(order)}, order));
  out.rows_ = Tensor(DType::i64, Shape{std::ssize(order)});
  std::ranges::transform(order, out.rows_.mutable_data<std::int64_t>(), row);
  return out;
}

void KeptValue::restore(const Tensor& rows, Tensor& values) const {
  if (whole_.valid()) {
    values = rows_of(whole_, rows);
    return;
  }
  if (!rows_.valid()) return;
  const auto changed = rows_.values<std::int64_t>(), wanted = rows.values<std::int64_t>();
  const std::size_t bytes = row_bytes(values);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto found = std::ranges::lower_bound(changed, wanted[i]);
    if (found == changed.end() || *found != wanted[i]) continue;
    std::memcpy(row_at(values, static_cast<std::int64_t>(i), bytes), row_at(values_, found - changed.begin(), bytes),
                bytes);
  }
}

Tensor KeptValue::restored(const Tensor& value) const {
  if (whole_.valid()) return whole_;
  if (!rows_.valid() || rows_.num_elements() == 0) return value;
  Tensor out = value.clone();
  const std::size_t bytes = row_bytes(value);
  std::int64_t at = 0;
  for (const std::int64_t row : rows_.values<std::int64_t>())
    std::memcpy(row_at(out, row, bytes), row_at(values_, at++, bytes), bytes);
  return out;
}

}  // namespace troupe
