// Tensors of TensorFlow Serving's and the Open Inference Protocol's gRPC messages.
//
//   std::uint64_t repeated = kMostRepeatedBytes;                   // of all tensors of a request
//   const Tensor x = from_tensor_proto(proto, "inputs[x]", repeated);
//   to_tensor_proto(y, *response.add_...());
//
// Messages come from strangers: sizes are checked before memory is taken. Errors are invalid_argument, unless said
// otherwise, and begin with `place`.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <troupe/messages/tensor.hpp>

namespace tensorflow {
class TensorProto;
class TensorShapeProto;
}  // namespace tensorflow

namespace inference {
class ModelInferRequest;
class ModelInferResponse;
}  // namespace inference

namespace troupe {

// A TensorProto may give one value for all that follow, so that few bytes ask for much memory.
inline constexpr std::uint64_t kMostRepeatedBytes = std::uint64_t{64} << 20;

// Elements from tensor_content, which is copied once, or from the list of the dtype: its last value stands for all that
// follow, no value for zeros. `repeated_bytes`: what such tensors may still take; becomes less. Throws unimplemented
// for a type that Troupe does not have, resource_exhausted beyond `repeated_bytes`.
Tensor from_tensor_proto(const ::tensorflow::TensorProto& proto, const std::string& place,
                         std::uint64_t& repeated_bytes);
// With tensor_content; strings in string_val. Throws for a dtype that TensorFlow lacks.
void to_tensor_proto(const Tensor& tensor, ::tensorflow::TensorProto& out);
void to_tensor_shape_proto(const Shape& shape, ::tensorflow::TensorShapeProto& out);

// Inputs by name: of raw_input_contents, one for each input, or of each input's typed contents, which has all elements
// and, unlike the raw contents, no FP16 and BF16.
std::map<std::string, Tensor> from_infer_request(const ::inference::ModelInferRequest& request);
// Adds an output with raw contents.
void add_infer_output(const std::string& name, const Tensor& tensor, ::inference::ModelInferResponse& out);

}  // namespace troupe
