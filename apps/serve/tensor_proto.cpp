#include "apps/serve/tensor_proto.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "apps/serve/inference_json.hpp"
#include "apps/serve/proto/inference.pb.h"
#include "apps/serve/proto/tensorflow_tensors.pb.h"
#include <troupe/messages/tensorflow_types.hpp>

namespace troupe {
namespace {

// Dimensions that `size_at(i)` gives.
template <class SizeAt>
Shape shape_of_sizes(int rank, const std::string& place, const SizeAt& size_at) {
  if (rank > kMaxRank)
    invalid_argument("{}: a shape of {} dimensions, where at most {} are possible", place, rank, kMaxRank);
  std::vector<std::int64_t> dims;
  for (int i = 0; i < rank; ++i) {
    dims.push_back(size_at(i));
    if (dims.back() < 0)
      invalid_argument("{}: dimension {} is {}, where a size from 0 on is expected", place, i, dims.back());
  }
  return Shape(std::span<const std::int64_t>(dims));
}

// checked_bytes(), with the place in its error.
std::size_t bytes_at(DType dtype, const Shape& shape, const std::string& place) {
  try {
    return checked_bytes(dtype, shape);
  } catch (const Error& e) {
    fail(e.code(), "{}: {}", place, e.message());
  }
}

// Calls f(list, To()) with the list that holds elements of the dtype, and the type that they have in memory.
template <class F>
decltype(auto) with_list(const ::tensorflow::TensorProto& proto, DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(proto.float_val(), float());
    case DType::f64:
      return f(proto.double_val(), double());
    case DType::i64:
      return f(proto.int64_val(), std::int64_t());
    case DType::u32:
      return f(proto.uint32_val(), std::uint32_t());
    case DType::u64:
      return f(proto.uint64_val(), std::uint64_t());
    case DType::boolean:
      return f(proto.bool_val(), bool());
    case DType::string:
      return f(proto.string_val(), std::string());
    case DType::f16:
    case DType::bf16:
      return f(proto.half_val(), std::uint16_t());  // their bits
    case DType::i8:
      return f(proto.int_val(), std::int8_t());
    case DType::u8:
      return f(proto.int_val(), std::uint8_t());
    case DType::i16:
      return f(proto.int_val(), std::int16_t());
    case DType::u16:
      return f(proto.int_val(), std::uint16_t());
    default:
      return f(proto.int_val(), std::int32_t());
  }
}

template <class To, class List>
void copy_elements(const List& list, To* to, DType dtype, const std::string& place) {
  for (const auto& value : list) {
    if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool>)
      if (!std::in_range<To>(value))
        invalid_argument("{}: {} does not fit an element of {}", place, value, name(dtype));
    *to++ = static_cast<To>(value);
  }
}

// What a tensor takes that lists fewer than its elements: the repeated strings count with their text.
template <class List>
std::uint64_t repeated_bytes_of(const List& list, std::uint64_t bytes, std::uint64_t repeats) {
  if constexpr (std::is_same_v<std::decay_t<decltype(list.Get(0))>, std::string>) {
    std::uint64_t text = 0;
    if (!list.empty() && __builtin_mul_overflow(repeats, list.Get(list.size() - 1).size(), &text))
      return std::numeric_limits<std::uint64_t>::max();
    return bytes + std::min(text, std::numeric_limits<std::uint64_t>::max() - bytes);
  }
  return bytes;
}

Tensor tensor_of_content(const std::string& content, DType dtype, const Shape& shape, std::size_t bytes,
                         const std::string& place) {
  if (dtype == DType::string) invalid_argument("{}: tensor_content, where strings are expected in string_val", place);
  if (content.size() != bytes)
    invalid_argument("{}: tensor_content has {} bytes, where {}{} needs {}", place, content.size(), name(dtype),
                     shape.to_string(), bytes);
  if (dtype == DType::boolean)
    for (const char c : content)
      if (c != 0 && c != 1)
        invalid_argument("{}: an element of bool is {}, where 0 or 1 is expected", place, static_cast<int>(c));
  Tensor out(dtype, shape);
  std::memcpy(out.mutable_raw(), content.data(), bytes);
  return out;
}

// Of contents that list each element.
Tensor tensor_of_contents(const ::inference::InferTensorContents& contents, DType dtype, const Shape& shape,
                          const std::string& place) {
  bytes_at(dtype, shape, place);
  const auto read = [&]<class List, class To>(const List& list, To, const char* field) {
    if (list.size() != shape.num_elements())
      invalid_argument("{}: {} has {} elements, where {}{} needs {}", place, field, list.size(), name(dtype),
                       shape.to_string(), shape.num_elements());
    Tensor out(dtype, shape);
    copy_elements(list, out.mutable_data<To>(), dtype, place);
    return out;
  };
  switch (dtype) {
    case DType::boolean:
      return read(contents.bool_contents(), bool(), "bool_contents");
    case DType::i8:
      return read(contents.int_contents(), std::int8_t(), "int_contents");
    case DType::i16:
      return read(contents.int_contents(), std::int16_t(), "int_contents");
    case DType::i32:
      return read(contents.int_contents(), std::int32_t(), "int_contents");
    case DType::i64:
      return read(contents.int64_contents(), std::int64_t(), "int64_contents");
    case DType::u8:
      return read(contents.uint_contents(), std::uint8_t(), "uint_contents");
    case DType::u16:
      return read(contents.uint_contents(), std::uint16_t(), "uint_contents");
    case DType::u32:
      return read(contents.uint_contents(), std::uint32_t(), "uint_contents");
    case DType::u64:
      return read(contents.uint64_contents(), std::uint64_t(), "uint64_contents");
    case DType::f32:
      return read(contents.fp32_contents(), float(), "fp32_contents");
    case DType::f64:
      return read(contents.fp64_contents(), double(), "fp64_contents");
    case DType::string:
      return read(contents.bytes_contents(), std::string(), "bytes_contents");
    default:
      invalid_argument("{}: {} has no typed contents; raw_input_contents are expected", place,
                       inference_datatype(dtype));
  }
}

}  // namespace

Tensor from_tensor_proto(const ::tensorflow::TensorProto& proto, const std::string& place,
                         std::uint64_t& repeated_bytes) {
  const TensorflowType type = tensorflow_type(static_cast<std::uint64_t>(proto.dtype()));
  if (type.dtype == DType::invalid)
    fail(Code::unimplemented, "{}: elements of type {} ({}) are not supported", place, static_cast<int>(proto.dtype()),
         type.name);
  if (proto.tensor_shape().unknown_rank()) invalid_argument("{}: a shape of unknown rank", place);
  const auto& dims = proto.tensor_shape().dim();
  const Shape shape = shape_of_sizes(dims.size(), place, [&](int i) { return dims.Get(i).size(); });
  const std::size_t bytes = bytes_at(type.dtype, shape, place);
  if (!proto.tensor_content().empty())
    return tensor_of_content(proto.tensor_content(), type.dtype, shape, bytes, place);

  return with_list(proto, type.dtype, [&]<class List, class To>(const List& list, To) {
    const std::int64_t count = shape.num_elements();
    if (list.size() > count)
      invalid_argument("{}: {} values, where {}{} has {}", place, list.size(), name(type.dtype), shape.to_string(),
                       count);
    const std::int64_t repeats = count - list.size();
    if (repeats > 0) {
      const std::uint64_t needed = repeated_bytes_of(list, bytes, static_cast<std::uint64_t>(repeats));
      if (needed > repeated_bytes)
        fail(Code::resource_exhausted, "{}: {}{} repeats its last value and needs {} bytes, where {} are left", place,
             name(type.dtype), shape.to_string(), needed, repeated_bytes);
      repeated_bytes -= needed;
    }
    Tensor out(type.dtype, shape);
    To* to = reinterpret_cast<To*>(out.mutable_raw());
    copy_elements(list, to, type.dtype, place);
    const To last = list.empty() ? To() : to[list.size() - 1];
    std::fill(to + list.size(), to + count, last);
    return out;
  });
}

void to_tensor_shape_proto(const Shape& shape, ::tensorflow::TensorShapeProto& out) {
  if (!shape.has_rank()) return out.set_unknown_rank(true);
  for (const std::int64_t dim : shape.dims()) out.add_dim()->set_size(dim);
}

void to_tensor_proto(const Tensor& tensor, ::tensorflow::TensorProto& out) {
  const std::uint64_t number = tensorflow_number(tensor.dtype());
  if (number == 0) invalid_argument("TensorFlow has no elements of type {}", name(tensor.dtype()));
  out.set_dtype(static_cast<::tensorflow::DataType>(number));
  to_tensor_shape_proto(tensor.shape(), *out.mutable_tensor_shape());
  if (tensor.dtype() == DType::string)
    for (const std::string& text : tensor.values<std::string>()) out.add_string_val(text);
  else
    out.set_tensor_content(tensor.raw(), tensor.num_bytes());
}

std::map<std::string, Tensor> from_infer_request(const ::inference::ModelInferRequest& request) {
  const int raw = request.raw_input_contents_size();
  if (raw > 0 && raw != request.inputs_size())
    invalid_argument("raw_input_contents: {} of them, where {} inputs are given", raw, request.inputs_size());
  std::map<std::string, Tensor> out;
  for (int i = 0; i < request.inputs_size(); ++i) {
    const auto& input = request.inputs(i);
    const std::string place = fmt::format("inputs[{}] '{}'", i, input.name());
    const auto dtype = parse_inference_datatype(input.datatype());
    if (!dtype) invalid_argument("{}: '{}' is no datatype of the Open Inference Protocol", place, input.datatype());
    const Shape shape = shape_of_sizes(input.shape_size(), place, [&](int d) { return input.shape(d); });
    if (raw > 0 && input.has_contents()) invalid_argument("{}: contents beside raw_input_contents", place);
    Tensor tensor = raw > 0 ? tensor_of_inference_bytes(*dtype, shape, request.raw_input_contents(i), place)
                            : tensor_of_contents(input.contents(), *dtype, shape, place);
    if (!out.emplace(input.name(), std::move(tensor)).second) invalid_argument("{}: given twice", place);
  }
  return out;
}

void add_infer_output(const std::string& name, const Tensor& tensor, ::inference::ModelInferResponse& out) {
  auto& output = *out.add_outputs();
  output.set_name(name);
  output.set_datatype(std::string(inference_datatype(tensor.dtype())));
  for (const std::int64_t dim : tensor.shape().dims()) output.add_shape(dim);
  append_inference_bytes(*out.add_raw_output_contents(), tensor);
}

}  // namespace troupe
