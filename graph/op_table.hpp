// Ops by name, for passes and estimates that look for certain ops. Each names all of them in one table and otherwise
// asks for traits (graph/op.hpp); tests/repository/op_names.hpp checks that.
//
//   enum class Part { none, product, bias };
//   constexpr auto kParts = op_table<Part>({{"MatMul", Part::product}, {"BiasAdd", Part::bias}});
//   if (kParts.of(node) == Part::bias) ...
#pragma once

#include <array>
#include <string_view>

#include <troupe/graph/graph.hpp>

namespace troupe {

template <class Value>
struct OpRow {
  std::string_view op;
  Value value;
};

template <class Value, std::size_t N>
struct OpTable {
  std::array<OpRow<Value>, N> rows;

  // Value() if the op is not in the table.
  constexpr Value of(std::string_view op) const {
    for (const OpRow<Value>& row : rows)
      if (row.op == op) return row.value;
    return {};
  }
  Value of(const Node& node) const { return of(node.op->name); }
};

template <class Value, std::size_t N>
constexpr OpTable<Value, N> op_table(const OpRow<Value> (&rows)[N]) {
  return {std::to_array(rows)};
}

}  // namespace troupe
