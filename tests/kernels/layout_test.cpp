// Reordering elements, and diagonals: small cases with NumPy's and ONNX's values, and every size of element against a
// reference that computes where each element comes from.
#include <cstring>

#include "tests/kernels/kernel_fixture.hpp"

namespace troupe::testing {
namespace {

using List = std::vector<std::int64_t>;

Tensor list_of(const List& values) { return Tensor::of<std::int64_t>(Shape{std::ssize(values)}, values); }
Tensor number(std::int64_t value) { return Tensor::scalar(value); }

class LayoutTest : public KernelTest {
 protected:
  template <class T>
  static Tensor counting(const Shape& shape) {
    Tensor t(dtype_of<T>, shape);
    for (std::int64_t i = 0; i < t.num_elements(); ++i) {
      if constexpr (std::is_same_v<T, std::string>)
        t.mutable_data<T>()[i] = "a string too long for the small buffer " + std::to_string(i);
      else
        t.mutable_data<T>()[i] = static_cast<T>(i % 100);
    }
    return t;
  }
  template <class Fn>
  static void for_each_size(const Shape& shape, Fn test) {
    test(counting<std::int8_t>(shape));
    test(counting<std::int16_t>(shape));
    test(counting<float>(shape));
    test(counting<double>(shape));
    test(counting<std::string>(shape));
  }
  // Element i of `out` must be element from(index of i) of `x`.
  template <class Fn>
  static void expect_moved(const Tensor& out, const Tensor& x, Fn from) {
    ASSERT_EQ(out.dtype(), x.dtype());
    List index(static_cast<std::size_t>(out.shape().rank()));
    for (std::int64_t i = 0; i < out.num_elements(); ++i) {
      std::int64_t rest = i, at = 0;
      for (std::size_t d = index.size(); d-- > 0; rest /= out.shape().dim(static_cast<int>(d)))
        index[d] = rest % out.shape().dim(static_cast<int>(d));
      const List source = from(index);
      for (std::size_t d = 0; d < source.size(); ++d) at = at * x.shape().dim(static_cast<int>(d)) + source[d];
      const auto size = static_cast<std::int64_t>(size_of(x.dtype()));
      const bool same = x.dtype() == DType::string ? out.data<std::string>()[i] == x.data<std::string>()[at]
                                                   : std::memcmp(out.raw() + i * size, x.raw() + at * size,
                                                                 static_cast<std::size_t>(size)) == 0;
      ASSERT_TRUE(same) << i;
    }
  }
};

TEST_F(LayoutTest, ReverseTurnsAxesRound) {
  for_each_size({3, 4, 5}, [&](const Tensor& x) {
    expect_moved(run1("Reverse", {x, list_of({0, -1})}), x, [](const List& i) {
      return List{2 - i[0], i[1], 4 - i[2]};
    });
    EXPECT_TRUE(bitwise_equal(run1("Reverse", {x, list_of({})}), x));
  });
  EXPECT_EQ(run1("Reverse", {Tensor(DType::f32, Shape{0, 2}), list_of({0})}).shape(), (Shape{0, 2}));
  EXPECT_NE(error_of("Reverse", {counting<float>({2}), list_of({1})}), "");
  EXPECT_NE(error_of("Reverse", {counting<float>({2}), list_of({0, -1})}), "");
}

TEST_F(LayoutTest, ReverseSequenceReversesTheFirstElements) {
  const Attributes axes{{"seq_axis", std::int64_t{1}}, {"batch_axis", std::int64_t{-1}}};
  for_each_size({2, 4, 3}, [&](const Tensor& x) {
    const List lengths{4, 0, 3};
    expect_moved(run1("ReverseSequence", {x, list_of(lengths)}, axes), x, [&](const List& i) {
      const std::int64_t length = lengths[static_cast<std::size_t>(i[2])];
      return List{i[0], i[1] < length ? length - 1 - i[1] : i[1], i[2]};
    });
  });
  const Tensor x = counting<float>({2, 4, 3});
  EXPECT_NE(error_of("ReverseSequence", {x, list_of({5, 0, 0})}, axes), "");
  EXPECT_NE(error_of("ReverseSequence", {x, list_of({-1, 0, 0})}, axes), "");
  EXPECT_NE(error_of("ReverseSequence", {x, list_of({1, 0})}, axes), "");
  EXPECT_NE(error_of("ReverseSequence", {x, list_of({1, 0, 1})},
                     {{"seq_axis", std::int64_t{2}}, {"batch_axis", std::int64_t{2}}}),
            "");
}

TEST_F(LayoutTest, RollMovesElementsRound) {
  for_each_size({3, 4, 5}, [&](const Tensor& x) {
    expect_moved(run1("Roll", {x, list_of({1, -12, 7}), list_of({0, 1, 2})}), x, [](const List& i) {
      return List{(i[0] + 2) % 3, i[1], (i[2] + 3) % 5};
    });
  });
  EXPECT_EQ(run1("Roll", {Tensor(DType::f32, Shape{0}), list_of({1}), list_of({0})}).shape(), (Shape{0}));
  EXPECT_NE(error_of("Roll", {counting<float>({2}), list_of({1}), list_of({})}), "");
  EXPECT_NE(error_of("Roll", {counting<float>({2}), list_of({1, 1}), list_of({0, 0})}), "");
}

TEST_F(LayoutTest, RepeatRepeatsElements) {
  const Attributes axis{{"axis", std::int64_t{1}}};
  for_each_size({2, 3, 2}, [&](const Tensor& x) {
    expect_moved(run1("Repeat", {x, list_of({3})}, axis), x, [](const List& i) { return List{i[0], i[1] / 3, i[2]}; });
    const Tensor out = run1("Repeat", {x, list_of({2, 0, 1})}, axis);
    ASSERT_EQ(out.shape(), (Shape{2, 3, 2}));
    expect_moved(out, x, [](const List& i) { return List{i[0], i[1] < 2 ? 0 : 2, i[2]}; });
  });
  const Tensor x = counting<float>({2, 3});
  EXPECT_EQ(run1("Repeat", {x, list_of({0})}, axis).shape(), (Shape{2, 0}));
  EXPECT_NE(error_of("Repeat", {x, list_of({-1})}, axis), "");
  EXPECT_NE(error_of("Repeat", {x, list_of({1, 2})}, axis), "");
  EXPECT_NE(error_of("Repeat", {x, list_of({std::numeric_limits<std::int64_t>::max()})}, axis), "");
  const Tensor dy = Tensor::of<float>(Shape{1, 4}, {1, 2, 3, 4}), like(DType::f32, Shape{1, 3});
  EXPECT_EQ(doubles(run1("RepeatGrad", {dy, like, list_of({1, 0, 3})}, axis)), (std::vector<double>{1, 0, 9}));
  EXPECT_NE(error_of("RepeatGrad", {dy, like, list_of({1, 0, 4})}, axis), "");
}

TEST_F(LayoutTest, TriluKeepsATriangle) {
  const Tensor x = Tensor::of<std::int32_t>(Shape{1, 3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const auto trilu = [&](bool upper, std::int64_t k) {
    return doubles(run1("Trilu", {x, number(k)}, {{"upper", upper}}));
  };
  EXPECT_EQ(trilu(true, 0), (std::vector<double>{1, 2, 3, 4, 0, 6, 7, 8, 0, 0, 11, 12}));
  EXPECT_EQ(trilu(true, 2), (std::vector<double>{0, 0, 3, 4, 0, 0, 0, 8, 0, 0, 0, 0}));
  EXPECT_EQ(trilu(true, -1), (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 0, 10, 11, 12}));
  EXPECT_EQ(trilu(false, 0), (std::vector<double>{1, 0, 0, 0, 5, 6, 0, 0, 9, 10, 11, 0}));
  EXPECT_EQ(trilu(false, -2), (std::vector<double>{0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0}));
  EXPECT_EQ(trilu(false, 1), (std::vector<double>{1, 2, 0, 0, 5, 6, 7, 0, 9, 10, 11, 12}));
  for (const std::int64_t far : {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_EQ(trilu(true, far), far > 0 ? std::vector<double>(12, 0) : doubles(x));
    EXPECT_EQ(trilu(false, far), far < 0 ? std::vector<double>(12, 0) : doubles(x));
  }
  EXPECT_NE(error_of("Trilu", {counting<float>({3}), number(0)}, {{"upper", true}}), "");
  EXPECT_NE(error_of("Trilu", {x, list_of({0, 0})}, {{"upper", true}}), "");
}

TEST_F(LayoutTest, DiagonalsAreReadAndReplaced) {
  for_each_size({2, 3, 5}, [&](const Tensor& x) {
    for (const std::int64_t k : {0, 1, 4, -1, -2}) {
      const std::int64_t down = std::max<std::int64_t>(-k, 0), right = std::max<std::int64_t>(k, 0);
      const Tensor d = run1("DiagPart", {x, number(k)});
      ASSERT_EQ(d.shape(), (Shape{2, std::min<std::int64_t>(3 - down, 5 - right)}));
      expect_moved(d, x, [&](const List& i) { return List{i[0], i[1] + down, i[1] + right}; });
      const Tensor other = run1("Reverse", {x, list_of({0, 1, 2})});
      const Tensor set = run1("SetDiag", {other, d, number(k)});
      EXPECT_TRUE(bitwise_equal(run1("DiagPart", {set, number(k)}), d));
      const Tensor restored = run1("SetDiag", {set, run1("DiagPart", {other, number(k)}), number(k)});
      EXPECT_TRUE(bitwise_equal(restored, other)) << "elements beside the diagonal changed";
    }
  });
  const Tensor x = counting<float>({2, 3});
  EXPECT_EQ(run1("DiagPart", {x, number(std::numeric_limits<std::int64_t>::max())}).shape(), (Shape{0}));
  EXPECT_EQ(run1("DiagPart", {x, number(std::numeric_limits<std::int64_t>::min())}).shape(), (Shape{0}));
  EXPECT_NE(error_of("DiagPart", {counting<float>({3}), number(0)}), "");
  EXPECT_NE(error_of("SetDiag", {x, counting<float>({3}), number(0)}), "");
}

TEST_F(LayoutTest, DepthAndSpaceAreExchanged) {
  const auto layout = [](const char* mode, const char* format) {
    return Attributes{{"block", std::int64_t{2}}, {"mode", std::string(mode)}, {"layout", std::string(format)}};
  };
  for_each_size({2, 12, 3, 20}, [&](const Tensor& x) {
    const Tensor dcr = run1("DepthToSpace", {x}, layout("DCR", "NCHW"));
    ASSERT_EQ(dcr.shape(), (Shape{2, 3, 6, 40}));
    expect_moved(dcr, x, [](const List& i) {
      return List{i[0], (i[2] % 2 * 2 + i[3] % 2) * 3 + i[1], i[2] / 2, i[3] / 2};
    });
    const Tensor crd = run1("DepthToSpace", {x}, layout("CRD", "NCHW"));
    expect_moved(crd, x, [](const List& i) {
      return List{i[0], i[1] * 4 + i[2] % 2 * 2 + i[3] % 2, i[2] / 2, i[3] / 2};
    });
    EXPECT_TRUE(bitwise_equal(run1("SpaceToDepth", {dcr}, layout("DCR", "NCHW")), x));
    EXPECT_TRUE(bitwise_equal(run1("SpaceToDepth", {crd}, layout("CRD", "NCHW")), x));
    const Tensor last = run1("Transpose", {x}, {{"perm", List{0, 2, 3, 1}}});
    const Tensor space = run1("DepthToSpace", {last}, layout("DCR", "NHWC"));
    EXPECT_TRUE(bitwise_equal(space, run1("Transpose", {dcr}, {{"perm", List{0, 2, 3, 1}}})));
    EXPECT_TRUE(bitwise_equal(run1("SpaceToDepth", {space}, layout("DCR", "NHWC")), last));
  });
  EXPECT_NE(error_of("DepthToSpace", {counting<float>({1, 6, 1, 1})}, layout("DCR", "NCHW")), "");
  EXPECT_NE(error_of("SpaceToDepth", {counting<float>({1, 1, 3, 2})}, layout("DCR", "NCHW")), "");
  EXPECT_NE(error_of("SpaceToDepth", {counting<float>({1, 2, 2})}, layout("DCR", "NCHW")), "");
}

// The examples of tf.space_to_batch and tf.batch_to_space.
TEST_F(LayoutTest, SpaceAndBatchesAreExchanged) {
  const Tensor x = Tensor::of<float>(Shape{1, 4, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
  const Tensor block = list_of({2, 2}), none = list_of({0, 0, 0, 0});
  const Tensor batches = run1("SpaceToBatch", {x, block, none});
  EXPECT_EQ(batches.shape(), (Shape{4, 2, 2, 1}));
  EXPECT_EQ(doubles(batches), (std::vector<double>{1, 3, 9, 11, 2, 4, 10, 12, 5, 7, 13, 15, 6, 8, 14, 16}));
  EXPECT_TRUE(bitwise_equal(run1("BatchToSpace", {batches, block, none}), x));
  const Tensor two = x.reshaped(Shape{2, 2, 4, 1}), left = list_of({0, 2, 0, 0});
  const Tensor padded = run1("SpaceToBatch", {two, block, left});
  EXPECT_EQ(padded.shape(), (Shape{8, 1, 3, 1}));
  EXPECT_EQ(doubles(padded),
            (std::vector<double>{0, 1, 3, 0, 9, 11, 0, 2, 4, 0, 10, 12, 0, 5, 7, 0, 13, 15, 0, 6, 8, 0, 14, 16}));
  EXPECT_TRUE(bitwise_equal(run1("BatchToSpace", {padded, block, left}), two));
  EXPECT_NE(error_of("SpaceToBatch", {x, list_of({3, 2}), none}), "");
  EXPECT_NE(error_of("SpaceToBatch", {x, list_of({0, 2}), none}), "");
  EXPECT_NE(error_of("SpaceToBatch", {x, block, list_of({0, 0})}), "");
  EXPECT_NE(error_of("SpaceToBatch", {x, list_of({1, 1, 1, 1}), list_of(List(8, 0))}), "");
  EXPECT_NE(error_of("BatchToSpace", {x, block, none}), "");
  EXPECT_NE(error_of("BatchToSpace", {batches, block, list_of({3, 0, 2, 0})}), "");
}

// Copies of an element are summed where numpy.pad put them.
TEST_F(LayoutTest, PadGradSumsCopies) {
  const Tensor dy = Tensor::vector<float>({1, 10, 100, 1000, 10000}), like(DType::f32, Shape{3});
  const auto grad = [&](const char* mode, const List& pads) {
    return doubles(run1("PadGrad", {dy, like, list_of(pads)}, {{"mode", std::string(mode)}}));
  };
  EXPECT_EQ(grad("reflect", {2, 0}), (std::vector<double>{100, 1010, 10001}));
  EXPECT_EQ(grad("edge", {1, 1}), (std::vector<double>{11, 100, 11000}));
  EXPECT_EQ(grad("symmetric", {0, 2}), (std::vector<double>{1, 10010, 1100}));
  EXPECT_EQ(grad("wrap", {1, 1}), (std::vector<double>{10010, 100, 1001}));
  EXPECT_EQ(grad("constant", {1, 1}), (std::vector<double>{10, 100, 1000}));
  EXPECT_EQ(grad("edge", {-1, 3}), (std::vector<double>{0, 1, 11110}));
  EXPECT_NE(error_of("PadGrad", {dy, like, list_of({1, 0})}, {{"mode", std::string("edge")}}), "");
}

}  // namespace
}  // namespace troupe::testing
