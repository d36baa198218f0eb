#include <gtest/gtest.h>

#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using testing::message_of;

TEST(Builder, ReadsLikeMathematics) {
  Graph g;
  const Output x = placeholder(g, DType::f64, Shape{kUnknown, 784}, "x");
  const Output w = constant(g, Tensor::zeros(DType::f64, Shape{784, 10}));
  const Output y = relu(matmul(x, w) * 2 + 1 - add_op("Sum", {x, constant<std::int64_t>(g, {0, 1})})) / -3;
  EXPECT_EQ(y.dtype(), DType::f64);
  EXPECT_EQ(y.shape(), (Shape{kUnknown, 10}));
  EXPECT_EQ(mean(y, {1}, {.keep_dims = true, .name = "m"}).name(), "m");
}

TEST(Builder, NumbersTakeTheDtypeOfTheOtherSide) {
  Graph g;
  const Output n = placeholder(g, DType::i32, Shape{}, "n");
  const Output sum = 2 - n;
  EXPECT_EQ(sum.source().op->name, "Sub");
  EXPECT_EQ(g.node(sum.source().inputs[0].node).attributes.tensor("value").item<std::int32_t>(), 2);
  EXPECT_EQ(message_of([&] { n * 2.5; }), "2.5 is not a value of dtype i32");
  EXPECT_EQ(message_of([&] { n * 3e9; }), "3000000000 is not a value of dtype i32");
  EXPECT_EQ(message_of([&] { scalar_like(placeholder(g, DType::u8), -1); }), "-1 is not a value of dtype u8");
  const Output half = placeholder(g, DType::bf16, Shape{}, "h") * 0.5;
  EXPECT_EQ(half.dtype(), DType::bf16);
  EXPECT_EQ(message_of([&] { scalar_like(placeholder(g, DType::boolean), 1); }), "1 cannot be a value of dtype bool");
}

TEST(Builder, ConstantsComeFromNumbersAndLists) {
  Graph g;
  EXPECT_EQ(constant(g, 3.0f).shape(), Shape{});
  EXPECT_EQ(constant<float>(g, {1, 2, 3}).shape(), (Shape{3}));
  EXPECT_EQ(constant<std::int64_t>(g, 7).dtype(), DType::i64);
  EXPECT_EQ(constant(g, std::string("text")).dtype(), DType::string);
  EXPECT_EQ(message_of([&] { constant(g, Tensor(), "c"); }), "Const 'c': attribute 'T' is not a dtype");
}

TEST(Builder, DtypesWithoutKernelsAreRefusedAtOnce) {
  const auto refused = [](auto make) {
    Graph g;
    return message_of([&] { make(g); });
  };
  const auto x = [](Graph& g, DType dtype) { return placeholder(g, dtype, Shape{4, 4}); };
  EXPECT_EQ(refused([&](Graph& g) { matmul(x(g, DType::boolean), x(g, DType::boolean), {.name = "m"}); }),
            "MatMul 'm': input 'a' is bool, but must be f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32 or u64: "
            "use cast()");
  EXPECT_EQ(refused([&](Graph& g) { softmax(x(g, DType::i32), {.name = "s"}); }),
            "Softmax 's': input 'x' is i32, but must be f32, f64, f16 or bf16: use cast()");
  EXPECT_EQ(refused([&](Graph& g) { random_normal(g, Shape{2}, 0, 1, {.dtype = DType::i32, .name = "r"}); }),
            "RandomNormal 'r': attribute 'T' is i32, but must be f32, f64, f16 or bf16");
}

TEST(Builder, ATensorIsNeeded) {
  Graph g;
  EXPECT_EQ(message_of([] { exp(Output{}); }), "Exp: input 0 is not a tensor");
  EXPECT_EQ(message_of([] { concat({}, 0, "c"); }), "Concat 'c': input 0 is not a tensor");
  EXPECT_EQ(message_of([] { reshape(Output{}, Shape{2}); }), "reshape: x is not a tensor");
  EXPECT_EQ(message_of([&] { unstack(placeholder(g, DType::f32, Shape{kUnknown}), 0); }),
            "unstack: the size of [?] along axis 0 is unknown");
}

TEST(Builder, NeuralNetworkOpsTakeNamedOptions) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 28, 28, 1}, "x");
  const Output filter = placeholder(g, DType::f32, Shape{3, 3, 1, 32}, "filter");
  const Output y =
      max_pool(conv2d(x, filter, {.strides = {1, 1}, .padding = Padding::valid}), {.padding = Padding::valid});
  EXPECT_EQ(y.shape(), (Shape{kUnknown, 13, 13, 32}));
  EXPECT_EQ(dropout(y, 0.5).shape(), y.shape());
  EXPECT_EQ(reshape(y, Shape{-1, 13 * 13 * 32}).shape(), (Shape{kUnknown, 5408}));
  EXPECT_EQ(random_uniform(g, Shape{2}, -1, 1, {.dtype = DType::f64}).dtype(), DType::f64);
}

TEST(Builder, GroupRunsAfterItsNodes) {
  Graph g;
  const Output a = constant(g, 1.0f);
  const Output b = constant(g, 2.0f);
  EXPECT_EQ(group(g, {a, b}, "both").source().controls, (std::vector<int>{a.node, b.node}));
}

TEST(IfElse, BranchesBecomeFunctionsWithUniqueNames) {
  Graph g;
  const auto scope = g.scope("model");
  const Output x = placeholder(g, DType::f32, Shape{2}, "x");
  const Output cond = constant(g, true);
  const BranchFn twice = [](Graph&, const Outputs& in) { return Outputs{in[0] * 2}; };
  const BranchFn nested = [&](Graph& body, const Outputs& in) {
    return if_else(constant(body, false), {in[0]}, twice, twice);
  };
  const Outputs y = if_else(cond, {x}, twice, nested);
  ASSERT_EQ(y.size(), 1u);
  EXPECT_EQ(y[0].shape(), (Shape{2}));
  EXPECT_EQ(y[0].name(), "model/If");
  const Function* otherwise = g.function("model/If/else");
  ASSERT_NE(otherwise, nullptr);
  EXPECT_EQ(otherwise->body->node(otherwise->arguments[0].node).attributes.integer("index"), 0);
  EXPECT_NE(otherwise->body->function("model/If/else/If/then"), nullptr);
  EXPECT_EQ(if_else(cond, {x}, twice, twice)[0].name(), "model/If_1");
  EXPECT_EQ(if_else(cond, {x}, "model/If/then", "model/If/else", "again")[0].name(), "model/again");
}

TEST(IfElse, ShapesAreWhatBothBranchesAgreeOn) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{2, 3}, "x");
  const Outputs y = if_else(
      constant(g, true), {x},
      [](Graph&, const Outputs& in) {
        return Outputs{in[0], in[0]};
      },
      [](Graph&, const Outputs& in) {
        return Outputs{slice(in[0], {0, 0}, {1, 3}), sum(in[0])};
      });
  EXPECT_EQ(y[0].shape(), (Shape{kUnknown, 3}));
  EXPECT_FALSE(y[1].shape().has_rank());
}

TEST(IfElse, BranchesReadWhatIsAroundThem) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{2}, "x"), z = placeholder(g, DType::f32, Shape{2}, "z");
  const Output two = constant(g, 2.0f);
  const Outputs y = if_else(
      constant(g, true), {}, [&](Graph&, const Outputs&) { return Outputs{x * two}; },
      [&](Graph& body, const Outputs&) { return Outputs{z - constant(body, 1.0f)}; });
  const Node& node = y[0].source();
  ASSERT_EQ(node.inputs.size(), 3u) << "x and z; constants are copied";
  EXPECT_EQ(y[0].shape(), (Shape{2}));
  for (const char* branch : {"If/then", "If/else"}) {
    const Function* function = g.function(branch);
    ASSERT_NE(function, nullptr);
    ASSERT_EQ(function->arguments.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_EQ(function->body->node(function->arguments[i].node).attributes.integer("index"),
                std::ssize(function->arguments) - 2 + static_cast<std::int64_t>(i));
  }
}

TEST(IfElse, MisuseIsRefusedAndLeavesNothing) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{2}, "x");
  const Output cond = constant(g, true);
  const BranchFn same = [](Graph&, const Outputs& in) { return in; };
  const BranchFn empty = [](Graph&, const Outputs&) { return Outputs{}; };
  const BranchFn integer = [](Graph&, const Outputs& in) { return Outputs{cast(in[0], DType::i32)}; };
  Graph other;
  const BranchFn outside = [y = placeholder(other, DType::f32)](Graph&, const Outputs&) { return Outputs{y}; };
  const int before = g.size();
  EXPECT_EQ(message_of([&] { if_else(cond, {x}, same, empty); }),
            "the branches return different numbers of results: 1 and 0");
  EXPECT_EQ(message_of([&] { if_else(cond, {x}, same, integer); }),
            "result 0 is f32 in one branch and i32 in the other");
  EXPECT_EQ(message_of([&] { if_else(cond, {x}, outside, same); }),
            "branch 'If/then': a result belongs to another graph");
  EXPECT_EQ(message_of([&] { if_else(cond, {Output{}}, same, same); }), "If: an input is not a tensor");
  EXPECT_EQ(message_of([&] { if_else(cond, {x}, "no", "yes"); }), "the graph has no function 'no'");
  EXPECT_EQ(g.size(), before);
  EXPECT_TRUE(g.functions().empty());
  EXPECT_EQ(message_of([&] { if_else(x, {x}, same, same); }), "If 'If': input 'cond' must be bool, not f32");
  EXPECT_EQ(message_of([&] {
              if_else(cond, {x, x}, "If/then", "If/else");
            }),
            "branch 'If/then' takes 1 arguments, 2 were given");
}

}  // namespace
}  // namespace troupe
