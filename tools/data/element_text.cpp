#include "tools/data/element_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include <troupe/messages/element_types.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::data_tool {
namespace {

using nlohmann::ordered_json;

template <class T>
ordered_json value_json(const Tensor& tensor, std::int64_t at, const std::string& name, bool strict) {
  const T& value = tensor.data<T>()[at];
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, std::string>) {
    return value;
  } else {
    const auto number = static_cast<Compute<T>>(value);
    if (!std::isfinite(number)) {
      if (strict) invalid_argument("'{}' has a value {}: JSON has no such number", name, number);
      return nullptr;
    }
    // As short as it can be read back: the library writes all digits of a double.
    if constexpr (sizeof(number) < sizeof(double)) return std::stod(fmt::format("{}", number));
    return number;
  }
}

template <class T>
ordered_json array_json(const Tensor& tensor, int axis, std::int64_t& at, const std::string& name, bool strict) {
  if (axis == tensor.shape().rank()) return value_json<T>(tensor, at++, name, strict);
  ordered_json out = ordered_json::array();
  for (std::int64_t i = 0; i < tensor.shape()[axis]; ++i)
    out.push_back(array_json<T>(tensor, axis + 1, at, name, strict));
  return out;
}

bool is_utf8(std::string_view text) {
  try {
    static_cast<void>(ordered_json(std::string(text)).dump());
    return true;
  } catch (const ordered_json::exception&) {
    return false;
  }
}

void put_field(ordered_json& object, std::string_view name, ordered_json value) {
  const std::size_t dot = name.find('.');
  ordered_json& field = object[std::string(name.substr(0, dot))];
  if (dot == name.npos) {
    if (!field.is_null()) invalid_argument("'{}' is the name of a field and of an object with fields", name);
    field = std::move(value);
    return;
  }
  if (!field.is_null() && !field.is_object())
    invalid_argument("'{}' is the name of a field and of an object with fields", name.substr(0, dot));
  put_field(field, name.substr(dot + 1), std::move(value));
}

}  // namespace

std::string shown_string(std::string_view text, std::size_t most) {
  constexpr std::size_t kBytesShown = 16;  // of what is no text
  std::string_view cut = text.substr(0, most);
  for (int tries = 0; text.size() > most && tries < 3 && !is_utf8(cut); ++tries) cut.remove_suffix(1);
  const bool is_text = is_utf8(cut);
  if (!is_text) cut = text.substr(0, kBytesShown);
  std::string out = "\"";
  for (const char c : cut) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !is_text))
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  if (cut.size() < text.size()) return fmt::format("{}\"... ({} bytes)", out, text.size());
  return out + "\"";
}

std::string shown(const Tensor& tensor) {
  constexpr std::int64_t kStrings = 4;
  if (tensor.dtype() != DType::string) return tensor.to_string();
  std::string out = "string" + tensor.shape().to_string() + " =";
  const auto values = tensor.values<std::string>();
  for (std::int64_t i = 0; i < std::min<std::int64_t>(kStrings, std::ssize(values)); ++i)
    out += " " + shown_string(values[static_cast<std::size_t>(i)]);
  return std::ssize(values) > kStrings ? out + " ..." : out;
}

nlohmann::ordered_json element_json(const BatchSchema& schema, const data::Element& element, bool strict) {
  ordered_json out = ordered_json::object();
  for (std::size_t i = 0; i < schema.size(); ++i) {
    std::int64_t at = 0;
    ordered_json value = dispatch(ElementTypes{}, schema[i].dtype,
                                  [&]<class T>() { return array_json<T>(element[i], 0, at, schema[i].name, strict); });
    put_field(out, schema[i].name, std::move(value));
  }
  return out;
}

}  // namespace troupe::data_tool
