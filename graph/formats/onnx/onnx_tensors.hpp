// Tensors and types of ONNX's schema, from and to ours.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <troupe/graph/formats/onnx/onnx.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe::onnx {
class Model;
class Tensor;
class TensorShape;
class Type;
}  // namespace troupe::onnx

namespace troupe {

// The domain of functions that export_onnx() adds to models. Each is named like an op of ours, with "_1" and so on for
// another body of the same op; its body says in ops of ONNX what the op does.
inline constexpr const char* kOnnxOwnDomain = "ai.troupe";

// Throws unimplemented, with the type's name, for those that Troupe lacks (complex and 8-bit floating types).
DType from_onnx_dtype(std::int32_t type);
std::int32_t to_onnx_dtype(DType dtype);  // throws unimplemented

// Dimensions that are names or missing are unknown.
Shape from_onnx_shape(const onnx::TensorShape& shape);

// Throws unimplemented for maps and sparse tensors.
OnnxType from_onnx_type(const onnx::Type& type);
void to_onnx_type(const OnnxType& type, onnx::Type& out);

// Returns bytes [offset, offset + length) of a file beside the model; throws for one outside of its folder.
using ReadExternal = std::function<std::string(const std::string& file, std::uint64_t offset, std::uint64_t length)>;

// The model as a graph (import.cpp). `read` as in from_onnx_tensor().
OnnxModel import_onnx_model(const onnx::Model& model, const OnnxImportOptions& options, const ReadExternal& read);

// Throws data_loss if the data do not fit the dimensions. `read`: null refuses external data.
Tensor from_onnx_tensor(const onnx::Tensor& tensor, const ReadExternal& read = nullptr);
void to_onnx_tensor(const Tensor& tensor, std::string_view name, onnx::Tensor& out);

}  // namespace troupe
