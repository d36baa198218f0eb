#include "tools/bench/http_response.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include <troupe/messages/error.hpp>

namespace troupe::bench {
namespace {

constexpr std::string_view kEnd = "\r\n\r\n", kLineEnd = "\r\n";

std::optional<std::size_t> whole_number(std::string_view text) {
  std::size_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return (x >= 'A' && x <= 'Z' ? x + ('a' - 'A') : x) == y; });
}

int status_of(std::string_view line) {
  constexpr std::string_view kVersion = "HTTP/1.1 ";
  const auto status = line.starts_with(kVersion) ? whole_number(line.substr(kVersion.size(), 3)) : std::nullopt;
  if (!status || *status < 100 || (line.size() > kVersion.size() + 3 && line[kVersion.size() + 3] != ' '))
    fail(Code::data_loss, "'{}' is no status line of HTTP/1.1", line.substr(0, 80));
  return static_cast<int>(*status);
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

}  // namespace

bool HttpResponse::take(std::string_view bytes) {
  const std::size_t before = bytes_.size();
  bytes_ += bytes;
  if (head_ == 0) {
    const std::size_t end = bytes_.find(kEnd, before < kEnd.size() ? 0 : before - kEnd.size());
    if (std::min(end, bytes_.size()) > kMostHead)
      fail(Code::data_loss, "the head of a response has over {} bytes", kMostHead);
    if (end == std::string::npos) return false;
    head_ = end + kEnd.size();
    read_head();
  }
  if (bytes_.size() > head_ + length_)
    fail(Code::data_loss, "{} bytes follow a body of {} bytes", bytes_.size() - head_ - length_, length_);
  return bytes_.size() == head_ + length_;
}

void HttpResponse::read_head() {
  std::string_view rest = std::string_view(bytes_).substr(0, head_ - kLineEnd.size());
  std::optional<std::size_t> length;
  for (bool first = true; !rest.empty(); first = false) {
    const std::size_t end = rest.find(kLineEnd);
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + kLineEnd.size());
    if (first) {
      status_ = status_of(line);
      continue;
    }
    const std::size_t colon = line.find(':');
    if (colon == line.npos || !same_name(line.substr(0, colon), "content-length")) continue;
    const auto given = whole_number(without_blanks(line.substr(colon + 1)));
    if (!given || *given > kMostBody || (length && *length != *given))
      fail(Code::data_loss, "'{}': a number up to {} is expected, once", line.substr(0, 80), kMostBody);
    length = given;
  }
  if (!length) fail(Code::data_loss, "a response of status {} has no Content-Length", status_);
  length_ = *length;
}

void HttpResponse::clear() {
  bytes_.clear();
  head_ = length_ = 0;
  status_ = 0;
}

}  // namespace troupe::bench
