// Tensors of strings as bytes, for the wire and for files: of each string its length (u32, little-endian) and its text.
#pragma once

#include <troupe/messages/tensor.hpp>

namespace troupe {

// A u8 vector. Throws resource_exhausted for a string of 4 GiB.
Tensor pack_strings(const Tensor& strings);

// Throws data_loss if the bytes are not those of a tensor of this shape; nothing larger than they are is allocated.
Tensor unpack_strings(const Shape& shape, const Tensor& packed);

}  // namespace troupe
