// What is not held is freed: memory stays the same however many ops, tapes and functions there were.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "tests/long_runs.hpp"
#include "tests/sanitized.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/eager/eager.hpp>
#include <troupe/actors/eager/function.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/gradients/tape.hpp>

namespace troupe {
namespace {

std::int64_t resident_bytes() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Memory grows by less than a byte or two for each of the later repetitions; the first ones fill caches.
void expect_flat(int times, const std::function<void(int)>& repeat) {
  const int first = times / 10;
  for (int i = 0; i < first; ++i) repeat(i);
  const std::int64_t before = resident_bytes();
  for (int i = first; i < times; ++i) repeat(i);
  const std::int64_t grown = resident_bytes() - before;
  if (!testing::kSanitized) EXPECT_LT(grown, 4 << 20) << "in " << times - first << " repetitions";
}

int at_most(int times, int sanitized) { return testing::kSanitized ? sanitized : times; }

TEST(EagerMemory, OpsLeaveNothing) {
  Eager eager;
  Output x = constant(eager.graph(), Tensor::zeros(DType::f32, {16, 16}));
  const Output one = constant(eager.graph(), 1.0f);
  expect_flat(at_most(1'000'000, 10'000), [&](int) { x = x + one; });
  EXPECT_EQ(x.value().values<float>()[0], static_cast<float>(at_most(1'000'000, 10'000)));
}

TEST(EagerMemory, TapesLeaveNothing) {
  Eager eager;
  const VariableRef w = variable(eager.graph(), {.name = "w", .shape = {16, 16}});
  const Output x = constant(eager.graph(), Tensor::zeros(DType::f32, {16, 16}));
  expect_flat(at_most(100'000, 2'000), [&](int i) {
    GradientTape tape({.persistent = i % 2 == 0});
    tape.watch(x);
    const Output y = sum(square(w.read() + x), {0, 1});
    if (i % 3 != 0) (void)tape.gradient(y, {x, w.handle});
  });
}

TEST(EagerMemory, FunctionsAndTheirTracesLeaveNothing) {
  Eager eager;
  const VariableRef w = variable(eager.graph(), {.name = "w", .shape = {8}});
  const Output x = constant(eager.graph(), Tensor::zeros(DType::f32, {8}));
  expect_flat(testing::is_long_run() ? 10'000 : at_most(600, 40), [&](int i) {
    TracedFunction f(eager, [&](const Outputs& in) -> Outputs { return {sum(square(in[0] * w.read()), {-1})}; });
    if (i % 2 == 0) {
      GradientTape tape;
      tape.watch(x);
      const Output y = f({x})[0];
      (void)tape.gradient(y, {x, w.handle});
    } else {
      f({x});
      f({constant(eager.graph(), Tensor::zeros(DType::f32, {1, 8}))});
    }
  });
}

TEST(EagerMemory, CallsOfOneFunctionLeaveNothing) {
  Eager eager;
  const VariableRef w = variable(eager.graph(), {.name = "w", .shape = {8}});
  TracedFunction f(eager, [&](const Outputs& in) -> Outputs { return {w.assign_add(in[0])}; });
  const Output x = constant(eager.graph(), Tensor::zeros(DType::f32, {8}));
  expect_flat(at_most(200'000, 2'000), [&](int) { f({x}); });
}

}  // namespace
}  // namespace troupe
