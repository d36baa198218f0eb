#include "troupe/graph/formats/onnx/onnx_tensors.hpp"

#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "messages/proto/onnx.pb.h"
#include <troupe/messages/element_types.hpp>

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little, "raw data are little-endian");

// By the number of the type in the schema.
constexpr std::array kTypes = {DType::invalid, DType::f32, DType::u8,      DType::i8,      DType::u16, DType::i16,
                               DType::i32,     DType::i64, DType::string,  DType::boolean, DType::f16, DType::f64,
                               DType::u32,     DType::u64, DType::invalid, DType::invalid, DType::bf16};

Shape dims_of(const onnx::Tensor& tensor) {
  std::vector<std::int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  for (const std::int64_t d : dims)
    if (d < 0) fail(Code::data_loss, "tensor '{}' has a dimension of {}", tensor.name(), d);
  return Shape(std::span<const std::int64_t>(dims));
}

void check_count(const onnx::Tensor& tensor, std::int64_t wanted, std::uint64_t found) {
  if (found != static_cast<std::uint64_t>(wanted))
    fail(Code::data_loss, "tensor '{}' needs {} elements, but holds {}", tensor.name(), wanted, found);
}

template <class To, class From>
Tensor converted(const onnx::Tensor& tensor, DType dtype, const Shape& shape, const From& data) {
  check_count(tensor, shape.num_elements(), static_cast<std::uint64_t>(data.size()));
  Tensor out(dtype, shape);
  auto* to = reinterpret_cast<To*>(out.mutable_raw());
  for (const auto value : data) *to++ = static_cast<To>(value);
  return out;
}

Tensor from_bytes(const onnx::Tensor& tensor, DType dtype, const Shape& shape, std::string_view bytes) {
  check_count(tensor, shape.num_elements(), bytes.size() / size_of(dtype));
  if (bytes.size() % size_of(dtype) != 0)
    fail(Code::data_loss, "tensor '{}' holds {} bytes, which are no multiple of {}", tensor.name(), bytes.size(),
         size_of(dtype));
  Tensor out(dtype, shape);
  if (!bytes.empty()) std::memcpy(out.mutable_raw(), bytes.data(), bytes.size());
  return out;
}

std::uint64_t number(const onnx::Tensor& tensor, const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size())
    fail(Code::data_loss, "tensor '{}': '{}' is not a place in a file", tensor.name(), text);
  return value;
}

Tensor from_external(const onnx::Tensor& tensor, DType dtype, const Shape& shape, const ReadExternal& read) {
  if (!read) invalid_argument("tensor '{}' is in another file: import the model by its path", tensor.name());
  std::string file;
  std::uint64_t offset = 0, length = checked_bytes(dtype, shape);
  for (const onnx::StringPair& entry : tensor.external_data()) {
    if (entry.key() == "location") file = entry.value();
    if (entry.key() == "offset") offset = number(tensor, entry.value());
    if (entry.key() == "length") length = number(tensor, entry.value());
  }
  if (dtype == DType::string || length != checked_bytes(dtype, shape))
    fail(Code::data_loss, "tensor '{}' needs {} bytes of '{}', but the model says {}", tensor.name(),
         checked_bytes(dtype, shape), file, length);
  return from_bytes(tensor, dtype, shape, read(file, offset, length));
}

}  // namespace

DType from_onnx_dtype(std::int32_t type) {
  const bool known = type >= 0 && static_cast<std::size_t>(type) < kTypes.size();
  const DType dtype = known ? kTypes[static_cast<std::size_t>(type)] : DType::invalid;
  if (dtype == DType::invalid)
    fail(Code::unimplemented, "elements of ONNX type {} ({}) are not supported", type,
         onnx::Tensor::DataType_IsValid(type) ? onnx::Tensor::DataType_Name(static_cast<onnx::Tensor::DataType>(type))
                                              : "unknown");
  return dtype;
}

std::int32_t to_onnx_dtype(DType dtype) {
  for (std::size_t i = 1; i < kTypes.size(); ++i)
    if (kTypes[i] == dtype) return static_cast<std::int32_t>(i);
  fail(Code::unimplemented, "ONNX has no tensors of {}", name(dtype));
}

Shape from_onnx_shape(const onnx::TensorShape& shape) {
  std::vector<std::int64_t> dims;
  for (const auto& d : shape.dim()) dims.push_back(d.has_dim_value() && d.dim_value() >= 0 ? d.dim_value() : kUnknown);
  return Shape(std::span<const std::int64_t>(dims));
}

OnnxType OnnxType::item() const { return {{lists.begin() + 1, lists.end()}, dtype, shape}; }

OnnxType OnnxType::list_of(List list) const {
  OnnxType out = *this;
  out.lists.insert(out.lists.begin(), list);
  return out;
}

OnnxType from_onnx_type(const onnx::Type& type) {
  switch (type.value_case()) {
    case onnx::Type::kTensorType: {
      const auto& tensor = type.tensor_type();
      return {{},
              from_onnx_dtype(tensor.elem_type()),
              tensor.has_shape() ? from_onnx_shape(tensor.shape()) : Shape::unknown_rank()};
    }
    case onnx::Type::kSequenceType:
      return from_onnx_type(type.sequence_type().elem_type()).list_of(OnnxType::List::sequence);
    case onnx::Type::kOptionalType:
      return from_onnx_type(type.optional_type().elem_type()).list_of(OnnxType::List::optional);
    case onnx::Type::kMapType:
      fail(Code::unimplemented, "maps are not supported");
    case onnx::Type::kSparseTensorType:
      fail(Code::unimplemented, "sparse tensors are not supported");
    default:
      invalid_argument("it has no type");
  }
}

void to_onnx_type(const OnnxType& type, onnx::Type& out) {
  if (type.is_list()) {
    const bool optional = type.lists.front() == OnnxType::List::optional;
    to_onnx_type(type.item(),
                 *(optional ? out.mutable_optional_type() : out.mutable_sequence_type())->mutable_elem_type());
    return;
  }
  out.mutable_tensor_type()->set_elem_type(to_onnx_dtype(type.dtype));
  if (!type.shape.has_rank()) return;
  auto& shape = *out.mutable_tensor_type()->mutable_shape();
  for (const std::int64_t d : type.shape.dims()) {
    auto& dim = *shape.add_dim();
    if (d != kUnknown) dim.set_dim_value(d);
  }
}

Tensor from_onnx_tensor(const onnx::Tensor& tensor, const ReadExternal& read) {
  const DType dtype = from_onnx_dtype(tensor.data_type());
  const Shape shape = dims_of(tensor);
  if (tensor.data_location() == onnx::Tensor::EXTERNAL) return from_external(tensor, dtype, shape, read);
  if (dtype == DType::string) {
    check_count(tensor, shape.num_elements(), static_cast<std::uint64_t>(tensor.string_data_size()));
    return Tensor::of<std::string>(shape,
                                   std::vector<std::string>(tensor.string_data().begin(), tensor.string_data().end()));
  }
  if (tensor.has_raw_data()) return from_bytes(tensor, dtype, shape, tensor.raw_data());
  switch (dtype) {
    case DType::f32:
      return converted<float>(tensor, dtype, shape, tensor.float_data());
    case DType::f64:
      return converted<double>(tensor, dtype, shape, tensor.double_data());
    case DType::i64:
      return converted<std::int64_t>(tensor, dtype, shape, tensor.int64_data());
    case DType::u32:
      return converted<std::uint32_t>(tensor, dtype, shape, tensor.uint64_data());
    case DType::u64:
      return converted<std::uint64_t>(tensor, dtype, shape, tensor.uint64_data());
    case DType::i32:
      return converted<std::int32_t>(tensor, dtype, shape, tensor.int32_data());
    default:  // the bits of narrower types
      return size_of(dtype) == 2       ? converted<std::uint16_t>(tensor, dtype, shape, tensor.int32_data())
             : dtype == DType::boolean ? converted<bool>(tensor, dtype, shape, tensor.int32_data())
                                       : converted<std::uint8_t>(tensor, dtype, shape, tensor.int32_data());
  }
}

void to_onnx_tensor(const Tensor& tensor, std::string_view name, onnx::Tensor& out) {
  out.set_name(std::string(name));
  out.set_data_type(to_onnx_dtype(tensor.dtype()));
  for (const std::int64_t d : tensor.shape().dims()) out.add_dims(d);
  if (tensor.dtype() == DType::string)
    for (const std::string& text : tensor.values<std::string>()) out.add_string_data(text);
  else
    out.set_raw_data(reinterpret_cast<const char*>(tensor.raw()), tensor.num_bytes());
}

}  // namespace troupe
