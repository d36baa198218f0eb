// Elements by index: values of NumPy, and what scatters do with duplicates.
#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/kernels/common/elementwise_ops.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe::testing {
namespace {

using Ints = std::vector<std::int64_t>;

class IndexTest : public KernelTest {
 protected:
  static Tensor floats(const Shape& shape, std::initializer_list<float> values) {
    return Tensor::of<float>(shape, values);
  }
  static Tensor longs(const Shape& shape, std::initializer_list<std::int64_t> values) {
    return Tensor::of<std::int64_t>(shape, values);
  }
  static Tensor counting(const Shape& shape) {
    Tensor t(DType::f32, shape);
    for (std::int64_t i = 0; i < t.num_elements(); ++i) t.mutable_data<float>()[i] = static_cast<float>(i);
    return t;
  }
  static Attributes axis(std::int64_t axis, std::int64_t batch_dims = 0, bool from_end = false) {
    return {{"axis", axis}, {"batch_dims", batch_dims}, {"from_end", from_end}};
  }
  static Attributes scatter(std::int64_t axis, std::string reduction) {
    return {{"axis", axis}, {"reduction", std::move(reduction)}};
  }
};

TEST_F(IndexTest, GatherTakesRowsOfEverySizeOfElement) {
  const Tensor indices = Tensor::of<std::int32_t>(Shape{2, 2}, {4, 0, 4, 1});
  const auto expect = [&]<class T>(T) {
    const Tensor x = random<T>({5, 3}, 0, 100);
    const Tensor out = run1("Gather", {x, indices}, axis(0));
    ASSERT_EQ(out.shape(), (Shape{2, 2, 3}));
    for (std::int64_t i = 0; i < 12; ++i)
      EXPECT_EQ(out.data<T>()[i], x.data<T>()[indices.data<std::int32_t>()[i / 3] * 3 + i % 3]) << name(dtype_of<T>);
  };
  expect(std::int8_t{});
  expect(std::int16_t{});
  expect(float{});
  expect(double{});
  const Tensor text = Tensor::vector<std::string>({"a", "text too long for the small buffer", "c"});
  EXPECT_TRUE(bitwise_equal(run1("Gather", {text, Tensor::vector<std::int64_t>({1, 0})}, axis(0)),
                            Tensor::vector<std::string>({"text too long for the small buffer", "a"})));
}

TEST_F(IndexTest, GatherTakesSlicesOfAnyAxis) {
  const Tensor x = counting({2, 3, 2});
  EXPECT_TRUE(
      bitwise_equal(run1("Gather", {x, longs({2}, {2, 0})}, axis(1)), floats({2, 2, 2}, {4, 5, 0, 1, 10, 11, 6, 7})));
  EXPECT_TRUE(bitwise_equal(run1("Gather", {x, longs({}, {1})}, axis(-1)), floats({2, 3}, {1, 3, 5, 7, 9, 11})));
  EXPECT_TRUE(bitwise_equal(run1("Gather", {x, longs({2, 1}, {2, 1})}, axis(1, 1)), floats({2, 1, 2}, {4, 5, 8, 9})));
  EXPECT_TRUE(
      bitwise_equal(run1("Gather", {x, longs({2, 1}, {1, 0})}, axis(2, 1)), floats({2, 3, 1}, {1, 3, 5, 6, 8, 10})));
  EXPECT_TRUE(
      bitwise_equal(run1("Gather", {x, longs({1}, {-1})}, axis(1, 0, true)), floats({2, 1, 2}, {4, 5, 10, 11})));
  // More indices than a block, in parts of several threads.
  const Tensor table = random<float>({40, 300});
  const Tensor indices = random<std::int64_t>({700}, 0, 300);
  const Tensor out = run_on_three_threads("Gather", {table, indices}, axis(1));
  for (std::int64_t r = 0; r < 40; ++r)
    for (std::int64_t i = 0; i < 700; ++i)
      ASSERT_EQ(out.data<float>()[r * 700 + i], table.data<float>()[r * 300 + indices.data<std::int64_t>()[i]]);
}

TEST_F(IndexTest, GatherNamesABadIndex) {
  const Tensor table = counting({5, 3});
  EXPECT_NE(error_of("Gather", {table, longs({2}, {0, 5})}, axis(0)).find("index 5 (element 1)"), std::string::npos);
  EXPECT_NE(error_of("Gather", {table, longs({1}, {-1})}, axis(0)).find("index -1"), std::string::npos);
  EXPECT_NE(error_of("Gather", {table, longs({1}, {-6})}, axis(0, 0, true)).find("[-5, 5)"), std::string::npos);
  EXPECT_NE(error_of("Gather", {Tensor::scalar(1.0f), longs({1}, {0})}, axis(0)), "");
  EXPECT_NE(error_of("Gather", {table, longs({1}, {0})}, axis(2)), "");
  EXPECT_NE(error_of("Gather", {table, longs({1}, {0})}, axis(1, 1)), "");
  EXPECT_EQ(run1("Gather", {table, Tensor(DType::i64, Shape{0})}, axis(0)).shape(), (Shape{0, 3}));
  EXPECT_EQ(run1("Gather", {counting({5}), Tensor::scalar<std::int64_t>(3)}, axis(0)).item<float>(), 3);
}

TEST_F(IndexTest, GatherNdTakesSlices) {
  const Attributes none = {{"batch_dims", std::int64_t{0}}}, one = {{"batch_dims", std::int64_t{1}}};
  const Tensor x = counting({2, 3, 2});
  EXPECT_TRUE(bitwise_equal(run1("GatherND", {x, longs({2, 2}, {1, -1, 0, 0})}, none), floats({2, 2}, {10, 11, 0, 1})));
  EXPECT_TRUE(bitwise_equal(run1("GatherND", {x, longs({2, 3}, {1, 2, 1, 0, 1, 0})}, none), floats({2}, {11, 2})));
  EXPECT_TRUE(bitwise_equal(run1("GatherND", {x, longs({2, 1}, {2, 0})}, one), floats({2, 2}, {4, 5, 6, 7})));
  EXPECT_TRUE(bitwise_equal(run1("GatherND", {x, Tensor(DType::i64, Shape{1, 0})}, none).reshaped(x.shape()), x));
  EXPECT_NE(error_of("GatherND", {x, longs({2, 2}, {1, 0, 0, 3})}, none).find("index 3 (element 3)"),
            std::string::npos);
  EXPECT_NE(error_of("GatherND", {x, longs({4}, {0, 0, 0, 0})}, none), "");
  EXPECT_NE(error_of("GatherND", {x, longs({3, 1}, {0, 0, 0})}, one), "");
}

TEST_F(IndexTest, GatherElementsTakesOneElementForEachIndex) {
  const Tensor x = counting({3, 3});
  const Attributes first = {{"axis", std::int64_t{0}}}, last = {{"axis", std::int64_t{-1}}};
  EXPECT_TRUE(bitwise_equal(run1("GatherElements", {x, longs({2, 3}, {1, 2, 0, 2, 0, -1})}, first),
                            floats({2, 3}, {3, 7, 2, 6, 1, 8})));
  EXPECT_TRUE(bitwise_equal(run1("GatherElements", {x, longs({3, 1}, {1, 0, 2})}, last), floats({3, 1}, {1, 3, 8})));
  EXPECT_NE(error_of("GatherElements", {x, longs({1, 1}, {3})}, last).find("index 3"), std::string::npos);
  EXPECT_NE(error_of("GatherElements", {x, longs({4, 1}, {0, 0, 0, 0})}, last), "");
  EXPECT_NE(error_of("GatherElements", {x, longs({1}, {0})}, last), "");
}

TEST_F(IndexTest, ScatterElementsCombinesDuplicatesInOrder) {
  const Tensor data = floats({1, 5}, {1, 2, 3, 4, 5}), at = longs({1, 3}, {1, -4, 3}),
               u = floats({1, 3}, {10, 20, 0.5f});
  const auto run_with = [&](const char* reduction) {
    return run1("ScatterElements", {data.clone(), at, u}, scatter(1, reduction));
  };
  EXPECT_TRUE(bitwise_equal(run_with("none"), floats({1, 5}, {1, 20, 3, 0.5f, 5})));
  EXPECT_TRUE(bitwise_equal(run_with("add"), floats({1, 5}, {1, 32, 3, 4.5f, 5})));
  EXPECT_TRUE(bitwise_equal(run_with("sub"), floats({1, 5}, {1, -28, 3, 3.5f, 5})));
  EXPECT_TRUE(bitwise_equal(run_with("mul"), floats({1, 5}, {1, 400, 3, 2, 5})));
  EXPECT_TRUE(bitwise_equal(run_with("max"), floats({1, 5}, {1, 20, 3, 4, 5})));
  EXPECT_TRUE(bitwise_equal(run_with("min"), floats({1, 5}, {1, 2, 3, 0.5f, 5})));
  EXPECT_NE(error_of("ScatterElements", {data, at, u}, scatter(1, "mean")), "");
  EXPECT_NE(error_of("ScatterElements", {data, longs({1, 1}, {5}), floats({1, 1}, {0})}, scatter(1, "none")), "");
  EXPECT_NE(error_of("ScatterElements", {data, at, floats({3}, {1, 2, 3})}, scatter(1, "none")), "");
  // The first axis, on several threads: the same bits.
  const Tensor table = random<float>({50, 900}), updates = random<float>({200, 900});
  const Tensor rows = random<std::int64_t>({200, 900}, 0, 50);
  EXPECT_TRUE(bitwise_equal(run1("ScatterElements", {table, rows, updates}, scatter(0, "add")),
                            run_on_three_threads("ScatterElements", {table, rows, updates}, scatter(0, "add"))));
}

TEST_F(IndexTest, ScatterNdCombinesSlices) {
  const auto with = [](const char* reduction, std::int64_t batch_dims = 0) {
    return Attributes{{"batch_dims", batch_dims}, {"reduction", std::string(reduction)}};
  };
  const Tensor at = longs({3, 1}, {2, 0, -1}), u = floats({3, 2}, {10, 20, 30, 40, 50, 60});
  EXPECT_TRUE(bitwise_equal(run1("ScatterND", {counting({3, 2}), at, u}, with("none")),
                            floats({3, 2}, {30, 40, 2, 3, 50, 60})));
  EXPECT_TRUE(
      bitwise_equal(run1("ScatterND", {counting({3, 2}), at, u}, with("add")), floats({3, 2}, {30, 41, 2, 3, 64, 85})));
  EXPECT_TRUE(
      bitwise_equal(run1("ScatterND", {counting({2, 3}), longs({2, 1}, {2, 0}), floats({2}, {7, 8})}, with("none", 1)),
                    floats({2, 3}, {0, 1, 7, 8, 4, 5})));
  const Tensor kept = counting({3, 2});
  run1("ScatterND", {kept, at, u}, with("add"));
  EXPECT_TRUE(bitwise_equal(kept, counting({3, 2})));  // of another user
  const Tensor text = Tensor::vector<std::string>({"a", "b"});
  EXPECT_TRUE(
      bitwise_equal(run1("ScatterND", {text, longs({1, 1}, {1}), Tensor::vector<std::string>({"c"})}, with("none")),
                    Tensor::vector<std::string>({"a", "c"})));
  const Tensor wide = random<float>({8, 9000}), updates = random<float>({30, 9000});
  const Tensor rows = random<std::int64_t>({30, 1}, 0, 8);
  EXPECT_TRUE(bitwise_equal(run1("ScatterND", {wide, rows, updates}, with("mul")),
                            run_on_three_threads("ScatterND", {wide, rows, updates}, with("mul"))));
}

// Each reduction, of rows and of single elements; row 2 is hit twice.
TEST(ScatterBuilders, UpdateVariables) {
  struct Case {
    const char* reduction;
    std::vector<double> rows, elements;
  };
  for (const Case& c :
       {Case{"none", {1, 2, 3, 4, 9, 10}, {1, 7, 3, 8, 5, 6}}, Case{"add", {1, 2, 3, 4, 21, 24}, {1, 9, 3, 12, 5, 6}},
        Case{"sub", {1, 2, 3, 4, -11, -12}, {1, -5, 3, -4, 5, 6}},
        Case{"mul", {1, 2, 3, 4, 315, 480}, {1, 14, 3, 32, 5, 6}}, Case{"max", {1, 2, 3, 4, 9, 10}, {1, 7, 3, 8, 5, 6}},
        Case{"min", {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}}}) {
    SCOPED_TRACE(c.reduction);
    Graph g;
    const auto made = [&](const char* name) {
      const Output first = constant(g, Tensor::of<float>(Shape{3, 2}, {1, 2, 3, 4, 5, 6}));
      return variable(g, {.name = name, .initial_value = first});
    };
    const VariableRef v = made("v"), w = made("w");
    const Output values = constant(g, Tensor::of<float>(Shape{2, 2}, {7, 8, 9, 10}));
    const Output rows = v.scatter(constant<std::int64_t>(g, {2, 2}), values, c.reduction);
    const Output places = constant(g, Tensor::of<std::int32_t>(Shape{2, 2}, {0, 1, 1, 1}));
    const Output few = constant(g, Tensor::vector<float>({7, 8}));
    const Output changed = w.scatter_nd(places, few, c.reduction);
    EXPECT_EQ(rows.shape(), (Shape{3, 2}));
    GraphEvaluator evaluator;
    evaluator.run(g, {}, {{g.get("v/assign").id, 0}, {g.get("w/assign").id, 0}});
    EXPECT_EQ(doubles(evaluator.run(rows)), c.rows);
    EXPECT_EQ(doubles(evaluator.run(changed)), c.elements);
    EXPECT_EQ(doubles(evaluator.run(v.read())), c.rows);
  }
}

// One update after the other, each rounded.
template <class T, class Op>
Tensor scattered(const Tensor& data, const Tensor& rows, const Tensor& updates, Op op) {
  Tensor out = data.clone();
  const std::int64_t width = data.shape()[1];
  for (std::int64_t i = 0; i < updates.num_elements(); ++i) {
    const std::int64_t given = rows.data<std::int64_t>()[i / width], row = given < 0 ? given + data.shape()[0] : given;
    T& to = out.mutable_data<T>()[row * width + i % width];
    to = static_cast<T>(op(static_cast<Compute<T>>(to), static_cast<Compute<T>>(updates.data<T>()[i])));
  }
  return out;
}

TEST_F(IndexTest, ScattersOfEveryDtypeAreInOrder) {
  const Tensor rows = random<std::int64_t>({60, 1}, -7, 7);
  for_each_type(RealTypes{}, [&]<class T>() {
    const double low = std::is_unsigned_v<T> ? 0 : -3;
    const Tensor data = random<T>({7, 3}, low, 3), updates = random<T>({60, 3}, low, 3);
    const auto check = [&](const char* reduction, auto op) {
      const Attributes slices{{"batch_dims", std::int64_t{0}}, {"reduction", std::string(reduction)}};
      const Tensor want = scattered<T>(data, rows, updates, op);
      EXPECT_TRUE(bitwise_equal(run1("ScatterND", {data, rows, updates}, slices), want))
          << reduction << name(dtype_of<T>);
      const Tensor wide = run1("BroadcastTo", {rows, longs({2}, {60, 3})});
      EXPECT_TRUE(bitwise_equal(run1("ScatterElements", {data, wide, updates}, scatter(0, reduction)), want))
          << reduction << name(dtype_of<T>);
    };
    check("none", [](auto, auto b) { return b; });
    check("add", AddOp{});
    check("sub", SubOp{});
    check("mul", MulOp{});
    check("max", MaximumOp{});
    check("min", MinimumOp{});
  });
}

TEST_F(IndexTest, ScatterVariableUpdatesRowsOrNothing) {
  Variable v("v", DType::f32, Shape{3, 2});
  v.assign(counting({3, 2}));
  const auto update = [&](const Tensor& at, const Tensor& u, const char* reduction) {
    return run({.op = "ScatterVariable",
                .dtype = DType::f32,
                .inputs = {Tensor(), at, u},
                .attributes = {{"reduction", std::string(reduction)}},
                .variables = {&v}})[0];
  };
  EXPECT_TRUE(bitwise_equal(update(longs({2, 1}, {1, 1}), floats({2, 2}, {1, 2, 3, 4}), "sub"),
                            floats({3, 2}, {0, 1, -2, -3, 4, 5})));
  EXPECT_THROW(update(longs({2, 1}, {0, 3}), floats({2, 2}, {1, 2, 3, 4}), "none"), Error);
  EXPECT_TRUE(bitwise_equal(v.value(), floats({3, 2}, {0, 1, -2, -3, 4, 5})));
}

TEST_F(IndexTest, NonZeroGivesCoordinatesInOrder) {
  const auto places = [&](const Tensor& x) { return run_as(x.dtype(), "NonZero", {x}); };
  EXPECT_TRUE(bitwise_equal(places(floats({2, 3}, {0, 1, -0.0f, NAN, 0, 2})), longs({2, 3}, {0, 1, 1, 1, 0, 2})));
  EXPECT_TRUE(bitwise_equal(places(Tensor::vector<bool>({false, true, true})), longs({1, 2}, {1, 2})));
  EXPECT_EQ(places(Tensor::scalar(3.0)).shape(), (Shape{0, 1}));
  EXPECT_EQ(places(Tensor(DType::i8, Shape{0, 2})).shape(), (Shape{2, 0}));
  const Tensor big = random<std::int8_t>({100000}, 0, 2);
  EXPECT_TRUE(bitwise_equal(places(big), run_on_three_threads("NonZero", {big})));
}

TEST_F(IndexTest, PartitionsAreStitchedTogetherAgain) {
  const Tensor x = counting({4, 2});
  const std::vector<Tensor> parts = run({.op = "DynamicPartition",
                                         .dtype = DType::f32,
                                         .inputs = {x, longs({4}, {1, 0, 1, 1})},
                                         .attributes = {{"N", std::int64_t{2}}},
                                         .outputs = 2});
  EXPECT_TRUE(bitwise_equal(parts[0], floats({1, 2}, {2, 3})));
  EXPECT_TRUE(bitwise_equal(parts[1], floats({3, 2}, {0, 1, 4, 5, 6, 7})));
  const Tensor again =
      run_as(DType::f32, "DynamicStitch", {longs({1}, {1}), longs({3}, {0, 2, 3}), parts[0], parts[1]});
  EXPECT_TRUE(bitwise_equal(again, x));
  EXPECT_TRUE(bitwise_equal(run1("InvertPermutation", {longs({3}, {2, 0, 1})}), longs({3}, {1, 2, 0})));
  EXPECT_NE(error_of("InvertPermutation", {longs({2}, {0, 0})}), "");
  EXPECT_NE(error_of("InvertPermutation", {longs({2}, {0, 2})}), "");
}

}  // namespace
}  // namespace troupe::testing
