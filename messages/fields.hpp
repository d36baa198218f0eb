// fields(): the members of a struct, in the order in which they go over the wire.
#pragma once

#include <tuple>

namespace troupe {

// Makes the tuple of references that fields() returns, where it is called: it takes long to compile.
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
