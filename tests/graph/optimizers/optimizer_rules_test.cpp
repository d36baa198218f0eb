#include <gtest/gtest.h>

#include <algorithm>

#include <troupe/graph/op.hpp>
#include <troupe/graph/optimizers/optimizer_rules.hpp>

namespace troupe {
namespace {

// Each rule, with no constant at its default.
const std::vector<OptimizerRule> kRules = {
    SgdRule{.weight_decay = 0.5},
    MomentumRule{.momentum = 0.25, .nesterov = true, .weight_decay = 0.5},
    AdagradRule{.epsilon = 0.25, .weight_decay = 0.5},
    RmsPropRule{.rho = 0.25, .momentum = 0.5, .epsilon = 0.75, .weight_decay = 0.125},
    AdamRule{.beta1 = 0.25, .beta2 = 0.5, .epsilon = 0.75, .weight_decay = 0.125},
    AdadeltaRule{.rho = 0.25, .epsilon = 0.75, .weight_decay = 0.125},
    FtrlRule{.l1 = 0.25, .l2 = 0.5, .l2_shrinkage = 0.75, .beta = 1, .learning_rate_power = -1, .weight_decay = 2},
    LionRule{.beta1 = 0.25, .beta2 = 0.5, .weight_decay = 0.125},
    CenteredRmsPropRule{.rho = 0.25, .momentum = 0.5, .epsilon = 0.75, .weight_decay = 0.125},
    AmsGradRule{.beta1 = 0.25, .beta2 = 0.5, .epsilon = 0.75, .weight_decay = 0.125},
    AdamaxRule{.beta1 = 0.25, .beta2 = 0.5, .epsilon = 0.75, .weight_decay = 0.125},
    NadamRule{.beta1 = 0.25, .beta2 = 0.5, .epsilon = 0.75, .weight_decay = 0.125}};

TEST(OptimizerRules, AreReadFromTheAttributesThatTheyWrite) {
  ASSERT_EQ(kRules.size(), optimizer_rules().size());
  for (const OptimizerRule& rule : kRules) {
    const Attributes written = attributes_of(rule);
    const OptimizerRule read = rule_kind(rule).read(written);
    EXPECT_EQ(read.index(), rule.index()) << rule_kind(rule).name;
    const Attributes again = attributes_of(read);
    for (const auto& [name, value] : written.all())
      if (const double* real = std::get_if<double>(&value))
        EXPECT_EQ(again.real(name), *real) << name;
      else
        EXPECT_EQ(again.boolean(name), std::get<bool>(value)) << name;
  }
}

// Shards are told rules that a program wrote, perhaps an older one.
TEST(OptimizerRules, ThatSayNothingOfWeightDecayHaveNone) {
  for (const OptimizerRule& rule : kRules) {
    Attributes written = attributes_of(rule);
    written.erase("weight_decay");
    EXPECT_EQ(attributes_of(rule_kind(rule).read(written)).real("weight_decay"), 0) << rule_kind(rule).name;
  }
}

TEST(OptimizerRules, HaveTheSlotsAndConstantsOfTheirOps) {
  for (const OptimizerRule& rule : kRules) {
    const std::string name(rule_kind(rule).name);
    for (const std::string& op : {"Apply" + name, "SparseApply" + name, "Apply" + name + "Many"}) {
      const OpDef* def = standard_ops().find(op);
      ASSERT_TRUE(def) << op;
      const auto is_input = [&](std::string_view input) {
        return std::ranges::count(def->inputs, input, &ArgDef::name) == 1;
      };
      const auto first = std::ranges::find(def->inputs, "lr", &ArgDef::name) - def->inputs.begin();
      EXPECT_EQ(first, 1 + rule_kind(rule).slots) << op;
      EXPECT_EQ(is_input("t"), rule_kind(rule).counts_updates) << op;
      Attributes rest = attributes_of(rule);
      for (const AttrDef& attr : def->attrs) {
        if (attr.type == AttrType::dtype || attr.name == "N" || attr.name == "exact") continue;
        EXPECT_TRUE(rest.has(attr.name)) << op << " has '" << attr.name << "'";
        rest.erase(attr.name);
      }
      EXPECT_TRUE(rest.all().empty()) << op << " has no '" << rest.all().begin()->first << "'";
    }
  }
}

}  // namespace
}  // namespace troupe
