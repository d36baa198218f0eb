// Patterns of names, like "*/kernel" and "dense_?/*".
#pragma once

#include <string_view>

namespace troupe {

// Whether the whole name matches: * stands for any characters, ? for one.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace troupe
