// Tensors, shapes and types of TensorFlow's messages.
#pragma once

#include <cstdint>

#include <troupe/messages/tensor.hpp>

namespace troupe::tensorflow {
class Tensor;
class TensorShape;
}  // namespace troupe::tensorflow

namespace troupe {

// Throws unimplemented for a type that Troupe does not have, data_loss for one that does not exist.
DType from_tensorflow_dtype(std::int64_t number);
// Throws data_loss for a dimension below -1, unimplemented for more than kMaxRank.
Shape from_tensorflow_shape(const tensorflow::TensorShape& shape);
// A tensor may say its last element once for all that follow: `repeated_bytes` is how much of that the model may still
// have, and becomes less. Throws data_loss, unimplemented or resource_exhausted.
Tensor from_tensorflow_tensor(const tensorflow::Tensor& tensor, std::uint64_t& repeated_bytes);

// The other way. Throws invalid_argument for a type that TensorFlow lacks.
std::int32_t to_tensorflow_dtype(DType dtype);
void to_tensorflow_shape(const Shape& shape, tensorflow::TensorShape& out);
void to_tensorflow_tensor(const Tensor& value, tensorflow::Tensor& out);

}  // namespace troupe
