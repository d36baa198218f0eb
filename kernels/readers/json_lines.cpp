#include "troupe/kernels/readers/json_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using nlohmann::json;

constexpr int kMostNesting = 64;

// Whether arrays and objects nest deeper than kMostNesting levels: the parser keeps all levels, and frees them by
// recursion.
bool nests_too_deeply(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':
        while (++i < text.size() && text[i] != '"')
          if (text[i] == '\\') ++i;
        break;
      case '[':
      case '{':
        if (++depth > kMostNesting) return true;
        break;
      case ']':
      case '}':
        --depth;
        break;
      default:
        break;
    }
  }
  return false;
}

json parse_json(std::string_view text) {
  if (nests_too_deeply(text)) fail(Code::data_loss, "arrays and objects nest deeper than {} levels", kMostNesting);
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    fail(Code::data_loss, "not JSON: {}", error.what());
  }
}

[[noreturn]] void refuse_json(const json& value, std::string_view expected) {
  constexpr std::size_t kShown = 40;
  std::string text = value.is_structured() ? std::string(value.is_array() ? "an array" : "an object")
                                           : value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  fail(Code::data_loss, "{} is no {}", text, expected);
}

// The value as a T: false for one that is none.
template <class T>
bool convert_json(const json& value, T& out) {
  if constexpr (std::same_as<T, std::string>) {
    if (!value.is_string()) return false;
    out = value.get_ref<const std::string&>();
  } else if constexpr (std::same_as<T, bool>) {
    if (!value.is_boolean()) return false;
    out = value.get<bool>();
  } else if constexpr (std::integral<T>) {
    // The library keeps numbers without a minus as unsigned ones.
    if (value.is_number_unsigned()) {
      const auto number = value.get<std::uint64_t>();
      if (!std::in_range<T>(number)) return false;
      out = static_cast<T>(number);
    } else {
      if (!value.is_number_integer() || !std::in_range<T>(value.get<std::int64_t>())) return false;
      out = static_cast<T>(value.get<std::int64_t>());
    }
  } else {
    if (!value.is_number()) return false;
    const auto number = value.get<double>();
    if (std::abs(number) > static_cast<double>(std::numeric_limits<T>::max()) && !std::isfinite(static_cast<T>(number)))
      return false;
    out = static_cast<T>(number);
  }
  return true;
}

// Calls f with a value of the dtype's type; false for a dtype that fields cannot have.
template <class F>
bool with_json_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float()), true;
    case DType::f64:
      return f(double()), true;
    case DType::i8:
      return f(std::int8_t()), true;
    case DType::u8:
      return f(std::uint8_t()), true;
    case DType::i16:
      return f(std::int16_t()), true;
    case DType::u16:
      return f(std::uint16_t()), true;
    case DType::i32:
      return f(std::int32_t()), true;
    case DType::u32:
      return f(std::uint32_t()), true;
    case DType::i64:
      return f(std::int64_t()), true;
    case DType::u64:
      return f(std::uint64_t()), true;
    case DType::boolean:
      return f(bool()), true;
    case DType::string:
      return f(std::string()), true;
    default:
      return false;
  }
}

// Reads elements in row-major order; `axis` dimensions are already open.
template <class T>
void read_json_elements(const json& value, const Shape& shape, DType dtype, int axis, T*& out) {
  if (axis == shape.rank()) {
    if (!convert_json(value, *out)) refuse_json(value, name(dtype));
    ++out;
    return;
  }
  if (!value.is_array()) refuse_json(value, fmt::format("array: expected {}{}", name(dtype), shape.to_string()));
  if (value.size() != static_cast<std::size_t>(shape[axis]))
    fail(Code::data_loss, "an array has {} elements along dimension {}, but must be {}{}", value.size(), axis,
         name(dtype), shape.to_string());
  for (const json& element : value) read_json_elements(element, shape, dtype, axis + 1, out);
}

// To `out`, which has room for the shape.
void read_json_value(const json& value, const Shape& shape, DType dtype, std::byte* out) {
  with_json_type(dtype, [&]<class T>(const T&) {
    auto* to = reinterpret_cast<T*>(out);
    read_json_elements(value, shape, dtype, 0, to);
  });
}

// To a tensor of its own. `bytes`: of the text that the value is in, which has at least one for each element.
Tensor json_tensor(const json& value, const JsonField& field, std::size_t bytes) {
  Shape shape = field.shape;
  if (!shape.fully_known()) {
    if (!value.is_array())
      refuse_json(value, fmt::format("array: expected {}{}", name(field.dtype), shape.to_string()));
    shape.set_dim(0, static_cast<std::int64_t>(value.size()));
    const Shape rest = shape.sub(1, shape.rank());
    if (const auto each = static_cast<std::size_t>(rest.num_elements());
        value.size() > 0 && each > bytes / value.size())
      fail(Code::data_loss, "{} arrays cannot have {} elements each in {} bytes of text", value.size(), each, bytes);
  }
  Tensor out(field.dtype, shape);
  read_json_value(value, shape, field.dtype, out.mutable_raw());
  return out;
}

// The field, or null if it is absent or null.
const json* find_json(const json& object, const std::vector<std::string>& path) {
  const json* at = &object;
  for (const std::string& key : path) {
    if (!at->is_object()) refuse_json(*at, fmt::format("object with a field '{}'", key));
    const auto found = at->find(key);
    if (found == at->end() || found->is_null()) return nullptr;
    at = &*found;
  }
  return at;
}

// Calls read(i, value) for each field; value is null where the fallback counts. Errors are of the place.
template <class Read>
void read_json_fields(std::string_view record, const RecordPlace& place, const BatchSchema& schema,
                      const std::vector<std::vector<std::string>>& paths, const std::vector<Tensor>& fallbacks,
                      Read&& read) {
  std::size_t i = 0;
  bool parsed = false;
  try {
    const json object = parse_json(record);
    if (!object.is_object()) refuse_json(object, "object");
    parsed = true;
    for (; i < schema.size(); ++i) {
      const json* const value = find_json(object, paths[i]);
      if (value == nullptr && !fallbacks[i].valid()) fail(Code::data_loss, "it is missing, and has no fallback");
      read(i, value);
    }
  } catch (const Error& error) {
    if (error.code() != Code::data_loss) throw;
    fail(Code::data_loss, "{}: byte {}: {}{}", place.file, place.offset,
         parsed ? fmt::format("field '{}': ", schema[i].name) : "", error.message());
  }
}

std::vector<std::string> json_path(const std::string& name) {
  std::vector<std::string> out(1);
  for (const char c : name)
    if (c == '.')
      out.emplace_back();
    else
      out.back() += c;
  return out;
}

}  // namespace

JsonLinesParser::JsonLinesParser(std::vector<JsonField> fields) : fields_(std::move(fields)) {
  for (const JsonField& field : fields_) {
    schema_.push_back({.name = field.name, .dtype = field.dtype, .shape = field.shape});
    const Shape& shape = field.shape;
    if (!with_json_type(field.dtype, [](const auto&) {}))
      invalid_argument("JSON: field '{}' is {}: pass f32, f64, an integer, bool or string", field.name,
                       name(field.dtype));
    if (!shape.has_rank() || (shape.rank() > 0 && !shape.sub(1, shape.rank()).fully_known()))
      invalid_argument("JSON: field '{}' is {}{}: only its leading dimension may be unknown", field.name,
                       name(field.dtype), shape.to_string());
    paths_.push_back(json_path(field.name));
    fallbacks_.emplace_back();
    if (!field.fallback) continue;
    try {
      fallbacks_.back() = json_tensor(parse_json(*field.fallback), field, field.fallback->size());
    } catch (const Error& error) {
      invalid_argument("JSON: fallback of field '{}': {}", field.name, error.message());
    }
  }
  check_schema(schema_);
}

void JsonLinesParser::parse(std::string_view record, const RecordPlace& place, std::int64_t row,
                            std::span<Tensor> out) const {
  if (out.size() != schema_.size()) invalid_argument("JSON: {} tensors for {} components", out.size(), schema_.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Shape& shape = out[i].shape();
    if (!schema_[i].shape.fully_known())
      invalid_argument("JSON: field '{}' {} has an unknown dimension: its records are no rows of a batch",
                       schema_[i].name, schema_[i].shape.to_string());
    if (out[i].dtype() != schema_[i].dtype || shape.rank() == 0 || row < 0 || row >= shape[0] ||
        !(shape == schema_[i].batch_shape(shape[0])) || !out[i].space().on_host())
      invalid_argument("JSON: row {} of field '{}' {}{} cannot be in a tensor {}{}", row, schema_[i].name,
                       name(schema_[i].dtype), schema_[i].shape.to_string(), name(out[i].dtype()), shape.to_string());
  }
  read_json_fields(record, place, schema_, paths_, fallbacks_, [&](std::size_t i, const json* value) {
    const BatchComponent& component = schema_[i];
    const auto elements = static_cast<std::size_t>(component.shape.num_elements());
    std::byte* const to = out[i].mutable_raw() + static_cast<std::size_t>(row) * elements * size_of(component.dtype);
    if (value != nullptr) {
      read_json_value(*value, component.shape, component.dtype, to);
    } else if (component.dtype == DType::string) {
      std::ranges::copy(fallbacks_[i].values<std::string>(), reinterpret_cast<std::string*>(to));
    } else if (elements > 0) {
      std::memcpy(to, fallbacks_[i].raw(), fallbacks_[i].num_bytes());
    }
  });
}

std::vector<Tensor> JsonLinesParser::parse(std::string_view record, const RecordPlace& place) const {
  std::vector<Tensor> out(schema_.size());
  read_json_fields(record, place, schema_, paths_, fallbacks_, [&](std::size_t i, const json* value) {
    out[i] = value != nullptr ? json_tensor(*value, fields_[i], record.size()) : fallbacks_[i].clone();
  });
  return out;
}

}  // namespace troupe
