// Sparse tensors in graphs: their parts, shapes, and what steps are fed.
#include <gtest/gtest.h>

#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/sparse.hpp>

namespace troupe {
namespace {

using testing::message_of;

class SparseTensors : public ::testing::Test {
 protected:
  SparseTensor fed(const Shape& shape, DType dtype = DType::f32) { return sparse_placeholder(g_, dtype, shape); }
  static SparseTensorValue value(std::initializer_list<std::int64_t> shape) {
    const auto rank = static_cast<std::int64_t>(shape.size());
    return {.indices = Tensor::zeros(DType::i64, {1, rank}),
            .values = Tensor::vector<float>({5}),
            .dense_shape = Tensor::vector<std::int64_t>(shape)};
  }
  Graph g_;
};

TEST_F(SparseTensors, ShapesAreKnownAsFarAsTheirDimensionsAre) {
  EXPECT_EQ(fed({3, 4}).shape(), (Shape{3, 4}));
  EXPECT_EQ(fed({kUnknown, 4}).shape(), (Shape{kUnknown, 4}));
  EXPECT_EQ(fed({kUnknown, 4}).indices.shape(), (Shape{kUnknown, 2}));
  EXPECT_EQ(fed({}).shape(), Shape{});
  EXPECT_EQ(sparse_constant(g_, value({7})).shape(), (Shape{7}));
  const SparseTensor late =
      sparse_tensor(placeholder(g_, DType::i32, {kUnknown, 2}), placeholder(g_, DType::f32, {kUnknown}),
                    placeholder(g_, DType::i64, {kUnknown}));
  EXPECT_EQ(late.shape(), (Shape{kUnknown, kUnknown}));
  EXPECT_EQ(late.indices.dtype(), DType::i64);
  EXPECT_EQ(late.dtype(), DType::f32);
  Graph other;
  EXPECT_EQ(sparse_placeholder(other, DType::f32, {2}, "x").values.name(), "x/values");
  EXPECT_EQ(sparse_placeholder(other, DType::f32, {2}, "x").values.name(), "x_1/values");
  EXPECT_EQ(message_of([&] { fed(Shape::unknown_rank()); }),
            "sparse_placeholder: the number of dimensions must be known: they may be unknown themselves");
}

TEST_F(SparseTensors, PartsThatDoNotFitTogetherAreRefused) {
  const Output places = placeholder(g_, DType::i64, {kUnknown, 2}), two = placeholder(g_, DType::f32, {2});
  EXPECT_EQ(message_of([&] { sparse_tensor(places, two, placeholder(g_, DType::i64, {3})); }),
            "sparse_tensor: indices [?,2], values [2] and dense_shape [3] must be [n,rank], [n] and [rank]");
  EXPECT_NE(message_of([&] { sparse_tensor(two, two, two); }), "");
  SparseTensorValue wrong = value({3});
  wrong.indices = Tensor::vector<std::int32_t>({1});
  EXPECT_EQ(message_of([&] { check_sparse("here", wrong); }),
            "here: needs values, and i64 indices and dense_shape: they are i32 and i64");
}

TEST_F(SparseTensors, StepsAreFedAllThatIsNotKnown) {
  std::vector<std::pair<Output, Tensor>> feeds;
  const SparseTensor open = fed({kUnknown, 4}), known = fed({3, 4});
  feed(feeds, open, value({2, 4}));
  EXPECT_EQ(feeds.size(), 3U);
  feed(feeds, known, value({3, 4}));
  EXPECT_EQ(feeds.size(), 5U);
  EXPECT_EQ(message_of([&] {
              feed(feeds, known, value({2, 4}));
            }),
            "feed: a sparse tensor of shape [2,4] is fed to one of [3,4]");
  EXPECT_EQ(message_of([&] {
              feed(feeds, fed({3, 4}, DType::f64), value({3, 4}));
            }),
            "feed: f32 is fed to a sparse tensor of f64");
  EXPECT_EQ(sparse_value(std::vector<Tensor>{Tensor(), Tensor::scalar(1.0), Tensor()}).values.item<double>(), 1.0);
  EXPECT_NE(message_of([&] { sparse_value(std::vector<Tensor>{}); }), "");
}

}  // namespace
}  // namespace troupe
