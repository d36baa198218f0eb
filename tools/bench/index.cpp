// Ops that order, accumulate and pick elements, compared with TensorFlow and jax.
#include "tools/bench/cases.hpp"
#include "tools/bench/compared_step.hpp"
#include "tools/bench/kernel_step.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe::bench {
namespace {

// Elements, rounded to a square.
std::int64_t side_of(const Settings& settings) { return settings.quick ? 16 : 1024; }

Contest of_vector(const std::string& name, const Settings& settings, const std::function<Output(const Output&)>& make,
                  double tolerance = 0) {
  const std::int64_t side = side_of(settings);
  const auto step = std::make_shared<ComparedStep>(ComparedStep::Inputs{{"x", random_tensor({side * side}, 1)}},
                                                   [&](const Outputs& in) -> ComparedStep::Results {
                                                     return {{"y", make(in[0])}};
                                                   });
  return compare_with(step, {name + "-tensorflow", name + "-jax"}, settings, kMicro, tolerance);
}

Contest gather_nd_contest(const Settings& settings) {
  const std::int64_t side = side_of(settings);
  Tensor indices(DType::i32, Shape{side * side, 2});
  std::uint64_t state = 1;
  for (std::int32_t& index : indices.mutable_values<std::int32_t>()) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    index = static_cast<std::int32_t>((state >> 33) % static_cast<std::uint64_t>(side));
  }
  const auto step =
      std::make_shared<ComparedStep>(ComparedStep::Inputs{{"x", random_tensor({side, side}, 1)}, {"indices", indices}},
                                     [](const Outputs& in) -> ComparedStep::Results {
                                       return {{"y", gather_nd(in[0], in[1])}};
                                     });
  return compare_with(step, {"gather-nd-tensorflow", "gather-nd-jax"}, settings, kMicro, 0);
}

void add_case(std::vector<Case>& cases, const std::string& bench, const std::string& measures,
              std::function<Contest(const Settings&)> prepare) {
  cases.push_back({.bench = bench,
                   .name = "f32-1M",
                   .unit = "us",
                   .measures = measures + ", fed and fetched; 1 thread",
                   .peer = "the better of TensorFlow (tf.function) and jax (jitted), 1 thread",
                   .ratio_target = 1,
                   .prepare = std::move(prepare)});
}

}  // namespace

void add_index_cases(std::vector<Case>& cases) {
  add_case(cases, "topk", "the 100 largest of 2^20 f32", [](const Settings& s) {
    return of_vector("topk", s, [](const Output& x) { return top_k(x, 100).values; });
  });
  add_case(cases, "sort", "2^20 f32 in ascending order",
           [](const Settings& s) { return of_vector("sort", s, [](const Output& x) { return sort(x); }); });
  add_case(cases, "cumsum", "running sums of 2^20 f32", [](const Settings& s) {
    return of_vector(
        "cumsum", s, [](const Output& x) { return cumsum(x, 0); }, 1e-4);
  });
  add_case(cases, "gather-nd", "2^20 elements of a matrix [1024, 1024], picked by pairs of i32", gather_nd_contest);
}

}  // namespace troupe::bench
