// What the headers of an answer say.
#include <charconv>

#include <troupe/devices/storage/remote/http_transport.hpp>

namespace troupe {

std::string_view RemoteAnswer::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::optional<std::uint64_t> RemoteAnswer::content_length() const {
  const std::string_view text = header("content-length");
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

}  // namespace troupe
