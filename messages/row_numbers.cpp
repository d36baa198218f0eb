#include "troupe/messages/row_numbers.hpp"

#include <algorithm>

namespace troupe {

Tensor packed_row_numbers(const Tensor& rows) {
  if (!rows.valid() || rows.dtype() != DType::i64) return rows;
  const auto numbers = rows.values<std::int64_t>();
  std::uint64_t all = 0;
  for (const std::int64_t row : numbers) all |= static_cast<std::uint64_t>(row);
  if (all >> 32 != 0) return rows;
  Tensor out(DType::u32, rows.shape());
  std::ranges::transform(numbers, out.mutable_data<std::uint32_t>(),
                         [](std::int64_t row) { return static_cast<std::uint32_t>(row); });
  return out;
}

Tensor row_numbers(const Tensor& packed) {
  if (!packed.valid() || packed.dtype() != DType::u32) return packed;
  Tensor out(DType::i64, packed.shape());
  std::ranges::copy(packed.values<std::uint32_t>(), out.mutable_data<std::int64_t>());
  return out;
}

}  // namespace troupe
