#include <gtest/gtest.h>

#include <limits>

#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

const std::int64_t u = kUnknown;
const Shape any = Shape::unknown_rank();
const Tensor none;

// One use of an op: shapes of its inputs (or constants, which win) and what must come of it.
struct Case {
  std::string op;
  std::vector<Shape> inputs;
  Attributes attributes;
  std::string expected;           // shapes of the outputs, or the message of the error
  std::vector<Tensor> constants;  // by input; may be shorter; invalid: a placeholder
  std::vector<DType> dtypes;      // by input; default f32
};

std::string infer(const Case& c) {
  Graph graph;
  Outputs inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (i < c.constants.size() && c.constants[i].valid()) {
      inputs.push_back(constant(graph, c.constants[i]));
    } else if (i < c.dtypes.size() && c.dtypes[i] == DType::resource) {
      inputs.push_back(
          graph.output(graph.add({.op = "Variable", .attributes = {{"T", DType::f32}, {"shape", c.inputs[i]}}})));
    } else {
      inputs.push_back(placeholder(graph, i < c.dtypes.size() ? c.dtypes[i] : DType::f32, c.inputs[i]));
    }
  }
  std::string shapes;
  const std::string error = testing::message_of([&] {
    const Node& node = graph.add({.op = c.op, .name = "n", .inputs = inputs, .attributes = c.attributes});
    for (const Shape& shape : node.output_shapes) {
      if (!shapes.empty()) shapes += ' ';
      shapes += shape.to_string();
    }
  });
  return error == "no error" ? shapes : error;
}

void expect_all(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    std::string inputs;
    for (const Shape& s : c.inputs) inputs += s.to_string() + " ";
    EXPECT_EQ(infer(c), c.expected) << c.op << " of " << inputs;
  }
}

Tensor i64s(std::initializer_list<std::int64_t> values) { return Tensor::vector<std::int64_t>(values); }
Integers ints(std::initializer_list<std::int64_t> values) { return values; }

TEST(Ops, TheRegistryIsConsistent) {
  for (const std::string& name : standard_ops().names()) {
    const OpDef& op = standard_ops().get(name);
    EXPECT_FALSE(op.gradient && op.no_gradient) << name;
    if (op.kernel_type.empty()) continue;
    EXPECT_EQ(op.find_attr(op.kernel_type)->type, AttrType::dtype) << name;
  }
}

TEST(ShapeFunctions, Elementwise) {
  expect_all({
      {"Add", {{2, 1, 3}, {4, 1}}, {}, "[2,4,3]"},
      {"Add", {{u, 3}, {3}}, {}, "[?,3]"},
      {"Add", {any, {3}}, {}, "[?...]"},
      {"Mul", {{2}, {3}}, {}, "Mul 'n': shapes [2] and [3] cannot be broadcast together"},
      {"Exp", {{u, 2}}, {}, "[?,2]"},
      {"Select", {{2, 1}, {3}, {}}, {}, "[2,3]", {}, {DType::boolean}},
      {"AddN", {{2, u}, {u, 3}}, {}, "[2,3]"},
      {"AddN", {{2}, {3}}, {}, "AddN 'n': inputs must have the same shape: input 1 is [3], earlier ones are [2]"},
      {"AddN", {}, {{"T", DType::f32}}, "AddN 'n': needs at least one input"},
      {"ReluGrad",
       {{2}, {3}},
       {},
       "ReluGrad 'n': inputs must have the same shape: input 1 is [3], earlier ones are [2]"},
      {"SumToLike", {{5, 2, 3}, {2, 1}}, {}, "[2,1]"},
      {"SumToLike", {{2, 3}, {5, 2, 3}}, {}, "SumToLike 'n': [5,2,3] cannot be broadcast to [2,3]"},
      {"BroadcastLike", {{2, 1}, {5, u, 3}}, {}, "[5,?,3]"},
      {"BroadcastLike", {{2}, {3}}, {}, "BroadcastLike 'n': [2] cannot be broadcast to [3]"},
      {"Shape", {{u, u}}, {}, "[2]"},
      {"Shape", {any}, {}, "[?]"},
      {"Size", {any}, {}, "[]"},
  });
}

TEST(ShapeFunctions, LinearAndReductions) {
  expect_all({
      {"MatMul", {{32, 784}, {784, 10}}, {}, "[32,10]"},
      {"MatMul", {{784, u}, {10, 784}}, {{"transpose_a", true}, {"transpose_b", true}}, "[?,10]"},
      {"MatMul", {any, {4, 5}}, {}, "[?...]"},
      {"MatMul", {{32, 784}, {128, 10}}, {}, "MatMul 'n': inner dimensions differ: [32,784] x [128,10]"},
      {"MatMul",
       {{32, 784}, {784, 10}},
       {{"transpose_a", true}},
       "MatMul 'n': inner dimensions differ: [32,784] transposed x [784,10]"},
      {"MatMul", {{u, 3, 4}, {4, 5}}, {}, "[?,3,5]"},
      {"MatMul", {{2, 3, 4}, {2, 5, 4}}, {{"transpose_b", true}}, "[2,3,5]"},
      {"MatMul", {{u, 3, 4}, {7, u, 4, 5}}, {}, "[7,?,3,5]"},
      {"MatMul", {{4}, {6, 4, 5}}, {}, "[6,5]"},
      {"MatMul", {{6, u, 4}, {4}}, {}, "[6,?]"},
      {"MatMul", {{4}, {4}}, {}, "[]"},
      {"MatMul", {{2, 3, 4}, {3, 4, 5}}, {}, "MatMul 'n': shapes [2] and [3] cannot be broadcast together"},
      {"MatMul", {{4}, {4, 5}}, {{"transpose_a", true}}, "MatMul 'n': 'a' is a vector [4], which has no transpose"},
      {"MatMul", {{}, {4, 5}}, {}, "MatMul 'n': 'a' must have rank 1 or more, but its shape is []"},
      {"BiasAdd", {{u, 2, u}, {4}}, {}, "[?,2,4]"},
      {"BiasAdd", {{2, 3}, {4}}, {}, "BiasAdd 'n': the last dimension of 'x' and the size of 'bias' differ: 3 and 4"},
      {"FusedMatMul", {{4, 2}, {4, u}, {5}}, {{"transpose_a", true}, {"activation", std::string("relu")}}, "[2,5]"},
      {"FusedMatMul",
       {{2, 3}, {3, 5}, {4}},
       {},
       "FusedMatMul 'n': the last dimension of the output and the size of 'bias' differ: 5 and 4"},
      {"FusedMatMul",
       {{2, 3}, {3, 5}, {5}},
       {{"activation", std::string("gelu")}},
       "FusedMatMul 'n': attribute 'activation' must be none, relu, sigmoid or tanh, not 'gelu'"},
      {"MatMulInteger", {{u, 3, 4}, {4, 5}, {}, {5}}, {}, "[?,3,5]", {}, {DType::i8, DType::u8, DType::i8, DType::u8}},
      {"QLinearMatMul",
       {{3, 4}, {}, {}, {2, 4, 5}, {}, {}, {}, {}},
       {},
       "[2,3,5]",
       {},
       {DType::u8, DType::f32, DType::u8, DType::i8, DType::f32, DType::i8, DType::f32, DType::u8}},
      {"Det", {{u, 3, u}}, {}, "[?]"},
      {"Det", {any}, {}, "[?...]"},
      {"Det", {{2, 3}}, {}, "Det 'n': the last two dimensions of 'x' differ: 2 and 3"},
      {"MatrixSolve", {{u, 3, u}, {4, u, 2}}, {}, "[4,3,2]"},
      {"TriangularSolve", {any, {u, 3, 2}}, {}, "[?,3,2]"},
      {"MatrixSolve", {{3, 3}, {2, 2}}, {}, "MatrixSolve 'n': dimensions of 'a' and 'b' but the last differ: 3 and 2"},
      {"Cholesky", {{u, 3, u}}, {}, "[?,3,3]"},
      {"LogDet", {{u, 3, u}}, {}, "[?] [?]"},
      {"Cofactors", {{3, u}}, {}, "[3,3]"},
      {"MatrixInverse", {{3}}, {}, "MatrixInverse 'n': 'x' must have rank 2 or more, but its shape is [3]"},
      {"FusedMatMul", {{u, 4, 2}, {2, 3}, {3}}, {}, "[?,4,3]"},
      {"FusedMatMul", {any, {2, 3}, {3}}, {}, "[?...]"},
      {"FusedConv", {{u, 5, 5, 1}, {3, 3, 1, 8}, {8}}, {{"padding", std::string("VALID")}}, "[?,3,3,8]"},
      {"BiasAddGrad", {{2, 3}}, {}, "[3]"},
      {"L2Loss", {any}, {}, "[]"},
  });
}

TEST(ShapeFunctions, GroupsAndSequences) {
  const auto groups = [](std::int64_t n) { return Attributes{{"groups", n}, {"epsilon", 1e-5}}; };
  const std::vector<DType> ctc = {DType::f32, DType::i64, DType::i64, DType::i64};
  expect_all({
      {"GroupNorm", {{u, 6, 5}, {6}, {6}}, groups(3), "[?,6,5] [?,3] [?,3]"},
      {"GroupNorm", {{2, u, 5}, {6}, {u}}, groups(0), "[2,6,5] [2,6] [2,6]"},
      {"GroupNorm", {any, {6}, {6}}, groups(2), "[?...] [?,2] [?,2]"},
      {"GroupNorm", {{2, 6}, {6}, {6}}, groups(4), "GroupNorm 'n': 4 groups do not divide 6 channels"},
      {"GroupNorm",
       {{2, 6}, {5}, {6}},
       groups(2),
       "GroupNorm 'n': dimension 1 of 'x' and the length of a scale or offset differ: 6 and 5"},
      {"RMSNorm", {{2, u}, {5}}, {{"epsilon", 1e-5}}, "[2,5] [2]"},
      {"CTCLoss", {{7, u, 5}, {3, 4}, {u}, {3}}, {}, "[3] [7,3,5]", {}, ctc},
      {"CTCLoss",
       {{7, 2, 5}, {2, 4}, {2}, {3}},
       {},
       "CTCLoss 'n': the numbers of examples and of lengths differ: 2 and 3",
       {},
       ctc},
  });
}

TEST(ShapeFunctions, ReductionsOverKnownAxes) {
  const Attributes keep = {{"keep_dims", true}};
  const auto over = [](std::initializer_list<std::int64_t> axes) { return std::vector<Tensor>{none, i64s(axes)}; };
  const std::vector<DType> types = {DType::f32, DType::i64};
  expect_all({
      {"Sum", {{2, 3, 4}, {0}}, {}, "[]", over({}), types},
      {"Sum", {{2, 3, 4}, {2}}, {}, "[3]", over({-1, 0}), types},
      {"Mean", {{2, 3, 4}, {1}}, keep, "[2,1,4]", over({1}), types},
      {"Prod", {{2, 3, 4}, {}}, {}, "[2,3]", {none, Tensor::scalar<std::int64_t>(2)}, types},
      {"Max", {any, {0}}, {}, "[]", over({}), types},
      {"Max", {any, {1}}, {}, "[?...]", over({1}), types},
      {"All", {{2, 3}, {1}}, {}, "[3]", over({0}), {DType::boolean, DType::i64}},
      {"Min", {{2, 3}, {1}}, {}, "Min 'n': axis 2 is out of range: there are 2 dimensions", over({2}), types},
      {"Sum", {{2, 3}, {2}}, {}, "Sum 'n': axis 1 is given twice", over({1, -1}), types},
      {"ArgMax", {{2, 3}, {}}, {}, "[2]", {none, Tensor::scalar<std::int64_t>(-1)}, types},
      {"ArgMin",
       {{2, 3}, {}},
       {},
       "ArgMin 'n': axis 2 is out of range: there are 2 dimensions",
       {none, Tensor::scalar<std::int64_t>(2)},
       types},
      {"ArgMax", {{}, {}}, {}, "ArgMax 'n': 'x' must have rank 1 or more, but its shape is []", {}, types},
  });
}

TEST(ShapeFunctions, ReductionsOverComputedAxes) {
  const Attributes keep = {{"keep_dims", true}};
  const std::vector<DType> types = {DType::f32, DType::i64};
  expect_all({
      {"Sum", {{2, 3, 4}, {2}}, {}, "[?]", {}, types},
      {"Sum", {{2, 3, 4}, {2}}, keep, "[?,?,?]", {}, types},
      {"Sum", {{2, 3, 4}, {0}}, {}, "[]", {}, types},
      {"Sum", {{2, 3, 4}, {u}}, {}, "[?...]", {}, types},
      {"Sum", {{2, 3}, {3}}, {}, "Sum 'n': there are 3 axes, but x has 2 dimensions", {}, types},
      {"Sum", {{2, 3}, {1, 1}}, {}, "Sum 'n': 'axes' must be a scalar or vector, but its shape is [1,1]", {}, types},
      {"ArgMax", {{2, 3}, {}}, {}, "[?]", {}, types},
      {"ArgMax", {{2, 3}, {1}}, {}, "ArgMax 'n': 'axis' must have rank 0, but its shape is [1]", {}, types},
  });
}

TEST(ShapeFunctions, Views) {
  const std::vector<DType> shape_input = {DType::f32, DType::i64};
  const Attributes last = {{"axis", std::int64_t{-1}}};
  expect_all({
      {"Reshape", {{2, 6}, {2}}, {}, "[3,4]", {none, i64s({-1, 4})}},
      {"Reshape", {{u, 28, 28}, {2}}, {}, "[?,784]", {none, i64s({-1, 784})}},
      {"Reshape", {{2, 6}, {2}}, {}, "[?,?]", {}, shape_input},
      {"Reshape", {{2, 6}, {u}}, {}, "[?...]", {}, shape_input},
      {"Reshape", {{2, 6}, {2}}, {}, "Reshape 'n': cannot reshape [2,6] (12 elements) to [5,?]", {none, i64s({5, -1})}},
      {"Reshape",
       {{2, 6}, {1}},
       {},
       "Reshape 'n': cannot reshape [2,6] (12 elements) to [13] (13 elements)",
       {none, i64s({13})}},
      {"Reshape", {{2, 6}, {2}}, {}, "Reshape 'n': only one dimension may be -1: [?,?]", {none, i64s({-1, -1})}},
      {"Reshape",
       {{2}, {1}},
       {},
       "Reshape 'n': dimension 0 of a shape is -7; it must not be negative",
       {none, i64s({-7})}},
      {"Reshape", {{2}, {9}}, {}, "Reshape 'n': a shape has at most 8 dimensions, not 9", {}, shape_input},
      {"ReshapeLike", {{2, 6}, {u, 4}}, {}, "[?,4]"},
      {"Transpose", {{2, u, 4}}, {}, "[4,?,2]"},
      {"Transpose", {any}, {{"perm", ints({1, 0})}}, "[?,?]"},
      {"Transpose", {{2, 3, 4}}, {{"perm", ints({2, 0, 1})}}, "[4,2,3]"},
      {"Transpose", {{2, 3}}, {{"perm", ints({1, 1})}}, "Transpose 'n': axis 1 is given twice"},
      {"Transpose", {{2, 3}}, {{"perm", ints({0})}}, "Transpose 'n': attribute 'perm' has 1 entries, but 'x' is [2,3]"},
      {"Reshape", {{u, 4, 6}, {2}}, {{"copy_zeros", true}}, "[?,24]", {none, i64s({0, -1})}},
      {"Reshape", {{2, 0}, {3}}, {}, "[0,5,7]", {none, i64s({0, 5, 7})}},
      {"Reshape",
       {{2, 6}, {3}},
       {{"copy_zeros", true}},
       "Reshape 'n': dimension 2 of a shape is 0, but [2,6] has no such dimension",
       {none, i64s({2, 6, 0})}},
      {"Squeeze", {{1, 2, 1}, {0}}, {}, "[2]", {none, i64s({})}},
      {"Squeeze", {{1, u}, {0}}, {}, "[?...]", {none, i64s({})}},
      {"Squeeze", {{1, u}, {1}}, {}, "[?]", {}, shape_input},
      {"Squeeze", {{1, 2}, {1}}, {}, "Squeeze 'n': dimension 1 of [1,2] is not of size 1", {none, i64s({1})}},
      {"ExpandDims", {{2, 3}, {1}}, {}, "[2,3,1]", {none, i64s({-1})}},
      {"ExpandDims", {{2, 3}, {2}}, {}, "[1,2,1,3]", {none, i64s({2, 0})}},
      {"ExpandDims", {{2, 3}, {2}}, {}, "[?,?,?,?]", {}, shape_input},
      {"ExpandDims",
       {{2}, {1}},
       {},
       "ExpandDims 'n': axis 5 is out of range: there are 2 dimensions",
       {none, i64s({5})}},
      {"ExpandDims",
       {{1, 1, 1, 1, 1, 1, 1, 1}, {1}},
       {},
       "ExpandDims 'n': a shape has at most 8 dimensions, not 9",
       {none, i64s({-1})}},
      {"BroadcastTo", {{u, 1}, {3}}, {}, "[2,?,4]", {none, i64s({2, 1, 4})}},
      {"BroadcastTo",
       {{3}, {1}},
       {},
       "BroadcastTo 'n': shapes [3] and [2] cannot be broadcast together",
       {none, i64s({2})}},
      {"BroadcastTo", {{3}, {2}}, {}, "[?,3]", {}, shape_input},
  });
}

TEST(ShapeFunctions, JoinsAndParts) {
  const Attributes last = {{"axis", std::int64_t{-1}}};
  const auto split = [](std::int64_t parts) { return Attributes{{"axis", std::int64_t{0}}, {"N", parts}}; };
  expect_all({
      {"Concat", {{2, 3}, {2, 4}}, last, "[2,7]"},
      {"Concat", {{2, 3}, {u, u}}, last, "[2,?]"},
      {"Concat", {{2, 3}, any}, last, "[2,?]"},
      {"Concat",
       {{2, 3}, {4, 4}},
       last,
       "Concat 'n': input 1 is [4,4], but except along axis 1 it must match the others, [2,?]"},
      {"Stack", {{2, 3}, {2, u}}, {{"axis", std::int64_t{1}}}, "[2,2,3]"},
      {"Split", {{6, 2}}, split(3), "[2,2] [2,2] [2,2]"},
      {"Split", {{7}}, split(2), "Split 'n': [7] cannot be split into 2 equal parts along axis 0"},
      {"Split", {{7}}, split(0), "Split 'n': attribute 'N' is 0, not in [1, 1000000]"},
      {"SplitSizes",
       {{u, 5}, {2}},
       {{"axis", std::int64_t{1}}, {"N", std::int64_t{2}}},
       "[?,2] [?,3]",
       {none, i64s({2, 3})}},
      {"SplitSizes", {{u, 5}, {2}}, split(2), "[?,5] [?,5]", {}, {DType::f32, DType::i64}},
      {"SplitSizes",
       {{4}, {2}},
       split(2),
       "SplitSizes 'n': the size along the axis and the sum of 'sizes' differ: 4 and 5",
       {none, i64s({2, 3})}},
      {"SplitSizes",
       {{4}, {2}},
       split(3),
       "SplitSizes 'n': 'sizes' has 2 entries where there must be 3",
       {none, i64s({2, 2})}},
      {"Unstack", {{2, 3}}, split(2), "[3] [3]"},
  });
}

TEST(ShapeFunctions, Indices) {
  const std::vector<DType> table = {DType::f32, DType::i64}, data = {DType::f32, DType::i64, DType::f32};
  const Attributes last = {{"axis", std::int64_t{-1}}};
  const Attributes batch = {{"axis", std::int64_t{1}}, {"batch_dims", std::int64_t{1}}};
  const std::vector<Tensor> three = {none, Tensor::scalar<std::int64_t>(3)};
  const Attributes sums = {{"reduction", std::string("sum")}};
  expect_all({
      {"Gather", {{4, 8}, {u, 5}}, last, "[4,?,5]", {}, table},
      {"Gather", {{u, 8, 3}, {2, 5}}, batch, "[2,5,3]", {}, table},
      {"Gather",
       {{3, 8}, {2, 5}},
       batch,
       "Gather 'n': the shapes of 'batch dimensions of table' and 'indices' differ: [3] and [2]",
       {},
       table},
      {"GatherND", {{4, u, 3}, {7, 2}}, {}, "[7,3]", {}, table},
      {"GatherND", {{4, 5}, {7, u}}, {}, "[?...]", {}, table},
      {"GatherND",
       {{4, 5}, {7, 3}},
       {},
       "GatherND 'n': indices [7,3] name 3 dimensions of [4,5] after 0 batch dimensions",
       {},
       table},
      {"GatherElements", {{4, u}, {3, 2}}, last, "[3,2]", {}, table},
      {"GatherElements",
       {{4, 2}, {5, 2}},
       last,
       "GatherElements 'n': indices [5,2] do not fit [4,2] in dimension 0",
       {},
       table},
      {"ScatterND", {{4, u}, {7, 1}, {7, 2}}, {}, "[4,?]", {}, data},
      {"ScatterElements", {{4, u}, {3, 2}, {3, u}}, last, "[4,?]", {}, data},
      {"NonZero", {{4, u}}, {}, "[2,?]"},
      {"TopK", {{4, u}, {}}, {}, "[4,3] [4,3]", three},
      {"TopK", {{4, 2}, {}}, {}, "TopK 'n': k is 3, but axis 1 of [4,2] has 2 elements", three},
      {"TopK", {{4, 2}, {}}, {}, "[4,?] [4,?]", {}, table},
      {"Unique", {{4, 2}}, {}, "[?] [?] [8] [?]"},
      {"SumRows",
       {{3}, {3, 2}},
       {{"K", std::int64_t{2}}, {"rows", std::int64_t{9}}},
       "[?] [?] [?,2] [?,2]",
       {},
       {DType::i64, DType::f32}},
      {"CumSum", {{4, u}, {}}, {}, "[4,?]", {}, table},
      {"CumSum", {{4, u}, {}}, {}, "CumSum 'n': axis 3 is out of range: there are 2 dimensions", three},
      {"SegmentReduce", {{4, u, 2}, {4, 5}, {}}, sums, "[3,2]", {none, none, three[1]}, {DType::f32, DType::i64}},
      {"DynamicPartition", {{4, 2}, {u}}, {{"N", std::int64_t{2}}}, "[?,2] [?,2]", {}, table},
  });
}

TEST(ShapeFunctions, RowsAndMakers) {
  const std::vector<DType> table = {DType::f32, DType::i64};
  const auto number = [](std::int64_t v) { return Tensor::scalar(v); };
  expect_all({
      {"Gather", {{100, 8}, {u, 5}}, {}, "[?,5,8]", {}, table},
      {"Gather", {any, {5}}, {}, "[?...]", {}, table},
      {"ScatterAddRows", {{3}, {3, 8}, {100, 8}}, {}, "[100,8]", {}, {DType::i64}},
      {"ScatterAddRows",
       {{3}, {3, 7}, {100, 8}},
       {},
       "ScatterAddRows 'n': the shapes of 'a row of values' and 'a row of like' differ: [7] and [8]",
       {},
       {DType::i64}},
      {"OneHot", {{u}, {}, {2}}, {}, "[?,10]", {none, number(10)}, {DType::i32}},
      {"OneHot", {{u, 3}, {}, {2}}, {{"axis", std::int64_t{1}}}, "[?,?,3]", {}, {DType::i32, DType::i64}},
      {"OneHot",
       {{u}, {}, {2}},
       {},
       "OneHot 'n': 'depth' is -1: it must not be negative",
       {none, number(-1)},
       {DType::i32}},
      {"OneHot",
       {{u}, {}, {3}},
       {},
       "OneHot 'n': the size of 'values' (off, on) and 2 differ: 3 and 2",
       {none, number(2)},
       {DType::i32}},
      {"Fill", {{2}, {}}, {}, "[2,3]", {i64s({2, 3})}},
      {"Fill", {{2}, {}}, {}, "[?,?]", {}, {DType::i64}},
      {"Fill", {{1}, {}}, {}, "Fill 'n': dimension 0 of 'dims' is -1: it must not be negative", {i64s({-1})}},
      {"Range", {{}, {}, {}}, {}, "[4]", {number(0), number(10), number(3)}},
      {"Range", {{}, {}, {}}, {}, "[3]", {number(5), number(2), number(-1)}},
      {"Range", {{}, {}, {}}, {}, "[0]", {number(5), number(2), number(1)}},
      {"Range", {{}, {}, {}}, {}, "[4]", {Tensor::scalar(0.0f), Tensor::scalar(1.0f), Tensor::scalar(0.3f)}},
      {"Range", {{}, {}, {}}, {}, "[?]"},
      {"Range", {{}, {}, {}}, {}, "Range 'n': 'delta' is zero", {number(5), number(2), number(0)}},
      {"Range",
       {{}, {}, {}},
       {},
       "Range 'n': a range of 1.8446744073709552e+19 elements is too long",
       {number(std::numeric_limits<std::int64_t>::min()), number(std::numeric_limits<std::int64_t>::max()), number(1)}},
  });
}

TEST(ShapeFunctions, NeuralNetworks) {
  const Attributes same = {{"padding", std::string("SAME")}};
  const Attributes strided = {{"padding", std::string("SAME")}, {"strides", ints({2, 2})}};
  const Attributes valid = {{"padding", std::string("VALID")}};
  const Attributes pool = {{"padding", std::string("VALID")}, {"ksize", ints({2, 2})}, {"strides", ints({2, 2})}};
  expect_all({
      {"Conv", {{u, 28, 28, 1}, {3, 3, 1, 32}}, same, "[?,28,28,32]"},
      {"Conv", {{8, 5, u, 1}, {3, 3, 1, 2}}, strided, "[8,3,?,2]"},
      {"Conv", {{8, 5, 6, 1}, {3, 3, 1, 2}}, valid, "[8,3,4,2]"},
      {"Conv",
       {{8, 2, 6, 1}, {3, 3, 1, 2}},
       valid,
       "Conv 'n': height: a window of 3 is larger than the input's 2; use padding SAME or a smaller window"},
      {"Conv",
       {{8, 5, 6, 3}, {3, 3, 1, 2}},
       same,
       "Conv 'n': the input has 3 channels, but the filter is for 1: [8,5,6,3] and [3,3,1,2]"},
      {"Conv",
       {any, any},
       {{"padding", std::string("HALF")}},
       "Conv 'n': attribute 'padding' is 'HALF', not one of SAME, VALID, SAME_LOWER, EXPLICIT"},
      {"Conv",
       {any, {3, 3, 1, 2}},
       {{"padding", std::string("SAME")}, {"strides", ints({0, 1})}},
       "Conv 'n': attribute 'strides' has 0, which is not from 1 to 2147483647"},
      {"ConvBackpropInput", {{8, 5, 6, 1}, {3, 3, 1, 2}, {8, 5, 6, 2}}, same, "[8,5,6,1]"},
      {"ConvBackpropFilter", {{8, 5, 6, 1}, {3, 3, 1, 2}, {8, 5, 6, 2}}, same, "[3,3,1,2]"},
      {"ConvBackpropFilter",
       {{8, 5, 6, 1}, {3, 3, 1, 2}, {8, 4, 6, 2}},
       same,
       "ConvBackpropFilter 'n': the shapes of 'the convolution' and 'dy' differ: [8,5,6,2] and [8,4,6,2]"},
      {"MaxPool", {{u, 5, 4, 3}}, pool, "[?,2,2,3]"},
      {"AvgPoolGrad", {{1, 4, 4, 3}, {1, 2, 2, 3}}, pool, "[1,4,4,3]"},
      {"MaxPoolGrad",
       {{1, 4, 4, 3}, {1, 2, 2, 3}, {1, 2, 3, 3}},
       pool,
       "MaxPoolGrad 'n': the shapes of 'y' and 'dy' differ: [1,2,2,3] and [1,2,3,3]"},
      {"Softmax", {{}}, {}, "Softmax 'n': 'x' must have rank 1 or more, but its shape is []"},
      {"SparseSoftmaxCrossEntropy", {{u, 10}, {32}}, {}, "[32] [32,10]", {}, {DType::f32, DType::i64}},
      {"SparseSoftmaxCrossEntropy",
       {{8, 10}, {32}},
       {},
       "SparseSoftmaxCrossEntropy 'n': the shapes of 'logits without their classes' and 'labels' differ: [8] and [32]",
       {},
       {DType::f32, DType::i64}},
      {"SoftmaxCrossEntropy", {{u, 10}, {32, u}}, {}, "[32] [32,10]"},
      {"SoftmaxCrossEntropy", {{u, 10, 3}, {32, u, 3}}, {{"axis", std::int64_t{1}}}, "[32,3] [32,10,3]"},
      {"SparseSoftmaxCrossEntropy",
       {{u, 10, 3}, {32, u}},
       {{"axis", std::int64_t{-2}}},
       "[32,3] [32,10,3]",
       {},
       {DType::f32, DType::i64}},
      {"Softmax", {{2, 3}}, {{"axis", std::int64_t{2}}}, "Softmax 'n': axis 2 is out of range: there are 2 dimensions"},
      {"Dropout", {{u, 3}, {}}, {}, "[?,3] [?,3]", {none, Tensor::scalar(0.5)}},
      {"Dropout", {{u, 3}, {}}, {}, "[?,3] [?,3]", {}, {DType::bf16, DType::f64}},
      {"Dropout", {{3}, {}}, {}, "Dropout 'n': the dropout rate is 1, not in [0, 1)", {none, Tensor::scalar(1.0)}},
      {"RandomNormal", {{2}}, {}, "[2,3]", {Tensor::vector<std::int64_t>({2, 3})}},
      {"TruncatedNormal", {{2}}, {}, "[?,?]", {}, {DType::i64}},
      {"RandomUniform", {{u}}, {}, "[?...]", {}, {DType::i64}},
      {"RandomIntegers", {{2}, {}, {}}, {}, "[?,?]", {}, {DType::i64, DType::i32, DType::i32}},
      {"RandomIntegers",
       {{1}, {}, {}},
       {},
       "RandomIntegers 'n': 'low' is 3: it must be less than 'high', 3",
       {Tensor::vector<std::int64_t>({2}), Tensor::scalar<std::int64_t>(3), Tensor::scalar<std::int64_t>(3)}},
  });
}

TEST(ShapeFunctions, ElementwiseOpsAndQuantisation) {
  const DType f32 = DType::f32, f16 = DType::f16, i8 = DType::i8, i64 = DType::i64;
  const Attributes axis{{"axis", std::int64_t{-1}}}, outside{{"axis", std::int64_t{2}}};
  expect_all({
      {"FloorMod", {{u, 3}, {2, 1}}, {}, "[2,3]", {}, {i64, i64}},
      {"LeftShift", {{2}, {3}}, {}, "LeftShift 'n': shapes [2] and [3] cannot be broadcast together", {}, {i64, i64}},
      {"Polygamma", {{u}}, {{"n", std::int64_t{2}}}, "[?]"},
      {"Polygamma", {{u}}, {{"n", std::int64_t{0}}}, "Polygamma 'n': attribute 'n' is 0, not in [1, 100]"},
      {"AsString", {{u, 2}}, {}, "[?,2]"},
      {"StringToNumber", {{u, 2}}, {{"T", f16}}, "[?,2]", {}, {DType::string}},
      {"QuantizeLinear", {{u, 3}, {}, {}}, {}, "[?,3]", {}, {f32, f32, i8}},
      {"QuantizeLinear", {{u, u}, {4}, {u}}, axis, "[?,4]", {}, {f16, f16, i8}},
      {"DequantizeLinear", {{2, 3}, any, any}, axis, "[2,3]", {}, {i8, f32, i8}},
      {"DequantizeLinear",
       {{2, 3}, {4}, {4}},
       axis,
       "DequantizeLinear 'n': the size of 'x' along the axis and that of 'scale' differ: 3 and 4",
       {},
       {i8, f32, i8}},
      {"QuantizeLinear",
       {{2, 3}, {4}, {4}},
       outside,
       "QuantizeLinear 'n': axis 2 is out of range: there are 2 dimensions",
       {},
       {f32, f32, i8}},
      {"QuantizeLinear",
       {{2, 3}, {3, 1}, any},
       axis,
       "QuantizeLinear 'n': 'scale' must be a scalar or vector, but its shape is [3,1]",
       {},
       {f32, f32, i8}},
  });
  Graph graph;
  const Output six = constant<std::int64_t>(graph, -7),
               dims = stack({floor_div(six, constant<std::int64_t>(graph, 2)) + 6,
                             floor_mod(six, constant<std::int64_t>(graph, 4))},
                            0);
  EXPECT_EQ(fill(dims, constant(graph, 1.0f)).shape(), (Shape{2, 1}));
}

TEST(ShapeFunctions, Normalisation) {
  const auto norm = [](double epsilon, const char* activation = "none") {
    return Attributes{{"epsilon", epsilon}, {"activation", std::string(activation)}};
  };
  const DType bf16 = DType::bf16, f32 = DType::f32, f64 = DType::f64;
  expect_all({
      {"BatchNorm", {{u, 4, 4, 8}, {8}, {8}}, norm(1e-3), "[?,4,4,8] [8] [8] [8]"},
      {"BatchNorm", {{2, u}, {8}, any}, norm(1e-3, "relu"), "[2,8] [8] [8] [8]", {}, {bf16, f32, f32}},
      {"BatchNorm", {any, any, any}, norm(1e-3), "[?...] [?] [?] [?]"},
      {"BatchNorm",
       {{2, 3}, {3}, {4}},
       norm(1e-3),
       "BatchNorm 'n': the last dimension of 'x' and the length of a scale, offset or statistic differ: 3 and 4"},
      {"BatchNorm", {{}, {3}, {3}}, norm(1e-3), "BatchNorm 'n': 'x' must have rank 1 or more, but its shape is []"},
      {"BatchNorm", {{3}, {3}, {3}}, norm(0), "BatchNorm 'n': attribute 'epsilon' is 0, not positive"},
      {"BatchNorm",
       {{3}, {3}, {3}},
       norm(1, "tanh"),
       "BatchNorm 'n': attribute 'activation' is 'tanh', not none or relu"},
      {"BatchNorm",
       {{2, 3}, {3}, {3}},
       norm(1),
       "BatchNorm 'n': bf16 data needs scales, offsets and statistics in f32, not f64",
       {},
       {bf16, f64, f64}},
      {"BatchNorm",
       {{2, 3}, {3}, {3}},
       norm(1),
       "BatchNorm 'n': f64 data needs scales, offsets and statistics in f64, not f32",
       {},
       {f64, f32, f32}},
      {"BatchNormInference", {{2, 3}, {3}, {3}, {3}, {u}}, norm(1), "[2,3]"},
      {"BatchNormGrad", {{u, 3}, {2, u}, {3}, {3}, {3}, {3}}, {}, "[2,3] [3] [3]"},
      {"BatchNormGrad",
       {{2, 3}, {2, 4}, {3}, {3}, {3}, {3}},
       {},
       "BatchNormGrad 'n': the shapes of 'dy' and 'x' differ: [2,3] and [2,4]"},
      {"LayerNorm", {{u, 5, 8}, {8}, {8}}, {{"epsilon", 1e-3}}, "[?,5,8] [?,5] [?,5]"},
      {"LayerNormGrad", {{2, 3}, {2, 3}, {3}, {2}, {u}}, {}, "[2,3] [3] [3]"},
      {"LayerNormGrad",
       {{2, 3}, {2, 3}, {3}, {3}, {2}},
       {},
       "LayerNormGrad 'n': the shapes of 'the rows of x' and 'a statistic' differ: [2] and [3]"},
  });
}

TEST(ShapeFunctions, StateAndTraining) {
  const DType handle = DType::resource;
  const Attributes adam = {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-7}};
  const std::vector<DType> adam_types = {handle, handle, handle, DType::f32, DType::i64};
  const std::vector<DType> sparse_types = {handle, DType::f32, DType::i64};
  expect_all({
      {"ReadVariable", {{2, 3}}, {{"T", DType::f32}}, "[2,3]", {}, {handle}},
      {"AssignVariable", {{2, u}, {2, 3}}, {}, "[2,3]", {}, {handle}},
      {"InitializeVariable", {{2, u}, {2, 3}}, {}, "[2,3]", {}, {handle}},
      {"AssignAddVariable",
       {{2}, {3}},
       {},
       "AssignAddVariable 'n': the shapes of 'handle' and 'value' differ: [2] and [3]",
       {},
       {handle}},
      {"ApplySGD", {{2, 3}, {}, {2, 3}}, {}, "", {}, {handle}},
      {"ApplySGD",
       {{2, 3}, {1}, {2, 3}},
       {},
       "ApplySGD 'n': 'lr' must have rank 0, but its shape is [1]",
       {},
       {handle}},
      {"ApplySGD",
       {{2, 3}, {}, {3, 2}},
       {},
       "ApplySGD 'n': the shapes of 'var' and 'grad' differ: [2,3] and [3,2]",
       {},
       {handle}},
      {"SparseApplySGD", {{9, 3}, {}, {4}, {4, 3}}, {}, "", {}, sparse_types},
      {"SparseApplySGD",
       {{9, 3}, {}, {4}, {4, 2}},
       {},
       "SparseApplySGD 'n': the shapes of 'a row of var' and 'a row of values' differ: [3] and [2]",
       {},
       sparse_types},
      {"ApplyAdam", {{2}, {2}, {2}, {}, {}, {2}}, adam, "", {}, adam_types},
      {"ApplyAdam",
       {{2}, {2}, {3}, {}, {}, {2}},
       adam,
       "ApplyAdam 'n': the shapes of 'var' and 'slot' differ: [2] and [3]",
       {},
       adam_types},
      {"ApplyAdam", {{2}, {2}, {2}, {}, {}, {2}}, {}, "ApplyAdam 'n': attribute 'beta1' is missing", {}, adam_types},
      {"PushSparse",
       {{3}, {4, 2}},
       {{"slice", std::int64_t{0}}, {"shard", std::int64_t{0}}},
       "PushSparse 'n': the numbers of indices and of rows of 'values' differ: 3 and 4",
       {},
       {DType::i64}},
  });
}

}  // namespace
}  // namespace troupe
