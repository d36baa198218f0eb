#include "apps/serve/inference_json.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>

#include "apps/serve/json_document.hpp"

namespace troupe {
namespace {

namespace ondemand = simdjson::ondemand;

struct Datatype {
  DType dtype;
  std::string_view name;
};
constexpr std::array<Datatype, 14> kDatatypes = {{{DType::boolean, "BOOL"},
                                                  {DType::u8, "UINT8"},
                                                  {DType::u16, "UINT16"},
                                                  {DType::u32, "UINT32"},
                                                  {DType::u64, "UINT64"},
                                                  {DType::i8, "INT8"},
                                                  {DType::i16, "INT16"},
                                                  {DType::i32, "INT32"},
                                                  {DType::i64, "INT64"},
                                                  {DType::f16, "FP16"},
                                                  {DType::f32, "FP32"},
                                                  {DType::f64, "FP64"},
                                                  {DType::bf16, "BF16"},
                                                  {DType::string, "BYTES"}}};

DType datatype_at(ondemand::value& value, const std::string& place) {
  const std::string_view text = string_at(value, place + ".datatype");
  if (const auto dtype = parse_inference_datatype(text)) return *dtype;
  std::string all;
  for (const Datatype& one : kDatatypes) all.append(all.empty() ? "" : ", ").append(one.name);
  invalid_argument("{}.datatype: '{}', where one of {} is expected", place, text, all);
}

Shape shape_at(ondemand::value& value, const std::string& place) {
  std::vector<std::int64_t> dims;
  for (auto next : array_at(value, place + ".shape")) {
    std::int64_t dim = 0;
    const auto error = next.get_int64().get(dim);
    if (error || dim < 0) invalid_argument("{}.shape[{}]: sizes are integers from 0 on", place, dims.size());
    if (dims.size() == kMaxRank) invalid_argument("{}.shape: more than {} dimensions", place, kMaxRank);
    dims.push_back(dim);
  }
  return Shape(std::span<const std::int64_t>(dims));
}

bool bool_at(ondemand::value& value, const std::string& place) {
  bool out = false;
  if (value.get_bool().get(out) != simdjson::SUCCESS)
    invalid_argument("{}: {}, where true or false is expected", place, json_excerpt(value));
  return out;
}

std::uint64_t count_at(ondemand::value& value, const std::string& place, std::string_view what) {
  std::uint64_t out = 0;
  if (value.get_uint64().get(out) != simdjson::SUCCESS)
    invalid_argument("{}: {}, where a number of {} is expected", place, json_excerpt(value), what);
  return out;
}

Tensor strings_of_bytes(const Shape& shape, std::string_view bytes, const std::string& place) {
  // Checked before memory is taken: each string has a length of four bytes.
  if (static_cast<std::uint64_t>(shape.num_elements()) > bytes.size() / 4)
    invalid_argument("{}: {} bytes are too few for the lengths of {} strings", place, bytes.size(),
                     shape.num_elements());
  Tensor out(DType::string, shape);
  for (std::string& text : out.mutable_values<std::string>()) {
    std::uint32_t size = 0;
    if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
    if (bytes.size() < sizeof size || bytes.size() - sizeof size < size)
      invalid_argument("{}: ends within a string", place);
    text = bytes.substr(sizeof size, size);
    bytes.remove_prefix(sizeof size + size);
  }
  if (!bytes.empty()) invalid_argument("{}: {} bytes follow the last string", place, bytes.size());
  return out;
}

}  // namespace

Tensor tensor_of_inference_bytes(DType dtype, const Shape& shape, std::string_view bytes, const std::string& place) {
  if (dtype == DType::string) return strings_of_bytes(shape, bytes, place);
  if (const std::size_t wanted = checked_bytes(dtype, shape); wanted != bytes.size())
    invalid_argument("{}: {} bytes, where {} of {} have {}", place, bytes.size(), name(dtype), shape.to_string(),
                     wanted);
  Tensor out(dtype, shape);
  if (!bytes.empty()) std::memcpy(out.mutable_raw(), bytes.data(), bytes.size());
  if (dtype == DType::boolean)
    for (const char byte : bytes)
      if (byte != 0 && byte != 1) invalid_argument("{}: a BOOL is a byte 0 or 1", place);
  return out;
}

namespace {

class InferenceReader {
 public:
  InferenceReader(std::string_view binary, const JsonLimits& limits) : binary_(binary), budget_(limits.most_elements) {}

  InferenceRequest read(ondemand::object& body) {
    bool has_inputs = false;
    for_each_field(body, "the body", [&](std::string_view key, ondemand::value& value) {
      if (key == "id") out_.id = string_at(value, "id");
      if (key == "inputs") {
        if (std::exchange(has_inputs, true)) invalid_argument("the body has 'inputs' twice");
        for (auto next : array_at(value, "inputs")) {
          ondemand::value one;
          const std::string place = fmt::format("inputs[{}]", out_.inputs.size());
          if (const auto error = next.get(one)) fail_json(place, error);
          read_input(object_at(one, place), place);
        }
      }
      if (key == "outputs") read_outputs(value);
      if (key == "parameters")
        for_each_parameter(value, "parameters", [&](std::string_view name, ondemand::value& parameter) {
          if (name == "timeout") out_.timeout_us = count_at(parameter, "parameters.timeout", "microseconds");
          if (name == "binary_data_output") out_.all_binary = bool_at(parameter, "parameters.binary_data_output");
        });
    });
    if (!has_inputs) invalid_argument("the body has no 'inputs'");
    if (!binary_.empty()) invalid_argument("{} bytes follow the last binary tensor", binary_.size());
    return std::move(out_);
  }

 private:
  template <class Read>
  static void for_each_parameter(ondemand::value& value, const std::string& place, const Read& read) {
    ondemand::object object = object_at(value, place);
    for_each_field(object, place, read);
  }

  // Describes an input beside its data.
  struct Input {
    std::optional<std::string> name{};
    std::optional<DType> dtype{};
    std::optional<Shape> shape{};
    std::optional<std::uint64_t> binary{};
    bool data = false;
    bool complete() const { return name && dtype && shape; }
  };

  void read_input(ondemand::object object, const std::string& place) {
    Input input;
    std::optional<Tensor> tensor;
    for_each_field(object, place, [&](std::string_view key, ondemand::value& value) {
      if (key == "name") input.name = string_at(value, place + ".name");
      if (key == "datatype") input.dtype = datatype_at(value, place);
      if (key == "shape") input.shape = shape_at(value, place);
      if (key == "parameters")
        for_each_parameter(value, place + ".parameters", [&](std::string_view name, ondemand::value& parameter) {
          if (name == "binary_data_size")
            input.binary = count_at(parameter, place + ".parameters.binary_data_size", "bytes");
        });
      if (key != "data") return;
      if (std::exchange(input.data, true)) invalid_argument("{} has 'data' twice", place);
      if (input.complete()) tensor = data_of(value, input, place);
    });
    for (const auto& [there, what] : {std::pair(input.name.has_value(), "name"),
                                      {input.shape.has_value(), "shape"},
                                      {input.dtype.has_value(), "datatype"}})
      if (!there) invalid_argument("{} lacks '{}'", place, what);
    if (input.data == input.binary.has_value())
      invalid_argument("{} ('{}') has {}", place, *input.name,
                       input.data ? "both 'data' and 'binary_data_size'" : "no 'data'");
    if (input.binary) {
      tensor = tensor_of_inference_bytes(*input.dtype, *input.shape, take(*input.binary, place), place);
    } else if (!tensor) {
      // The data came before what says how to read it.
      ondemand::value data;
      if (const auto error = object.reset().error()) fail_json(place, error);
      if (const auto error = object.find_field("data").get(data)) fail_json(place, error);
      tensor = data_of(data, input, place);
    }
    if (!out_.inputs.emplace(*input.name, std::move(*tensor)).second)
      invalid_argument("{}: the input '{}' is there twice", place, *input.name);
  }

  Tensor data_of(ondemand::value& value, const Input& input, const std::string& place) {
    const auto reader = JsonTensorReader::make(*input.dtype, place + ".data", budget_);
    reader->read(value, {});
    Tensor out = reader->finish(*input.shape);
    if (out.shape() == *input.shape) return out;
    if (out.shape().rank() == 1 && out.num_elements() == input.shape->num_elements()) return out.reshaped(*input.shape);
    invalid_argument("{}.data: lists of shape {}, where '{}' has the shape {}", place, out.shape().to_string(),
                     *input.name, input.shape->to_string());
  }

  std::string_view take(std::uint64_t bytes, const std::string& place) {
    if (bytes > binary_.size())
      invalid_argument("{}: {} bytes of binary data, where {} are left after the JSON (the header {})", place, bytes,
                       binary_.size(), kInferenceHeaderLength);
    const std::string_view out = binary_.substr(0, bytes);
    binary_.remove_prefix(bytes);
    return out;
  }

  void read_outputs(ondemand::value& value) {
    for (auto next : array_at(value, "outputs")) {
      ondemand::value one;
      const std::string place = fmt::format("outputs[{}]", out_.outputs.size());
      if (const auto error = next.get(one)) fail_json(place, error);
      ondemand::object object = object_at(one, place);
      std::optional<std::string> name;
      std::optional<bool> binary;
      for_each_field(object, place, [&](std::string_view key, ondemand::value& field) {
        if (key == "name") name = string_at(field, place + ".name");
        if (key == "parameters")
          for_each_parameter(field, place + ".parameters", [&](std::string_view parameter, ondemand::value& given) {
            if (parameter == "binary_data") binary = bool_at(given, place + ".parameters.binary_data");
            if (parameter == "classification")
              fail(Code::unimplemented, "{}: classification is not there: ask for the scores", place);
          });
      });
      if (!name) invalid_argument("{} lacks 'name'", place);
      if (binary) out_.binary[*name] = *binary;
      out_.outputs.push_back(std::move(*name));
    }
  }

  std::string_view binary_;
  std::size_t budget_;
  InferenceRequest out_;
};

}  // namespace

void append_inference_bytes(std::string& out, const Tensor& tensor) {
  if (tensor.dtype() != DType::string) {
    out.append(reinterpret_cast<const char*>(tensor.raw()), tensor.num_bytes());
    return;
  }
  for (const std::string& text : tensor.values<std::string>()) {
    if (text.size() > std::numeric_limits<std::uint32_t>::max())
      invalid_argument("a string of {} bytes is too long for binary data", text.size());
    const auto size = static_cast<std::uint32_t>(text.size());
    out.append(reinterpret_cast<const char*>(&size), sizeof size);
    out += text;
  }
}

std::string_view inference_datatype(DType dtype) {
  for (const Datatype& one : kDatatypes)
    if (one.dtype == dtype) return one.name;
  return "";
}

std::optional<DType> parse_inference_datatype(std::string_view name) {
  for (const Datatype& one : kDatatypes)
    if (one.name == name) return one.dtype;
  return std::nullopt;
}

InferenceRequest parse_inference(std::string body, std::optional<std::size_t> json_bytes, const JsonLimits& limits) {
  if (json_bytes.value_or(0) > body.size())
    invalid_argument("{}: {} bytes of JSON, where the body has {}", kInferenceHeaderLength, *json_bytes, body.size());
  // The binary part stays where it is; the JSON is copied if it is not all.
  const bool all = json_bytes.value_or(body.size()) == body.size();
  std::string json = all ? std::move(body) : body.substr(0, *json_bytes);
  JsonDocument document(std::move(json));
  InferenceReader reader(all ? std::string_view() : std::string_view(body).substr(*json_bytes), limits);
  InferenceRequest out = reader.read(document.object());
  document.check_end();
  return out;
}

InferenceAnswer print_inference(const std::string& model, std::int64_t version, const InferenceRequest& request,
                                const std::map<std::string, Tensor>& outputs) {
  std::string out = "{\"model_name\":", binary;
  append_json_string(out, model);
  out += fmt::format(",\"model_version\":\"{}\"", version);
  if (!request.id.empty()) {
    out += ",\"id\":";
    append_json_string(out, request.id);
  }
  out += ",\"outputs\":[";
  bool any_binary = false;
  for (const auto& [name, tensor] : outputs) {
    if (out.back() == '}') out += ',';
    out += "{\"name\":";
    append_json_string(out, name);
    out += fmt::format(",\"shape\":[{}],\"datatype\":\"{}\"", fmt::join(tensor.shape().dims(), ","),
                       inference_datatype(tensor.dtype()));
    const auto said = request.binary.find(name);
    if (said == request.binary.end() ? request.all_binary : said->second) {
      const std::size_t begin = binary.size();
      append_inference_bytes(binary, tensor);
      any_binary = true;
      out += fmt::format(",\"parameters\":{{\"binary_data_size\":{}}}}}", binary.size() - begin);
      continue;
    }
    out += ",\"data\":";
    append_json_tensor(out, tensor.reshaped(Shape{tensor.num_elements()}), JsonStrings::text);
    out += '}';
  }
  out += "]}";
  if (!any_binary) return {.body = std::move(out)};
  const std::size_t json_bytes = out.size();
  return {.body = std::move(out) + binary, .json_bytes = json_bytes};
}

}  // namespace troupe
