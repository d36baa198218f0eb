#include <gtest/gtest.h>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/passes/prune.hpp>

namespace troupe {
namespace {

// What pruning keeps: tests/graph/programs/prune_*.txt.
TEST(Prune, RefusesEndpointsThatDoNotExist) {
  GraphBuilder b;
  const Output x = b.placeholder("x", Shape{2});
  const Endpoint fetch{b.add("Add", "twice", {x, x}).node, 1};
  EXPECT_EQ(error_of([&] { prune(b.g, {&fetch, 1}, {}); }), "out_of_range: prune: 'twice' has no output 1");
  const int target = 99;
  EXPECT_EQ(error_of([&] { prune(b.g, {}, {&target, 1}); }), "out_of_range: prune: the graph has no node number 99");
}

}  // namespace
}  // namespace troupe
