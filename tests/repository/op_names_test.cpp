#include "tests/repository/op_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/repository/sources.hpp"
#include <troupe/graph/op.hpp>

namespace troupe::repository {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> found(std::string_view path, std::string_view text) {
  return op_name_violations(path, text, {"Add", "ApplySGD", "Cast", "MatMul"});
}

TEST(OpNames, TheRepositoryAsksForTraits) {
  const std::vector<std::string> ops = standard_ops().names();
  EXPECT_GT(ops.size(), 100u);
  for (const auto& [path, text] : sources())
    for (const std::string& violation : op_name_violations(path, text, ops)) ADD_FAILURE() << violation;
}

TEST(OpNames, ComparisonsAreFoundOnBothSidesAndOverLines) {
  for (const char* text : {"if (op == \"Add\") f();", "if (op !=\n    \"Add\") f();", "if (\"Add\" == op) f();",
                           "f(op.starts_with(\"Apply\"));", "f(op.ends_with(\"SGD\"));"})
    for (const char* path : {"graph/graph.cpp", "graph/passes/prune.cpp", "scheduler/run/replay.cpp",
                             "actors/session/compile.cpp", "apps/node/main.cpp", "tools/top/page.cpp"})
      EXPECT_EQ(found(path, text).size(), 1u) << path << ": " << text;
  EXPECT_THAT(found("graph/a.cpp", "\n\nif (is_op(node, \"Cast\")) f();"),
              ElementsAre(HasSubstr("graph/a.cpp:3: \"Cast\" is an op")));
  EXPECT_EQ(found("graph/a.cpp", "std::set names = {\"Add\", \"MatMul\"};").size(), 2u);
}

TEST(OpNames, NodesAreMadeByName) {
  EXPECT_THAT(found("graph/a.cpp", "add({.op = \"Cast\"}); add_op(\"Add\", {x}); add_outputs(\n  \"MatMul\", {});"),
              IsEmpty());
}

TEST(OpNames, TablesStandInPassesAndCostsOncePerFile) {
  const std::string table = "constexpr auto kOps = op_table<int>({{\"Add\", 1}, {\"Cast\", 2}});\n";
  EXPECT_THAT(found("graph/passes/a.cpp", table), IsEmpty());
  EXPECT_THAT(found("scheduler/plan/cost.cpp", table), IsEmpty());
  EXPECT_EQ(found("graph/placement/a.cpp", table).size(), 2u);
  EXPECT_EQ(found("scheduler/plan/plan.cpp", table).size(), 2u);
  EXPECT_THAT(found("graph/passes/a.cpp", table + "constexpr auto kMore = op_table<int>({{\"MatMul\", 1}});"),
              ElementsAre(HasSubstr("\"MatMul\" is in a second table")));
  EXPECT_EQ(found("graph/passes/a.cpp", table + "if (is_op(n, \"MatMul\")) f();").size(), 1u);
}

TEST(OpNames, CommentsOtherTextAndTheOpsOwnFilesAreFree) {
  EXPECT_THAT(found("graph/a.cpp", "// == \"Add\"\n/* == \"Add\" */ f(\"Addition\", '\"', 1'000, R\"(== \"Add\")\");"),
              IsEmpty());
  for (const char* path : {"graph/ops/math.cpp", "graph/builder/nn.cpp", "kernels/cpu/linear.cpp", "tests/a.cpp"})
    EXPECT_THAT(found(path, "if (op == \"Add\") f();"), IsEmpty()) << path;
}

}  // namespace
}  // namespace troupe::repository
