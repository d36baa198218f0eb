// fields(): the members of a struct, in wire order.
#pragma once

#include <tuple>

namespace troupe {

// Makes the tuple of references that fields() returns only where it is used: it is slow to compile.
struct TieFields {
  template <class... T>
  std::tuple<T&...> operator()(T&... fields) const {
    return {fields...};
  }
};

#define TROUPE_FIELDS(...)         \
  template <class Tie = TieFields> \
  auto fields() {                  \
    return Tie()(__VA_ARGS__);     \
  }                                \
  template <class Tie = TieFields> \
  auto fields() const {            \
    return Tie()(__VA_ARGS__);     \
  }

}  // namespace troupe
