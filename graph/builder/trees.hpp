// Builder API for ensembles of decision trees: random forests, gradient boosting.
#pragma once

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/tree_tables.hpp>

namespace troupe {

// Trees as arrays over the nodes of all of them. A node comes after its parent, so that following children ends; each
// node but a root has one parent. Where an example reaches a leaf, the leaf's weights are added to their targets.
struct TreeEnsemble {
  Tensor roots{};           // i64 [trees]: nodes
  Tensor tests{};           // u8 [nodes]: TreeTest
  Tensor features{};        // i64 [nodes]: columns of x; of leaves 0
  Tensor thresholds{};      // [nodes], of x's dtype
  Tensor true_children{};   // i64 [nodes]; of leaves 0
  Tensor false_children{};  // i64 [nodes]; of leaves 0
  Tensor nan_takes_true{};  // bool [nodes]
  // The weights of node i are those from weight_splits[i] to weight_splits[i + 1]; only leaves have some.
  Tensor weight_splits{};   // i64 [nodes + 1], from 0 to the number of weights, ascending
  Tensor weight_targets{};  // i64 [weights]: columns of the result
  Tensor weights{};         // [weights], of x's dtype
  // Likewise the numbers that nodes with the test `member` look for; no tensors if there are none.
  Tensor member_splits{};  // i64 [nodes + 1]
  Tensor members{};        // [members], of x's dtype
  std::int64_t targets = 1;
  std::string aggregate = "sum";  // average (the sum over the number of trees), min, max
};

// x [n,features] of f32 or f64 -> [n,targets] of x's dtype. Sums are in x's dtype, in the order of the trees; a target
// that gets no weight is 0. Throws invalid_argument for arrays that are not as above. No gradient.
Output tree_ensemble(Output x, const TreeEnsemble& trees, Name name = {});

}  // namespace troupe
