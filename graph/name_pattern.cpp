#include "troupe/graph/name_pattern.hpp"

namespace troupe {

// `*` takes as few characters as it can; what follows the last one is tried again further on.
bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace troupe
