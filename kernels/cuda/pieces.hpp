// Rows moved in pieces, whatever their dtype.
#pragma once

#include <cstdint>
#include <initializer_list>

#include <troupe/kernels/cuda/index_plan.hpp>
#include <troupe/messages/dtype.hpp>

namespace troupe {

// The largest pieces, of up to 16 bytes, that rows of so many bytes at these addresses have.
inline int piece_bytes(DType dtype, std::int64_t row_bytes, std::initializer_list<const void*> addresses) {
  auto piece = static_cast<std::int64_t>(size_of(dtype));
  const auto fits = [&](std::int64_t bytes) {
    for (const void* address : addresses)
      if (!is_multiple(address, static_cast<std::size_t>(bytes))) return false;
    return row_bytes % bytes == 0;
  };
  while (piece < 16 && fits(2 * piece)) piece *= 2;
  return static_cast<int>(piece);
}

}  // namespace troupe
