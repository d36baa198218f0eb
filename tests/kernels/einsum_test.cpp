// Products that the builder composes: einsum, tensordot, gemm.
#include <gtest/gtest.h>

#include <map>

#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/random_tensors.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using namespace troupe::testing;

// A case of plain letters: every combination of values of all letters is a term.
struct Summation {
  std::vector<std::string> inputs;
  std::string output;
  std::map<char, std::int64_t> sizes;

  Shape shape(const std::string& letters) const {
    Shape out;
    for (const char c : letters) out = out.with_appended(sizes.at(c));
    return out;
  }
  std::int64_t at(const std::string& letters, const std::map<char, std::int64_t>& values) const {
    std::int64_t index = 0;
    for (const char c : letters) index = index * sizes.at(c) + values.at(c);
    return index;
  }
  Sums sums(const std::vector<Tensor>& operands) const {
    std::vector<std::vector<double>> data;
    for (const Tensor& t : operands) data.push_back(doubles(t));
    Sums out(shape(output).num_elements());
    std::int64_t combinations = 1;
    for (const auto& [letter, size] : sizes) combinations *= size;
    for (std::int64_t i = 0; i < combinations; ++i) {
      std::map<char, std::int64_t> values;
      std::int64_t rest = i;
      for (const auto& [letter, size] : sizes) values[letter] = rest % size, rest /= size;
      double product = 1;
      for (std::size_t k = 0; k < inputs.size(); ++k)
        product *= data[k][static_cast<std::size_t>(at(inputs[k], values))];
      out.add(at(output, values), product);
    }
    return out;
  }
};

Summation summation(const std::string& equation) {
  Summation s;
  const auto arrow = equation.find("->");
  s.output = equation.substr(arrow + 2);
  s.inputs.emplace_back();
  for (const char c : equation.substr(0, arrow))
    if (c == ',')
      s.inputs.emplace_back();
    else
      s.inputs.back() += c, s.sizes[c] = 2 + (c * 7) % 4;
  return s;
}

TEST(Einsum, EqualsTheSumOfAllProducts) {
  std::mt19937_64 engine(1);
  for (const std::string equation : {"ij,jk->ik",       "ij,jk->ki",       "ji,jk->ik",       "ij,kj->ik",
                                     "ji,kj->ki",       "bij,bjk->bik",    "bij,bkj->bik",    "ibj,bjk->kbi",
                                     "bij,jk->bik",     "bij,jkl->bikl",   "ij,j->i",         "j,ij->i",
                                     "i,i->",           "i,j->ij",         "i,j->ji",         "ij,ij->ij",
                                     "ij,ij->i",        "ij,ij->",         "ij,ji->ij",       "i->",
                                     "ijk->kji",        "ijk->j",          "ii->i",           "ii->",
                                     "iij->ji",         "iijj->ij",        "iii->i",          "ii,ij->j",
                                     "ij,jk,kl->il",    "ij,kj,kl,l->i",   "bhqd,bhkd->bhqk", "bhqk,bhkd->bqhd",
                                     "bqhd,bkhd->bhqk", "abcd,cdef->abef", "abc,cba->",       "abc,bd->cda",
                                     "i,ij,j->",        "ij,k->ikj",       "ab,cd->",         "abc->abc",
                                     "bi,bij->bj",      "ab,->ba"})
    for (const bool dynamic : {false, true}) {
      SCOPED_TRACE(equation + (dynamic ? " of unknown dimensions" : ""));
      const Summation s = summation(equation);
      Graph graph;
      Outputs xs;
      Feeds feeds;
      std::vector<Tensor> operands;
      for (const std::string& letters : s.inputs) {
        const Shape shape = s.shape(letters);
        operands.push_back(random_tensor(DType::f64, shape, engine));
        xs.push_back(placeholder(graph, DType::f64, dynamic ? Shape::unknown(shape.rank()) : shape));
        feeds[{xs.back().node, 0}] = operands.back();
      }
      const Output y = einsum(equation, xs);
      if (!dynamic) {
        EXPECT_EQ(y.shape(), s.shape(s.output));
      }
      const Tensor got = GraphEvaluator().run(y, feeds);
      ASSERT_EQ(got.shape(), s.shape(s.output));
      expect_close(got, s.sums(operands), equation);
    }
}

Tensor numbers(const Shape& shape, double first = 1) {
  Tensor out(DType::f64, shape);
  for (double& v : out.mutable_values<double>()) v = first++;
  return out;
}

Tensor einsum_of(const std::string& equation, const std::vector<Tensor>& operands) {
  Graph graph;
  Outputs xs;
  for (const Tensor& t : operands) xs.push_back(constant(graph, t));
  return GraphEvaluator().run(einsum(equation, xs));
}

// Values from NumPy.
TEST(Einsum, BroadcastsAnEllipsisAndOrdersAnImplicitResult) {
  const Tensor a = numbers({2, 1, 2}), b = numbers({3, 2});
  EXPECT_TRUE(bitwise_equal(einsum_of("ba", {b}), Tensor::of<double>({2, 3}, {1, 3, 5, 2, 4, 6})));
  EXPECT_TRUE(
      bitwise_equal(einsum_of("...j , ...j -> ...", {a, b}), Tensor::of<double>({2, 3}, {5, 11, 17, 11, 25, 39})));
  EXPECT_TRUE(bitwise_equal(einsum_of("...ij,kj", {a, b}), Tensor::of<double>({2, 1, 3}, {5, 11, 17, 11, 25, 39})));
  EXPECT_TRUE(bitwise_equal(einsum_of("...ii->...i", {numbers({2, 2, 2})}), Tensor::of<double>({2, 2}, {1, 4, 5, 8})));
  EXPECT_TRUE(bitwise_equal(einsum_of("i...->...i", {b}), Tensor::of<double>({2, 3}, {1, 3, 5, 2, 4, 6})));
  EXPECT_TRUE(bitwise_equal(einsum_of("ii", {numbers({2, 2})}), Tensor::scalar(5.0)));
}

TEST(Einsum, OfEmptyTensorsIsZero) {
  EXPECT_TRUE(
      bitwise_equal(einsum_of("ij,jk->ik", {numbers({2, 0}), numbers({0, 3})}), Tensor::zeros(DType::f64, {2, 3})));
  EXPECT_EQ(einsum_of("ij,kl->ikjl", {numbers({2, 0}), numbers({3, 1})}).shape(), (Shape{2, 3, 0, 1}));
}

TEST(Einsum, OfMatricesAddsNoTransposes) {
  for (const auto& [equation, nodes] : {std::pair{"bij,bjk->bik", 1},
                                        {"bji,bkj->bik", 1},
                                        {"bij,jk->bik", 1},
                                        {"ij,jk->ki", 1},
                                        {"ij,j->i", 1},
                                        {"bij,bkj->bik", 1}}) {
    const Summation s = summation(equation);
    Graph graph;
    Outputs xs;
    for (const std::string& letters : s.inputs) xs.push_back(placeholder(graph, DType::f32, s.shape(letters)));
    const int before = graph.size();
    einsum(equation, xs);
    EXPECT_EQ(graph.size() - before, nodes) << equation;
  }
}

TEST(Einsum, SaysWhatIsWrong) {
  const auto refused = [](const std::string& equation, std::vector<Shape> shapes) {
    Graph graph;
    Outputs xs;
    for (const Shape& shape : shapes) xs.push_back(placeholder(graph, DType::f32, shape));
    return message_of(Code::invalid_argument, [&] { einsum(equation, xs); });
  };
  EXPECT_EQ(refused("ij,jk->ik", {{2, 3}}), "einsum: 'ij,jk->ik' has 2 operands, but 1 are given");
  EXPECT_EQ(refused("ij->k", {{2, 3}}), "einsum: letters of the result 'k' must be those of operands, each once");
  EXPECT_EQ(refused("ij->ii", {{2, 3}}), "einsum: letters of the result 'ii' must be those of operands, each once");
  EXPECT_EQ(refused("i1->i", {{2, 3}}), "einsum: 'i1' must be letters and at most one '...'");
  EXPECT_EQ(refused("i->i", {{2, 3}}), "einsum: operand 'i' cannot be a tensor of shape [2,3]");
  EXPECT_EQ(refused("ij,jk->ik", {{2, 3}, {4, 5}}), "einsum: dimensions 'j' differ: 3 and 4");
  EXPECT_EQ(refused("ii->i", {{2, 3}}), "einsum: dimensions 'i' differ: 2 and 3");
  EXPECT_EQ(refused("...i->i", {{2, 3}}), "einsum: the result 'i' lacks the '...' of an operand");
  EXPECT_EQ(refused("...i->...", {Shape::unknown_rank()}), "einsum: the rank of operand '...i' must be known");
}

// Values from NumPy.
TEST(Tensordot, SumsOverPairsOfAxes) {
  Graph graph;
  GraphEvaluator evaluator;
  const Output a = constant(graph, numbers({2, 3})), b = constant(graph, numbers({3, 2}));
  const auto value = [&](Output y) { return evaluator.run(y); };
  EXPECT_TRUE(bitwise_equal(value(tensordot(a, b, 1)), Tensor::of<double>({2, 2}, {22, 28, 49, 64})));
  EXPECT_TRUE(bitwise_equal(value(tensordot(a, b, Integers{0}, Integers{1})),
                            Tensor::of<double>({3, 3}, {9, 19, 29, 12, 26, 40, 15, 33, 51})));
  EXPECT_TRUE(bitwise_equal(value(tensordot(a, b, Integers{0, 1}, Integers{-1, 0})), Tensor::scalar(86.0)));
  EXPECT_EQ(tensordot(a, b, 0).shape(), (Shape{2, 3, 3, 2}));
  EXPECT_TRUE(bitwise_equal(value(inner(a, a)), Tensor::of<double>({2, 2}, {14, 32, 32, 77})));
  const Output v = constant(graph, {1.0, 2.0});
  EXPECT_TRUE(bitwise_equal(value(outer(v, a)), Tensor::of<double>({2, 6}, {1, 2, 3, 4, 5, 6, 2, 4, 6, 8, 10, 12})));
  EXPECT_EQ(message_of(Code::invalid_argument, [&] { tensordot(a, b, Integers{0}, Integers{0}); }),
            "tensordot: dimension 0 of [2,3] and 0 of [3,2] differ");
  message_of(Code::invalid_argument, [&] { tensordot(a, b, Integers{2}, Integers{0}); });
  message_of(Code::invalid_argument, [&] { tensordot(a, b, Integers{0, 0}, Integers{1, 1}); });
  message_of(Code::invalid_argument, [&] { tensordot(a, b, 3); });
}

TEST(Gemm, ScalesProductAndSummand) {
  Graph graph;
  GraphEvaluator evaluator;
  const Output a = constant(graph, numbers({2, 2})), b = constant(graph, numbers({2, 2}, 5));
  const Output c = constant(graph, numbers({2}, 100));
  EXPECT_TRUE(bitwise_equal(evaluator.run(gemm(a, b, c)), Tensor::of<double>({2, 2}, {119, 123, 143, 151})));
  EXPECT_TRUE(bitwise_equal(evaluator.run(gemm(a, b, c, {.alpha = 2, .beta = 0.5, .transpose_a = true})),
                            Tensor::of<double>({2, 2}, {102, 110.5, 126, 138.5})));
  EXPECT_TRUE(bitwise_equal(evaluator.run(gemm(a, b, Output(), {.transpose_b = true})),
                            Tensor::of<double>({2, 2}, {17, 23, 39, 53})));
}

}  // namespace
}  // namespace troupe
