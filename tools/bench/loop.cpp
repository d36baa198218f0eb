// Loops: the cost of an iteration.
#include "tools/bench/cases.hpp"
#include "tools/bench/compared_step.hpp"
#include "tools/bench/kernel_step.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe::bench {
namespace {

// A fed increment is added to a scalar up to a fed bound: nothing can be folded or unrolled.
Contest empty_loop(const Settings& settings) {
  const auto bound = static_cast<float>(settings.quick ? 1'000 : 1'000'000);  // exact up to 2^24
  const auto step = std::make_shared<ComparedStep>(
      ComparedStep::Inputs{{"increment", Tensor::scalar(1.0f)}, {"bound", Tensor::scalar(bound)}},
      [](const Outputs& in) -> ComparedStep::Results {
        const Outputs last =
            while_loop([&](const Outputs& v) { return less(v[0], in[1]); },
                       [&](const Outputs& v) { return Outputs{v[0] + in[0]}; }, {constant(*in[0].graph, 0.0f)});
        return {{"last", last[0]}};
      });
  return compare_with(step, {"while"}, settings, kNano / bound, 0);
}

// x becomes x w, again and again.
Contest loop_of_products(const Settings& settings) {
  const std::int64_t times = settings.quick ? 10 : 1'000, size = 64;
  Tensor w = random_tensor({size, size}, 2);
  for (float& value : w.mutable_values<float>()) value *= 0.2165f;  // keeps the length of x: variance 1 / size
  const ComparedStep::Inputs inputs{{"x", random_tensor({size, size}, 1)}, {"w", w}};
  const auto loop = std::make_shared<ComparedStep>(inputs, [=](const Outputs& in) -> ComparedStep::Results {
    const auto body = [&](const Output&, const Outputs& v) { return Outputs{matmul(v[0], in[1])}; };
    return {{"y", for_loop(constant(*in[0].graph, times), body, {in[0]})[0]}};
  });
  const auto unrolled = std::make_shared<ComparedStep>(inputs, [=](const Outputs& in) -> ComparedStep::Results {
    Output x = in[0];
    for (std::int64_t i = 0; i < times; ++i) x = matmul(x, in[1]);
    return {{"y", x}};
  });
  check_close(loop->run()[0], unrolled->run()[0].data<float>(), 0);
  Contest contest = compare_with(loop, {}, settings, kMicro / static_cast<double>(times));
  contest.peers.push_back(
      {"unrolled", compare_with(unrolled, {}, settings, kMicro / static_cast<double>(times)).troupe});
  return contest;
}

}  // namespace

void add_loop_cases(std::vector<Case>& cases) {
  cases.push_back({.bench = "loop",
                   .name = "empty",
                   .unit = "ns/op",
                   .measures =
                       "a While of 1,000,000 iterations that adds a fed increment to a scalar up to a fed bound; "
                       "per iteration, 1 thread",
                   .peer = "TensorFlow's tf.while_loop in a tf.function, 1 thread",
                   .ratio_target = 30,
                   .value_target = 120,
                   .prepare = empty_loop});
  cases.push_back({.bench = "loop",
                   .name = "matmul",
                   .unit = "us/op",
                   .measures = "1,000 products of 64x64 in a loop, each of the one before; per product, 1 thread",
                   .peer = "the same unrolled: a graph of 1,000 nodes",
                   .ratio_target = 0.9,
                   .prepare = loop_of_products});
}

}  // namespace troupe::bench
