// The screen as lines of styled text: drawn by a terminal or printed as plain text. Styles carry no information that
// the words do not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::top {

enum class Style : std::uint8_t { plain, dim, strong, heading, good, warn, bad, selected };

struct Span {
  std::string text;  // clean
  Style style = Style::plain;
};

using Line = std::vector<Span>;
using Lines = std::vector<Line>;

// In columns and lines.
struct Size {
  std::size_t width = 80;
  std::size_t height = 24;
};

// A line of `spans`, cut if wider than `columns` (0: never).
Line cut(const Line& line, std::size_t columns);
// Without trailing blanks; every line ends with '\n'.
std::string plain_text(const Lines& lines);

}  // namespace troupe::top
