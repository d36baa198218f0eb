// What tests of eager mode share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/error_of.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe::testing {

// The message of the error that a function throws; "" if it returns.
template <class F>
std::string why_not(F&& f) {
  return error_of(f).message();
}

// f32, in [-0.5, 0.5), the same in every run.
inline Tensor numbers(const Shape& shape, int seed) {
  Tensor out(DType::f32, shape);
  std::uint32_t state = static_cast<std::uint32_t>(seed) * 2654435761u + 1;
  for (float& v : out.mutable_values<float>()) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) / (1 << 24) - 0.5f;
  }
  return out;
}

// Two layers, and a table of which each batch reads some rows.
struct Weights {
  explicit Weights(Graph& graph)
      : table(variable(graph, {.name = "table", .initial_value = constant(graph, numbers({10, 8}, 1))})),
        w(variable(graph, {.name = "w", .initial_value = constant(graph, numbers({8, 4}, 2))})),
        b(variable(graph, {.name = "b", .shape = {4}})),
        all{table, w, b} {}
  Output loss(const Output& rows, const Output& wanted) const {
    return mean(square(tanh(matmul(gather(table.read(), rows), w.read()) + b.read()) - wanted));
  }
  Outputs values() const { return {table.read(), w.read(), b.read()}; }

  VariableRef table, w, b;
  std::vector<VariableRef> all;
};

}  // namespace troupe::testing
