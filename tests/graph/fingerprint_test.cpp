#include <gtest/gtest.h>

#include <functional>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/fingerprint.hpp>

namespace troupe {
namespace {

// a, b and c of one shape; `more` adds to them.
std::uint64_t of(const std::function<void(Graph&, Output a, Output b)>& more, float first = 0) {
  Graph graph;
  Tensor large = Tensor::zeros(DType::f32, {1000});
  large.mutable_data<float>()[999] = first;
  const Output a = constant(graph, large, "a"), b = neg(a, "b");
  more(graph, a, b);
  return fingerprint(graph);
}

TEST(Fingerprint, EqualGraphsShareIt) {
  const auto more = [](Graph&, Output a, Output b) { add(a, b, "c"); };
  EXPECT_EQ(of(more), of(more));
}

TEST(Fingerprint, TellsWhatANodeReadsAndWaitsFor) {
  const std::uint64_t plain = of([](Graph&, Output a, Output b) { sub(a, b, "c"); });
  EXPECT_NE(plain, of([](Graph&, Output a, Output b) { sub(b, a, "c"); }));
  EXPECT_NE(plain, of([](Graph&, Output a, Output) { sub(a, a, "c"); }));
  EXPECT_NE(of([](Graph&, Output a, Output) { neg(a, "c"); }), of([](Graph& graph, Output a, Output b) {
              const auto after = graph.after({b});
              neg(a, "c");
            }));
}

TEST(Fingerprint, TellsOpsNamesDevicesAndElements) {
  const std::uint64_t plain = of([](Graph&, Output a, Output b) { sub(a, b, "c"); });
  EXPECT_NE(plain, of([](Graph&, Output a, Output b) { add(a, b, "c"); }));
  EXPECT_NE(plain, of([](Graph&, Output a, Output b) { sub(a, b, "d"); }));
  EXPECT_NE(plain, of([](Graph& graph, Output a, Output b) {
              const auto there = graph.on_device("/device:CPU:1");
              sub(a, b, "c");
            }));
  EXPECT_NE(plain, of([](Graph&, Output a, Output b) { sub(a, b, "c"); }, 1)) << "the last of many elements";
}

}  // namespace
}  // namespace troupe
