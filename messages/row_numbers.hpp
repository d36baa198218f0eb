// Row numbers in frames: u32 if all fit, else i64. Half the bytes of nearly all tables.
#pragma once

#include <troupe/messages/tensor.hpp>

namespace troupe {

// `rows`: i64 [n], on the host; none may be negative. An invalid tensor stays so.
Tensor packed_row_numbers(const Tensor& rows);
// i64 again. Returns another dtype unchanged.
Tensor row_numbers(const Tensor& packed);

}  // namespace troupe
