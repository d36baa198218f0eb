#include "tools/top/page.hpp"

#include "tools/top/text.hpp"

namespace troupe::top {

Line cut(const Line& line, std::size_t columns) {
  if (columns == 0) return line;
  Line out;
  for (const Span& span : line) {
    const std::size_t whole = width(span.text);
    if (whole >= columns) {
      out.push_back({fit(span.text, columns), span.style});
      break;
    }
    out.push_back(span);
    columns -= whole;
  }
  return out;
}

std::string plain_text(const Lines& lines) {
  std::string out;
  for (const Line& line : lines) {
    for (const Span& span : line) out += span.text;
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  }
  return out;
}

}  // namespace troupe::top
