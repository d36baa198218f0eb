#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/graph/graph_builder.hpp"
#include "tests/graph/training/classifier_graph.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/formats/serialize.hpp>
#include <troupe/graph/formats/text.hpp>
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/optimize.hpp>

namespace troupe {
namespace {

// Text and bytes of a graph are those of the graph that its text makes.
void expect_round_trip(const Graph& graph) {
  const std::string text = to_text(graph);
  std::unique_ptr<Graph> again;
  ASSERT_NO_THROW(again = parse_text(text)) << text;
  EXPECT_EQ(to_text(*again), text);
  EXPECT_EQ(serialize(*again), serialize(graph)) << text;
}

// A graph that uses all of the language.
std::string text_example() {
  GraphBuilder b;
  const auto add_private = [&](const std::string& name, AttrValue value) {
    b.add("NoOp", name, {}, {{"_value", std::move(value)}});
  };
  add_private("integer", std::int64_t{-3});
  add_private("real", 2.0);
  add_private("boolean", true);
  add_private("string", std::string("a \"quoted\" \\ one\n\x01"));
  add_private("dtype", DType::bf16);
  add_private("shape", Shape{2, kUnknown});
  add_private("no_rank", Shape::unknown_rank());
  add_private("tensor", Tensor::vector<std::int64_t>({1, -2}));
  add_private("integers", std::vector<std::int64_t>{1, 2});
  add_private("reals", std::vector<double>{1, 2.5});
  add_private("strings", std::vector<std::string>{"a", "b c"});
  add_private("dtypes", std::vector<DType>{});
  b.constant("empty", Tensor(DType::f32, Shape{0, 3}));
  b.constant("truth", Tensor::vector<bool>({true, false}));
  b.constant("text", Tensor::vector<std::string>({"", "x y"}));
  Output x = b.add("Placeholder", "x", {}, {{"T", DType::f32}, {"shape", Shape{kUnknown, 2}}}, "/job:ps");
  Output both = b.add("Split", "both", {x}, {{"axis", std::int64_t{1}}, {"N", std::int64_t{2}}});
  b.g.add({.op = "Add",
           .name = "sum",
           .inputs = {b.g.output("both:1"), both},
           .controls = {x, both},
           .device = "/job:worker/task:1/device:CPU:0",
           .colocate_with = "x"});
  Output cond = b.constant("cond", Tensor::scalar(true));
  const auto negated = [](Graph&, const Outputs& in) { return Outputs{neg(in[0])}; };
  const auto nested = [&](Graph&, const Outputs& in) {
    return if_else(in[1], {in[0]}, negated, [](Graph&, const Outputs& i) { return Outputs{exp(i[0])}; });
  };
  const auto plain = [](Graph&, const Outputs& in) { return Outputs{in[0]}; };
  if_else(cond, {x, cond}, nested, plain, "choice");
  return to_text(b.g);
}

TEST(GraphText, EverythingThatAGraphHasComesBack) {
  const std::string text = text_example();
  const auto graph = parse_text(text);
  EXPECT_EQ(to_text(*graph), text);
  expect_round_trip(*graph);
  EXPECT_EQ(graph->get("sum").colocate_with, "x");
  EXPECT_EQ(graph->get("string").attributes.string("_value"), "a \"quoted\" \\ one\n\x01");
  EXPECT_EQ(graph->get("real").attributes.real("_value"), 2.0);
}

template <class T>
void expect_bits(std::initializer_list<T> values) {
  const Tensor tensor = Tensor::vector<T>(values);
  GraphBuilder b;
  b.constant("c", tensor);
  const std::string text = to_text(b.g);
  EXPECT_TRUE(bitwise_equal(parse_text(text)->get("c").attributes.tensor("value"), tensor)) << text;
}

TEST(GraphText, NumbersKeepTheirBits) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  expect_bits<float>({0.1f, -0.0f, 1e-45f, 3.4028235e38f, kInf, -kInf, kNan, -kNan, std::bit_cast<float>(0x7f800001u)});
  expect_bits<double>({0.1, -0.0, 5e-324, 1e308, std::bit_cast<double>(0x7ff8000000000123ull)});
  expect_bits<Half>({Half(0.1f), Half(-0.0f), Half(65504.0f), Half(6e-8f), Half(kInf), Half(kNan)});
  expect_bits<BFloat16>({BFloat16(0.1f), BFloat16(3e38f), BFloat16(kNan)});
  expect_bits<std::int8_t>({-128, 127});
  expect_bits<std::uint8_t>({0, 255});
  expect_bits<std::int64_t>({std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()});
  for (const double value : {0.1, 1.0, -0.0, 1e300, std::nan("")}) {
    GraphBuilder b;
    b.add("NoOp", "n", {}, {{"_x", value}});
    const double read = parse_text(to_text(b.g))->get("n").attributes.real("_x");
    EXPECT_EQ(std::bit_cast<std::uint64_t>(read), std::bit_cast<std::uint64_t>(value)) << to_text(b.g);
  }
}

TEST(GraphText, TrainingGraphsComeBackBeforeAndAfterPasses) {
  const Sequential model({layers::dense(3, Activation::relu), layers::dropout(0.5), layers::dense(2)});
  const testing::ClassifierGraph t =
      testing::classifier_graph(model, Shape{4}, optimizers::Adam{}, {.slots = 2, .batch = 5, .micro_batches = 1});
  expect_round_trip(*t.graph);
  std::vector<std::string> feeds;
  for (const Outputs* list : {&t.images, &t.labels})
    for (const Output& o : *list) feeds.push_back(o.name());
  auto callable = make_callable_graph(*t.graph, {.feeds = feeds, .targets = {t.train.name()}});
  expect_round_trip(*callable);
  expect_round_trip(*optimize(std::move(callable), {}));
}

TEST(GraphText, MuchMayBeLeftOutAndComeInAnyOrder) {
  EXPECT_EQ(to_text(*parse_text("# a graph\n"
                                "\n"
                                "y = Add(x, \\\n"
                                "        c)   # what it makes\n"
                                "\tc = Const() T=f32 value=f32[] = 1\r\n"
                                "x = Placeholder() T=f32 shape=[?]")),
            "c = Const() T=f32 value=f32[] = 1 -> f32[]\n"
            "x = Placeholder() T=f32 shape=[?] -> f32[?]\n"
            "y = Add(x, c) T=f32 -> f32[?]\n");
}

TEST(GraphText, ShapesThatAreGivenRefineInference) {
  const std::string x = "x = Placeholder() T=f32 shape=[?...]";
  EXPECT_EQ(parse_text(x + " -> f32[2]")->get("x").output_shapes[0], (Shape{2}));
  EXPECT_EQ(error_of([&] { parse_text(x + " -> f64[2]"); }),
            "invalid_argument: line 1: node 'x': output 0 is f32, not f64");
  EXPECT_EQ(error_of([&] { parse_text("x = Placeholder() T=f32 shape=[3] -> f32[2]"); }),
            "invalid_argument: line 1: Placeholder 'x': output 0 is [3] and cannot be [2]");
  EXPECT_EQ(error_of([&] { parse_text(x + " -> f32[2], f32[2]"); }),
            "invalid_argument: line 1: node 'x': it has 1 outputs, not 2");
}

TEST(GraphText, ADumpThatLeavesElementsOutIsRefused) {
  GraphBuilder b;
  b.constant("c", Tensor::zeros(DType::f32, Shape{9}));
  EXPECT_EQ(b.g.dump(), "c = Const() T=f32 value=f32[9] = 0 0 0 0 0 0 0 0 ... -> f32[9]\n");
  EXPECT_EQ(error_of([&] { parse_text(b.g.dump()); }),
            "invalid_argument: line 1, column 50: tensor elements are omitted: write the graph with to_text(), which "
            "includes all of them");
  expect_round_trip(b.g);
}

TEST(GraphText, ErrorsSayWhere) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\n x", "line 2, column 3: expected '=' after the name of a node"},
      {"x = ", "line 1, column 5: expected an op"},
      {"x = Ad(", "line 1, column 5: there is no op 'Ad'; did you mean Abs or Add or AddN or"},
      {"x = NoOp", "line 1, column 9: expected '(' after the op"},
      {"x = NoOp(", "line 1, column 10: expected an input"},
      {"x = NoOp(a b)", "line 1, column 12: expected ',' or ')' in the list of inputs"},
      {"x = NoOp(^a, b)", "line 1, column 14: control inputs come last"},
      {"x = NoOp() y=1", "line 1, column 12: NoOp has no attribute 'y'"},
      {"x = NoOp() _y=1 _y=1", "line 1, column 17: attribute '_y' is given twice"},
      {"x = NoOp() _y", "line 1, column 14: expected '=' after the name of an attribute"},
      {"x = NoOp() _y=", "line 1, column 15: '' is not a number, or is too large"},
      {"x = NoOp() _y=[1]", "line 1, column 15: ambiguous list: state its type, as in shape:[2] or integers:[2]"},
      {"x = NoOp() _y=\"a", "line 1, column 17: unterminated string: expected '\"'"},
      {"x = NoOp() _y=\"\\q\"", "line 1, column 18: expected \\\", \\\\, \\n or \\xHH in a string"},
      {"x = NoOp() )", "line 1, column 12: expected an attribute, '->', '@', 'with' or the end of the line"},
      {"x = NoOp() @ CPU:x", "line 1, column 14: "},
      {"x = NoOp() with a b", "line 1, column 19: expected the end of the line"},
      {"x = Placeholder() T=f31", "line 1, column 21: 'f31' is not a dtype"},
      {"x = Placeholder() shape=[1,", "line 1, column 28: '' is not i64"},
      {"x = Placeholder() shape=[-2]", "line 1, column 26: a shape has at most 8 dimensions, none of them negative"},
      {"x = Const() value=f32[2] = 1", "line 1, column 29: '' is not a number, or is too large"},
      {"x = Const() value=i8[] = 128", "line 1, column 26: '128' is not i8"},
      {"x = Const() value=f32[9999999] = 1",
       "line 1, column 19: a tensor of 9999999 elements has only 2 characters of text"},
      {"x = Const() value=f32[?] = 1", "line 1, column 19: "},
      {"x = Const() value=bool[] = 1", "line 1, column 28: expected true or false"},
      {"function f {\nx = NoOp()", "line 2, column 11: function 'f' is not closed: expected '}'"},
      {"x = NoOp()\nx = NoOp()", "line 2: two nodes are named 'x'"},
      {"\nx = Neg(y)", "line 2: node 'x': there is no node 'y'"},
      {"x = Const() T=f32 value=f32[] = 1\ny = Neg(x, x)", "line 2: Neg 'y': takes 1 inputs, 2 were given"},
      {"x = Const() T=f32 value=f32[] = 1\ny = Neg(x:1)", "line 2: node 'y': there is no output 'x:1': the node has 1"},
      {"x = NoOp(^y)\ny = NoOp(^x)", "the graph has a cycle: "},
      {"x = NoOp() _f=@f", "line 1: node 'x': there is no function 'f'"},
  };
  for (const auto& [text, wanted] : cases) {
    const std::string error = error_of([text = text] { parse_text(text); });
    EXPECT_NE(error.find(": " + wanted), std::string::npos) << text << "\nwanted: " << wanted << "\ngot: " << error;
  }
}

TEST(GraphText, ATensorAlone) {
  EXPECT_TRUE(bitwise_equal(parse_tensor(" f32[2] = 1 -2 "), Tensor::vector<float>({1, -2})));
  EXPECT_EQ(error_of([] { parse_tensor("f32[2] = 1 2 3"); }),
            "invalid_argument: line 1, column 14: expected the end of the text");
}

// Whatever is done to the text: it is a graph, which comes back from its own text, or an error of its reader.
TEST(GraphText, MutatedTextNeverCrashes) {
  const std::string text = text_example();
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const std::string alphabet = "=()[]{},:^@->\"\\ \n#?.x1f9";
  int graphs = 0, errors = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string mutated = text;
    for (std::size_t n = 1 + below(3); n > 0; --n) {
      const std::size_t at = below(mutated.size());
      switch (below(5)) {
        case 0:
          mutated[at] = alphabet[below(alphabet.size())];
          break;
        case 1:
          mutated.erase(at, 1 + below(20));
          break;
        case 2:
          mutated.insert(at, 1, alphabet[below(alphabet.size())]);
          break;
        case 3:
          mutated.insert(at, text.substr(below(text.size()), 1 + below(40)));
          break;
        default:
          mutated.resize(at + 1);
      }
    }
    try {
      const auto graph = parse_text(mutated);
      ++graphs;
      ASSERT_EQ(to_text(*parse_text(to_text(*graph))), to_text(*graph)) << mutated;
    } catch (const Error& error) {
      ++errors;
      ASSERT_TRUE(error.code() == Code::invalid_argument || error.code() == Code::not_found)
          << error.to_string() << "\n"
          << mutated;
    }
  }
  EXPECT_GT(graphs, 30);
  EXPECT_GT(errors, 1000);
}

}  // namespace
}  // namespace troupe
