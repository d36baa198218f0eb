// Functions of the builder API that are made of several ops, and ops without a test of their own: values of NumPy and
// ONNX Runtime, and limits.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/random_tensors.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using Reals = std::vector<double>;

class Compositions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kernel_target().on_host())
      GTEST_SKIP() << "a composition has no kernel: those of its ops are tested on GPUs by themselves";
  }
  Output reals(const Reals& values) { return constant(g, Tensor::of<double>(Shape{std::ssize(values)}, values)); }
  Reals run(Output x) { return doubles(evaluator.run(x)); }
  void expect_near(Output x, const Reals& expected, double ulps = 4) {
    const Reals found = run(x);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (std::isfinite(expected[i]))
        EXPECT_NEAR(found[i], expected[i], std::abs(expected[i]) * ulps * 0x1p-52) << i;
      else
        EXPECT_EQ(found[i], expected[i]) << i;
    }
  }

  Graph g;
  GraphEvaluator evaluator;
};

TEST_F(Compositions, LogarithmsAndPowersOfOtherBases) {
  const Output x = reals({0.1, 1, 3, 1000, 0x1p29});
  expect_near(log2(x), {-3.321928094887362, 0, 1.584962500721156, 9.965784284662087, 29});
  expect_near(log10(x), {-1, 0, 0.47712125471966244, 3, 8.729869874255455});
  expect_near(exp2(reals({-3.5, 0, 0.1, 10, 100.25})),
              {8.8388347648318447e-02, 1, 1.0717734625362931, 1024, 1.5074991131288803e+30});
}

TEST_F(Compositions, HypotNeitherOverflowsNorUnderflows) {
  expect_near(hypot(reals({3, -1e200, 0, 1e-300, -2.5, -kInf}), reals({4, 1e200, 0, -1e-300, 0, 1})),
              {5, 1.414213562373095e200, 0, 1.414213562373095e-300, 2.5, kInf});
}

TEST_F(Compositions, LogAddExpNeitherOverflowsNorLosesInfinities) {
  expect_near(
      log_add_exp(reals({0, -20, 1000, -1000, -kInf, kInf, -kInf, 1.5}),
                  reals({-20, 0, 1000, 3, -kInf, kInf, 2, 1.25})),
      {2.0611536203143808e-09, 2.0611536203143808e-09, 1.0006931471805599e+03, 3, -kInf, kInf, 2, 2.0759394198788437});
}

TEST_F(Compositions, LinspaceHasBothEnds) {
  EXPECT_EQ(run(linspace(constant(g, -1.0), constant(g, 2.0), 7)), (Reals{-1, -0.5, 0, 0.5, 1, 1.5, 2}));
  EXPECT_EQ(run(linspace(constant(g, 0.1f), constant(g, 0.7f), 4)).back(), static_cast<double>(0.7f));
  EXPECT_EQ(run(linspace(constant(g, 3.0), constant(g, 2.0), 1)), Reals{3});
  EXPECT_EQ(run(linspace(constant(g, 3.0), constant(g, 2.0), 0)), Reals{});
}

TEST_F(Compositions, SequenceMasksAndBands) {
  const Output lengths = constant(g, Tensor::of<std::int32_t>(Shape{2, 2}, {0, 1, 3, 9}));
  const Tensor mask = evaluator.run(sequence_mask(lengths, 3));
  EXPECT_EQ(mask.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(doubles(mask), (Reals{0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1}));
  const Output x = constant(g, Tensor::of<double>(Shape{3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(run(band_part(x, 1, 0)), (Reals{1, 0, 0, 4, 5, 0, 0, 8, 9}));
  EXPECT_EQ(run(band_part(x, -1, 1)), (Reals{1, 2, 0, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(run(band_part(x, 0, -1)), (Reals{1, 2, 3, 0, 5, 6, 0, 0, 9}));
  EXPECT_EQ(run(band_part(x, -1, -1)), run(x));
}

// ONNX's reference implementation of Col2Im.
TEST_F(Compositions, ColumnsAreSummedToImages) {
  std::vector<double> numbers(32);
  std::iota(numbers.begin(), numbers.end(), 1.0);
  const Output columns = constant(g, Tensor::of<double>(Shape{1, 8, 4}, numbers));
  const Output images = col2im(columns, {3, 3}, {2, 2});
  EXPECT_EQ(images.shape(), (Shape{1, 2, 3, 3}));
  EXPECT_EQ(run(images), (Reals{1, 7, 6, 12, 34, 22, 11, 27, 16, 17, 39, 22, 44, 98, 54, 27, 59, 32}));
  numbers.resize(16);
  const Output few = constant(g, Tensor::of<double>(Shape{1, 4, 4}, numbers));
  const BlockOptions wide{.strides = {2, 2}, .dilations = {1, 2}, .pads = {0, 1, 1, 0}};
  EXPECT_EQ(run(col2im(few, {3, 5}, {2, 2}, wide)), (Reals{0, 7, 0, 6, 0, 0, 23, 0, 14, 0, 0, 11, 0, 8, 0}));
}

TEST_F(Compositions, ImagesAreCutInColumns) {
  const Output x = constant(g, Tensor::of<double>(Shape{1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}));
  const Output columns = im2col(x, {2, 2}, {.pads = {0, 0, 0, 1}});
  EXPECT_EQ(columns.shape(), (Shape{1, 4, 3}));
  EXPECT_EQ(run(columns), (Reals{1, 2, 3, 2, 3, 0, 4, 5, 6, 5, 6, 0}));
  EXPECT_THROW(im2col(x, {3, 1}), Error);
  EXPECT_THROW(im2col(x, {1, 1}, {.strides = {0, 1}}), Error);
  EXPECT_THROW(col2im(columns, {2, 3}, {2}), Error);
}

TEST_F(Compositions, ListsAreChangedAndRead) {
  const Output first = reals({1, 2}), second = reals({3}), third = reals({4, 5});
  const Output at = constant<std::int64_t>(g, 1), last = constant<std::int64_t>(g, -1);
  Output list = list_of(g, {first, third});
  list = list_insert(list, second, at);
  EXPECT_EQ(evaluator.run(list_size(list)).item<std::int64_t>(), 3);
  EXPECT_EQ(run(list_get(list, at, DType::f64)), Reals{3});
  EXPECT_EQ(run(list_get(list, last, DType::f64)), (Reals{4, 5}));
  EXPECT_EQ(run(list_concat(list, 0, DType::f64)), (Reals{1, 2, 3, 4, 5}));
  EXPECT_THROW(run(list_stack(list, DType::f64)), Error);  // of different shapes
  EXPECT_THROW(run(list_get(list, constant<std::int64_t>(g, 3), DType::f64)), Error);
  EXPECT_THROW(run(list_get(list, at, DType::f32)), Error);
  const Output pairs = list_erase(list, at);
  EXPECT_EQ(run(list_stack(pairs, DType::f64)), (Reals{1, 2, 4, 5}));
  EXPECT_EQ(run(list_stack(list_erase(pairs), DType::f64)), (Reals{1, 2}));
  const Output rows = list_unstack(constant(g, Tensor::of<double>(Shape{2, 2}, {6, 7, 8, 9})));
  EXPECT_EQ(run(list_get(rows, at, DType::f64)), (Reals{8, 9}));
  const Output none = list_erase(list_of(g, {first}));
  EXPECT_EQ(evaluator.run(list_stack(none, DType::f64, Shape{2})).shape(), (Shape{0, 2}));
  EXPECT_THROW(run(list_stack(none, DType::f64)), Error);
}

// Values of ONNX Runtime.
TEST_F(Compositions, MelWeightsAreTriangles) {
  const auto whole = [&](std::int64_t value) { return constant(g, value); };
  const Output weights =
      mel_weight_matrix(whole(3), whole(20), whole(8000), constant(g, 100.0f), constant(g, 3800.0f), DType::f64);
  EXPECT_EQ(run(weights), (Reals{0,   0, 0, 1, 0, 0, 0, 1, 0, 0, 0.5, 0.5, 0, 0, 1, 0, 0,
                                 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,   0,   0, 0, 0, 0}));
}

TEST_F(Compositions, NGramsAreCountedAndWeighted) {
  const Output x = constant(g, Tensor::of<std::int64_t>(Shape{2, 4}, {1, 2, 1, 3, 3, 1, 2, 2}));
  const auto counted = [&](const char* mode, std::int64_t least, std::int64_t most, std::int64_t skip) {
    return run(tf_idf_vectorizer(x, {.mode = mode,
                                     .min_gram_length = least,
                                     .max_gram_length = most,
                                     .max_skip_count = skip,
                                     .ngram_counts = {0, 3},
                                     .ngram_indexes = {0, 2, 1, 5, 3, 4},
                                     .pool_integers = {1, 2, 3, 1, 2, 2, 1, 3, 1},
                                     .weights = {1, 0.5, 2, 3, 0.25, 4}}));
  };
  EXPECT_EQ(counted("TF", 1, 2, 0), (Reals{2, 1, 1, 1, 0, 1, 1, 1, 2, 0, 1, 1}));
  EXPECT_EQ(counted("TF", 2, 2, 1), (Reals{0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 2}));
  EXPECT_EQ(counted("TF", 1, 1, 0), (Reals{2, 1, 1, 0, 0, 0, 1, 1, 2, 0, 0, 0}));
  EXPECT_EQ(counted("IDF", 1, 2, 0), (Reals{1, 2, 0.5, 0.25, 0, 3, 1, 2, 0.5, 0, 4, 3}));
  EXPECT_EQ(counted("TFIDF", 2, 2, 1), (Reals{0, 0, 0, 0.25, 0, 3, 0, 0, 0, 0, 4, 6}));
}

TEST_F(Compositions, ClipByNormScalesWhatIsTooLong) {
  const Output x = constant(g, Tensor::of<double>(Shape{2, 2}, {3, 4, 0.3, 0.4}));
  expect_near(clip_by_norm(x, 1, {1}), {0.6, 0.8, 0.3, 0.4});
  expect_near(clip_by_norm(x, 100), {3, 4, 0.3, 0.4});
  EXPECT_EQ(run(clip_by_norm(reals({0, 0}), 1)), (Reals{0, 0}));
  EXPECT_THROW(clip_by_norm(x, 0), Error);
}

}  // namespace
}  // namespace troupe::testing
