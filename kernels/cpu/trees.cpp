// Ensembles of decision trees: eight examples, or for few examples eight trees, walk at the same time, because a single
// walk waits for memory and for its comparison at each node.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include <troupe/graph/tree_tables.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

constexpr int kLanes = 8;
constexpr std::int64_t kStepsPerPart = 1 << 17;  // of walks, about 0.1 ms
constexpr std::int64_t kMaxRowsPerPart = 512;

// The children of a node are neighbours. A leaf is its own child, so that walks of different lengths end together.
template <class T>
struct TreeNode {
  T threshold{};
  std::int32_t feature = 0;
  std::int32_t child = 0;   // where the test is true
  std::int32_t source = 0;  // the node of the op's arrays
  std::uint8_t step = 0;    // from there to the child where it is false; 0: a leaf
  bool nan_takes_true = false;
  TreeTest test = TreeTest::leaf;
};

enum class TreeAggregate : std::uint8_t { sum, average, min, max };

template <class T>
class Forest {
 public:
  Forest(const Attributes& attributes, std::string_view node)
      : attributes_(attributes), tables_(tree_tables(attributes_, dtype_of<T>)), name_(node) {
    const std::string& aggregate = attributes_.string("aggregate");
    aggregate_ = aggregate == "average" ? TreeAggregate::average
                 : aggregate == "min"   ? TreeAggregate::min
                 : aggregate == "max"   ? TreeAggregate::max
                                        : TreeAggregate::sum;
    weights_ = attributes_.tensor("weights").data<T>();
    if (!tables_.member_splits.empty()) sort_members();
    for (std::size_t i = 0; i < tables_.tests.size(); ++i) {
      const TreeTest test = tables_.test(i);
      only_less_equal_ = only_less_equal_ && (test == TreeTest::leaf || test == TreeTest::less_equal);
      if (test == TreeTest::leaf)
        one_weight_ = one_weight_ && tables_.weight_splits[i + 1] - tables_.weight_splits[i] == 1;
    }
    one_weight_ = one_weight_ && tables_.targets == 1;
    lay_out();
  }

  void run(KernelContext& c) const {
    const Tensor& x = c.input(0);
    if (x.shape().rank() != 2 || x.shape()[1] < tables_.columns)
      invalid_argument("TreeEnsemble '{}': x is {}, but must be a matrix of at least {} columns", name_,
                       x.shape().to_string(), tables_.columns);
    const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
    Tensor y = c.allocate(x.dtype(), Shape{rows, tables_.targets});
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    const std::int64_t trees = std::ssize(tables_.roots);
    std::int64_t part = std::clamp<std::int64_t>(kStepsPerPart / std::max<std::int64_t>(1, steps_), 1, kMaxRowsPerPart);
    part = part < kLanes ? part : part / kLanes * kLanes;
    c.parallelism().parallel_for(rows, part, [&](std::int64_t begin, std::int64_t end) {
      Rows block{from + begin * columns, columns, end - begin, to + begin * tables_.targets};
      std::fill_n(block.y, block.count * tables_.targets, T{0});
      if (aggregate_ == TreeAggregate::min || aggregate_ == TreeAggregate::max)
        block.seen.resize(static_cast<std::size_t>(block.count * tables_.targets));
      only_less_equal_ ? walk_all<true>(block) : walk_all<false>(block);
      if (aggregate_ == TreeAggregate::average)
        for (std::int64_t i = 0; i < block.count * tables_.targets; ++i) block.y[i] /= static_cast<T>(trees);
    });
    c.set_output(0, std::move(y));
  }

 private:
  struct Rows {
    const T* x;
    std::int64_t columns, count;
    T* y;
    std::vector<char> seen{};  // of minima and maxima: targets that have a weight
  };
  using Lanes = std::array<std::int32_t, kLanes>;

  // Breadth-first, tree after tree.
  void lay_out() {
    nodes_.reserve(tables_.tests.size());
    std::int64_t levels = 0;
    for (const std::int64_t root : tables_.roots) {
      std::size_t next = nodes_.size(), level_end = next + 1;
      roots_.push_back(static_cast<std::int32_t>(next));
      nodes_.push_back({.source = static_cast<std::int32_t>(root)});
      for (; next < nodes_.size(); ++next) {
        if (next == level_end) {
          ++levels;
          level_end = nodes_.size();
        }
        place(next);
      }
    }
    steps_ = levels + std::ssize(roots_);
  }

  void place(std::size_t index) {
    TreeNode<T> node = nodes_[index];
    const auto source = static_cast<std::size_t>(node.source);
    node.test = tables_.test(source);
    if (node.test == TreeTest::leaf) {
      node.child = static_cast<std::int32_t>(index);
      if (one_weight_) node.threshold = weights_[tables_.weight_splits[source]];
    } else {
      node.threshold = attributes_.tensor("thresholds").data<T>()[source];
      node.feature = static_cast<std::int32_t>(tables_.features[source]);
      node.nan_takes_true = tables_.nan_takes_true[source];
      node.child = static_cast<std::int32_t>(nodes_.size());
      node.step = 1;
      nodes_.push_back({.source = static_cast<std::int32_t>(tables_.true_children[source])});
      nodes_.push_back({.source = static_cast<std::int32_t>(tables_.false_children[source])});
    }
    nodes_[index] = node;
  }

  void sort_members() {
    const auto given = attributes_.tensor("members").values<T>();
    for (std::size_t i = 0; i < tables_.tests.size(); ++i) {
      const auto first = std::ssize(members_);
      for (std::int64_t k = tables_.member_splits[i]; k < tables_.member_splits[i + 1]; ++k)
        if (!std::isnan(given[static_cast<std::size_t>(k)])) members_.push_back(given[static_cast<std::size_t>(k)]);
      std::sort(members_.begin() + first, members_.end());
      member_ends_.push_back(std::ssize(members_));
    }
  }

  bool is_member(const TreeNode<T>& node, T v) const {
    const auto at = static_cast<std::size_t>(node.source);
    const auto begin = members_.begin() + (at == 0 ? 0 : member_ends_[at - 1]);
    return !std::isnan(v) && std::binary_search(begin, members_.begin() + member_ends_[at], v);
  }

  template <bool kOnlyLessEqual>
  bool takes_true(const TreeNode<T>& node, T v) const {
    const bool missing = node.nan_takes_true & std::isnan(v);
    if constexpr (kOnlyLessEqual) return (v <= node.threshold) | missing;
    switch (node.test) {
      case TreeTest::less_equal:
        return v <= node.threshold || missing;
      case TreeTest::less:
        return v < node.threshold || missing;
      case TreeTest::greater_equal:
        return v >= node.threshold || missing;
      case TreeTest::greater:
        return v > node.threshold || missing;
      case TreeTest::equal:
        return v == node.threshold || missing;
      case TreeTest::not_equal:
        return v != node.threshold || missing;
      case TreeTest::member:
        return is_member(node, v) || missing;
      case TreeTest::leaf:
        break;
    }
    return true;
  }

  // From the nodes `at` to leaves.
  template <bool kOnlyLessEqual>
  void walk(const std::array<const T*, kLanes>& x, Lanes& at) const {
    const TreeNode<T>* nodes = nodes_.data();
    for (int moving = 1; moving != 0;) {
      moving = 0;
      for (std::size_t k = 0; k < kLanes; ++k) {
        const TreeNode<T>& node = nodes[at[k]];
        const bool yes = takes_true<kOnlyLessEqual>(node, x[k][node.feature]);
        at[k] = node.child + (yes ? 0 : node.step);
        moving |= node.step;
      }
    }
  }

  template <bool kOnlyLessEqual>
  void walk_all(Rows& rows) const {
    std::int64_t row = 0;
    const std::int64_t trees = std::ssize(roots_);
    if (rows.count >= kLanes)
      for (std::int64_t tree = 0; tree < trees; ++tree) {
        for (row = 0; row + kLanes <= rows.count; row += kLanes) {
          std::array<const T*, kLanes> x;
          Lanes at;
          for (std::size_t k = 0; k < kLanes; ++k) {
            x[k] = rows.x + (row + static_cast<std::int64_t>(k)) * rows.columns;
            at[k] = roots_[static_cast<std::size_t>(tree)];
          }
          walk<kOnlyLessEqual>(x, at);
          for (std::size_t k = 0; k < kLanes; ++k) add_leaf(rows, row + static_cast<std::int64_t>(k), at[k]);
        }
      }
    for (; row < rows.count; ++row) {
      std::array<const T*, kLanes> x;
      x.fill(rows.x + row * rows.columns);
      for (std::int64_t tree = 0; tree < trees; tree += kLanes) {
        Lanes at;
        for (std::size_t k = 0; k < kLanes; ++k)
          at[k] = roots_[static_cast<std::size_t>(std::min(tree + static_cast<std::int64_t>(k), trees - 1))];
        walk<kOnlyLessEqual>(x, at);
        for (std::size_t k = 0; k < kLanes && tree + static_cast<std::int64_t>(k) < trees; ++k)
          add_leaf(rows, row, at[k]);
      }
    }
  }

  void add_leaf(Rows& rows, std::int64_t row, std::int32_t leaf) const {
    const TreeNode<T>& node = nodes_[static_cast<std::size_t>(leaf)];
    if (one_weight_ && rows.seen.empty()) {
      rows.y[row] += node.threshold;
      return;
    }
    const auto source = static_cast<std::size_t>(node.source);
    T* y = rows.y + row * tables_.targets;
    const std::int64_t begin = tables_.weight_splits[source], end = tables_.weight_splits[source + 1];
    if (rows.seen.empty()) {
      for (std::int64_t i = begin; i < end; ++i) y[tables_.weight_targets[static_cast<std::size_t>(i)]] += weights_[i];
      return;
    }
    char* seen = rows.seen.data() + row * tables_.targets;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t target = tables_.weight_targets[static_cast<std::size_t>(i)];
      const bool better = aggregate_ == TreeAggregate::min ? weights_[i] < y[target] : weights_[i] > y[target];
      if (!seen[target] || better) y[target] = weights_[i];
      seen[target] = 1;
    }
  }

  Attributes attributes_;  // keep the memory of the tables
  TreeTables tables_;
  std::string name_;
  TreeAggregate aggregate_ = TreeAggregate::sum;
  const T* weights_ = nullptr;
  std::vector<TreeNode<T>> nodes_{};
  std::vector<std::int32_t> roots_{};
  std::vector<T> members_{};  // of each node, in ascending order
  std::vector<std::int64_t> member_ends_{};
  std::int64_t steps_ = 0;  // of an example, at most
  bool only_less_equal_ = true;
  bool one_weight_ = true;  // of each leaf, and one target: the weight is in the node's threshold
};

}  // namespace

void register_tree_kernels(KernelRegistry& registry) {
  add_factories(registry, "TreeEnsemble", WideFloatTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    return [forest = std::make_shared<const Forest<T>>(init.attributes, init.node_name)](KernelContext& c) {
      forest->run(c);
    };
  });
}

}  // namespace troupe
