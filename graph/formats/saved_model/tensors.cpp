#include "troupe/graph/formats/saved_model/tensors.hpp"

#include <cstring>
#include <limits>
#include <vector>

#include "messages/proto/tensorflow.pb.h"
#include <troupe/messages/tensorflow_types.hpp>

namespace troupe {
namespace {

// Elements that the message lists; the last one stands for those that follow (none: zeros).
template <class To, class List>
void fill_from(Tensor& out, const List& list) {
  auto* to = reinterpret_cast<To*>(out.mutable_raw());
  const std::int64_t count = out.num_elements();
  if (list.size() > count) fail(Code::data_loss, "a tensor of {} elements lists {}", count, list.size());
  for (std::int64_t i = 0; i < count; ++i) {
    if (list.empty())
      to[i] = To();
    else
      to[i] = static_cast<To>(list.Get(static_cast<int>(std::min<std::int64_t>(i, list.size() - 1))));
  }
}

int listed(const tensorflow::Tensor& tensor, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return tensor.float_val_size();
    case DType::f64:
      return tensor.double_val_size();
    case DType::i64:
      return tensor.int64_val_size();
    case DType::u32:
      return tensor.uint32_val_size();
    case DType::u64:
      return tensor.uint64_val_size();
    case DType::boolean:
      return tensor.bool_val_size();
    case DType::string:
      return tensor.string_val_size();
    case DType::f16:
    case DType::bf16:
      return tensor.half_val_size();
    default:
      return tensor.int_val_size();
  }
}

void fill_elements(Tensor& out, const tensorflow::Tensor& tensor) {
  switch (out.dtype()) {
    case DType::f32:
      return fill_from<float>(out, tensor.float_val());
    case DType::f64:
      return fill_from<double>(out, tensor.double_val());
    case DType::i64:
      return fill_from<std::int64_t>(out, tensor.int64_val());
    case DType::u32:
      return fill_from<std::uint32_t>(out, tensor.uint32_val());
    case DType::u64:
      return fill_from<std::uint64_t>(out, tensor.uint64_val());
    case DType::boolean:
      return fill_from<bool>(out, tensor.bool_val());
    case DType::string:
      return fill_from<std::string>(out, tensor.string_val());
    case DType::f16:
    case DType::bf16:
      return fill_from<std::uint16_t>(out, tensor.half_val());  // their bits
    case DType::i32:
      return fill_from<std::int32_t>(out, tensor.int_val());
    case DType::i16:
    case DType::u16:
      return fill_from<std::uint16_t>(out, tensor.int_val());
    default:
      return fill_from<std::uint8_t>(out, tensor.int_val());
  }
}

// What the elements take that a tensor of `bytes` does not list: repeated strings count with their text.
std::uint64_t bytes_of_repeats(const tensorflow::Tensor& tensor, DType dtype, std::uint64_t bytes,
                               std::uint64_t repeats) {
  if (dtype != DType::string || tensor.string_val().empty()) return bytes;
  std::uint64_t text = 0;
  if (__builtin_mul_overflow(repeats, tensor.string_val().rbegin()->size(), &text) ||
      __builtin_add_overflow(bytes, text, &bytes))
    return std::numeric_limits<std::uint64_t>::max();
  return bytes;
}

}  // namespace

DType from_tensorflow_dtype(std::int64_t number) {
  const TensorflowType type = tensorflow_type(static_cast<std::uint64_t>(number));
  if (type.dtype == DType::invalid)
    fail(Code::unimplemented, "elements of TensorFlow's type {} ({}) are not supported", number, type.name);
  return type.dtype;
}

Shape from_tensorflow_shape(const tensorflow::TensorShape& shape) {
  if (shape.unknown_rank()) return Shape::unknown_rank();
  if (shape.dim_size() > kMaxRank)
    fail(Code::unimplemented, "a shape of {} dimensions; Troupe has at most {}", shape.dim_size(), kMaxRank);
  std::vector<std::int64_t> dims;
  for (const auto& dim : shape.dim()) {
    if (dim.size() < kUnknown) fail(Code::data_loss, "a shape has a dimension of {}", dim.size());
    dims.push_back(dim.size());
  }
  return Shape(std::span<const std::int64_t>(dims));
}

Tensor from_tensorflow_tensor(const tensorflow::Tensor& tensor, std::uint64_t& repeated_bytes) {
  const DType dtype = from_tensorflow_dtype(tensor.dtype());
  const Shape shape = from_tensorflow_shape(tensor.tensor_shape());
  if (!shape.fully_known()) fail(Code::data_loss, "a tensor of the shape {}", shape.to_string());
  const std::size_t bytes = checked_bytes(dtype, shape);
  if (!tensor.tensor_content().empty() && dtype != DType::string) {
    if (tensor.tensor_content().size() != bytes)
      fail(Code::data_loss, "a tensor {}{} needs {} bytes, but has {}", name(dtype), shape.to_string(), bytes,
           tensor.tensor_content().size());
    Tensor out(dtype, shape);
    if (dtype == DType::boolean)
      for (const char c : tensor.tensor_content())
        if (c != 0 && c != 1) fail(Code::data_loss, "an element of a tensor of bool is {}", static_cast<int>(c));
    std::memcpy(out.mutable_raw(), tensor.tensor_content().data(), bytes);
    return out;
  }
  if (const std::int64_t repeats = shape.num_elements() - listed(tensor, dtype); repeats > 0) {
    const std::uint64_t needed = bytes_of_repeats(tensor, dtype, bytes, static_cast<std::uint64_t>(repeats));
    if (needed > repeated_bytes)
      fail(Code::resource_exhausted,
           "constants that repeat one element are too large: {}{} needs {} bytes, {} are left", name(dtype),
           shape.to_string(), needed, repeated_bytes);
    repeated_bytes -= needed;
  }
  Tensor out(dtype, shape);
  fill_elements(out, tensor);
  return out;
}

std::int32_t to_tensorflow_dtype(DType dtype) {
  constexpr std::int32_t kResource = 20, kVariant = 21;  // of nodes, never of tensors; lists are variants there
  if (dtype == DType::resource) return kResource;
  if (dtype == DType::list) return kVariant;
  const std::uint64_t number = tensorflow_number(dtype);
  if (number == 0) invalid_argument("TensorFlow has no elements of type {}", name(dtype));
  return static_cast<std::int32_t>(number);
}

void to_tensorflow_shape(const Shape& shape, tensorflow::TensorShape& out) {
  if (!shape.has_rank()) return out.set_unknown_rank(true);
  for (const std::int64_t d : shape.dims()) out.add_dim()->set_size(d);
}

void to_tensorflow_tensor(const Tensor& value, tensorflow::Tensor& out) {
  out.set_dtype(to_tensorflow_dtype(value.dtype()));
  to_tensorflow_shape(value.shape(), *out.mutable_tensor_shape());
  if (value.dtype() == DType::string)
    for (const std::string& text : value.values<std::string>()) out.add_string_val(text);
  else
    out.set_tensor_content(value.raw(), value.num_bytes());
}

}  // namespace troupe
