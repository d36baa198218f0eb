#include "troupe/devices/storage/remote/remote_file.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t kMostErrorText = 64 << 10;  // of a server's explanation
constexpr std::size_t kGrowth = 4;                // of requests of a reader that goes on

// "bytes 0-99/1234" (RFC 9110, 14.4).
struct ContentRange {
  std::uint64_t first = 0, last = 0, size = 0;
};

bool take_number(std::string_view& text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take_text(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  ContentRange out;
  const bool whole = take_text(text, "bytes ") && take_number(text, out.first) && take_text(text, "-") &&
                     take_number(text, out.last) && take_text(text, "/") && take_number(text, out.size) && text.empty();
  if (!whole || out.first > out.last || out.last >= out.size) return std::nullopt;
  return out;
}

// Servers that refuse HEAD alone: those of signatures for GET answer 403, others 405 or 501, some 400.
bool may_allow_get(int status) { return status == 400 || status == 403 || status == 405 || status == 501; }

}  // namespace

RemoteFile::RemoteFile(RemoteClient& client, RemoteRequest file) : client_(client), file_(std::move(file)) {
  RemoteRequest request = file_;
  request.head = true;
  const RemoteAnswer answer = client_.send(request);
  if (answer.status != 200 && !may_allow_get(answer.status)) client_.refuse(request, answer);
  const std::optional<std::uint64_t> length = answer.status == 200 ? answer.content_length() : std::nullopt;
  if (length.value_or(0) == 0) {  // servers that make files on demand may say 0 here
    find_size_by_range();
  } else {
    size_ = *length;
    remember_version(answer);
  }
}

// Asks for the first bytes: the answer tells how many there are.
void RemoteFile::find_size_by_range() {
  std::vector<std::byte> first(client_.options().first_request);
  RemoteRequest request = range_request(0, first);
  request.most_text = client_.options().most_without_ranges;
  RemoteAnswer answer = client_.send(request);
  remember_version(answer);
  if (answer.status == 200) return keep_whole(answer);
  const std::string_view range_text = answer.header("content-range");
  if (answer.status == 416 && (range_text == "bytes */0" || range_text.empty())) return;  // an empty file
  if (answer.status != 206) client_.refuse(request, answer);
  const std::optional<ContentRange> range = parse_content_range(range_text);
  if (!range)
    fail(Code::unavailable,
         "cannot read '{}': the server tells no size: Content-Range is '{}', expected bytes A-B/SIZE", file_.shown,
         range_text);
  size_ = range->size;
  first.resize(accept_part(answer, 0, first.size()));
  ahead_ = std::move(first);
}

void RemoteFile::remember_version(const RemoteAnswer& answer) {
  etag_ = answer.header("etag");
  last_modified_ = answer.header("last-modified");
}

void RemoteFile::check_version(const RemoteAnswer& answer) const {
  const auto check = [&](std::string_view what, std::string_view before, std::string_view now) {
    if (!before.empty() && !now.empty() && before != now)
      fail(Code::data_loss, "'{}' has changed since it was opened: its {} was {}, now it is {}; open it again",
           file_.shown, what, before, now);
  };
  check("ETag", etag_, answer.header("etag"));
  // Servers of one file may have it from different times, but not with one ETag.
  if (etag_.empty() || answer.header("etag").empty())
    check("Last-Modified", last_modified_, answer.header("last-modified"));
}

// Weak tags do not name one version.
bool RemoteFile::has_strong_tag() const { return !etag_.empty() && !etag_.starts_with("W/"); }

RemoteRequest RemoteFile::range_request(std::uint64_t offset, std::span<std::byte> out) const {
  RemoteRequest request = file_;
  request.headers.push_back(fmt::format("Range: bytes={}-{}", offset, offset + out.size() - 1));
  // A server whose file is another answers 412, or, if it does not know If-Match, sends all of that, with status 200,
  // instead of a range of it.
  if (has_strong_tag())
    request.headers.insert(request.headers.end(), {"If-Match: " + etag_, "If-Range: " + etag_});
  else if (!last_modified_.empty())
    request.headers.push_back("If-Range: " + last_modified_);
  request.out = out;
  request.most_text = kMostErrorText;
  return request;
}

void RemoteFile::refuse_whole(std::string_view bytes) const {
  fail(Code::unimplemented,
       "cannot read '{}': the server ignores Range, and the file has {} bytes, more than the {} that are read as a "
       "whole: serve it by a server that gives ranges, or copy it to this machine",
       file_.shown, bytes, client_.options().most_without_ranges);
}

void RemoteFile::keep_whole(const RemoteAnswer& answer) {
  if (answer.too_long) refuse_whole(answer.header("content-length").empty() ? "?" : answer.header("content-length"));
  const auto bytes = std::as_bytes(std::span(answer.text));
  ahead_.assign(bytes.begin(), bytes.end());
  ahead_at_ = 0;
  size_ = ahead_.size();
}

// Returns how many bytes of the answer are the wanted ones.
std::size_t RemoteFile::accept_part(const RemoteAnswer& answer, std::uint64_t offset, std::size_t wanted) const {
  const std::string_view text = answer.header("content-range");
  const std::optional<ContentRange> range = parse_content_range(text);
  if (range && range->size != size_)
    fail(Code::data_loss, "'{}' has changed since it was opened: it had {} bytes, now it has {}; open it again",
         file_.shown, size_, range->size);
  if (!range || range->first != offset || range->last - offset >= wanted || answer.too_long ||
      answer.received > range->last - offset + 1)
    fail(Code::data_loss,
         "cannot read '{}': asked for bytes {}-{}, the server gives '{}'{}: a proxy or the server is wrong",
         file_.shown, offset, offset + wanted - 1, text, answer.too_long ? " and more bytes than that" : "");
  return answer.received;
}

// Fills `out`, in as many requests as it takes.
void RemoteFile::fetch(std::uint64_t offset, std::span<std::byte> out) {
  RemoteRetries retries(client_.options());
  while (!out.empty()) {
    RemoteRequest request = range_request(offset, out);
    if (size_ <= client_.options().most_without_ranges) request.most_text = static_cast<std::size_t>(size_);
    request.most_text = std::max(request.most_text, kMostErrorText);
    const RemoteAnswer answer = client_.send_once(request);
    if (answer.status == 200 || answer.status == 206) check_version(answer);
    if (answer.status == 412 && has_strong_tag())
      fail(Code::data_loss, "'{}' has changed since it was opened: its ETag is not {} any more; open it again",
           file_.shown, etag_);
    if (answer.status == 416)
      fail(Code::data_loss, "'{}' has changed since it was opened: it has no byte {} now; open it again", file_.shown,
           offset);
    if (answer.status == 206) {
      const std::size_t n = accept_part(answer, offset, out.size());
      out = out.subspan(n);
      offset += n;
      if (out.empty()) return;
      if (n > 0 && answer.broken == RemoteAnswer::Broken::no) continue;  // servers may give fewer bytes than asked for
    }
    if (RemoteRetries::passing(answer) && retries.again(answer)) continue;
    if (answer.status != 200 || answer.broken != RemoteAnswer::Broken::no)
      client_.refuse(request, answer, retries.attempts());
    if (size_ > client_.options().most_without_ranges) refuse_whole(std::to_string(size_));
    if (answer.text.size() != size_)
      fail(Code::data_loss, "'{}' has changed since it was opened: it had {} bytes, now it has {}{}; open it again",
           file_.shown, size_, answer.too_long ? "more than " : "", answer.text.size());
    const auto bytes = std::as_bytes(std::span(answer.text)).subspan(static_cast<std::size_t>(offset), out.size());
    std::memcpy(out.data(), bytes.data(), bytes.size());
    keep_whole(answer);
    return;
  }
}

void RemoteFile::read(std::uint64_t offset, std::span<std::byte> out) {
  if (offset > size_ || out.size() > size_ - offset)
    fail(Code::data_loss, "'{}' ends before byte {}", file_.shown, offset + out.size());
  const HttpOptions& options = client_.options();
  bool goes_on = offset == next_;
  next_ = offset + out.size();
  while (!out.empty()) {
    if (offset >= ahead_at_ && offset - ahead_at_ < ahead_.size()) {
      const auto known = std::span(ahead_).subspan(static_cast<std::size_t>(offset - ahead_at_));
      const std::size_t n = std::min(known.size(), out.size());
      std::memcpy(out.data(), known.data(), n);
      out = out.subspan(n);
      offset += n;
      continue;
    }
    request_ = goes_on && request_ > 0 ? std::min(kGrowth * request_, options.most_read_ahead) : options.first_request;
    goes_on = true;
    if (out.size() >= request_) {
      const auto part = out.first(std::min(out.size(), options.most_request));
      fetch(offset, part);
      out = out.subspan(part.size());
      offset += part.size();
      continue;
    }
    std::vector<std::byte> part = std::exchange(ahead_, {});
    part.resize(static_cast<std::size_t>(std::min<std::uint64_t>(request_, size_ - offset)));
    fetch(offset, part);
    if (!ahead_.empty()) continue;  // it got the whole file
    ahead_ = std::move(part);
    ahead_at_ = offset;
  }
}

}  // namespace troupe
