#include <gtest/gtest.h>

#include <algorithm>

#include <troupe/graph/op_table.hpp>

namespace troupe {
namespace {

using Strings = std::vector<std::string>;

Strings ops_that(bool (OpDef::*trait)() const) {
  Strings out = standard_ops().names();
  std::erase_if(out, [&](const std::string& op) { return !(standard_ops().get(op).*trait)(); });
  return out;
}

TEST(OpTraits, RolesTellWhereValuesComeFromAndGo) {
  EXPECT_EQ(
      ops_that(&OpDef::is_source),
      (Strings{"Arg", "ConditionalAccumulator", "Const", "FIFOQueue", "Feed", "MutableHashTable", "PaddingFIFOQueue",
               "Placeholder", "PriorityQueue", "RandomShuffleQueue", "SparseConditionalAccumulator", "Variable"}));
  EXPECT_EQ(ops_that(&OpDef::is_client_side), (Strings{"Feed", "Fetch"}));
  EXPECT_EQ(ops_that(&OpDef::is_arrival), (Strings{"CallAnswer", "Collect", "Pull", "Recv"}));
  EXPECT_EQ(ops_that(&OpDef::is_departure),
            (Strings{"AskRows", "CallRequest", "Contribute", "Push", "PushSparse", "Send"}));
  EXPECT_EQ(ops_that(&OpDef::is_boundary), (Strings{"AskRows",
                                                    "CallAnswer",
                                                    "CallRequest",
                                                    "Collect",
                                                    "ConditionalAccumulator",
                                                    "Contribute",
                                                    "FIFOQueue",
                                                    "Feed",
                                                    "Fetch",
                                                    "MutableHashTable",
                                                    "PaddingFIFOQueue",
                                                    "PriorityQueue",
                                                    "Pull",
                                                    "Push",
                                                    "PushSparse",
                                                    "RandomShuffleQueue",
                                                    "Recv",
                                                    "Send",
                                                    "SparseConditionalAccumulator",
                                                    "Variable"}));
}

TEST(OpTraits, RolesFitInputsAndOutputs) {
  for (const std::string& name : standard_ops().names()) {
    const OpDef& op = standard_ops().get(name);
    if (op.is_source() || op.is_arrival()) {
      EXPECT_TRUE(op.inputs.empty() && op.outputs.size() == 1) << name;
    }
    if (op.is_departure() || op.role == OpRole::fetch) {
      EXPECT_TRUE(!op.inputs.empty() && op.outputs.empty()) << name;
    }
    if (op.forwards) {
      EXPECT_TRUE(op.is_pure() && op.inputs.size() == 1 && op.outputs.size() == 1) << name;
    }
  }
}

TEST(OpTraits, OpsThatTakeVariablesAreStateful) {
  Strings readers;
  for (const std::string& name : standard_ops().names()) {
    const OpDef& op = standard_ops().get(name);
    const bool takes = std::ranges::find(op.inputs, DType::resource, &ArgDef::fixed) != op.inputs.end();
    if (takes) {
      EXPECT_TRUE(op.stateful) << name;
    }
    if (op.reads_only) readers.push_back(name);
    EXPECT_TRUE(takes || !op.reads_only) << name;
  }
  EXPECT_EQ(readers, (Strings{"HashTableExport", "HashTableFind", "HashTableSize", "ReadVariable"}));
}

TEST(OpTraits, RulesOfDenseGradientsHaveAFormForSeveralVariables) {
  int rules = 0;
  for (const std::string& name : standard_ops().names()) {
    const OpDef& op = standard_ops().get(name);
    if (!op.update_rule) continue;
    ++rules;
    EXPECT_EQ(op.inputs[0].name, "var") << name;
    EXPECT_TRUE(op.outputs.empty()) << name;
    if (op.many.empty()) continue;
    const OpDef& many = standard_ops().get(op.many);
    EXPECT_EQ(many.inputs.size(), op.inputs.size()) << name;
    EXPECT_FALSE(many.update_rule) << many.name;
  }
  EXPECT_EQ(rules, 25);  // twelve rules, each dense and sparse, and that of the loss scale
}

TEST(OpTable, FindsOpsByName) {
  constexpr auto table = op_table<int>({{"Add", 1}, {"MatMul", 2}});
  static_assert(table.of("MatMul") == 2 && table.of("Add") == 1 && table.of("Sub") == 0);
  Graph g;
  EXPECT_EQ(table.of(g.add({.op = "NoOp"})), 0);
}

}  // namespace
}  // namespace troupe
