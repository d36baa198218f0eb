// The arrays of an ensemble of trees (graph/builder/trees.hpp), checked.
#pragma once

#include <cstdint>
#include <span>

#include <troupe/messages/attributes.hpp>

namespace troupe {

// What a node of a tree does with its feature v and threshold t. NaN takes the way that `nan_takes_true` says, or else
// the one that the comparison says.
enum class TreeTest : std::uint8_t {
  leaf,
  less_equal,
  less,
  greater_equal,
  greater,
  equal,
  not_equal,
  member,  // v is one of the node's members
};

struct TreeTables {
  std::span<const std::int64_t> roots{}, features{}, true_children{}, false_children{};
  std::span<const std::int64_t> weight_splits{}, weight_targets{}, member_splits{};  // member_splits may be empty
  std::span<const std::uint8_t> tests{};
  std::span<const bool> nan_takes_true{};
  std::int64_t targets = 1;
  std::int64_t columns = 1;  // of x, at least

  TreeTest test(std::size_t node) const { return static_cast<TreeTest>(tests[node]); }
  bool is_leaf(std::size_t node) const { return test(node) == TreeTest::leaf; }
};

// Of the attributes of a node TreeEnsemble, which keep the memory, for x of the dtype. Throws invalid_argument, naming
// the attribute and the element, for arrays of other lengths and dtypes, nodes that do not come after their parent or
// have two, and for features, targets and tests that do not exist.
TreeTables tree_tables(const Attributes& attributes, DType dtype);

}  // namespace troupe
