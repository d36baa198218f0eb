// Moving elements: every op against a reference that computes where each element comes from.
#include <cstring>

#include "tests/kernels/kernel_fixture.hpp"

namespace troupe::testing {
namespace {

using Ints = std::vector<std::int64_t>;

Tensor list(const Ints& values) { return Tensor::of<std::int64_t>(Shape{std::ssize(values)}, values); }

Ints unravel(std::int64_t i, const Shape& shape) {
  Ints index(static_cast<std::size_t>(shape.rank()));
  for (int d = shape.rank() - 1; d >= 0; i /= shape.dim(d), --d) index[static_cast<std::size_t>(d)] = i % shape.dim(d);
  return index;
}

std::size_t ravel(const Ints& index, const Shape& shape) {
  std::int64_t i = 0;
  for (int d = 0; d < shape.rank(); ++d) i = i * shape.dim(d) + index[static_cast<std::size_t>(d)];
  return static_cast<std::size_t>(i);
}

class ArrayTest : public KernelTest {
 protected:
  // 0, 1, 2, ...
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

  // Calls test(x) for one tensor of each size of element.
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
    for (std::int64_t i = 0; i < out.num_elements(); ++i) {
      const std::size_t at = ravel(from(unravel(i, out.shape())), x.shape());
      if (x.dtype() == DType::string) {
        ASSERT_EQ(out.data<std::string>()[i], x.data<std::string>()[at]) << i;
      } else {
        const std::size_t size = size_of(x.dtype());
        ASSERT_EQ(std::memcmp(out.raw() + static_cast<std::size_t>(i) * size, x.raw() + at * size, size), 0) << i;
      }
    }
  }
};

TEST_F(ArrayTest, TransposePermutesDimensions) {
  const std::vector<std::pair<Shape, Ints>> cases{{{5}, {0}},
                                                  {{3, 4}, {1, 0}},
                                                  {{3, 4}, {}},
                                                  {{2, 3, 4}, {2, 0, 1}},
                                                  {{2, 3, 4}, {0, 2, 1}},
                                                  {{2, 3, 4}, {1, 0, -1}},
                                                  {{2, 1, 4, 3}, {3, 1, 0, 2}},
                                                  {{0, 3}, {1, 0}},
                                                  {{}, {}},
                                                  {{300, 201}, {1, 0}},
                                                  {{70, 9, 50}, {2, 1, 0}},
                                                  {{3, 40, 70}, {0, 2, 1}},
                                                  {{9, 5, 6, 16}, {2, 0, 1, 3}}};
  for (const auto& [shape, perm] : cases)
    for_each_size(shape, [&, &perm = perm](const Tensor& x) {
      SCOPED_TRACE(::testing::Message() << name(x.dtype()) << ' ' << x.shape().to_string() << ", perm "
                                        << ::testing::PrintToString(perm));
      const Tensor out = run1("Transpose", {x}, {{"perm", perm}});
      const int rank = x.shape().rank();
      expect_moved(out, x, [&](const Ints& index) {
        Ints from(index.size());
        for (int d = 0; d < rank; ++d) {
          std::int64_t axis = perm.empty() ? rank - 1 - d : perm[static_cast<std::size_t>(d)];
          from[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = index[static_cast<std::size_t>(d)];
        }
        return from;
      });
      EXPECT_TRUE(bitwise_equal(out, run_on_three_threads("Transpose", {x}, {{"perm", perm}})));
      if (x.dtype() != DType::f32) return;
      EXPECT_TRUE(bitwise_equal(out, run1("Transpose", {unaligned(x)}, {{"perm", perm}})));
    });
  EXPECT_NE(error_of("Transpose", {counting<float>({2, 3})}, {{"perm", Ints{0, 0}}}), "");
  EXPECT_NE(error_of("Transpose", {counting<float>({2, 3})}, {{"perm", Ints{0}}}), "");
  EXPECT_NE(error_of("Transpose", {counting<float>({2, 3})}, {{"perm", Ints{0, 2}}}), "");
}

TEST_F(ArrayTest, SplitSizesAndConcatAreInverse) {
  for (const std::int64_t axis : {0, 1, -1})
    for_each_size({6, 6, 6}, [&](const Tensor& x) {
      SCOPED_TRACE(::testing::Message() << name(x.dtype()) << ' ' << x.shape().to_string() << ", axis " << axis);
      const auto parts = run({.op = "SplitSizes",
                              .dtype = x.dtype(),
                              .inputs = {x, list({1, 0, 3, 2})},
                              .attributes = {{"axis", axis}},
                              .outputs = 4,
                              .output_types = std::vector<DType>(4, x.dtype())});
      const int d = static_cast<int>(axis);
      EXPECT_EQ(parts[2].shape().dim(d), 3);
      expect_moved(parts[2], x, [&](Ints index) {
        index[static_cast<std::size_t>(axis < 0 ? axis + 3 : axis)] += 1;
        return index;
      });
      EXPECT_TRUE(bitwise_equal(run1("Concat", parts, {{"axis", axis}}), x));
    });
  const Tensor x = counting<float>({6});
  const auto split = [&](Ints sizes) { return error_of("SplitSizes", {x, list(sizes)}, {{"axis", std::int64_t{0}}}); };
  EXPECT_NE(split({7}), "");
  EXPECT_NE(split({5}), "");
  EXPECT_NE(split({7, -1}), "");
}

// Rows of 16 bytes and others; where some begin in the middle.
TEST_F(ArrayTest, ConcatJoinsRowsOfAnyWidth) {
  for (const Ints& widths : {Ints{16, 32, 16}, Ints{16, 1, 16}, Ints{2, 6, 8}}) {
    std::int64_t total = 0;
    for (std::int64_t width : widths) total += width;
    for_each_size({5, total}, [&](const Tensor& x) {
      SCOPED_TRACE(::testing::Message() << name(x.dtype()) << ", widths " << ::testing::PrintToString(widths));
      const auto parts = run({.op = "SplitSizes",
                              .dtype = x.dtype(),
                              .inputs = {x, list(widths)},
                              .attributes = {{"axis", std::int64_t{1}}},
                              .outputs = 3});
      expect_moved(parts[2], x, [&](const Ints& index) { return Ints{index[0], index[1] + widths[0] + widths[1]}; });
      EXPECT_TRUE(bitwise_equal(run1("Concat", parts, {{"axis", std::int64_t{1}}}), x));
    });
  }
}

TEST_F(ArrayTest, SplitMakesEqualParts) {
  const Tensor x = counting<float>({4, 6});
  const Attributes axis{{"axis", std::int64_t{1}}};
  const auto parts = run({.op = "Split", .dtype = DType::f32, .inputs = {x}, .attributes = axis, .outputs = 3});
  for (std::size_t p = 0; p < 3; ++p) {
    SCOPED_TRACE(::testing::Message() << "part " << p);
    EXPECT_EQ(parts[p].shape(), (Shape{4, 2}));
    expect_moved(parts[p], x, [&](Ints index) { return Ints{index[0], index[1] + 2 * static_cast<std::int64_t>(p)}; });
  }
  EXPECT_THROW(run({.op = "Split", .dtype = DType::f32, .inputs = {x}, .attributes = axis, .outputs = 4}), Error);
}

TEST_F(ArrayTest, ConcatChecksItsInputs) {
  const Attributes axis{{"axis", std::int64_t{0}}};
  EXPECT_NE(error_of("Concat", {counting<float>({2, 3}), counting<float>({2, 4})}, axis), "");
  EXPECT_NE(error_of("Concat", {counting<float>({2, 3}), counting<float>({2})}, axis), "");
  EXPECT_NE(error_of("Concat", {counting<float>({2}), counting<double>({2})}, axis), "");
  EXPECT_NE(error_of("Concat", {counting<float>({})}, axis), "");
}

TEST_F(ArrayTest, StackAndUnstackAreInverse) {
  for (const std::int64_t axis : {0, 1, 2, -1, -3})
    for_each_size({2, 3}, [&](const Tensor& x) {
      SCOPED_TRACE(::testing::Message() << name(x.dtype()) << ' ' << x.shape().to_string() << ", axis " << axis);
      const Tensor y = run1("Transpose", {x}, {{"perm", Ints{0, 1}}});
      const Tensor stacked = run1("Stack", {x, y, x, y}, {{"axis", axis}});
      EXPECT_EQ(stacked.shape().dim(static_cast<int>(axis)), 4);
      const auto parts =
          run({.op = "Unstack", .dtype = x.dtype(), .inputs = {stacked}, .attributes = {{"axis", axis}}, .outputs = 4});
      for (const Tensor& part : parts) EXPECT_TRUE(bitwise_equal(part, x));
    });
  EXPECT_NE(error_of("Stack", {counting<float>({2}), counting<float>({3})}, {{"axis", std::int64_t{0}}}), "");
  EXPECT_NE(error_of("Unstack", {counting<float>({2})}, {{"axis", std::int64_t{0}}}), "");
}

TEST_F(ArrayTest, SliceCutsABoxAndSliceGradPutsItBack) {
  for_each_size({5, 4, 3}, [&](const Tensor& x) {
    const Tensor begin = list({1, 0, 2}), size = list({3, -1, 1});
    const Tensor out = run1("Slice", {x, begin, size});
    ASSERT_EQ(out.shape(), (Shape{3, 4, 1}));
    expect_moved(out, x, [](Ints index) { return Ints{index[0] + 1, index[1], index[2] + 2}; });
    const Tensor back = run1("SliceGrad", {out, x, begin});
    EXPECT_EQ(back.shape(), x.shape());
    EXPECT_TRUE(bitwise_equal(run1("Slice", {back, begin, size}), out));
  });
  const Tensor x = counting<double>({3, 3});
  const Tensor grad = run1("SliceGrad", {filled<double>({1, 2}, 5), x, list({2, 1})});
  EXPECT_EQ(doubles(grad), (std::vector<double>{0, 0, 0, 0, 0, 0, 0, 5, 5}));
  const auto slice = [&](const Ints& begin, const Ints& size) {
    return error_of("Slice", {x, list(begin), list(size)});
  };
  EXPECT_NE(slice({0, 2}, {3, 2}), "");
  EXPECT_NE(slice({-1, 0}, {1, 1}), "");
  EXPECT_NE(slice({4, 0}, {-1, 1}), "");
  EXPECT_NE(slice({0, 0}, {-2, 1}), "");
  EXPECT_NE(slice({0, 1}, {1, std::numeric_limits<std::int64_t>::max()}), "");
  EXPECT_NE(slice({0}, {1}), "");
  EXPECT_EQ(slice({3, 0}, {-1, 0}), "");
  EXPECT_NE(error_of("SliceGrad", {x, x, list({0, 1})}), "");
  EXPECT_NE(error_of("SliceGrad", {x, x, list({-1, 0})}), "");
}

TEST_F(ArrayTest, StridedSliceTakesWhatNumPyDoes) {
  const auto slice = [&](const Tensor& x, const Ints& begin, const Ints& end, const Ints& strides, const Ints& axes) {
    return run1("StridedSlice", {x, list(begin), list(end), list(strides), list(axes)});
  };
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max(), kLeast = std::numeric_limits<std::int64_t>::min();
  for_each_size({5, 7, 3}, [&](const Tensor& x) {
    const Tensor out = slice(x, {-2, 1}, {kLeast, 100}, {-2, 3}, {0, -2});
    ASSERT_EQ(out.shape(), (Shape{2, 2, 3}));
    expect_moved(out, x, [](const Ints& i) { return Ints{3 - 2 * i[0], 1 + 3 * i[1], i[2]}; });
    expect_moved(slice(x, {kMost}, {kLeast}, {-1}, {2}), x, [](const Ints& i) { return Ints{i[0], i[1], 2 - i[2]}; });
    const Tensor back =
        run1("StridedSliceGrad", {out, x, list({-2, 1}), list({kLeast, 100}), list({-2, 3}), list({0, 1})});
    EXPECT_TRUE(bitwise_equal(slice(back, {-2, 1}, {kLeast, 100}, {-2, 3}, {0, 1}), out));
  });
  const Tensor x = counting<float>({6});
  EXPECT_EQ(doubles(slice(x, {-3}, {-1}, {1}, {0})), (std::vector<double>{3, 4}));
  EXPECT_EQ(doubles(slice(x, {5}, {1}, {-2}, {0})), (std::vector<double>{5, 3}));
  EXPECT_EQ(doubles(slice(x, {4}, {kMost}, {kMost}, {0})), (std::vector<double>{4}));
  EXPECT_EQ(doubles(slice(x, {4}, {kLeast}, {kLeast}, {0})), (std::vector<double>{4}));
  EXPECT_EQ(slice(x, {4}, {2}, {1}, {0}).shape(), (Shape{0}));
  EXPECT_EQ(slice(x, {100}, {200}, {1}, {0}).shape(), (Shape{0}));
  EXPECT_EQ(slice(Tensor(DType::f32, Shape{0, 2}), {-1}, {kLeast}, {-1}, {0}).shape(), (Shape{0, 2}));
  EXPECT_TRUE(bitwise_equal(slice(x, {}, {}, {}, {}), x));
  const auto error = [&](const Ints& begin, const Ints& end, const Ints& strides, const Ints& axes) {
    return error_of("StridedSlice", {x, list(begin), list(end), list(strides), list(axes)});
  };
  EXPECT_NE(error({0}, {1}, {0}, {0}).find("stride is 0"), std::string::npos);
  EXPECT_NE(error({0}, {1}, {1}, {1}), "");
  EXPECT_NE(error({0, 0}, {1, 1}, {1, 1}, {0, -1}).find("twice"), std::string::npos);
  EXPECT_NE(error({0, 0}, {1}, {1}, {0}), "");
  EXPECT_NE(error_of("StridedSliceGrad", {x, x, list({0}), list({2}), list({1}), list({0})}), "");
}

TEST_F(ArrayTest, PadSurroundsWithAValue) {
  const Tensor x = Tensor::of<float>(Shape{1, 2}, {1, 2}), value = Tensor::scalar(-1.0f);
  const Attributes constant{{"mode", std::string("constant")}};
  const Tensor out = run1("Pad", {x, list({1, 0, 0, 2}), value}, constant);
  EXPECT_EQ(out.shape(), (Shape{2, 4}));
  EXPECT_EQ(doubles(out), (std::vector<double>{-1, -1, -1, -1, 1, 2, -1, -1}));
  const Tensor empty(DType::i8, Shape{0, 1}), byte = Tensor::scalar<std::int8_t>(-1);
  EXPECT_EQ(doubles(run1("Pad", {empty, list({2, 0, 0, 0}), byte}, constant)), (std::vector<double>{-1, -1}));
  EXPECT_EQ(doubles(run1("Pad", {x, list({1, -1, 0, 1}), value}, constant)), (std::vector<double>{-1, -1, 2, -1}));
  EXPECT_EQ(run1("Pad", {x, list({0, -1, 0, -1}), value}, constant).shape(), (Shape{1, 0}));
  for_each_size({3, 4, 5}, [&](const Tensor& t) {
    Tensor one = run1("Slice", {t, list({0, 0, 0}), list({1, 1, 1})});
    const Tensor padded = run1("Pad", {t, list({2, 0, 1, 0, 3, 1}), one.reshaped(Shape{})}, constant);
    ASSERT_EQ(padded.shape(), (Shape{5, 7, 7}));
    expect_moved(padded, t, [](const Ints& i) {
      const bool inside = i[0] >= 2 && i[1] < 4 && i[2] >= 1 && i[2] < 6;
      return inside ? Ints{i[0] - 2, i[1], i[2] - 1} : Ints{0, 0, 0};
    });
  });
  const auto error = [&](const Ints& pads) { return error_of("Pad", {x, list(pads), value}, constant); };
  EXPECT_NE(error({-2, 0, 0, 0}), "");
  EXPECT_NE(error({0, -1, 0, -2}), "");
  EXPECT_NE(error({0, 0}), "");
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max(), kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_NE(error({kMost, 0, kMost, 0}), "");
  EXPECT_NE(error({kLeast, 0, kLeast, 0}), "");
  EXPECT_NE(error_of("Pad", {x, list({0, 0, 0, 0}), x}, constant), "");
  EXPECT_NE(error_of("Pad", {x, list({0, 0, 0, 0}), Tensor::scalar(1.0)}, constant), "");
}

// numpy.pad([1, 2, 3], ...)
TEST_F(ArrayTest, PadRepeatsElements) {
  const Tensor x = Tensor::vector<float>({1, 2, 3}), zero = Tensor::scalar(0.0f);
  const auto pad = [&](const char* mode, const Ints& pads) {
    return doubles(run1("Pad", {x, list(pads), zero}, {{"mode", std::string(mode)}}));
  };
  EXPECT_EQ(pad("reflect", {2, 1}), (std::vector<double>{3, 2, 1, 2, 3, 2}));
  EXPECT_EQ(pad("reflect", {5, 0}), (std::vector<double>{2, 1, 2, 3, 2, 1, 2, 3}));
  EXPECT_EQ(pad("edge", {2, 1}), (std::vector<double>{1, 1, 1, 2, 3, 3}));
  EXPECT_EQ(pad("symmetric", {4, 2}), (std::vector<double>{3, 3, 2, 1, 1, 2, 3, 3, 2}));
  EXPECT_EQ(pad("wrap", {2, 4}), (std::vector<double>{2, 3, 1, 2, 3, 1, 2, 3, 1}));
  EXPECT_EQ(pad("edge", {-1, 2}), (std::vector<double>{2, 3, 3, 3}));
  EXPECT_EQ(pad("reflect", {2, -1}), (std::vector<double>{1, 2, 1, 2}));
  for (const char* mode : {"reflect", "edge", "symmetric", "wrap"})
    for_each_size({3, 4}, [&](const Tensor& t) {
      SCOPED_TRACE(::testing::Message() << mode << ' ' << name(t.dtype()));
      Tensor one = run1("Slice", {t, list({0, 0}), list({1, 1})}).reshaped(Shape{});
      const Attributes attributes{{"mode", std::string(mode)}};
      const Tensor both = run1("Pad", {t, list({2, 3, 1, 2}), one}, attributes);
      const Tensor rows = run1("Pad", {t, list({2, 0, 1, 0}), one}, attributes);
      EXPECT_TRUE(bitwise_equal(both, run1("Pad", {rows, list({0, 3, 0, 2}), one}, attributes)));
    });
  const Attributes wrap{{"mode", std::string("wrap")}};
  EXPECT_NE(error_of("Pad", {Tensor(DType::f32, Shape{0}), list({1, 0}), zero}, wrap), "");
  EXPECT_EQ(run1("Pad", {Tensor(DType::f32, Shape{0}), list({0, 0}), zero}, wrap).shape(), (Shape{0}));
}

TEST_F(ArrayTest, TileRepeats) {
  for_each_size({2, 3}, [&](const Tensor& x) {
    const Tensor out = run1("Tile", {x, list({3, 2})});
    ASSERT_EQ(out.shape(), (Shape{6, 6}));
    expect_moved(out, x, [](Ints index) { return Ints{index[0] % 2, index[1] % 3}; });
  });
  for_each_size({3, 16}, [&](const Tensor& x) {
    const Tensor out = run1("Tile", {x, list({2, 3})});
    expect_moved(out, x, [](Ints index) { return Ints{index[0] % 3, index[1] % 16}; });
  });
  const Tensor x = counting<float>({2, 3});
  EXPECT_EQ(run1("Tile", {x, list({0, 2})}).shape(), (Shape{0, 6}));
  EXPECT_NE(error_of("Tile", {x, list({-1, 2})}), "");
  EXPECT_NE(error_of("Tile", {x, list({2})}), "");
  EXPECT_NE(error_of("Tile", {x, list({std::int64_t{1} << 62, 2})}), "");
}

TEST_F(ArrayTest, BroadcastToGoesBothWays) {
  for_each_size({3, 1}, [&](const Tensor& x) {
    const Tensor out = run1("BroadcastTo", {x, list({2, 1, 4})});
    ASSERT_EQ(out.shape(), (Shape{2, 3, 4}));
    expect_moved(out, x, [](const Ints& index) { return Ints{index[1], 0}; });
  });
  const Tensor x = counting<float>({3, 2});
  EXPECT_TRUE(bitwise_equal(run1("BroadcastTo", {x, list({1})}), x));
  EXPECT_EQ(run1("BroadcastTo", {Tensor(DType::f32, Shape{1, 2}), list({0, 1})}).shape(), (Shape{0, 2}));
  EXPECT_NE(error_of("BroadcastTo", {x, list({3})}), "");
  EXPECT_NE(error_of("BroadcastTo", {x, list({-1, 2})}), "");
}

TEST_F(ArrayTest, BroadcastLikeRepeats) {
  for_each_size({3, 1}, [&](const Tensor& x) {
    const Tensor out = run1("BroadcastLike", {x, Tensor(DType::i8, Shape{2, 3, 4})});
    ASSERT_EQ(out.shape(), (Shape{2, 3, 4}));
    expect_moved(out, x, [](Ints index) { return Ints{index[1], 0}; });
  });
  for_each_size({7, 1}, [&](const Tensor& x) {
    const Tensor out = run1("BroadcastLike", {x, Tensor(DType::i8, Shape{7, 64})});
    expect_moved(out, x, [](Ints index) { return Ints{index[0], 0}; });
  });
  for_each_size({}, [&](const Tensor& x) {
    const Tensor out = run1("BroadcastLike", {x, Tensor(DType::i8, Shape{1003})});
    expect_moved(out, x, [](Ints) { return Ints{}; });
  });
  EXPECT_NE(error_of("BroadcastLike", {counting<float>({3}), Tensor(DType::f32, Shape{1})}), "");
  EXPECT_NE(error_of("BroadcastLike", {counting<float>({3, 1}), Tensor(DType::f32, Shape{3})}), "");
}

TEST_F(ArrayTest, ReshapesAreViews) {
  const Tensor x = counting<float>({2, 6});
  const auto shape = [](std::initializer_list<std::int64_t> dims) { return Tensor::vector<std::int64_t>(dims); };
  const Attributes zeros{{"copy_zeros", false}}, copies{{"copy_zeros", true}};
  const auto reshaped = [&](std::vector<Tensor> inputs) { return run1("Reshape", std::move(inputs), zeros); };
  const auto reshape_error = [&](std::vector<Tensor> inputs) { return error_of("Reshape", std::move(inputs), zeros); };
  const Tensor y = reshaped({x, shape({3, -1})});
  EXPECT_EQ(y.shape(), (Shape{3, 4}));
  if (kernel_target().on_host()) {
    EXPECT_EQ(y.raw(), x.raw());
  }
  EXPECT_EQ(reshaped({Tensor(DType::f32, Shape{0}), shape({-1, 3})}).shape(), (Shape{0, 3}));
  EXPECT_NE(reshape_error({x, shape({5, -1})}), "");
  EXPECT_NE(reshape_error({x, shape({-1, -1})}), "");
  EXPECT_NE(reshape_error({x, shape({-1, -2})}), "");
  EXPECT_NE(reshape_error({x, shape({-1, 0})}), "");
  EXPECT_NE(reshape_error({x, shape({13})}), "");
  EXPECT_NE(reshape_error({x, shape({-1, std::int64_t{1} << 62, 4})}), "");
  EXPECT_NE(reshape_error({x, shape({1, 1, 1, 1, 1, 1, 1, 1, 12})}), "");
  EXPECT_NE(reshape_error({x, Tensor::scalar<std::int64_t>(12)}), "");
  EXPECT_EQ(run1("Reshape", {x, shape({0, 3, -1})}, copies).shape(), (Shape{2, 3, 2}));
  EXPECT_NE(error_of("Reshape", {x, shape({2, 6, 0})}, copies), "");
  EXPECT_EQ(run1("ReshapeLike", {x, Tensor(DType::i8, Shape{4, 3})}).shape(), (Shape{4, 3}));
  EXPECT_NE(error_of("ReshapeLike", {x, Tensor(DType::i8, Shape{4})}), "");
  const Tensor ones = counting<float>({1, 3, 1});
  EXPECT_EQ(run1("Squeeze", {ones, list({})}).shape(), (Shape{3}));
  EXPECT_EQ(run1("Squeeze", {ones, list({-1})}).shape(), (Shape{1, 3}));
  EXPECT_NE(error_of("Squeeze", {ones, list({1})}), "");
  EXPECT_NE(error_of("Squeeze", {ones, list({0, 0})}), "");
  EXPECT_EQ(run1("ExpandDims", {x, list({1})}).shape(), (Shape{2, 1, 6}));
  EXPECT_EQ(run1("ExpandDims", {x, list({-1})}).shape(), (Shape{2, 6, 1}));
  EXPECT_EQ(run1("ExpandDims", {x, list({-1, 0, 2})}).shape(), (Shape{1, 2, 1, 6, 1}));
  EXPECT_EQ(run1("ExpandDims", {x, list({})}).shape(), x.shape());
  EXPECT_NE(error_of("ExpandDims", {x, list({3})}), "");
  EXPECT_NE(error_of("ExpandDims", {x, list({1, 1})}), "");
  EXPECT_NE(error_of("ExpandDims", {x, list(Ints(7, 0))}), "");
}

TEST_F(ArrayTest, ScatterAddRowsAddsRepeatedRowsInOrder) {
  const Tensor like(DType::f32, Shape{1000, 40});
  Tensor indices(DType::i64, Shape{700});
  for (auto& i : indices.mutable_values<std::int64_t>()) i = static_cast<std::int64_t>(engine_() % 50 * 20);
  const Tensor values = random<float>({700, 40});
  const auto scatter = [&](Device& device) {
    return run_kernel(registry(), device,
                      {.op = "ScatterAddRows", .dtype = DType::f32, .inputs = {indices, values, like}})[0];
  };
  Tensor want = Tensor::zeros(DType::f32, like.shape());
  for (std::int64_t i = 0; i < 700; ++i)
    for (std::int64_t k = 0; k < 40; ++k)
      want.mutable_data<float>()[indices.data<std::int64_t>()[i] * 40 + k] += values.data<float>()[i * 40 + k];
  EXPECT_TRUE(bitwise_equal(scatter(*device_), want));
  EXPECT_TRUE(bitwise_equal(scatter(*three_threads_), want));
  const auto error = [&](std::int64_t index, const Shape& shape) {
    try {
      run({.op = "ScatterAddRows",
           .dtype = DType::f32,
           .inputs = {Tensor::vector<std::int64_t>({index}), Tensor::zeros(DType::f32, shape), like}});
    } catch (const Error& e) {
      return e.message();
    }
    return std::string();
  };
  EXPECT_NE(error(1000, {1, 40}).find("index 1000"), std::string::npos);
  EXPECT_NE(error(-1, {1, 40}), "");
  EXPECT_NE(error(0, {1, 39}), "");
  EXPECT_NE(error(0, {2, 40}), "");
  EXPECT_EQ(error(0, {1, 40}), "");
}

// Each sum is rounded, and all of one row are added in order: f16 and wrapping integers tell.
TEST_F(ArrayTest, ScatterAddRowsAddsEveryTypeOneByOne) {
  const Tensor indices = random<std::int64_t>({500}, 0, 3);
  const auto expect = [&]<class T>(T) {
    const Tensor values = random<T>({500}, 0, 100), like(dtype_of<T>, Shape{4});
    Tensor want = Tensor::zeros(dtype_of<T>, like.shape());
    for (std::int64_t i = 0; i < 500; ++i) {
      const std::int64_t row = indices.data<std::int64_t>()[i];
      const Tensor sum = run1("Add", {want.rows(row, row + 1), values.rows(i, i + 1)});
      want.mutable_data<T>()[row] = sum.data<T>()[0];
    }
    const Tensor got = run({.op = "ScatterAddRows", .dtype = dtype_of<T>, .inputs = {indices, values, like}})[0];
    EXPECT_TRUE(bitwise_equal(got, want)) << name(dtype_of<T>);
  };
  expect(float{});
  expect(double{});
  expect(Half{});
  expect(BFloat16{});
  expect(std::int8_t{});
  expect(std::uint8_t{});
  expect(std::int16_t{});
  expect(std::int32_t{});
  expect(std::int64_t{});
}

TEST_F(ArrayTest, OneHotSetsOneElementPerIndex) {
  const Tensor depth = Tensor::scalar<std::int64_t>(3), values = Tensor::vector<float>({-1, 5});
  const auto one_hot = [&](const Tensor& indices, const Tensor& off_on, std::int64_t axis) {
    return run_as(off_on.dtype(), "OneHot", {indices, depth, off_on}, {{"axis", axis}});
  };
  const Tensor out = one_hot(Tensor::vector<std::int32_t>({2, 0, 3, -1, -4}), values, -1);
  EXPECT_EQ(out.shape(), (Shape{5, 3}));
  EXPECT_EQ(doubles(out), (std::vector<double>{-1, -1, 5, 5, -1, -1, -1, -1, -1, -1, -1, 5, -1, -1, -1}));
  const Tensor matrix = Tensor::of<std::int64_t>(Shape{2, 2}, {0, 1, 2, -1});
  const Tensor last = one_hot(matrix, values, 2);
  for (const std::int64_t axis : {0, 1}) {
    const Ints perm = axis == 0 ? Ints{2, 0, 1} : Ints{0, 2, 1};
    EXPECT_TRUE(bitwise_equal(one_hot(matrix, values, axis), run1("Transpose", {last}, {{"perm", perm}}))) << axis;
  }
  EXPECT_EQ(one_hot(Tensor(DType::i64, Shape{0, 2}), Tensor::vector<double>({0, 1}), -1).shape(), (Shape{0, 2, 3}));
  const Tensor one = one_hot(Tensor::scalar<std::int64_t>(1), Tensor::vector<bool>({false, true}), 0);
  EXPECT_TRUE(bitwise_equal(one, Tensor::vector<bool>({false, true, false})));
  EXPECT_THROW(one_hot(Tensor::vector<float>({1}), values, -1), Error);
  EXPECT_THROW(one_hot(matrix, Tensor::scalar(1.0f), -1), Error);
  EXPECT_THROW(one_hot(matrix, values, 3), Error);
  EXPECT_THROW(
      run_as(DType::f32, "OneHot", {matrix, Tensor::scalar<std::int64_t>(-1), values}, {{"axis", std::int64_t{0}}}),
      Error);
}

TEST_F(ArrayTest, FillAndLikes) {
  const auto fill = [&](std::initializer_list<std::int64_t> dims, const Tensor& value) {
    return run_as(value.dtype(), "Fill", {Tensor::vector<std::int64_t>(dims), value});
  };
  EXPECT_TRUE(bitwise_equal(fill({2, 2}, Tensor::scalar(3.0f)), filled<float>({2, 2}, 3)));
  EXPECT_TRUE(bitwise_equal(fill({2}, Tensor::scalar<std::string>("a")), Tensor::vector<std::string>({"a", "a"})));
  EXPECT_EQ(fill({}, Tensor::scalar(3.0f)).shape(), Shape{});
  EXPECT_THROW(fill({-1}, Tensor::scalar(3.0f)), Error);
  EXPECT_THROW(fill({2}, Tensor::vector<float>({1, 2})), Error);
  EXPECT_THROW(fill({std::int64_t{1} << 40, std::int64_t{1} << 40}, Tensor::scalar(3.0f)), Error);
  const Tensor x = counting<std::int16_t>({2, 3});
  EXPECT_TRUE(bitwise_equal(run1("ZerosLike", {x}), Tensor::zeros(DType::i16, {2, 3})));
  EXPECT_TRUE(bitwise_equal(run1("OnesLike", {x}), filled<std::int16_t>({2, 3}, 1)));
  EXPECT_TRUE(bitwise_equal(run1("Shape", {x}), Tensor::vector<std::int64_t>({2, 3})));
  EXPECT_EQ(run1("Shape", {Tensor::scalar(1.0f)}).shape(), (Shape{0}));
  EXPECT_EQ(run1("Size", {x}).item<std::int64_t>(), 6);
}

TEST_F(ArrayTest, RangeStopsBeforeTheLimit) {
  const auto range = [&]<class T>(T start, T limit, T delta) {
    return run1("Range", {Tensor::scalar(start), Tensor::scalar(limit), Tensor::scalar(delta)});
  };
  EXPECT_EQ(doubles(range(1.0f, 2.0f, 0.25f)), (std::vector<double>{1, 1.25, 1.5, 1.75}));
  EXPECT_EQ(doubles(range(std::int32_t{5}, std::int32_t{-2}, std::int32_t{-3})), (std::vector<double>{5, 2, -1}));
  EXPECT_EQ(range(std::int64_t{5}, std::int64_t{5}, std::int64_t{1}).shape(), (Shape{0}));
  EXPECT_EQ(range(2.0, 1.0, 1.0).shape(), (Shape{0}));
  using Long = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(range(Long::min(), Long::max(), Long::max()).num_elements(), 3);
  EXPECT_EQ(doubles(range(std::int8_t{-128}, std::int8_t{127}, std::int8_t{100})),
            (std::vector<double>{-128, -28, 72}));
  EXPECT_THROW(range(1.0f, 2.0f, 0.0f), Error);
  EXPECT_THROW(range(std::int32_t{1}, std::int32_t{2}, std::int32_t{0}), Error);
  EXPECT_THROW(range(Long::min(), Long::max(), std::int64_t{1}), Error);
  EXPECT_THROW(range(0.0, std::numeric_limits<double>::infinity(), 1.0), Error);
  EXPECT_THROW(range(0.0, std::numeric_limits<double>::quiet_NaN(), 1.0), Error);
}

}  // namespace
}  // namespace troupe::testing
