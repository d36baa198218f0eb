// Cases of gradient_test.cpp.
#include "tests/kernels/gradient_cases.hpp"
#include <troupe/graph/builder/ragged.hpp>

namespace troupe::testing {

// Rows of 3, 0 and 2 ids of a table, with and without weights.
std::vector<GradientCase> text_gradients() {
  std::vector<GradientCase> out;
  for (const auto& [name, combiner] :
       {std::pair{"Sum", Combiner::sum}, {"Mean", Combiner::mean}, {"Sqrtn", Combiner::sqrtn}})
    for (const bool weighted : {false, true})
      out.push_back(
          {.name = fmt::format("Embedding{}{}", name, weighted ? "Weighted" : ""),
           .shapes = {{4, 2}, {5}},
           .build = of([combiner = combiner, weighted](auto& x) {
             Graph& g = *x[0].graph;
             const Ragged ids{constant<std::int64_t>(g, {2, 0, 2, 3, 1}), constant<std::int64_t>(g, {0, 3, 3, 5})};
             const Output y =
                 embedding_lookup_sparse(x[0], ids, {.combiner = combiner, .weights = weighted ? x[1] : Output{}});
             return square(y);
           }),
           .low = 0.5});
  // Rows of 2, 0 and 3 values.
  for (const auto& [name, build] : std::vector<std::pair<const char*, std::function<Output(const Ragged&)>>>{
           {"ToTensor", [](const Ragged& x) { return ragged_to_tensor(x); }},
           {"Sum", [](const Ragged& x) { return ragged_sum(x); }},
           {"Mean", [](const Ragged& x) { return ragged_mean(x); }}})
    out.push_back({.name = fmt::format("Ragged{}", name),
                   .shapes = {{5, 2}},
                   .build = of([build = build](auto& x) {
                     return square(build({x[0], constant<std::int64_t>(*x[0].graph, {0, 2, 2, 5})}));
                   })});
  return out;
}

}  // namespace troupe::testing
