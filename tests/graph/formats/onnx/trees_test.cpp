// Ensembles of trees of ai.onnx.ml: what they compute, and damaged ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/graph/formats/onnx/ml_model.hpp"

namespace troupe {
namespace {

using ::testing::FloatNear;
using testing::Floats;
using ::testing::HasSubstr;
using testing::list_of;
using testing::Longs;
using testing::MlCase;
using testing::NodeMaker;
using ::testing::Pointwise;
using testing::refused_ml;
using testing::run_ml;
using testing::Strings;

// Two trees: x0 <= 0 ? 1 : (x1 < 2 ? 2 : 3), and a leaf of 10. Nodes are given out of order.
struct TwoTrees {
  Longs trees{0, 0, 0, 0, 0, 1}, ids{2, 0, 1, 3, 4, 0}, features{1, 0, 0, 0, 0, 0};
  Floats values{2, 0, 0, 0, 0, 0};
  Strings modes{"BRANCH_LT", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF", "LEAF"};
  Longs yes{3, 1, 0, 0, 0, 0}, no{4, 2, 0, 0, 0, 0}, missing{0, 1, 0, 0, 0, 0};
  Longs to_trees{0, 0, 0, 1}, to_nodes{1, 3, 4, 0}, to{0, 0, 0, 0};
  Floats weights{1, 2, 3, 10}, base{};
  std::int64_t targets = 1;
  std::string aggregate = "SUM", transform = "NONE";
  Longs labels{};

  MlCase with(Tensor x) const {
    const std::string kind = labels.empty() ? "target" : "class";
    return {labels.empty() ? "TreeEnsembleRegressor" : "TreeEnsembleClassifier",
            {std::move(x)},
            [t = *this, kind](NodeMaker& n) {
              n.set("nodes_treeids", t.trees).set("nodes_nodeids", t.ids).set("nodes_featureids", t.features);
              n.set("nodes_values", t.values).set("nodes_modes", t.modes).set("nodes_truenodeids", t.yes);
              n.set("nodes_falsenodeids", t.no).set("nodes_missing_value_tracks_true", t.missing);
              n.set(kind + "_treeids", t.to_trees).set(kind + "_nodeids", t.to_nodes).set(kind + "_ids", t.to);
              n.set(kind + "_weights", t.weights).set("post_transform", t.transform);
              if (!t.base.empty()) n.set("base_values", t.base);
              if (t.labels.empty()) n.set("n_targets", t.targets).set("aggregate_function", t.aggregate);
              if (!t.labels.empty()) n.set("classlabels_int64s", t.labels);
            },
            labels.empty() ? 1u : 2u};
  }
};

const float kNan = std::numeric_limits<float>::quiet_NaN();
const Tensor kRows = Tensor::of<float>(Shape{4, 2}, {0, 5, 1, 1, 1, 2, kNan, 0});

Floats regressed(const TwoTrees& t) { return list_of<float>(run_ml(t.with(kRows))[0]); }

TEST(OnnxTrees, RegressorsAggregateTrees) {
  TwoTrees t;
  EXPECT_EQ(regressed(t), (Floats{11, 12, 13, 11}));
  t.base = {0.5f};
  EXPECT_EQ(regressed(t), (Floats{11.5f, 12.5f, 13.5f, 11.5f}));
  t.aggregate = "AVERAGE";
  EXPECT_EQ(regressed(t), (Floats{6, 6.5f, 7, 6}));
  t.aggregate = "MIN";
  EXPECT_EQ(regressed(t), (Floats{1.5f, 2.5f, 3.5f, 1.5f}));
  t.aggregate = "MAX";
  EXPECT_EQ(regressed(t), (Floats{10.5f, 10.5f, 10.5f, 10.5f}));
}

TEST(OnnxTrees, FeaturesMayBeDoublesAndIntegers) {
  const TwoTrees t;
  EXPECT_EQ(list_of<float>(run_ml(t.with(Tensor::of<double>(Shape{1, 2}, {1e-9, 2})))[0]), (Floats{13}));
  EXPECT_EQ(list_of<float>(run_ml(t.with(Tensor::of<std::int64_t>(Shape{1, 2}, {1, 1})))[0]), (Floats{12}));
}

TEST(OnnxTrees, ModesCompare) {
  const std::pair<const char*, Floats> modes[] = {{"BRANCH_LEQ", {11, 12, 12, 12}}, {"BRANCH_LT", {11, 12, 13, 12}},
                                                  {"BRANCH_GTE", {11, 13, 12, 13}}, {"BRANCH_GT", {11, 13, 13, 13}},
                                                  {"BRANCH_EQ", {11, 13, 12, 13}},  {"BRANCH_NEQ", {11, 12, 13, 12}}};
  for (const auto& [mode, wanted] : modes) {
    TwoTrees t;
    t.modes[0] = mode;
    EXPECT_EQ(list_of<float>(run_ml(t.with(Tensor::of<float>(Shape{4, 2}, {0, 5, 1, 1, 1, 2, 1, 0})))[0]), wanted)
        << mode;
  }
}

// One of the leaves of the first tree, and of the second, for classes 0 to 2.
TwoTrees classifier() {
  TwoTrees t;
  t.labels = {10, 20, 30};
  t.to = {0, 1, 2, 1};
  t.weights = {0.6f, 0.5f, 0.8f, 0.1f};
  return t;
}

TEST(OnnxTrees, ClassifiersChooseTheGreatestScore) {
  TwoTrees t = classifier();
  std::vector<Tensor> found = run_ml(t.with(kRows));
  EXPECT_EQ(list_of<std::int64_t>(found[0]), (Longs{10, 20, 30, 10}));
  EXPECT_EQ(list_of<float>(found[1]), (Floats{0.6f, 0.1f, 0, 0, 0.6f, 0, 0, 0.1f, 0.8f, 0.6f, 0.1f, 0}));
  t.base = {0, 1, 0};
  EXPECT_EQ(list_of<std::int64_t>(run_ml(t.with(kRows))[0]), (Longs{20, 20, 20, 20}));
  t.labels = {10, 20};  // both with weights
  t.base = {};
  t.to = {0, 1, 0, 1};
  found = run_ml(t.with(kRows));
  EXPECT_EQ(list_of<std::int64_t>(found[0]), (Longs{10, 20, 10, 10}));
  EXPECT_EQ(list_of<float>(found[1]), (Floats{0.6f, 0.1f, 0, 0.6f, 0.8f, 0.1f, 0.6f, 0.1f}));
}

// As onnxruntime has it: the weights of one class are a score, which is compared with 0.5 if none is negative, else 0.
TEST(OnnxTrees, OneScoreTellsTwoClasses) {
  TwoTrees t = classifier();
  t.labels = {10, 20};
  t.to = {0, 0, 0, 0};
  t.weights = {0.125f, 0.5f, 0.75f, 0};
  std::vector<Tensor> found = run_ml(t.with(kRows));
  EXPECT_EQ(list_of<std::int64_t>(found[0]), (Longs{10, 10, 20, 10}));
  EXPECT_EQ(list_of<float>(found[1]), (Floats{0.875f, 0.125f, 0.5f, 0.5f, 0.25f, 0.75f, 0.875f, 0.125f}));
  t.weights = {-0.5f, 0.25f, 0.75f, 0};
  found = run_ml(t.with(kRows));
  EXPECT_EQ(list_of<std::int64_t>(found[0]), (Longs{10, 20, 20, 10}));
  EXPECT_EQ(list_of<float>(found[1]), (Floats{0.5f, -0.5f, -0.25f, 0.25f, -0.75f, 0.75f, 0.5f, -0.5f}));
  t.transform = "LOGISTIC";
  t.base = {0.5f};
  found = run_ml(t.with(kRows));
  EXPECT_EQ(list_of<std::int64_t>(found[0]), (Longs{10, 20, 20, 10}));
  EXPECT_THAT(list_of<float>(found[1]), Pointwise(FloatNear(1e-6f), Floats{0.5f, 0.5f, 0.3208213f, 0.6791787f,
                                                                           0.2227001f, 0.7772999f, 0.5f, 0.5f}));
}

TEST(OnnxTrees, DamagedOnesAreRefused) {
  const auto refused = [](const std::function<void(TwoTrees&)>& change) {
    TwoTrees t;
    change(t);
    return refused_ml(t.with(kRows));
  };
  constexpr std::int64_t kHuge = std::int64_t{1} << 60;
  const std::pair<std::function<void(TwoTrees&)>, const char*> cases[] = {
      {[](auto& t) { t.yes[1] = 2; }, "node 2 of tree 0 has two parents, or leads to itself"},
      {[](auto& t) { t.yes[0] = 0; }, "no root leads to node 2 of tree 0"},
      {[](auto& t) { t.no[1] = 99; }, "node 0 of tree 0 has a child 99, which does not exist"},
      {[](auto& t) { t.no[1] = kHuge; }, "has a child 1152921504606846976"},
      {[](auto& t) { t.features[0] = -1; }, "node 2 of tree 0 looks at feature -1"},
      {[](auto& t) { t.features[0] = 2; }, "the trees look at 3 columns"},
      {[](auto& t) { t.features[0] = kHuge; }, "is 1152921504606846976"},
      {[](auto& t) { t.ids[2] = 0; }, "node 0 of tree 0 is given twice"},
      {[](auto& t) { t.values.pop_back(); }, "'nodes_values' has 5 elements, but 'nodes_treeids' 6"},
      {[](auto& t) { t.modes.pop_back(); }, "'nodes_modes' has 5 elements"},
      {[](auto& t) { t.missing.pop_back(); }, "'nodes_missing_value_tracks_true' has 5 elements"},
      {[](auto& t) { t.yes.clear(); }, "'nodes_truenodeids' has 0 elements"},
      {[](auto& t) { t.no.clear(); }, "'nodes_falsenodeids' has 0 elements"},
      {[](auto& t) { t.trees.clear(); }, "there are no trees"},
      {[](auto& t) { t.modes[0] = "BRANCH_NEAR"; }, "an unknown mode 'BRANCH_NEAR'"},
      {[](auto& t) { t.weights.pop_back(); }, "'target_weights' has 3 elements, but 'target_treeids' 4"},
      {[](auto& t) { t.to.pop_back(); }, "'target_ids' has 3 elements"},
      {[](auto& t) { t.to_nodes.pop_back(); }, "'target_nodeids' has 3 elements"},
      {[](auto& t) { t.to_nodes[0] = 7; },
       "element 0 of 'target_weights' is of node 7 of tree 0, which does not exist"},
      {[](auto& t) { t.to[0] = 1; }, "is 1, not in [0, 1)"},
      {[](auto& t) { t.targets = kHuge; }, "attribute 'targets' is 1152921504606846976"},
      {[](auto& t) {
         t.base = {1, 2};
       },
       "'base_values' has 2 elements for 1 targets"},
      {[](auto& t) { t.aggregate = "MEDIAN"; }, "not 'MEDIAN'"}};
  for (const auto& [change, message] : cases) {
    const std::string why = refused(change);
    EXPECT_THAT(why, HasSubstr(message));
    EXPECT_THAT(why, HasSubstr("TreeEnsembleRegressor 'the_node'"));
  }
  // All nodes of the tree lead to themselves: none is a root.
  EXPECT_THAT(refused([](TwoTrees& t) {
                t.trees = {0}, t.ids = {0}, t.features = {0}, t.values = {0}, t.modes = {"BRANCH_LEQ"}, t.yes = {0},
                t.no = {0}, t.missing = {}, t.to_trees = {}, t.to_nodes = {}, t.to = {}, t.weights = {};
              }),
              HasSubstr("the trees have no root"));
}

TEST(OnnxTrees, ScoresOfTwoClassesAreThoseOfOneOfThem) {
  TwoTrees t = classifier();
  t.labels = {10, 20};
  t.to = {5, 5, 5, 5};
  EXPECT_THAT(refused_ml(t.with(kRows)), HasSubstr("attribute 'class_ids' has 5, but there are 2 classes"));
  t.to = {0, 0, 0, 0};
  t.base = {1, 2, 3};
  EXPECT_THAT(refused_ml(t.with(kRows)), HasSubstr("'base_values' has 3 elements for 2 classes"));
}

// ---- version 5

// x0 is in {1, 3} ? (x1 <= 2 ? leaf 0 : leaf 1) : leaf 2, then a tree of one leaf on both sides.
struct Version5 {
  Longs roots{0, 2}, features{0, 1, 0}, yes{1, 0, 3}, no{2, 1, 3}, yes_leaf{0, 1, 1}, no_leaf{1, 1, 1};
  std::vector<std::uint8_t> modes{6, 0, 0};
  std::vector<float> splits{0, 2, 0}, members{1, 3, kNan}, weights{1, 2, 3, 10};
  Longs targets{0, 1, 0, 1};
  std::int64_t count = 2, aggregate = 1, transform = 0;

  MlCase with(Tensor x) const {
    return {"TreeEnsemble",
            {std::move(x)},
            [t = *this](NodeMaker& n) {
              const auto tensor = [](const auto& values) {
                using T = typename std::decay_t<decltype(values)>::value_type;
                return Tensor::of<T>(Shape{std::ssize(values)}, values);
              };
              n.set("tree_roots", t.roots).set("nodes_featureids", t.features).set("nodes_truenodeids", t.yes);
              n.set("nodes_falsenodeids", t.no).set("nodes_trueleafs", t.yes_leaf).set("nodes_falseleafs", t.no_leaf);
              n.set("nodes_modes", tensor(t.modes)).set("nodes_splits", tensor(t.splits));
              n.set("membership_values", tensor(t.members)).set("leaf_weights", tensor(t.weights));
              n.set("leaf_targetids", t.targets).set("n_targets", t.count);
              n.set("aggregate_function", t.aggregate).set("post_transform", t.transform);
            },
            1,
            5};
  }
};

TEST(OnnxTrees, Version5KeepsLeavesApart) {
  const Tensor x = Tensor::of<float>(Shape{3, 2}, {1, 2, 3, 3, 2, 0});
  Version5 t;
  EXPECT_EQ(list_of<float>(run_ml(t.with(x))[0]), (Floats{1, 10, 0, 12, 3, 10}));
  t.aggregate = 0;
  EXPECT_EQ(list_of<float>(run_ml(t.with(x))[0]), (Floats{0.5f, 5, 0, 6, 1.5f, 5}));
  t.aggregate = 2;
  EXPECT_EQ(list_of<float>(run_ml(t.with(x))[0]), (Floats{1, 10, 0, 2, 3, 10}));
  const Tensor y = run_ml(t.with(Tensor::of<double>(Shape{1, 2}, {1, 2})))[0];
  EXPECT_EQ(list_of<double>(y), (std::vector<double>{1, 10}));
}

TEST(OnnxTrees, DamagedOnesOfVersion5AreRefused) {
  const auto refused = [](const std::function<void(Version5&)>& change) {
    Version5 t;
    change(t);
    return refused_ml(t.with(kRows));
  };
  const std::pair<std::function<void(Version5&)>, const char*> cases[] = {
      {[](auto& t) { t.yes[0] = 0; }, "node 0 has two parents, or leads to itself"},
      {[](auto& t) {
         t.roots = {0, 1};
       },
       "node 1 has two parents, or leads to itself"},
      {[](auto& t) { t.roots = {0}; }, "no root leads to node 2"},
      {[](auto& t) { t.roots = {}; }, "there are no trees"},
      {[](auto& t) { t.roots = {3}; }, "'tree_roots' has node 3, which does not exist"},
      {[](auto& t) { t.roots = {-1}; }, "'tree_roots' has node -1, which does not exist"},
      {[](auto& t) { t.yes[0] = 3; }, "node 0 has the child node 3, which does not exist"},
      {[](auto& t) { t.no[1] = 4; }, "node 1 has the child leaf 4, which does not exist"},
      {[](auto& t) { t.features[0] = -1; }, "node 0 looks at feature -1"},
      {[](auto& t) { t.modes[0] = 7; }, "node 0 has the unknown mode 7"},
      {[](auto& t) { t.modes.pop_back(); }, "'nodes_modes' has 2 elements"},
      {[](auto& t) { t.splits.pop_back(); }, "'nodes_splits' has 2 elements"},
      {[](auto& t) { t.yes.pop_back(); }, "'nodes_truenodeids' has 2 elements"},
      {[](auto& t) { t.no.pop_back(); }, "'nodes_falsenodeids' has 2 elements"},
      {[](auto& t) { t.yes_leaf.pop_back(); }, "'nodes_trueleafs' has 2 elements"},
      {[](auto& t) { t.no_leaf.pop_back(); }, "'nodes_falseleafs' has 2 elements"},
      {[](auto& t) { t.weights.pop_back(); }, "'leaf_weights' has 3 elements, but 'leaf_targetids' 4"},
      {[](auto& t) { t.members = {}; }, "'membership_values' has none for node 0"},
      {[](auto& t) {
         t.members = {1, 3};
       },
       "does not end the values of node 0 with NaN"},
      {[](auto& t) { t.aggregate = 4; }, "'aggregate_function' is 4, not 0 to 3"},
      {[](auto& t) { t.transform = -1; }, "'post_transform' is -1, not 0 to 4"}};
  for (const auto& [change, message] : cases) {
    const std::string why = refused(change);
    EXPECT_THAT(why, HasSubstr(message));
    EXPECT_THAT(why, HasSubstr("TreeEnsemble 'the_node'"));
  }
}

}  // namespace
}  // namespace troupe
