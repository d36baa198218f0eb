#include "troupe/messages/packed_strings.hpp"

#include <cstring>

#include <troupe/messages/body_codec.hpp>

namespace troupe {

Tensor pack_strings(const Tensor& strings) {
  std::size_t bytes = 0;
  for (const std::string& text : strings.values<std::string>()) bytes += 4 + text.size();
  Tensor packed(DType::u8, Shape{static_cast<std::int64_t>(bytes)});
  std::byte* out = packed.mutable_raw();
  std::string length;
  for (const std::string& text : strings.values<std::string>()) {
    if (text.size() > 0xffffffffu)
      fail(Code::resource_exhausted, "a string of {} bytes is too long to be sent or stored", text.size());
    length.clear();
    append_little_endian(length, static_cast<std::uint32_t>(text.size()));
    std::memcpy(out, length.data(), 4);
    if (!text.empty()) std::memcpy(out + 4, text.data(), text.size());
    out += 4 + text.size();
  }
  return packed;
}

Tensor unpack_strings(const Shape& shape, const Tensor& packed) {
  const auto* chars = reinterpret_cast<const char*>(packed.raw());
  std::string_view rest(chars, packed.num_bytes());
  if (static_cast<std::uint64_t>(shape.num_elements()) > rest.size() / 4)
    fail(Code::data_loss, "{} bytes are too few for a string tensor of shape {}", rest.size(), shape.to_string());
  Tensor strings(DType::string, shape);
  for (std::string& text : strings.mutable_values<std::string>()) {
    if (rest.size() < 4) fail(Code::data_loss, "a string tensor ends in the middle of a length");
    const auto size = read_little_endian<std::uint32_t>(rest.data());
    rest.remove_prefix(4);
    if (size > rest.size()) fail(Code::data_loss, "a string tensor ends in the middle of a string");
    text.assign(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  if (!rest.empty()) fail(Code::data_loss, "{} extra bytes after a string tensor", rest.size());
  return strings;
}

}  // namespace troupe
