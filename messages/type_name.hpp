// The name of a type as spelled in its declaration, without namespaces, at compile time: type_name<Put>() is "Put". Not
// for templates.
#pragma once

#include <string_view>

namespace troupe {

template <class T>
constexpr std::string_view type_name() {
  std::string_view text = __PRETTY_FUNCTION__;  // "... [with T = troupe::Put; ...]", or "... [T = troupe::Put]"
  text.remove_prefix(text.find("T = ") + 4);
  text = text.substr(0, text.find_first_of(";]"));
  const std::size_t scope = text.rfind("::");
  return scope == std::string_view::npos ? text : text.substr(scope + 2);
}

}  // namespace troupe
