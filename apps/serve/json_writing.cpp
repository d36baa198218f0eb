// Tensors to nested lists of JSON.
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "apps/serve/json_values.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMostNumberText = 32;  // bytes, of any dtype

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr auto kBase64Values = [] {
  std::array<signed char, 256> out{};
  out.fill(-1);
  for (std::size_t i = 0; i < kBase64.size(); ++i)
    out[static_cast<unsigned char>(kBase64[i])] = static_cast<signed char>(i);
  return out;
}();

char* copy_to(char* out, std::string_view text) {
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

template <class T>
char* write_float(char* out, T number) {
  if (!std::isfinite(number)) return copy_to(out, std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity");
  char* const end = std::to_chars(out, out + kMostNumberText, number).ptr;
  // "3.0": readers of other languages take 3 for an integer.
  for (const char* c = out; c != end; ++c)
    if (*c == '.' || *c == 'e') return end;
  return copy_to(end, ".0");
}

template <class T>
char* write_number(char* out, T number) {
  if constexpr (std::is_same_v<T, bool>)
    return copy_to(out, number ? "true" : "false");
  else if constexpr (std::is_floating_point_v<T>)
    return write_float(out, number);
  else if constexpr (std::is_integral_v<T>)
    return std::to_chars(out, out + kMostNumberText, number).ptr;
  else
    return write_float(out, static_cast<float>(number));
}

template <class T>
void append_elements(std::string& out, const T* elements, std::int64_t count, JsonStrings) {
  const std::size_t begin = out.size();
  out.resize(begin + static_cast<std::size_t>(count) * kMostNumberText);
  char* end = out.data() + begin;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) *end++ = ',';
    end = write_number(end, elements[i]);
  }
  out.resize(static_cast<std::size_t>(end - out.data()));
}

void append_string(std::string& out, const std::string& text, JsonStrings strings) {
  const bool utf8 = strings != JsonStrings::always_base64 && simdjson::validate_utf8(text);
  if (utf8) return append_json_string(out, text);
  if (strings == JsonStrings::text) invalid_argument("a string is not UTF-8, which JSON must be: ask for binary data");
  out += "{\"b64\":\"";
  append_base64(out, text);
  out += "\"}";
}

template <>
void append_elements(std::string& out, const std::string* elements, std::int64_t count, JsonStrings strings) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    append_string(out, elements[i], strings);
  }
}

template <class T>
void append_lists(std::string& out, const T*& elements, std::span<const std::int64_t> dims, JsonStrings strings) {
  if (dims.empty()) return append_elements(out, elements++, 1, strings);
  out += '[';
  if (dims.size() == 1) {
    append_elements(out, elements, dims[0], strings);
    elements += dims[0];
  } else {
    for (std::int64_t i = 0; i < dims[0]; ++i) {
      if (i > 0) out += ',';
      append_lists(out, elements, dims.subspan(1), strings);
    }
  }
  out += ']';
}

// Elements from `first` on, in lists of these sizes.
void append_from(std::string& out, const Tensor& tensor, std::int64_t first, std::span<const std::int64_t> dims,
                 JsonStrings strings) {
  with_json_element(tensor.dtype(), "an output", [&]<class T>(T) {
    const T* elements = tensor.data<T>() + first;
    append_lists(out, elements, dims, strings);
  });
}

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  std::size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++padding;
  }
  if (text.size() % 4 == 1 || (padding > 0 && (text.size() + padding) % 4 != 0)) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  unsigned bits = 0;
  int have = 0;
  for (const char c : text) {
    const int value = kBase64Values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<unsigned>(value);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out += static_cast<char>(bits >> have & 0xff);
  }
  return out;
}

void append_base64(std::string& out, std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned bits = 0;
    const std::size_t count = std::min<std::size_t>(bytes.size() - i, 3);
    for (std::size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j) out += j <= count ? kBase64[bits >> (18 - 6 * j) & 63] : '=';
  }
}

void append_json_string(std::string& out, std::string_view text) {
  if (!simdjson::validate_utf8(text.data(), text.size())) {
    // Each byte that is not ASCII, for the character that it is not.
    std::string replaced;
    for (const char c : text)
      replaced += static_cast<signed char>(c) < 0 ? std::string("\xef\xbf\xbd") : std::string(1, c);
    return append_json_string(out, replaced);
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_json_tensor(std::string& out, const Tensor& tensor, JsonStrings strings) {
  append_from(out, tensor, 0, tensor.shape().dims(), strings);
}

void append_json_row(std::string& out, const Tensor& tensor, std::int64_t row, JsonStrings strings) {
  const std::span<const std::int64_t> dims = tensor.shape().dims().subspan(1);
  std::int64_t elements = 1;
  for (const std::int64_t dim : dims) elements *= dim;
  append_from(out, tensor, row * elements, dims, strings);
}

}  // namespace troupe
