// Attribute values and tensors as data.
#include <algorithm>
#include <bit>
#include <cstring>

#include <troupe/graph/formats/serialize.hpp>
#include <troupe/graph/formats/serialize_proto.hpp>

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor content is little-endian");

DType parse_dtype_number(std::uint32_t number) {
  const auto dtype = static_cast<DType>(number);
  if (number > 0xff || !is_valid(dtype)) invalid_argument("unknown dtype number {}", number);
  return dtype;
}

proto::Dims shape_to_proto(const Shape& shape) {
  proto::Dims message;
  message.set_unknown_rank(!shape.has_rank());
  for (std::int64_t d : shape.dims()) message.add_dim(d);
  return message;
}

Shape parse_shape(const proto::Dims& message) {
  if (!message.unknown_rank())
    return Shape(std::span<const std::int64_t>(message.dim().data(), static_cast<std::size_t>(message.dim_size())));
  if (message.dim_size() != 0) invalid_argument("a shape of unknown rank has {} dimensions", message.dim_size());
  return Shape::unknown_rank();
}

template <class List, class Values>
void append(List& list, const Values& values) {
  for (const auto& v : values) list.add_value(v);
}

}  // namespace

proto::TensorValue to_proto(const Tensor& tensor) {
  proto::TensorValue message;
  message.set_dtype(static_cast<std::uint32_t>(tensor.dtype()));
  *message.mutable_shape() = shape_to_proto(tensor.shape());
  if (!tensor.valid()) return message;
  if (!tensor.space().on_host()) invalid_argument("a tensor outside host memory cannot be serialized");
  if (tensor.dtype() == DType::string) {
    for (const std::string& s : tensor.values<std::string>()) message.add_strings(s);
  } else {
    message.set_content(tensor.raw(), tensor.num_bytes());
  }
  return message;
}

Tensor from_proto(const proto::TensorValue& message) {
  const DType dtype = parse_dtype_number(message.dtype());
  const Shape shape = parse_shape(message.shape());
  if (!shape.fully_known()) invalid_argument("the shape {} of a tensor is not fully known", shape.to_string());
  if (dtype == DType::string) {
    if (!message.content().empty() || message.strings_size() != shape.num_elements())
      invalid_argument("a string{} tensor has {} strings and {} bytes of other content", shape.to_string(),
                       message.strings_size(), message.content().size());
    Tensor tensor(dtype, shape);
    std::ranges::copy(message.strings(), tensor.mutable_data<std::string>());
    return tensor;
  }
  if (dtype == DType::resource) invalid_argument("a tensor cannot have dtype resource");
  const std::string& content = message.content();
  if (const std::size_t bytes = checked_bytes(dtype, shape); content.size() != bytes || message.strings_size() != 0)
    invalid_argument("a {}{} tensor has {} bytes of content instead of {}, and {} strings", name(dtype),
                     shape.to_string(), content.size(), bytes, message.strings_size());
  // Only 0 and 1 are values of a C++ bool.
  if (dtype == DType::boolean && std::ranges::any_of(content, [](char c) { return c != 0 && c != 1; }))
    invalid_argument("a bool{} tensor has a byte that is neither 0 nor 1", shape.to_string());
  Tensor tensor(dtype, shape);
  if (!content.empty()) std::memcpy(tensor.mutable_raw(), content.data(), content.size());
  return tensor;
}

proto::Attribute to_proto(const AttrValue& value) {
  proto::Attribute out;
  switch (type_of(value)) {
    case AttrType::integer:
      out.set_integer(std::get<std::int64_t>(value));
      break;
    case AttrType::real:
      out.set_real(std::get<double>(value));
      break;
    case AttrType::boolean:
      out.set_boolean(std::get<bool>(value));
      break;
    case AttrType::string:
      out.set_string(std::get<std::string>(value));
      break;
    case AttrType::dtype:
      out.set_dtype(static_cast<std::uint32_t>(std::get<DType>(value)));
      break;
    case AttrType::shape:
      *out.mutable_shape() = shape_to_proto(std::get<Shape>(value));
      break;
    case AttrType::tensor:
      *out.mutable_tensor() = to_proto(std::get<Tensor>(value));
      break;
    case AttrType::function:
      out.set_function(std::get<FunctionName>(value).value);
      break;
    case AttrType::integers:
      append(*out.mutable_integers(), std::get<std::vector<std::int64_t>>(value));
      break;
    case AttrType::reals:
      append(*out.mutable_reals(), std::get<std::vector<double>>(value));
      break;
    case AttrType::strings:
      append(*out.mutable_strings(), std::get<std::vector<std::string>>(value));
      break;
    case AttrType::dtypes:
      out.mutable_dtypes();
      for (DType d : std::get<std::vector<DType>>(value))
        out.mutable_dtypes()->add_value(static_cast<std::uint32_t>(d));
      break;
  }
  return out;
}

AttrValue from_proto(const proto::Attribute& message) {
  using Case = proto::Attribute;
  switch (message.value_case()) {
    case Case::kInteger:
      return static_cast<std::int64_t>(message.integer());
    case Case::kReal:
      return message.real();
    case Case::kBoolean:
      return message.boolean();
    case Case::kString:
      return message.string();
    case Case::kDtype:
      return parse_dtype_number(message.dtype());
    case Case::kShape:
      return parse_shape(message.shape());
    case Case::kTensor:
      return from_proto(message.tensor());
    case Case::kFunction:
      return FunctionName{message.function()};
    case Case::kIntegers:
      return std::vector<std::int64_t>(message.integers().value().begin(), message.integers().value().end());
    case Case::kReals:
      return std::vector<double>(message.reals().value().begin(), message.reals().value().end());
    case Case::kStrings:
      return std::vector<std::string>(message.strings().value().begin(), message.strings().value().end());
    case Case::kDtypes: {
      std::vector<DType> dtypes;
      for (std::uint32_t number : message.dtypes().value()) dtypes.push_back(parse_dtype_number(number));
      return dtypes;
    }
    case Case::kTensorApart:
      invalid_argument("tensor {} is not with the value", message.tensor_apart());
    case Case::VALUE_NOT_SET:
      break;
  }
  fail(Code::data_loss, "the value is missing");
}

}  // namespace troupe
