// The hash of parameters (actors/training/parameters.hpp) that come one after the other, in pieces, or are drawn on
// demand.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include <troupe/actors/base/sha256.hpp>
#include <troupe/actors/training/parameters.hpp>
#include <troupe/actors/training/row_draws.hpp>

namespace troupe {

// Add parameters by name, ascending.
class ParameterHash {
 public:
  void add(const std::string& name, const Tensor& value);
  // One in pieces: begin(), then its rows in their order, or, of a variable on demand, those that differ from their
  // first values.
  void begin(const std::string& name, DType dtype, const Shape& shape);
  void rows(const Tensor& rows);
  void changed_rows(std::span<const std::int64_t> numbers, const Tensor& rows, const RowDraws& draws);
  std::string hex();

 private:
  Sha256 sha_;
};

// Of variables on demand (`draws`) only the rows that differ from their first values count: by number, the number as
// i64 and the elements.
std::string params_sha256(const Parameters& parameters, const std::map<std::string, RowDraws>& draws);

// Of the variables of a graph that are on demand.
std::map<std::string, RowDraws> draws_on_demand(const Graph& graph, std::uint64_t seed);

}  // namespace troupe
