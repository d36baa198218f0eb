#include "troupe/kernels/readers/line_stream.hpp"

#include <algorithm>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// Finds the end of a line in bytes that begin with it, and that grow from call to call. Looks at each byte once or
// twice, by memchr.
class LineEnd {
 public:
  LineEnd(char quote, char separator) : quote_(quote), separator_(separator) {}

  // Where the newline is; npos: not in these bytes.
  std::size_t find(std::string_view bytes) {
    if (quote_ == '\0') {
      const std::size_t newline = bytes.find('\n', at_);
      at_ = bytes.size();
      return newline;
    }
    std::size_t newline = 0;  // the next one from at_ on, if it is not before
    while (at_ < bytes.size()) {
      if (within_quotes_) {
        closed_ = bytes.find(quote_, at_);
        within_quotes_ = closed_ == bytes.npos;
        at_ = within_quotes_ ? bytes.size() : closed_ + 1;
        continue;
      }
      if (newline <= at_) newline = bytes.find('\n', at_);
      const std::size_t end = std::min(newline, bytes.size());
      const std::size_t quote = bytes.substr(0, end).find(quote_, at_);
      if (quote == bytes.npos) {
        at_ = end;
        return newline;
      }
      within_quotes_ = quote == 0 || bytes[quote - 1] == separator_ || quote - 1 == closed_;
      at_ = quote + 1;
    }
    return bytes.npos;
  }
  bool within_quotes() const { return within_quotes_; }

 private:
  char quote_, separator_;
  std::size_t at_ = 0;                           // the next byte to look at
  std::size_t closed_ = std::string_view::npos;  // the quote that closed the last ones
  bool within_quotes_ = false;
};

}  // namespace

LineStream::LineStream(FileSystem& files, std::string path, LineOptions options)
    : options_(std::move(options)), bytes_(files, std::move(path)) {
  begin();
}

void LineStream::begin() {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (bytes_.peek(kByteOrderMark.size()).starts_with(kByteOrderMark)) bytes_.skip(kByteOrderMark.size());
  std::string_view header;
  for (std::uint64_t i = 0; i < options_.header_lines && read_line(header); ++i) {
  }
}

bool LineStream::next(std::string_view& record) {
  while (read_line(record))
    if (!options_.skip_empty || !record.empty()) return true;
  return false;
}

bool LineStream::read_line(std::string_view& line) {
  bytes_.skip(std::exchange(pending_, 0));
  LineEnd end(options_.quoted, options_.separator);
  for (std::size_t seen = 0;;) {
    const std::string_view bytes = bytes_.peek(seen + 1);
    if (bytes.empty()) return false;
    const bool at_end = bytes.size() == seen;
    const std::size_t newline = at_end ? bytes.npos : end.find(bytes);
    seen = bytes.size();
    const bool whole = newline != bytes.npos || at_end;
    // Do not count the last byte: it may be a carriage return.
    if (!whole && (seen < 2 || fits(seen - 1))) continue;
    line = bytes.substr(0, newline);
    if (newline != bytes.npos && line.ends_with('\r')) line.remove_suffix(1);
    if (whole && fits(line.size()) && !end.within_quotes()) {
      pending_ = newline == bytes.npos ? seen : newline + 1;
      return true;
    }
    const std::string what = fits(line.size())
                                 ? "the line has quotes that do not close"
                                 : fmt::format("the line has more than {} bytes{}", options_.records.most_bytes,
                                               end.within_quotes() ? ": do its quotes close?" : "");
    left_out({Code::data_loss, fmt::format("{}: byte {}: {}", bytes_.path(), bytes_.offset(), what)});
    pass_over_damage(fits(line.size()));
    seen = 0;
    end = LineEnd(options_.quoted, options_.separator);
  }
}

void LineStream::left_out(const Error& damage) {
  if (!options_.records.skip_damaged) throw damage;
  ++skipped_;
  if (options_.records.on_damage) options_.records.on_damage(damage);
}

// To behind the first line end that most_bytes cannot reach, or to the end of the file.
void LineStream::pass_over_damage(bool to_end) {
  std::uint64_t left = options_.records.most_bytes;
  for (std::string_view bytes; !(bytes = bytes_.peek(1)).empty();) {
    if (to_end || left >= bytes.size()) {
      left -= std::min<std::uint64_t>(left, bytes.size());
      bytes_.skip(bytes.size());
      continue;
    }
    const std::size_t newline = bytes.find('\n', static_cast<std::size_t>(std::exchange(left, 0)));
    bytes_.skip(newline == bytes.npos ? bytes.size() : newline + 1);
    if (newline != bytes.npos) return;
  }
}

void LineStream::seek(std::uint64_t position) {
  pending_ = 0;
  bytes_.seek(position);
  if (position == 0) begin();
}

}  // namespace troupe
