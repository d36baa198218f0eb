// The loops of update rules over elements, in float and double. Every element is updated only from its own value, slots
// and gradient.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <troupe/graph/optimizers/optimizer_rules.hpp>
#include <troupe/messages/function_ref.hpp>

namespace troupe {

// Maximum tensors that a rule changes: the variable and three slots.
inline constexpr std::size_t kMaxState = 4;

// Elements of the variable and its slots; null for slots that the rule does not have.
template <class T>
using StatePointers = std::array<T*, kMaxState>;

// Elements from `at` on, with gradients g[0], g[1], ...
template <class T>
struct Stretch {
  std::int64_t at;
  const T* g;
};

// Updates `n` elements of each stretch of `state`. Any thread. Takes several, because a call costs as much as a short
// row.
template <class T>
using UpdateLoop =
    FunctionRef<void(const StatePointers<T>& state, std::span<const Stretch<T>> stretches, std::int64_t n)>;

// Calls `use` with the loop of a rule, its constants rounded to T: float or double. `number`: of the update, from 1.
template <class T>
void with_update_loop(const OptimizerRule& rule, double rate, std::int64_t number,
                      FunctionRef<void(UpdateLoop<T> loop)> use);

}  // namespace troupe
