#include "tools/top/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace troupe::top {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

struct Range {
  char32_t first, last;
};

// Characters two columns wide: Hangul, kana, CJK, full-width forms, emoji.
constexpr std::array kWide = {Range{0x1100, 0x115F},   Range{0x2E80, 0x303E},   Range{0x3041, 0xA4CF},
                              Range{0xA960, 0xA97F},   Range{0xAC00, 0xD7A3},   Range{0xF900, 0xFAFF},
                              Range{0xFE30, 0xFE6F},   Range{0xFF01, 0xFF60},   Range{0xFFE0, 0xFFE6},
                              Range{0x1F300, 0x1F64F}, Range{0x1F680, 0x1F6FF}, Range{0x1F900, 0x1F9FF},
                              Range{0x20000, 0x2FFFD}, Range{0x30000, 0x3FFFD}};

// Characters without a glyph in their own place: controls, combining marks, joiners, direction marks, variation
// selectors, private use.
constexpr std::array kRefused = {
    Range{0x0, 0x1F},        Range{0x7F, 0x9F},       Range{0xAD, 0xAD},       Range{0x300, 0x36F},
    Range{0x483, 0x489},     Range{0x591, 0x5C7},     Range{0x600, 0x61C},     Range{0x64B, 0x65F},
    Range{0x670, 0x670},     Range{0x6D6, 0x6ED},     Range{0x70F, 0x74A},     Range{0x7A6, 0x7B0},
    Range{0x7EB, 0x8FF},     Range{0x900, 0x902},     Range{0x93A, 0x957},     Range{0xE31, 0xE31},
    Range{0xE34, 0xE3A},     Range{0xE47, 0xE4E},     Range{0x1160, 0x11FF},   Range{0x180B, 0x180F},
    Range{0x1AB0, 0x1AFF},   Range{0x1DC0, 0x1DFF},   Range{0x200B, 0x200F},   Range{0x2028, 0x202E},
    Range{0x2060, 0x206F},   Range{0x20D0, 0x20FF},   Range{0x302A, 0x302F},   Range{0x3099, 0x309A},
    Range{0xD800, 0xF8FF},   Range{0xFE00, 0xFE2F},   Range{0xFEFF, 0xFEFF},   Range{0xFFF0, 0xFFFC},
    Range{0x1D165, 0x1D1AD}, Range{0x1F3FB, 0x1F3FF}, Range{0xE0000, 0x10FFFF}};

template <std::size_t N>
bool in(const std::array<Range, N>& ranges, char32_t c) {
  return std::ranges::any_of(ranges, [c](const Range& r) { return c >= r.first && c <= r.last; });
}

struct Character {
  char32_t code = 0;
  std::size_t bytes = 1;
  bool good = false;
};

// The first character of a non-empty text.
Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t length = lead >= 0xF0 && lead < 0xF5   ? 4
                             : lead >= 0xE0 && lead < 0xF0 ? 3
                             : lead >= 0xC2 && lead < 0xE0 ? 2
                                                           : 0;
  if (length == 0 || text.size() < length) return {};
  char32_t code = lead & (0xFF >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  return {code, length, code >= kLeast[length] && code <= 0x10FFFF && !(code >= 0xD800 && code <= 0xDFFF)};
}

std::size_t width_of(char32_t code) { return in(kWide, code) ? 2 : 1; }

// f(character, its bytes)
template <class F>
void each(std::string_view text, F&& f) {
  while (!text.empty()) {
    const Character c = first_of(text);
    const std::size_t bytes = c.good ? c.bytes : 1;
    f(c, text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Leading digits, without leading zeros.
std::string_view take_number(std::string_view& text) {
  std::size_t zeros = 0;
  while (zeros + 1 < text.size() && text[zeros] == '0' && is_digit(text[zeros + 1])) ++zeros;
  std::size_t end = zeros;
  while (end < text.size() && is_digit(text[end])) ++end;
  const std::string_view number = text.substr(zeros, end - zeros);
  text.remove_prefix(end);
  return number;
}

std::string scaled(double value) {
  constexpr std::array kUnits = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f}{}", value, kUnits[unit]);
}

}  // namespace

std::string clean(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  each(bytes, [&](const Character& c, std::string_view self) {
    out += c.good && !in(kRefused, c.code) ? self : kReplacement;
  });
  return out;
}

std::size_t width(std::string_view text) {
  std::size_t columns = 0;
  each(text, [&](const Character& c, std::string_view) { columns += width_of(c.code); });
  return columns;
}

std::string fit(std::string_view text, std::size_t columns, Align align) {
  const std::size_t whole = width(text);
  if (whole <= columns) {
    const std::string blanks(columns - whole, ' ');
    return align == Align::right ? blanks + std::string(text) : std::string(text) + blanks;
  }
  if (columns == 0) return "";
  std::string out;
  std::size_t used = 0;
  bool full = false;
  each(text, [&](const Character& c, std::string_view self) {
    full = full || used + width_of(c.code) > columns - 1;
    if (full) return;
    out += self;
    used += width_of(c.code);
  });
  return out + "…" + std::string(columns - 1 - used, ' ');
}

std::vector<std::string> wrap(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines;
  const auto add = [&](std::string line) {
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size()) + 2;
    while (columns != 0 && width(line) > columns) {
      std::size_t used = 0, end = 0, blank = 0;  // bytes that fit; position of the last blank among them
      bool full = false;
      each(line, [&](const Character& c, std::string_view self) {
        full = full || used + width_of(c.code) > columns;
        if (full) return;
        if (c.code == ' ' && end >= indent) blank = end;
        used += width_of(c.code);
        end += self.size();
      });
      if (line[end] == ' ') blank = end;
      const std::size_t cut = blank != 0 ? blank : std::max<std::size_t>(end, 1);
      lines.push_back(line.substr(0, cut));
      const std::size_t next = line.find_first_not_of(' ', cut);
      if (next == std::string::npos) return;
      line.replace(0, next, indent + 4 <= columns ? indent : 0, ' ');
    }
    lines.push_back(std::move(line));
  };
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    add(clean(text.substr(0, end)));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return lines;
}

std::string ascii(std::string_view text) {
  constexpr std::string_view kLevels = "_.-:=+*#";  // ▁ to █
  std::string out;
  each(text, [&](const Character& c, std::string_view) {
    if (c.good && c.code < 0x80)
      out += static_cast<char>(c.code);
    else if (c.code >= 0x2581 && c.code <= 0x2588)
      out += kLevels[c.code - 0x2581];
    else if (c.code >= 0x2589 && c.code <= 0x258F)
      out += c.code <= 0x258C ? '#' : ' ';
    else if (c.code == U'…')
      out += '~';
    else if (c.code == U'µ')
      out += 'u';
    else if (c.code == U'×')
      out += 'x';
    else if (c.code == U'▲')
      out += '^';
    else if (c.code == U'▼')
      out += 'v';
    else if (c.code == U'◀')
      out += '<';
    else if (c.code == U'▶')
      out += '>';
    else
      out.append(width_of(c.code), '?');
  });
  return out;
}

std::string shorten(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t at = text.find("/job:");
    out += text.substr(0, at);
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + 5);
    const std::size_t slash = text.find('/');
    if (slash == 0 || slash == std::string_view::npos || !text.substr(slash).starts_with("/task:") ||
        slash + 6 >= text.size() || !is_digit(text[slash + 6])) {
      out += "/job:";
      continue;
    }
    out += text.substr(0, slash + 1);
    text.remove_prefix(slash + 6);
    while (!text.empty() && is_digit(text.front())) {
      out += text.front();
      text.remove_prefix(1);
    }
    if (text.starts_with("/device:")) {
      out += '/';
      text.remove_prefix(8);
    }
  }
  return out;
}

bool natural_less(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view x = take_number(a), y = take_number(b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.size() < b.size();
}

bool has_words(std::string_view text, std::string_view words) {
  const auto same = [](char a, char b) { return lower(a) == lower(b); };
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    const std::string_view word = words.substr(0, end);
    if (std::search(text.begin(), text.end(), word.begin(), word.end(), same) == text.end() && !word.empty())
      return false;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return true;
}

std::string exact_text(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string count_text(std::uint64_t count) {
  return count < 10'000 ? exact_text(count) : scaled(static_cast<double>(count));
}

std::string rate_text(std::optional<double> per_second) {
  if (!per_second) return "-";
  if (*per_second < 9.95) return fmt::format("{:.1f}", *per_second);
  if (*per_second < 9999.5) return exact_text(static_cast<std::uint64_t>(std::llround(*per_second)));
  return scaled(*per_second);
}

std::string byte_rate_text(std::optional<double> per_second) {
  return per_second ? bytes_text(static_cast<std::uint64_t>(std::llround(*per_second))) : "-";
}

std::string share_text(std::optional<double> share) { return share ? fmt::format("{:.0f}%", *share * 100) : "-"; }

std::string loss_text(double loss) {
  return std::abs(loss) < 1e-3 && loss != 0 ? fmt::format("{:.1e}", loss) : fmt::format("{:.4f}", loss);
}

std::string duration_text(std::int64_t ns) {
  const double s = static_cast<double>(std::max<std::int64_t>(ns, 0)) / 1e9;
  if (s < 999.5e-9) return fmt::format("{:.0f} ns", s * 1e9);
  if (s < 999.5e-6) return fmt::format("{:.{}f} µs", s * 1e6, s < 9.95e-6 ? 1 : 0);
  if (s < 999.5e-3) return fmt::format("{:.{}f} ms", s * 1e3, s < 9.95e-3 ? 1 : 0);
  if (s < 99.95) return fmt::format("{:.1f} s", s);
  const auto whole = static_cast<std::int64_t>(s);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 48 * 3600) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {} h", whole / 86400, whole % 86400 / 3600);
}

std::string spark_line(const std::vector<double>& values, std::size_t columns) {
  constexpr std::array kLevels = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::size_t first = values.size() > columns ? values.size() - columns : 0;
  double greatest = 0;
  for (std::size_t i = first; i < values.size(); ++i) greatest = std::max(greatest, values[i]);
  std::string out;
  for (std::size_t i = first; i < values.size(); ++i)
    out += kLevels[greatest > 0 ? static_cast<std::size_t>(
                                      std::lround(std::clamp(values[i] / greatest, 0.0, 1.0) * (kLevels.size() - 1)))
                                : 0];
  return out;
}

std::string bar(double share, std::size_t columns) {
  constexpr std::array kParts = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths =
      static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(columns * 8)));
  std::string out;
  for (std::size_t i = 0; i < eighths / 8; ++i) out += "█";
  return out + kParts[eighths % 8];
}

}  // namespace troupe::top
