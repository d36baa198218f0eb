#include "troupe/actors/training/parameter_hash.hpp"

#include <bit>
#include <cstring>
#include <numeric>
#include <vector>

#include <troupe/graph/builder/variable.hpp>

namespace troupe {

static_assert(std::endian::native == std::endian::little, "elements are hashed in memory order");

void ParameterHash::begin(const std::string& name, DType dtype, const Shape& shape) {
  sha_.add_text(name);
  sha_.add_text(troupe::name(dtype));
  sha_.add_text(shape.to_string());
}

void ParameterHash::rows(const Tensor& rows) { sha_.add(std::span(rows.raw(), rows.num_bytes())); }

void ParameterHash::add(const std::string& name, const Tensor& value) {
  begin(name, value.dtype(), value.shape());
  rows(value);
}

void ParameterHash::changed_rows(std::span<const std::int64_t> numbers, const Tensor& rows, const RowDraws& draws) {
  std::vector<std::byte> first(draws.row_bytes());
  const std::byte* row = rows.raw();
  for (const std::int64_t& number : numbers) {
    draws.draw(number, first.data());
    if (std::memcmp(first.data(), row, first.size()) != 0) {
      sha_.add(std::as_bytes(std::span(&number, 1)));
      sha_.add(std::span(row, first.size()));
    }
    row += first.size();
  }
}

std::string ParameterHash::hex() { return sha_.hex(); }

std::string params_sha256(const Parameters& parameters, const std::map<std::string, RowDraws>& draws) {
  ParameterHash hash;
  for (const auto& [name, value] : parameters) {
    const auto drawn = draws.find(name);
    if (drawn == draws.end()) {
      hash.add(name, value);
      continue;
    }
    hash.begin(name, value.dtype(), value.shape());
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(value.shape()[0]));
    std::iota(numbers.begin(), numbers.end(), 0);
    hash.changed_rows(numbers, value, drawn->second);
  }
  return hash.hex();
}

std::map<std::string, RowDraws> draws_on_demand(const Graph& graph, std::uint64_t seed) {
  std::map<std::string, RowDraws> out;
  for (const VariableInfo& v : variables(graph))
    if (v.on_demand) out.emplace(v.name, RowDraws(graph, v.initial_value, seed));
  return out;
}

}  // namespace troupe
