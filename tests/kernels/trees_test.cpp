// Ensembles of trees: against walks of one example through one tree at a time, with sums in double precision.
#include <algorithm>

#include "tests/kernels/kernel_fixture.hpp"
#include <troupe/graph/builder/trees.hpp>

namespace troupe::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class TreesTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    TROUPE_CPU_ONLY("trees are walked on the host");
  }

  template <class T>
  static Tensor list(const std::vector<T>& values) {
    Tensor out(dtype_of<T>, Shape{std::ssize(values)});
    std::copy(values.begin(), values.end(), out.template mutable_data<T>());
    return out;
  }

  static Attributes attributes_of(const TreeEnsemble& t) {
    return {{"roots", t.roots},
            {"tests", t.tests},
            {"features", t.features},
            {"thresholds", t.thresholds},
            {"true_children", t.true_children},
            {"false_children", t.false_children},
            {"nan_takes_true", t.nan_takes_true},
            {"weight_splits", t.weight_splits},
            {"weight_targets", t.weight_targets},
            {"weights", t.weights},
            {"member_splits", t.member_splits},
            {"members", t.members},
            {"targets", t.targets},
            {"aggregate", t.aggregate}};
  }

  // Trees of up to `depth` levels, of which some leaves come early; thresholds and members are small integers, which
  // features hit.
  template <class T>
  TreeEnsemble random_trees(int trees, int depth, std::int64_t features, std::int64_t targets, bool only_less_equal,
                            int weights_of_leaf) {
    std::vector<std::int64_t> roots, columns, yes, no, splits{0}, to, member_splits{0};
    std::vector<std::uint8_t> tests;
    std::vector<T> thresholds, weights, members;
    std::vector<char> nan;
    const auto draw = [&](std::int64_t n) {
      return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n));
    };
    for (int tree = 0; tree < trees; ++tree) {
      roots.push_back(std::ssize(tests));
      std::vector<int> levels{0};
      const auto first = tests.size();
      for (std::size_t i = 0; i < levels.size(); ++i) {
        const bool leaf = levels[i] == depth || draw(5) == 0;
        const auto next = static_cast<std::int64_t>(first + levels.size());
        tests.push_back(leaf ? 0 : static_cast<std::uint8_t>(only_less_equal ? 1 : 1 + draw(7)));
        columns.push_back(leaf ? 0 : draw(features));
        thresholds.push_back(static_cast<T>(draw(7) - 3));
        nan.push_back(draw(2) == 1);
        yes.push_back(leaf ? 0 : next);
        no.push_back(leaf ? 0 : next + 1);
        if (leaf)
          for (int k = 0; k < weights_of_leaf; ++k) {
            to.push_back(draw(targets));
            weights.push_back(static_cast<T>(std::uniform_real_distribution<>(-1, 1)(engine_)));
          }
        else
          levels.insert(levels.end(), 2, levels[i] + 1);
        splits.push_back(std::ssize(weights));
        if (tests.back() == static_cast<std::uint8_t>(TreeTest::member))
          for (const int v : {2, -1, 3}) members.push_back(static_cast<T>(v));
        member_splits.push_back(std::ssize(members));
      }
    }
    Tensor nans(DType::boolean, Shape{std::ssize(nan)});
    std::copy(nan.begin(), nan.end(), nans.mutable_data<bool>());
    return {list(roots),  list(tests), list(columns), list(thresholds),    list(yes),     list(no), nans,
            list(splits), list(to),    list(weights), list(member_splits), list(members), targets,  "sum"};
  }

  template <class T>
  static bool takes_true(TreeTest test, T v, T t, std::span<const T> members, bool nan_takes_true) {
    if (std::isnan(v) && nan_takes_true) return true;
    switch (test) {
      case TreeTest::less_equal:
        return v <= t;
      case TreeTest::less:
        return v < t;
      case TreeTest::greater_equal:
        return v >= t;
      case TreeTest::greater:
        return v > t;
      case TreeTest::equal:
        return v == t;
      case TreeTest::not_equal:
        return v != t;
      default:
        return std::ranges::count(members, v) > 0;
    }
  }

  template <class T>
  static std::vector<double> expected(const TreeEnsemble& e, const Tensor& x) {
    std::vector<double> out;
    const auto at = [](const Tensor& t, std::int64_t i) {
      return t.values<std::int64_t>()[static_cast<std::size_t>(i)];
    };
    for (std::int64_t row = 0; row < x.shape()[0]; ++row) {
      std::vector<double> y(static_cast<std::size_t>(e.targets));
      std::vector<bool> seen(y.size());
      for (const std::int64_t root : e.roots.values<std::int64_t>()) {
        std::int64_t node = root;
        for (;;) {
          const auto n = static_cast<std::size_t>(node);
          const auto test = static_cast<TreeTest>(e.tests.values<std::uint8_t>()[n]);
          if (test == TreeTest::leaf) break;
          const T v = x.data<T>()[row * x.shape()[1] + at(e.features, node)];
          const auto first = static_cast<std::size_t>(at(e.member_splits, node));
          const auto members =
              e.members.values<T>().subspan(first, static_cast<std::size_t>(at(e.member_splits, node + 1)) - first);
          const bool yes =
              takes_true<T>(test, v, e.thresholds.values<T>()[n], members, e.nan_takes_true.values<bool>()[n]);
          node = at(yes ? e.true_children : e.false_children, node);
        }
        for (std::int64_t w = at(e.weight_splits, node); w < at(e.weight_splits, node + 1); ++w) {
          const auto target = static_cast<std::size_t>(at(e.weight_targets, w));
          const double weight = static_cast<double>(e.weights.values<T>()[static_cast<std::size_t>(w)]);
          const bool extreme = e.aggregate == "min" || e.aggregate == "max";
          if (!extreme)
            y[target] += weight;
          else if (!seen[target])
            y[target] = weight;
          else
            y[target] = e.aggregate == "min" ? std::min(y[target], weight) : std::max(y[target], weight);
          seen[target] = true;
        }
      }
      for (const double v : y)
        out.push_back(e.aggregate == "average" ? v / static_cast<double>(e.roots.num_elements()) : v);
    }
    return out;
  }

  // Small integers, and NaN.
  template <class T>
  Tensor examples(std::int64_t rows, std::int64_t features) {
    Tensor x(dtype_of<T>, Shape{rows, features});
    for (T& v : x.template mutable_values<T>()) {
      const auto drawn = static_cast<int>(engine_() % 9);
      v = drawn == 8 ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(drawn - 4);
    }
    return x;
  }

  template <class T>
  void expect_right(const TreeEnsemble& trees, const Tensor& x) {
    const std::vector<double> wanted = expected<T>(trees, x);
    for (const bool threads : {false, true}) {
      const Tensor y = threads ? run_on_three_threads("TreeEnsemble", {x}, attributes_of(trees))
                               : run1("TreeEnsemble", {x}, attributes_of(trees));
      EXPECT_EQ(y.shape(), (Shape{x.shape()[0], trees.targets}));
      const std::vector<double> found = doubles(y);
      ASSERT_EQ(found.size(), wanted.size());
      const double tolerance = sizeof(T) == 4 ? 1e-5 : 1e-13;
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i], tolerance) << i;
    }
  }

  // x <= 1 ? 10 : 20, for feature 0.
  static TreeEnsemble stump() {
    using Longs = std::vector<std::int64_t>;
    Tensor nan(DType::boolean, Shape{3});
    std::fill_n(nan.mutable_data<bool>(), 3, false);
    return {list(Longs{0}),
            list(std::vector<std::uint8_t>{1, 0, 0}),
            list(Longs{0, 0, 0}),
            list(std::vector<float>{1, 0, 0}),
            list(Longs{1, 0, 0}),
            list(Longs{2, 0, 0}),
            nan,
            list(Longs{0, 0, 1, 2}),
            list(Longs{0, 0}),
            list(std::vector<float>{10, 20}),
            list(Longs{}),
            list(std::vector<float>{}),
            1,
            "sum"};
  }
};

TEST_F(TreesTest, AStumpTellsTwoCases) {
  const Tensor x = Tensor::of<float>(Shape{4, 1}, {0, 1, 1.5f, kNan});
  EXPECT_EQ(doubles(run1("TreeEnsemble", {x}, attributes_of(stump()))), (std::vector<double>{10, 10, 20, 20}));
  TreeEnsemble other = stump();
  other.nan_takes_true.mutable_data<bool>()[0] = true;
  EXPECT_EQ(doubles(run1("TreeEnsemble", {x}, attributes_of(other))), (std::vector<double>{10, 10, 20, 10}));
}

TEST_F(TreesTest, ShapesAreKnownBeforeTheyRun) {
  Graph graph;
  const Output y = tree_ensemble(placeholder(graph, DType::f32, Shape{kUnknown, kUnknown}), stump());
  EXPECT_EQ(y.shape(), (Shape{kUnknown, 1}));
  EXPECT_EQ(y.dtype(), DType::f32);
  EXPECT_THROW(tree_ensemble(placeholder(graph, DType::f32, Shape{5, 0}), stump()), Error);
  EXPECT_THROW(tree_ensemble(placeholder(graph, DType::f64, Shape{5, 1}), stump()), Error);
}

TEST_F(TreesTest, SumsOfAllShapes) {
  for (const std::int64_t rows : {0, 1, 7, 8, 9, 700})
    for (const int trees : {1, 7, 8, 20})
      for (const std::int64_t targets : {1, 3})
        expect_right<float>(random_trees<float>(trees, 5, 4, targets, true, targets == 1 ? 1 : 2),
                            examples<float>(rows, 4));
}

TEST_F(TreesTest, AllTestsAndAggregates) {
  for (const char* aggregate : {"sum", "average", "min", "max"})
    for (const int weights : {0, 1, 3}) {
      TreeEnsemble trees = random_trees<float>(12, 6, 3, 4, false, weights);
      trees.aggregate = aggregate;
      expect_right<float>(trees, examples<float>(50, 5));
      TreeEnsemble one = random_trees<double>(12, 6, 3, 1, false, weights);
      one.aggregate = aggregate;
      expect_right<double>(one, examples<double>(50, 3));
    }
}

TEST_F(TreesTest, ALongPathBesideShortOnes) {
  constexpr std::int64_t kLength = 3000;
  std::vector<std::int64_t> yes, no, splits{0}, features;
  std::vector<std::uint8_t> tests;
  std::vector<float> thresholds, weights;
  for (std::int64_t i = 0; i <= 2 * kLength; ++i) {
    const bool leaf = i % 2 == 1 || i == 2 * kLength;
    tests.push_back(leaf ? 0 : 1);
    thresholds.push_back(static_cast<float>(i / 2));
    yes.push_back(leaf ? 0 : i + 1);
    no.push_back(leaf ? 0 : i + 2);
    if (leaf) weights.push_back(static_cast<float>(i));
    splits.push_back(std::ssize(weights));
  }
  features.resize(tests.size());
  TreeEnsemble chain = stump();
  chain.tests = list(tests);
  chain.features = list(features);
  chain.thresholds = list(thresholds);
  chain.true_children = list(yes);
  chain.false_children = list(no);
  chain.nan_takes_true = Tensor::zeros(DType::boolean, Shape{std::ssize(tests)});
  chain.weight_splits = list(splits);
  chain.weight_targets = list(std::vector<std::int64_t>(weights.size()));
  chain.weights = list(weights);
  const Tensor x = Tensor::of<float>(Shape{3, 1}, {-1, 1e9f, 1234.5f});
  EXPECT_EQ(doubles(run1("TreeEnsemble", {x}, attributes_of(chain))), (std::vector<double>{1, 6000, 2471}));
}

TEST_F(TreesTest, ArraysAreChecked) {
  using Longs = std::vector<std::int64_t>;
  const Tensor x = Tensor::of<float>(Shape{1, 1}, {0});
  const auto with = [&](const std::function<void(TreeEnsemble&)>& change) {
    TreeEnsemble trees = stump();
    change(trees);
    return error_of("TreeEnsemble", {x}, attributes_of(trees));
  };
  EXPECT_EQ(with([](TreeEnsemble&) {}), "");
  const std::pair<std::function<void(TreeEnsemble&)>, const char*> cases[] = {
      {[](auto& t) {
         t.true_children = list(Longs{0, 0, 0});
       },
       "children must come after their parent"},
      {[](auto& t) {
         t.true_children = list(Longs{2, 0, 0});
       },
       "which has a parent or is a root already"},
      {[](auto& t) {
         t.false_children = list(Longs{3, 0, 0});
       },
       "is 3, not in [0, 3)"},
      {[](auto& t) {
         t.true_children = list(Longs{1 - 2, 0, 0});
       },
       "is -1, not in [0, 3)"},
      {[](auto& t) { t.roots = list(Longs{3}); }, "attribute 'roots' is 3"},
      {[](auto& t) {
         t.roots = list(Longs{0, 0});
       },
       "which has a parent or is a root already"},
      {[](auto& t) { t.roots = list(Longs{}); }, "there are no trees"},
      {[](auto& t) {
         t.features = list(Longs{0, 0});
       },
       "attribute 'features' must be i64[3]"},
      {[](auto& t) {
         t.features = list(Longs{std::int64_t{1} << 60, 0, 0});
       },
       "attribute 'features' is 1152921504606846976"},
      {[](auto& t) {
         t.features = list(Longs{1, 0, 0});
       },
       "must be a matrix of at least 2 columns"},
      {[](auto& t) {
         t.tests = list(std::vector<std::uint8_t>{8, 0, 0});
       },
       "is 8, which is no test"},
      {[](auto& t) { t.tests = list(std::vector<std::uint8_t>{}); }, "has 0 nodes of trees"},
      {[](auto& t) { t.targets = std::int64_t{1} << 60; }, "attribute 'targets' is 1152921504606846976"},
      {[](auto& t) { t.targets = 0; }, "attribute 'targets' is 0"},
      {[](auto& t) { t.aggregate = "median"; }, "not 'median'"},
      {[](auto& t) {
         t.weight_targets = list(Longs{0, 1});
       },
       "element 1 of attribute 'weight_targets' is 1"},
      {[](auto& t) {
         t.weight_splits = list(Longs{0, 1, 1, 2});
       },
       "node 0 has weights, but is no leaf"},
      {[](auto& t) {
         t.weight_splits = list(Longs{0, 0, 3, 2});
       },
       "'weight_splits' must ascend from 0 to 2"},
      {[](auto& t) { t.weights = list(std::vector<float>{1}); }, "attribute 'weights' must be f32[2]"},
      {[](auto& t) {
         t.thresholds = list(std::vector<double>{1, 0, 0});
       },
       "attribute 'thresholds' must be f32[3]"},
      {[](auto& t) {
         t.tests = list(std::vector<std::uint8_t>{7, 0, 0});
       },
       "attribute 'member_splits' must be i64[4]"}};
  for (const auto& [change, message] : cases) {
    const std::string found = with(change);
    EXPECT_NE(found.find(message), found.npos) << message << ", not: " << found;
  }
}

}  // namespace
}  // namespace troupe::testing
