#include "troupe/graph/tree_tables.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace troupe {
namespace {

constexpr std::int64_t kMaxTreeNodes = std::numeric_limits<std::int32_t>::max() / 2;
constexpr std::int64_t kMaxTreeColumns = std::numeric_limits<std::int32_t>::max() - 1;

const Tensor& array(const Attributes& attributes, const char* name, DType dtype, std::int64_t size = kUnknown) {
  const Tensor& t = attributes.tensor(name);
  if (t.dtype() != dtype || t.shape().rank() != 1 || (size != kUnknown && t.num_elements() != size))
    invalid_argument("attribute '{}' must be {}{}, but is {}{}", name, troupe::name(dtype),
                     size == kUnknown ? "[?]" : fmt::format("[{}]", size), troupe::name(t.dtype()),
                     t.shape().to_string());
  return t;
}

std::span<const std::int64_t> integers(const Attributes& attributes, const char* name, std::int64_t size = kUnknown) {
  return array(attributes, name, DType::i64, size).values<std::int64_t>();
}

void check_range(const char* name, std::span<const std::int64_t> values, std::int64_t low, std::int64_t high) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] < low || values[i] >= high)
      invalid_argument("element {} of attribute '{}' is {}, not in [{}, {})", i, name, values[i], low, high);
}

std::span<const std::int64_t> splits(const Attributes& attributes, const char* name, std::int64_t nodes,
                                     std::int64_t values) {
  const auto found = integers(attributes, name, nodes + 1);
  if (found.front() != 0 || found.back() != values || !std::ranges::is_sorted(found))
    invalid_argument("attribute '{}' must ascend from 0 to {}", name, values);
  return found;
}

void check_parents(const TreeTables& t) {
  std::vector<bool> reached(t.tests.size());
  const auto reach = [&](std::int64_t node, const char* name, std::size_t i) {
    if (reached[static_cast<std::size_t>(node)])
      invalid_argument("element {} of attribute '{}' is node {}, which has a parent or is a root already", i, name,
                       node);
    reached[static_cast<std::size_t>(node)] = true;
  };
  for (std::size_t i = 0; i < t.roots.size(); ++i) reach(t.roots[i], "roots", i);
  for (std::size_t i = 0; i < t.tests.size(); ++i) {
    const bool leaf = t.is_leaf(i);
    if (leaf) continue;
    if (t.weight_splits[i] != t.weight_splits[i + 1]) invalid_argument("node {} has weights, but is no leaf", i);
    for (const auto& [children, name] :
         {std::pair{t.true_children, "true_children"}, std::pair{t.false_children, "false_children"}}) {
      if (children[i] <= static_cast<std::int64_t>(i))
        invalid_argument("element {} of attribute '{}' is {}: children must come after their parent", i, name,
                         children[i]);
      reach(children[i], name, i);
    }
  }
}

}  // namespace

TreeTables tree_tables(const Attributes& attributes, DType dtype) {
  TreeTables t;
  const Tensor& tests = array(attributes, "tests", DType::u8);
  const std::int64_t nodes = tests.num_elements();
  if (nodes < 1 || nodes > kMaxTreeNodes)
    invalid_argument("has {} nodes of trees: must be from 1 to {}", nodes, kMaxTreeNodes);
  t.tests = tests.values<std::uint8_t>();
  for (std::size_t i = 0; i < t.tests.size(); ++i)
    if (t.tests[i] > static_cast<std::uint8_t>(TreeTest::member))
      invalid_argument("element {} of attribute 'tests' is {}, which is no test", i, t.tests[i]);
  t.targets = attributes.integer("targets");
  if (t.targets < 1 || t.targets > kMaxTreeColumns)
    invalid_argument("attribute 'targets' is {}: must be from 1 to {}", t.targets, kMaxTreeColumns);
  const std::string& aggregate = attributes.string("aggregate");
  if (aggregate != "sum" && aggregate != "average" && aggregate != "min" && aggregate != "max")
    invalid_argument("attribute 'aggregate' must be sum, average, min or max, not '{}'", aggregate);
  t.roots = integers(attributes, "roots");
  if (t.roots.empty()) invalid_argument("attribute 'roots' is empty: there are no trees");
  check_range("roots", t.roots, 0, nodes);
  t.features = integers(attributes, "features", nodes);
  check_range("features", t.features, 0, kMaxTreeColumns);
  t.columns = std::max<std::int64_t>(1, std::ranges::max(t.features) + 1);
  array(attributes, "thresholds", dtype, nodes);
  t.true_children = integers(attributes, "true_children", nodes);
  check_range("true_children", t.true_children, 0, nodes);
  t.false_children = integers(attributes, "false_children", nodes);
  check_range("false_children", t.false_children, 0, nodes);
  t.nan_takes_true = array(attributes, "nan_takes_true", DType::boolean, nodes).values<bool>();
  t.weight_targets = integers(attributes, "weight_targets");
  if (std::ssize(t.weight_targets) > kMaxTreeNodes)
    invalid_argument("has {} weights: must be at most {}", t.weight_targets.size(), kMaxTreeNodes);
  check_range("weight_targets", t.weight_targets, 0, t.targets);
  array(attributes, "weights", dtype, std::ssize(t.weight_targets));
  t.weight_splits = splits(attributes, "weight_splits", nodes, std::ssize(t.weight_targets));
  const std::int64_t members = array(attributes, "members", dtype).num_elements();
  const bool some = std::ranges::count(t.tests, static_cast<std::uint8_t>(TreeTest::member)) > 0;
  if (some) t.member_splits = splits(attributes, "member_splits", nodes, members);
  check_parents(t);
  return t;
}

}  // namespace troupe
