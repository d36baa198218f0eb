// Combines several lambdas into one visitor, for std::visit.
#pragma once

namespace troupe {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;  // clang 16 does not deduce an aggregate's arguments

}  // namespace troupe
