#include "troupe/devices/storage/remote/url.hpp"

#include <algorithm>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::string_view kSchemeEnd = "://";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

}  // namespace

std::string_view scheme_of(std::string_view path) {
  const std::size_t end = path.find(kSchemeEnd);
  if (end == path.npos || end == 0) return {};
  const std::string_view scheme = path.substr(0, end);
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return std::ranges::all_of(scheme, fits) ? scheme : std::string_view();
}

bool is_http(std::string_view path) { return scheme_of(path) == "http" || scheme_of(path) == "https"; }

std::size_t root_bytes(std::string_view path) {
  const std::string_view scheme = scheme_of(path);
  if (scheme.empty()) return path.starts_with('/') ? 1 : 0;
  const std::size_t slash = path.find('/', scheme.size() + kSchemeEnd.size());
  return slash == path.npos ? path.size() : slash + 1;
}

std::string shown_path(std::string_view path) {
  const std::string_view scheme = scheme_of(path);
  if (!is_http(path)) return std::string(path);
  std::string_view rest = path.substr(scheme.size() + kSchemeEnd.size());
  rest = rest.substr(0, rest.find_first_of("?#"));
  const std::string_view authority = rest.substr(0, rest.find('/'));
  if (const std::size_t at = authority.rfind('@'); at != authority.npos) rest.remove_prefix(at + 1);
  return std::string(scheme).append(kSchemeEnd).append(rest);
}

std::string without_secrets(std::string text, std::string_view path) {
  if (!is_http(path)) return text;
  const std::size_t begin = scheme_of(path).size() + kSchemeEnd.size();
  const std::string_view authority = path.substr(begin, path.find_first_of("/?#", begin) - begin);
  const std::size_t at = authority.rfind('@');
  if (at == authority.npos) return text;
  const std::string_view secret = authority.substr(0, at + 1);
  for (std::size_t found = text.find(secret); found != text.npos; found = text.find(secret, found))
    text.erase(found, secret.size());
  return text;
}

std::string with_suffix(std::string_view path, std::string_view suffix) {
  const std::size_t end = is_http(path) ? path.find_first_of("?#") : path.npos;
  std::string out(path.substr(0, end));
  out += suffix;
  return end == path.npos ? out : out.append(path.substr(end));
}

std::string percent_encode(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF", kUnreserved = "-._~";
  std::string out;
  for (const char c : text) {
    if (is_letter_or_digit(c) || kUnreserved.find(c) != kUnreserved.npos || (c == '/' && keep_slashes)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

std::string percent_decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low < 0) fail(Code::data_loss, "byte {} is '%' without two hexadecimal digits behind it", i);
    out += static_cast<char>(16 * high + low);
    i += 2;
  }
  return out;
}

}  // namespace troupe
