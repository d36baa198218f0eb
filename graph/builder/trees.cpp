#include "troupe/graph/builder/trees.hpp"

namespace troupe {

Output tree_ensemble(Output x, const TreeEnsemble& trees, Name name) {
  const bool some = trees.member_splits.valid();
  return add_op("TreeEnsemble", {x},
                {{"roots", trees.roots},
                 {"tests", trees.tests},
                 {"features", trees.features},
                 {"thresholds", trees.thresholds},
                 {"true_children", trees.true_children},
                 {"false_children", trees.false_children},
                 {"nan_takes_true", trees.nan_takes_true},
                 {"weight_splits", trees.weight_splits},
                 {"weight_targets", trees.weight_targets},
                 {"weights", trees.weights},
                 {"member_splits", some ? trees.member_splits : Tensor(DType::i64, Shape{0})},
                 {"members", some ? trees.members : Tensor(x.dtype(), Shape{0})},
                 {"targets", trees.targets},
                 {"aggregate", trees.aggregate}},
                std::move(name));
}

}  // namespace troupe
