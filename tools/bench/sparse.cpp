// Products of sparse matrices and dense ones, compared with SciPy's.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tools/bench/cases.hpp"
#include "tools/bench/compared_step.hpp"
#include "tools/bench/kernel_step.hpp"
#include <troupe/graph/builder/sparse.hpp>

namespace troupe::bench {
namespace {

// A square sparse matrix and a dense one of `width` columns.
struct SparseCase {
  const char* name;
  std::int64_t elements, rows, width;
  bool power_law;  // of the elements in a row; else all rows are alike
  bool adjoint;
};

// Coordinates in row-major order, each once.
Tensor random_places(const SparseCase& c) {
  std::mt19937_64 random(5);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  const auto below = [&](double x) { return std::min(c.rows - 1, static_cast<std::int64_t>(x)); };
  const auto rows = static_cast<double>(c.rows);
  std::vector<std::int64_t> places;
  while (std::ssize(places) < c.elements) {
    for (std::int64_t i = std::ssize(places); i < c.elements; ++i) {
      // Row r has about 1 / (r + 1) of what the first has.
      const std::int64_t row = below(c.power_law ? std::exp(uniform() * std::log(rows + 1)) - 1 : uniform() * rows);
      places.push_back(row * c.rows + below(uniform() * rows));
    }
    std::ranges::sort(places);
    places.erase(std::ranges::unique(places).begin(), places.end());
  }
  Tensor out(DType::i64, Shape{c.elements, 2});
  std::int64_t* to = out.mutable_data<std::int64_t>();
  for (const std::int64_t place : places) {
    *to++ = place / c.rows;
    *to++ = place % c.rows;
  }
  return out;
}

Contest sparse_contest(const SparseCase& wanted, const Settings& settings) {
  SparseCase c = wanted;
  if (settings.quick) c.elements = 200, c.rows = 50;
  const ComparedStep::Inputs inputs{{"indices", random_places(c)},
                                    {"values", random_tensor({c.elements}, 1)},
                                    {"b", random_tensor({c.rows, c.width}, 2)}};
  const auto step = std::make_shared<ComparedStep>(inputs, [&](const Outputs& in) -> ComparedStep::Results {
    const Output shape = constant<std::int64_t>(*in[0].graph, {c.rows, c.rows});
    return {{"y", sparse_dense_matmul(sparse_tensor(in[0], in[1], shape), in[2], {.adjoint_a = c.adjoint})}};
  });
  return compare_with(step, {c.adjoint ? "sparse-adjoint-scipy" : "sparse-scipy"}, settings, kMicro, 1e-5);
}

}  // namespace

void add_sparse_cases(std::vector<Case>& cases) {
  const SparseCase all[] = {
      {"uniform-1e4", 10'000, 1'000, 64, false, false},      {"uniform-1e5", 100'000, 10'000, 64, false, false},
      {"uniform-1e6", 1'000'000, 100'000, 64, false, false}, {"power-1e4", 10'000, 1'000, 64, true, false},
      {"power-1e5", 100'000, 10'000, 64, true, false},       {"power-1e6", 1'000'000, 100'000, 64, true, false},
      {"narrow-1e6", 1'000'000, 100'000, 8, false, false},   {"vector-1e6", 1'000'000, 100'000, 1, false, false},
      {"adjoint-1e6", 1'000'000, 100'000, 64, false, true},
  };
  for (const SparseCase& c : all)
    cases.push_back(
        {.bench = "sparse",
         .name = c.name,
         .unit = "us",
         .measures = fmt::format("a product of a sparse matrix of {} elements{}, [{}, {}], {}and a dense one of {} "
                                 "columns, f32, fed and fetched; 1 thread",
                                 c.elements, c.power_law ? ", power-law rows" : "", c.rows, c.rows,
                                 c.adjoint ? "transposed, " : "", c.width),
         .peer = "SciPy's csr_array @ ndarray",
         .ratio_target = c.width > 1 ? 1 : 0.35,  // of vectors: SciPy's matrices know where rows begin
         .prepare = [c](const Settings& settings) { return sparse_contest(c, settings); }});
}

}  // namespace troupe::bench
