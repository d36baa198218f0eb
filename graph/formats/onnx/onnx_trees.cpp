// Ensembles of trees of ai.onnx.ml. Versions 1 to 4 name nodes by tree and number, and tell nodes and leaves apart by
// their mode; TreeEnsemble of version 5 has separate arrays for both, which name each other by position.
#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <unordered_map>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/formats/onnx/onnx_ml.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe {
namespace {

constexpr std::size_t kNoNode = std::numeric_limits<std::size_t>::max();

// A node of a model, whose children are positions among all of them.
struct ModelNode {
  TreeTest test = TreeTest::leaf;
  std::int64_t feature = 0;
  double threshold = 0;
  bool nan_takes_true = false;
  std::size_t children[2] = {kNoNode, kNoNode};            // true, false
  std::vector<std::pair<std::int64_t, double>> weights{};  // of a leaf: targets and weights
  std::vector<double> members{};
  std::string name{};  // for messages
};

template <class T>
Tensor tensor_of(const std::vector<T>& values) {
  Tensor out(dtype_of<T>, Shape{std::ssize(values)});
  std::copy(values.begin(), values.end(), out.template mutable_data<T>());
  return out;
}

// The nodes from the roots on, each tree breadth-first: parents come before their children. A leaf may have several
// parents, and is copied. Throws for other nodes with two, also those that are their own ancestors.
class TreeOrder {
 public:
  TreeOrder(const std::vector<ModelNode>& nodes, const std::vector<std::size_t>& roots) : nodes_(nodes) {
    std::vector<bool> reached(nodes.size());
    for (const std::size_t root : roots) {
      roots_.push_back(std::ssize(order_));
      std::size_t next = order_.size();
      order_.push_back(root);
      for (; next < order_.size(); ++next) {
        const std::size_t at = order_[next];
        const ModelNode& node = nodes[at];
        first_child_.push_back(0);
        if (node.test == TreeTest::leaf) continue;
        if (reached[at]) invalid_argument("{} has two parents, or leads to itself", node.name);
        reached[at] = true;
        first_child_.back() = std::ssize(order_);
        for (const std::size_t child : node.children) order_.push_back(child);
      }
    }
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].test != TreeTest::leaf && !reached[i])
        invalid_argument("no root leads to {}: it leads to itself", nodes[i].name);
  }

  TreeEnsemble ensemble(DType dtype, std::int64_t targets, std::string aggregate) const {
    std::vector<std::int64_t> features, splits{0}, weight_targets, member_splits{0}, yes, no;
    std::vector<std::uint8_t> tests;
    std::vector<double> thresholds, weights, members;
    Tensor nan(DType::boolean, Shape{std::ssize(order_)});
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const ModelNode& node = nodes_[order_[i]];
      const bool leaf = node.test == TreeTest::leaf;
      tests.push_back(static_cast<std::uint8_t>(node.test));
      features.push_back(leaf ? 0 : node.feature);
      thresholds.push_back(leaf ? 0 : node.threshold);
      nan.mutable_data<bool>()[i] = !leaf && node.nan_takes_true;
      yes.push_back(first_child_[i]);
      no.push_back(leaf ? 0 : first_child_[i] + 1);
      if (leaf)
        for (const auto& [target, weight] : node.weights) {
          weight_targets.push_back(target);
          weights.push_back(weight);
        }
      splits.push_back(std::ssize(weights));
      members.insert(members.end(), node.members.begin(), node.members.end());
      member_splits.push_back(std::ssize(members));
    }
    return {.roots = tensor_of(roots_),
            .tests = tensor_of(tests),
            .features = tensor_of(features),
            .thresholds = vector_of(thresholds, dtype),
            .true_children = tensor_of(yes),
            .false_children = tensor_of(no),
            .nan_takes_true = nan,
            .weight_splits = tensor_of(splits),
            .weight_targets = tensor_of(weight_targets),
            .weights = vector_of(weights, dtype),
            .member_splits = tensor_of(member_splits),
            .members = vector_of(members, dtype),
            .targets = targets,
            .aggregate = std::move(aggregate)};
  }

 private:
  const std::vector<ModelNode>& nodes_;
  std::vector<std::int64_t> roots_{}, first_child_{};
  std::vector<std::size_t> order_{};
};

void check_size(const char* name, std::size_t size, const char* first, std::size_t wanted) {
  if (size != wanted) invalid_argument("attribute '{}' has {} elements, but '{}' {}", name, size, first, wanted);
}

// Numbers in attribute `name`, or in the tensor `name` + "_as_tensor" of version 3.
std::vector<double> numbers(const OnnxNode& node, const std::string& name, bool as_tensor = false) {
  const std::string tensor = as_tensor ? name : name + "_as_tensor";
  if (!as_tensor && (node.has_attr(name) || !node.has_attr(tensor))) return node.reals(name, std::vector<double>{});
  if (!node.has_attr(tensor)) return {};
  const Tensor t = node.tensor(tensor);
  return dispatch(FloatTypes{}, t.dtype(), [&]<class T>() {
    std::vector<double> out;
    for (const T v : t.values<T>()) out.push_back(static_cast<double>(static_cast<Compute<T>>(v)));
    return out;
  });
}

// ---- versions 1 to 4

TreeTest test_named(const std::string& mode) {
  constexpr std::pair<std::string_view, TreeTest> kModes[] = {{"LEAF", TreeTest::leaf},
                                                              {"BRANCH_LEQ", TreeTest::less_equal},
                                                              {"BRANCH_LT", TreeTest::less},
                                                              {"BRANCH_GT", TreeTest::greater},
                                                              {"BRANCH_EQ", TreeTest::equal},
                                                              {"BRANCH_NEQ", TreeTest::not_equal},
                                                              {"BRANCH_GTE", TreeTest::greater_equal}};
  for (const auto& [name, test] : kModes)
    if (name == mode) return test;
  invalid_argument("attribute 'nodes_modes' has an unknown mode '{}'", mode);
}

struct TreeNodeKey {
  std::int64_t tree, node;
  bool operator==(const TreeNodeKey&) const = default;
};
struct TreeNodeHash {
  std::size_t operator()(const TreeNodeKey& key) const {
    return std::hash<std::int64_t>{}(key.tree * 0x9e3779b97f4a7c1 + key.node);
  }
};

// The nodes of a TreeEnsembleRegressor ("target") or TreeEnsembleClassifier ("class").
class NamedNodes {
 public:
  NamedNodes(const OnnxNode& node, const std::string& kind) : node_(node), kind_(kind) {
    read_nodes();
    link();
    read_weights();
  }

  std::vector<ModelNode> nodes{};
  std::vector<std::size_t> roots{};
  std::set<std::int64_t> targets{};
  bool positive = true;  // all weights

 private:
  void read_nodes() {
    trees_ = node_.integers("nodes_treeids", Integers{});
    if (trees_.empty()) invalid_argument("attribute 'nodes_treeids' is empty: there are no trees");
    const Integers ids = sized("nodes_nodeids"), features = sized("nodes_featureids");
    const Integers missing = node_.integers("nodes_missing_value_tracks_true", Integers{});
    const std::vector<std::string> modes = node_.strings("nodes_modes", std::vector<std::string>{});
    const std::vector<double> values = numbers(node_, "nodes_values");
    check_size("nodes_modes", modes.size(), "nodes_treeids", trees_.size());
    check_size("nodes_values", values.size(), "nodes_treeids", trees_.size());
    if (!missing.empty()) check_size("nodes_missing_value_tracks_true", missing.size(), "nodes_treeids", trees_.size());
    nodes.resize(trees_.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      ModelNode& made = nodes[i];
      made.name = fmt::format("node {} of tree {}", ids[i], trees_[i]);
      made.test = test_named(modes[i]);
      made.feature = features[i];
      made.threshold = values[i];
      made.nan_takes_true = !missing.empty() && missing[i] != 0;
      if (made.test != TreeTest::leaf && made.feature < 0)
        invalid_argument("{} looks at feature {}", made.name, made.feature);
      if (!places_.emplace(TreeNodeKey{trees_[i], ids[i]}, i).second) invalid_argument("{} is given twice", made.name);
    }
  }

  void link() {
    const Integers yes = sized("nodes_truenodeids"), no = sized("nodes_falsenodeids");
    std::vector<bool> has_parent(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].test == TreeTest::leaf) continue;
      for (std::size_t way = 0; way < 2; ++way) {
        const std::int64_t id = way == 0 ? yes[i] : no[i];
        const auto child = places_.find({trees_[i], id});
        if (child == places_.end()) invalid_argument("{} has a child {}, which does not exist", nodes[i].name, id);
        nodes[i].children[way] = child->second;
        has_parent[child->second] = true;
      }
    }
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (!has_parent[i]) roots.push_back(i);
    if (roots.empty()) invalid_argument("the trees have no root: their nodes lead to themselves");
  }

  // Weights of nodes that are no leaves have no effect: models with some exist.
  void read_weights() {
    const std::string trees_name = kind_ + "_treeids";
    const Integers trees = node_.integers(trees_name, Integers{});
    const Integers ids = node_.integers(kind_ + "_nodeids", Integers{});
    const Integers to = node_.integers(kind_ + "_ids", Integers{});
    const std::vector<double> values = numbers(node_, kind_ + "_weights");
    check_size((kind_ + "_nodeids").c_str(), ids.size(), trees_name.c_str(), trees.size());
    check_size((kind_ + "_ids").c_str(), to.size(), trees_name.c_str(), trees.size());
    check_size((kind_ + "_weights").c_str(), values.size(), trees_name.c_str(), trees.size());
    for (std::size_t i = 0; i < trees.size(); ++i) {
      const auto place = places_.find({trees[i], ids[i]});
      if (place == places_.end())
        invalid_argument("element {} of '{}_weights' is of node {} of tree {}, which does not exist", i, kind_, ids[i],
                         trees[i]);
      targets.insert(to[i]);
      positive = positive && values[i] >= 0;
      nodes[place->second].weights.emplace_back(to[i], values[i]);
    }
  }

  Integers sized(const char* name) const {
    Integers found = node_.integers(name, Integers{});
    check_size(name, found.size(), "nodes_treeids", trees_.size());
    return found;
  }

  const OnnxNode& node_;
  std::string kind_;
  Integers trees_{};
  std::unordered_map<TreeNodeKey, std::size_t, TreeNodeHash> places_{};
};

// Adds one number to each target of y [n,targets]; none are given where there is nothing to add.
Output with_base(Output y, const std::vector<double>& base, std::int64_t targets) {
  if (base.empty()) return y;
  if (std::ssize(base) != targets)
    invalid_argument("attribute 'base_values' has {} elements for {} targets", base.size(), targets);
  return y + constant(*y.graph, vector_of(base, y.dtype()));
}

void tree_regressor_node(OnnxNode& node) {
  const NamedNodes named(node, "target");
  const std::int64_t targets = node.integer("n_targets", 1);
  const std::string aggregate = node.string("aggregate_function", "SUM");
  if (aggregate != "SUM" && aggregate != "AVERAGE" && aggregate != "MIN" && aggregate != "MAX")
    invalid_argument("attribute 'aggregate_function' must be SUM, AVERAGE, MIN or MAX, not '{}'", aggregate);
  std::string lower = aggregate;
  for (char& c : lower) c = static_cast<char>(c - 'A' + 'a');
  const Output x = feature_rows(node.in(0));
  Output y = tree_ensemble(x, TreeOrder(named.nodes, named.roots).ensemble(x.dtype(), targets, lower));
  y = with_base(y, numbers(node, "base_values"), targets);
  node.set(cast(post_transformed(y, node.string("post_transform", "NONE")), DType::f32));
}

// Two classes of which only one has weights: its score says which of the two it is.
void one_score_of_two(OnnxNode& node, NamedNodes& named, Output x, const std::vector<double>& base,
                      const Tensor& labels) {
  const std::int64_t only = *named.targets.begin();
  if (only < 0 || only > 1) invalid_argument("attribute 'class_ids' has {}, but there are 2 classes", only);
  for (ModelNode& n : named.nodes)
    for (auto& [target, weight] : n.weights) target = 0;
  Output s = tree_ensemble(x, TreeOrder(named.nodes, named.roots).ensemble(x.dtype(), 1, "sum"));
  if (base.size() > 2) invalid_argument("attribute 'base_values' has {} elements for 2 classes", base.size());
  if (!base.empty()) s = s + base[base.size() == 2 ? static_cast<std::size_t>(only) : 0];
  const Output second = greater(s, scalar_like(s, named.positive ? 0.5 : 0));
  const std::string transform = node.string("post_transform", "NONE");
  const Output scores =
      only == 0 ? two_scores(s, named.positive, transform) : post_transformed(concat({zeros_like(s), s}, 1), transform);
  set_classes(node, squeeze(cast(second, DType::i64), {1}), scores, labels);
}

void tree_classifier_node(OnnxNode& node) {
  NamedNodes named(node, "class");
  const Tensor labels = class_labels(node, "classlabels_int64s", "classlabels_strings");
  const std::int64_t classes = labels.num_elements();
  const std::vector<double> base = numbers(node, "base_values");
  const Output x = feature_rows(node.in(0));
  if (classes == 2 && named.targets.size() == 1) return one_score_of_two(node, named, x, base, labels);
  Output y = tree_ensemble(x, TreeOrder(named.nodes, named.roots).ensemble(x.dtype(), classes, "sum"));
  y = with_base(y, base, classes);
  set_classes(node, arg_max(y, 1), post_transformed(y, node.string("post_transform", "NONE")), labels);
}

// ---- version 5

// The numbers of each node with the test `member`: those up to a NaN.
void set_members(std::vector<ModelNode>& nodes, const std::vector<double>& values) {
  std::size_t at = 0;
  for (ModelNode& node : nodes) {
    if (node.test != TreeTest::member) continue;
    for (; at < values.size() && values[at] == values[at]; ++at) node.members.push_back(values[at]);
    if (at == values.size() && !values.empty() && values.back() == values.back())
      invalid_argument("attribute 'membership_values' does not end the values of {} with NaN", node.name);
    if (at == values.size()) invalid_argument("attribute 'membership_values' has none for {}", node.name);
    ++at;
  }
}

std::vector<ModelNode> nodes_of_version_5(const OnnxNode& node) {
  constexpr std::array kTests = {TreeTest::less_equal, TreeTest::less,      TreeTest::greater_equal, TreeTest::greater,
                                 TreeTest::equal,      TreeTest::not_equal, TreeTest::member};
  const Integers features = node.integers("nodes_featureids"), yes = node.integers("nodes_truenodeids");
  const Integers no = node.integers("nodes_falsenodeids"), yes_leaf = node.integers("nodes_trueleafs");
  const Integers no_leaf = node.integers("nodes_falseleafs"), leaf_targets = node.integers("leaf_targetids");
  const Integers missing = node.integers("nodes_missing_value_tracks_true", Integers{});
  const Tensor modes = node.tensor("nodes_modes");
  const std::vector<double> splits = numbers(node, "nodes_splits", true), weights = numbers(node, "leaf_weights", true);
  const std::size_t count = features.size(), leaves = leaf_targets.size();
  if (modes.dtype() != DType::u8)
    invalid_argument("attribute 'nodes_modes' must be u8, but is {}", name(modes.dtype()));
  check_size("nodes_modes", static_cast<std::size_t>(modes.num_elements()), "nodes_featureids", count);
  check_size("nodes_splits", splits.size(), "nodes_featureids", count);
  check_size("nodes_truenodeids", yes.size(), "nodes_featureids", count);
  check_size("nodes_falsenodeids", no.size(), "nodes_featureids", count);
  check_size("nodes_trueleafs", yes_leaf.size(), "nodes_featureids", count);
  check_size("nodes_falseleafs", no_leaf.size(), "nodes_featureids", count);
  if (!missing.empty()) check_size("nodes_missing_value_tracks_true", missing.size(), "nodes_featureids", count);
  check_size("leaf_weights", weights.size(), "leaf_targetids", leaves);
  std::vector<ModelNode> nodes(count + leaves);
  for (std::size_t i = 0; i < count; ++i) {
    ModelNode& made = nodes[i];
    made.name = fmt::format("node {}", i);
    const std::uint8_t mode = modes.values<std::uint8_t>()[i];
    if (mode >= kTests.size()) invalid_argument("{} has the unknown mode {}", made.name, mode);
    made.test = kTests[mode];
    made.feature = features[i];
    if (made.feature < 0) invalid_argument("{} looks at feature {}", made.name, made.feature);
    made.threshold = splits[i];
    made.nan_takes_true = !missing.empty() && missing[i] != 0;
    for (std::size_t way = 0; way < 2; ++way) {
      const std::int64_t id = way == 0 ? yes[i] : no[i];
      const bool leaf = (way == 0 ? yes_leaf[i] : no_leaf[i]) != 0;
      if (id < 0 || static_cast<std::size_t>(id) >= (leaf ? leaves : count))
        invalid_argument("{} has the child {} {}, which does not exist", made.name, leaf ? "leaf" : "node", id);
      made.children[way] = static_cast<std::size_t>(id) + (leaf ? count : 0);
    }
  }
  for (std::size_t i = 0; i < leaves; ++i) nodes[count + i].weights = {{leaf_targets[i], weights[i]}};
  set_members(nodes, numbers(node, "membership_values", true));
  return nodes;
}

void tree_ensemble_node(OnnxNode& node) {
  const std::vector<ModelNode> nodes = nodes_of_version_5(node);
  std::vector<std::size_t> roots;
  for (const std::int64_t root : node.integers("tree_roots")) {
    if (root < 0 || static_cast<std::size_t>(root) >= nodes.size() ||
        nodes[static_cast<std::size_t>(root)].test == TreeTest::leaf)
      invalid_argument("attribute 'tree_roots' has node {}, which does not exist", root);
    roots.push_back(static_cast<std::size_t>(root));
  }
  if (roots.empty()) invalid_argument("attribute 'tree_roots' is empty: there are no trees");
  constexpr const char* kAggregates[] = {"average", "sum", "min", "max"};
  constexpr const char* kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const std::int64_t aggregate = node.integer("aggregate_function", 1), transform = node.integer("post_transform", 0);
  if (aggregate < 0 || aggregate > 3) invalid_argument("attribute 'aggregate_function' is {}, not 0 to 3", aggregate);
  if (transform < 0 || transform > 4) invalid_argument("attribute 'post_transform' is {}, not 0 to 4", transform);
  const Output x = feature_rows(node.in(0));
  const TreeOrder order(nodes, roots);
  const Output y = tree_ensemble(x, order.ensemble(x.dtype(), node.integer("n_targets", 1), kAggregates[aggregate]));
  node.set(cast(post_transformed(y, kTransforms[transform]), node.in(0).dtype()));
}

constexpr OnnxOp kTreeOps[] = {
    {"TreeEnsemble", tree_ensemble_node},
    {"TreeEnsembleClassifier", tree_classifier_node},
    {"TreeEnsembleRegressor", tree_regressor_node},
};

}  // namespace

std::span<const OnnxOp> onnx_tree_ops() { return kTreeOps; }

}  // namespace troupe
