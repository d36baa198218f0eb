// String tensors as bytes, for the wire and for files: each string as its length (u32, little-endian) and its text.
#pragma once

#include <troupe/messages/tensor.hpp>

namespace troupe {

// Returns a u8 vector. Throws resource_exhausted for a string of 4 GiB.
Tensor pack_strings(const Tensor& strings);

// Throws data_loss if the bytes do not encode a tensor of this shape; allocates nothing larger than the input.
Tensor unpack_strings(const Shape& shape, const Tensor& packed);

}  // namespace troupe
