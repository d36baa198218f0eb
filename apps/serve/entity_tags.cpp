#include "apps/serve/entity_tags.hpp"

#include <algorithm>
#include <cstddef>

namespace troupe {
namespace {

constexpr std::string_view kWeakTag = "W/";

// Takes the next element of a list from its beginning; "": there is none, or no tag. A tag's own commas do not end it.
std::string_view take_tag(std::string_view& list) {
  const std::size_t begin = std::min(list.find_first_not_of(" \t,"), list.size());
  list.remove_prefix(begin);
  std::size_t end = list.starts_with(kWeakTag) ? kWeakTag.size() : 0;
  if (end < list.size() && list[end] == '"')
    end = std::min(list.find('"', end + 1), list.size() - 1) + 1;
  else
    end = std::min(list.find_first_of(" \t,"), list.size());
  const std::string_view out = list.substr(0, end);
  list.remove_prefix(end);
  return out;
}

bool has_tag(std::string_view list, std::string_view tag, bool weak) {
  while (true) {
    std::string_view next = take_tag(list);
    if (next.empty()) return false;
    if (next == "*") return true;
    if (weak && next.starts_with(kWeakTag)) next.remove_prefix(kWeakTag.size());
    if (!tag.empty() && next == tag) return true;
  }
}

}  // namespace

bool has_entity_tag(std::string_view list, std::string_view tag) { return has_tag(list, tag, false); }
bool has_weak_entity_tag(std::string_view list, std::string_view tag) { return has_tag(list, tag, true); }

}  // namespace troupe
