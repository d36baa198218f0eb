#include <gtest/gtest.h>

#include "tests/graph/graph_builder.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/formats/import.hpp>
#include <troupe/graph/formats/serialize.hpp>
#include <troupe/graph/formats/serialize_proto.hpp>
#include <troupe/graph/rewrite.hpp>

namespace troupe {
namespace {

const auto f32_list = [](int n) { return std::vector<DType>(static_cast<std::size_t>(n), DType::f32); };

// A function of one f32 argument and one result that doubles it, or, if `inner` is given, calls that through
// If.
Function doubling(const std::string& name, const Function* inner = nullptr) {
  auto body = std::make_shared<Graph>();
  Output x = body->output(
      body->add({.op = "Arg", .name = "x", .attributes = {{"T", DType::f32}, {"index", std::int64_t{0}}}}));
  const Node* result = nullptr;
  if (inner) {
    body->add_function(*inner);
    Output yes = body->output(body->add(
        {.op = "Const", .name = "yes", .attributes = {{"T", DType::boolean}, {"value", Tensor::scalar(true)}}}));
    result = &body->add({.op = "If",
                         .name = "inner",
                         .inputs = {yes, x},
                         .attributes = {{"Tout", f32_list(1)},
                                        {"then_branch", FunctionName{inner->name}},
                                        {"else_branch", FunctionName{inner->name}}}});
  } else {
    result = &body->add({.op = "Add", .name = "sum", .inputs = {x, x}});
  }
  return {.name = name, .body = body, .arguments = {{0, 0}}, .results = {{result->id, 0}}};
}

std::unique_ptr<Graph> example() {
  GraphBuilder b;
  Output x = b.placeholder("x", Shape{2, kUnknown});
  Output c = b.constant("c", Tensor::of<float>(Shape{2, 1}, {1.5f, -0.0f}));
  Output text = b.constant("text", Tensor::vector<std::string>({"", std::string("a\0b", 3)}));
  Output flag = b.constant("flag", Tensor::scalar(true));
  Output sum = b.add("Add", "sum", {x, c}, {{"_note", std::vector<double>{1.5, -2}}}, "/job:ps/device:CPU:*");
  b.add("Split", "split", {sum}, {{"axis", std::int64_t{0}}, {"N", std::int64_t{2}}});
  b.g.add({.op = "Identity",
           .name = "last",
           .inputs = {b.g.output("split:1")},
           .controls = {text, flag},
           .colocate_with = "sum"});
  const Function inner = doubling("inner_fn");
  b.g.add_function(doubling("outer_fn", &inner));
  b.g.add_function(doubling("simple"));
  b.add("If", "if", {flag, sum},
        {{"Tout", f32_list(1)}, {"then_branch", FunctionName{"outer_fn"}}, {"else_branch", FunctionName{"simple"}}});
  return std::move(b.graph);
}

TEST(Serialize, ARoundTripIsEqual) {
  auto graph = example();
  const std::string bytes = serialize(*graph);
  auto again = parse_graph(bytes);
  EXPECT_EQ(again->dump(), graph->dump());
  EXPECT_EQ(again->get("last").colocate_with, "sum");
  EXPECT_EQ(serialize(*again), bytes);
  const Function* outer = again->function("outer_fn");
  ASSERT_NE(outer, nullptr);
  EXPECT_EQ(outer->arguments, (std::vector<Endpoint>{{0, 0}}));
  EXPECT_EQ(outer->results, (std::vector<Endpoint>{{2, 0}}));
  EXPECT_NE(outer->body->function("inner_fn"), nullptr);
  for (int id = 0; id < graph->size(); ++id)
    for (const auto& [key, value] : graph->node(id).attributes.all())
      EXPECT_TRUE(equal(value, again->node(id).attributes.all().find(key)->second)) << key;
}

TEST(Serialize, TheShapesOfIfAreThoseOfItsBranches) {
  GraphBuilder b;
  Output x = b.placeholder("x", Shape{2, 3});
  Output flag = b.constant("flag", Tensor::scalar(true));
  const auto same = [](Graph&, const Outputs& in) { return Outputs{in[0]}; };
  const auto cut = [](Graph&, const Outputs& in) { return Outputs{concat({in[0], in[0]}, 0)}; };
  const Outputs out = if_else(flag, {x}, same, cut);
  ASSERT_EQ(out[0].shape(), (Shape{kUnknown, 3}));
  EXPECT_EQ(parse_graph(serialize(*b.graph))->dump(), b.g.dump());
}

TEST(Serialize, EveryTypeOfAttributeReturnsAsItWas) {
  const std::vector<AttrValue> values = {std::int64_t{-7},
                                         -0.1,
                                         true,
                                         std::string("a\0\xff", 3),
                                         DType::resource,
                                         Shape{1, kUnknown},
                                         Shape::unknown_rank(),
                                         Shape{},
                                         Tensor::of<Half>(Shape{0, 3}, {}),
                                         Tensor::vector<std::int64_t>({1, -2}),
                                         FunctionName{"f"},
                                         std::vector<std::int64_t>{},
                                         std::vector<std::int64_t>{-1, 1ll << 62},
                                         std::vector<double>{0.1},
                                         std::vector<std::string>{"", "x"},
                                         std::vector<DType>{DType::f32, DType::string},
                                         std::vector<DType>{}};
  for (const AttrValue& value : values) EXPECT_TRUE(equal(from_proto(to_proto(value)), value)) << to_string(value);
}

TEST(Serialize, LargeTensorsMayTravelBesideTheMessage) {
  Graph graph;
  const Tensor large = Tensor::zeros(DType::f32, {1024}), small = Tensor::zeros(DType::f32, {1023});
  constant(graph, large, "large");
  constant(graph, small, "small");
  std::vector<Tensor> apart;
  const proto::Graph message = to_proto(graph, &apart);
  ASSERT_EQ(apart.size(), 1);
  EXPECT_LT(message.ByteSizeLong(), 4500);
  const auto again = from_proto(message, standard_ops(), apart);
  EXPECT_EQ(again->get("large").attributes.get<Tensor>("value").raw(), large.raw());  // not copied
  EXPECT_NE(again->get("small").attributes.get<Tensor>("value").raw(), small.raw());
  EXPECT_EQ(error_of([&] { from_proto(message); }),
            "invalid_argument: node 'large': attribute 'value': tensor 0 is not with the graph, which came with 0");
}

TEST(Serialize, NodesMayComeInAnyOrder) {
  auto graph = example();
  proto::Graph message = to_proto(*graph);
  std::reverse(message.mutable_node()->begin(), message.mutable_node()->end());
  auto again = from_proto(message);
  ASSERT_EQ(again->size(), graph->size());
  for (int id = 0; id < graph->size(); ++id) {
    const Node& node = graph->node(id);
    SCOPED_TRACE(node.name);
    const Node& found = again->get(node.name);
    ASSERT_EQ(found.inputs.size(), node.inputs.size());
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      EXPECT_EQ(output_name(*again, found.inputs[i]), output_name(*graph, node.inputs[i]));
    EXPECT_EQ(found.output_shapes, node.output_shapes);
  }
}

TEST(Serialize, EveryPrefixEitherIsAGraphOrIsRefused) {
  const std::string bytes = serialize(*example());
  EXPECT_EQ(error_of([] { parse_graph(""); }),
            "data_loss: the data has no version: it is not a graph, or is truncated");
  int refused = 0;
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    try {
      parse_graph(std::string_view(bytes).substr(0, n));
    } catch (const Error& e) {
      ++refused;
      EXPECT_TRUE(e.code() == Code::data_loss || e.code() == Code::not_found) << n << " " << e.to_string();
    }
  }
  EXPECT_GT(refused, static_cast<int>(bytes.size()) - 15);  // only a cut between two nodes leaves a graph
}

TEST(Serialize, EveryChangedByteEitherIsAGraphOrIsRefused) {
  const std::string bytes = serialize(*example());
  for (std::size_t n = 0; n < bytes.size(); ++n)
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[n] = static_cast<char>(changed[n] ^ change);
      try {
        serialize(*parse_graph(changed));
      } catch (const Error& e) {
        EXPECT_TRUE(e.code() == Code::data_loss || e.code() == Code::not_found || e.code() == Code::invalid_argument)
            << n << " " << e.to_string();
      }
    }
}

// Reads the example after `change`d its message.
template <class F>
std::string error_after(F&& change) {
  proto::Graph message = to_proto(*example());
  change(message);
  return error_of([&] { from_proto(message); });
}

proto::Node& node_of(proto::Graph& message, std::string_view name) {
  for (proto::Node& n : *message.mutable_node())
    if (n.name() == name) return n;
  throw Error(Code::not_found, std::string(name));
}

proto::Attribute& attribute_of(proto::Graph& message, const std::string& node, const std::string& attribute) {
  return (*node_of(message, node).mutable_attribute())[attribute];
}

TEST(Serialize, WrongNodesAreRefusedByName) {
  using G = proto::Graph;
  EXPECT_EQ(error_after([](G& m) { node_of(m, "sum").set_op("Addd"); }),
            "not_found: node 'sum': there is no op 'Addd'; did you mean Add or AddN");
  EXPECT_EQ(error_after([](G& m) { node_of(m, "sum").set_name("c"); }), "invalid_argument: two nodes are named 'c'");
  EXPECT_EQ(error_after([](G& m) { node_of(m, "if").set_name(""); }),
            "invalid_argument: node '': a node of op 'If' has no name");
  EXPECT_EQ(error_after([](G& m) { node_of(m, "if").set_name("a b"); }),
            "invalid_argument: If 'a b': a name consists of letters, digits and _ . / -, must not begin with / or -, "
            "and must not end with /");
  EXPECT_EQ(error_after([](G& m) { node_of(m, "sum").set_input(0, "y"); }),
            "not_found: node 'sum': there is no node 'y'");
  EXPECT_EQ(error_after([](G& m) { node_of(m, "sum").set_input(0, "x:1"); }),
            "invalid_argument: node 'sum': there is no output 'x:1': the node has 1");
  EXPECT_EQ(error_after([](G& m) { node_of(m, "sum").set_input(0, "x:-1"); }),
            "invalid_argument: node 'sum': 'x:-1' does not name an output: expected NODE or NODE:INDEX");
  EXPECT_EQ(error_after([](G& m) { node_of(m, "sum").set_input(0, "x:99999999999"); }),
            "invalid_argument: node 'sum': 'x:99999999999' does not name an output: expected NODE or NODE:INDEX");
  EXPECT_EQ(error_after([](G& m) { node_of(m, "sum").add_input("x"); }),
            "invalid_argument: Add 'sum': takes 2 inputs, 3 were given");
  EXPECT_EQ(error_after([](G& m) { node_of(m, "sum").mutable_input()->RemoveLast(); }),
            "invalid_argument: Add 'sum': input 'b' is missing (1 were given)");
  EXPECT_EQ(error_after([](G& m) { node_of(m, "sum").add_control("nobody"); }),
            "not_found: node 'sum': there is no node 'nobody'");
  EXPECT_EQ(error_after([](G& m) { node_of(m, "sum").set_colocate_with("nobody"); }),
            "not_found: node 'sum': there is no node 'nobody'");
  EXPECT_EQ(error_after([](G& m) { node_of(m, "sum").set_device("/cpu:x"); }),
            "invalid_argument: Add 'sum': device '/cpu:x': 'x' is not an index");
  EXPECT_EQ(error_after([](G& m) { node_of(m, "sum").set_op_version(2); }),
            "unimplemented: node 'sum': its op Add has version 2, this program knows 1: use a later Troupe");
  EXPECT_EQ(error_after([](G& m) { m.set_version(2); }),
            "invalid_argument: the graph has version 2; this program reads version 1");
}

TEST(Serialize, CyclesAreRefusedByName) {
  EXPECT_EQ(error_after([](proto::Graph& m) { node_of(m, "sum").add_control("last"); }),
            "invalid_argument: the graph has a cycle: sum -> split -> last -> sum");
  EXPECT_EQ(error_after([](proto::Graph& m) { node_of(m, "sum").set_input(0, "sum"); }),
            "invalid_argument: the graph has a cycle: sum -> sum");
}

TEST(Serialize, WrongAttributesAreRefusedByName) {
  using G = proto::Graph;
  EXPECT_EQ(error_after([](G& m) { attribute_of(m, "sum", "volume").set_integer(11); }),
            "invalid_argument: Add 'sum': there is no attribute 'volume'");
  EXPECT_EQ(error_after([](G& m) {
              attribute_of(m, "sum", "T");
              node_of(m, "sum").mutable_attribute()->at("T").Clear();
            }),
            "data_loss: node 'sum': attribute 'T': the value is missing");
  EXPECT_EQ(error_after([](G& m) { attribute_of(m, "sum", "T").set_dtype(77); }),
            "invalid_argument: node 'sum': attribute 'T': unknown dtype number 77");
  EXPECT_EQ(error_after([](G& m) { attribute_of(m, "sum", "T").set_dtype(257); }),  // 257 mod 256 would be f32
            "invalid_argument: node 'sum': attribute 'T': unknown dtype number 257");
  EXPECT_EQ(error_after([](G& m) { attribute_of(m, "sum", "T").set_dtype(0); }),
            "invalid_argument: node 'sum': attribute 'T': unknown dtype number 0");
  EXPECT_EQ(error_after([](G& m) { attribute_of(m, "sum", "T").set_integer(1); }),
            "invalid_argument: Add 'sum': attribute 'T' is of type integer");
  EXPECT_EQ(error_after([](G& m) { node_of(m, "x").mutable_attribute()->erase("T"); }),
            "invalid_argument: Placeholder 'x': attribute 'T' is missing");
  EXPECT_EQ(error_after([](G& m) { attribute_of(m, "split", "N").set_integer(1ll << 40); }).substr(0, 34),
            "invalid_argument: Split 'split': a");
  EXPECT_EQ(error_after([](G& m) {
              auto* dims = attribute_of(m, "x", "shape").mutable_shape();
              for (int i = 0; i < 7; ++i) dims->add_dim(1);
            }),
            "invalid_argument: node 'x': attribute 'shape': a shape has at most 8 dimensions, not 9");
  EXPECT_EQ(error_after([](G& m) { attribute_of(m, "x", "shape").mutable_shape()->add_dim(-2); }),
            "invalid_argument: node 'x': attribute 'shape': dimension 2 of a shape is -2; it must not be negative");
  EXPECT_EQ(error_after([](G& m) { attribute_of(m, "x", "shape").mutable_shape()->set_unknown_rank(true); }),
            "invalid_argument: node 'x': attribute 'shape': a shape of unknown rank has 2 dimensions");
}

TEST(Serialize, WrongTensorsAreRefusedBeforeTheyAreAllocated) {
  const auto error = [](auto change) {
    return error_after([&](proto::Graph& m) { change(*attribute_of(m, "c", "value").mutable_tensor()); });
  };
  using T = proto::TensorValue;
  EXPECT_EQ(error([](T& t) { t.mutable_content()->pop_back(); }),
            "invalid_argument: node 'c': attribute 'value': a f32[2,1] tensor has 7 bytes of content instead "
            "of 8, and 0 strings");
  EXPECT_EQ(error([](T& t) { t.mutable_content()->push_back('x'); }),
            "invalid_argument: node 'c': attribute 'value': a f32[2,1] tensor has 9 bytes of content instead "
            "of 8, and 0 strings");
  EXPECT_EQ(error([](T& t) { t.add_strings("x"); }),
            "invalid_argument: node 'c': attribute 'value': a f32[2,1] tensor has 8 bytes of content instead "
            "of 8, and 1 strings");
  EXPECT_EQ(error([](T& t) { t.mutable_shape()->set_dim(0, 1ll << 62); }),
            "invalid_argument: node 'c': attribute 'value': the byte size of a "
            "f32[4611686018427387904,1] tensor overflows 63 bits");
  EXPECT_EQ(error([](T& t) {
              t.mutable_shape()->set_dim(0, 1ll << 62);
              t.mutable_shape()->set_dim(1, 4);
            }),
            "invalid_argument: node 'c': attribute 'value': the number of elements of "
            "[4611686018427387904,4] overflows 63 bits");
  EXPECT_EQ(error([](T& t) { t.mutable_shape()->set_dim(0, -1); }),
            "invalid_argument: node 'c': attribute 'value': the shape [?,1] of a tensor is not fully known");
  EXPECT_EQ(error([](T& t) { t.set_dtype(12); }),
            "invalid_argument: node 'c': attribute 'value': a tensor cannot have dtype resource");
  EXPECT_EQ(error([](T& t) { t.set_dtype(11); }),
            "invalid_argument: node 'c': attribute 'value': a string[2,1] tensor has 0 strings and 8 bytes "
            "of other content");
  EXPECT_EQ(error([](T& t) { t.set_dtype(8); }),
            "invalid_argument: Const 'c': the constant's value is i32, but its attribute 'T' says f32");
  EXPECT_EQ(error_after([](proto::Graph& m) { attribute_of(m, "flag", "value").mutable_tensor()->set_content("\2"); }),
            "invalid_argument: node 'flag': attribute 'value': a bool[] tensor has a byte that is neither 0 nor 1");
}

proto::Function& function_of(proto::Graph& message, std::string_view name) {
  for (proto::Function& f : *message.mutable_function())
    if (f.name() == name) return f;
  throw Error(Code::not_found, std::string(name));
}

TEST(Serialize, WrongFunctionsAreRefused) {
  using G = proto::Graph;
  EXPECT_EQ(error_after([](G& m) { attribute_of(m, "if", "then_branch").set_function("nothing"); }),
            "not_found: node 'if': there is no function 'nothing'");
  EXPECT_EQ(error_after([](G& m) { function_of(m, "simple").set_name("inner_fn"); }),
            "invalid_argument: two functions are named 'inner_fn'");
  EXPECT_EQ(error_after([](G& m) { m.add_function(); }), "invalid_argument: a function has no name");
  EXPECT_EQ(error_after([](G& m) { function_of(m, "simple").set_result(0, "nobody"); }),
            "not_found: function 'simple': there is no node 'nobody'");
  EXPECT_EQ(error_after([](G& m) { function_of(m, "simple").set_result(0, "sum:1"); }),
            "invalid_argument: function 'simple': there is no output 'sum:1': the node has 1");
  EXPECT_EQ(error_after([](G& m) { function_of(m, "simple").add_result("x"); }),
            "invalid_argument: node 'if': function 'simple' is (f32) -> (f32, f32), but the node needs (f32) -> (f32)");
  EXPECT_EQ(error_after(
                [](G& m) { (*function_of(m, "simple").mutable_node(0)->mutable_attribute())["index"].set_integer(1); }),
            "invalid_argument: function 'simple': node 'x': argument 1 exists, but argument 0 does not");
  EXPECT_EQ(error_after([](G& m) {
              auto* f = &function_of(m, "simple");
              *f->add_node() = f->node(0);
              f->mutable_node(2)->set_name("x2");
            }),
            "invalid_argument: function 'simple': node 'x2': argument 0 appears twice");
  EXPECT_EQ(error_after([](G& m) { function_of(m, "inner_fn").mutable_node(1)->set_op("Nope"); }),
            "not_found: function 'inner_fn': node 'sum': there is no op 'Nope'; did you mean NoOp or TopK");
}

TEST(Serialize, FunctionsThatCallThemselvesAreRefused) {
  const std::string error = error_after([](proto::Graph& m) {
    auto& call = *function_of(m, "outer_fn").mutable_node(2)->mutable_attribute();
    call["then_branch"].set_function("outer_fn");
  });
  EXPECT_EQ(error, "invalid_argument: function 'outer_fn': functions are nested deeper than 16, or in a cycle");
}

TEST(Serialize, TheDepthOfFunctionsIsLimitedInWhateverOrderTheyCome) {
  const auto nested = [](int depth) {
    Function at = doubling("f1");
    for (int i = 2; i <= depth; ++i) at = doubling(fmt::format("f{}", i), &at);
    auto graph = std::make_unique<Graph>();
    graph->add_function(at);
    return graph;
  };
  auto deepest = nested(kMaxFunctionDepth);
  EXPECT_EQ(parse_graph(serialize(*deepest))->dump(), deepest->dump());
  EXPECT_EQ(error_of([&] { serialize(*nested(kMaxFunctionDepth + 1)); }),
            "invalid_argument: functions are nested deeper than 16");

  // As data: f17 calls f16, given first or last.
  proto::Graph message = to_proto(*deepest);
  proto::Graph pair = to_proto(*nested(2));
  proto::Function one_more = function_of(pair, "f2");
  one_more.set_name("f17");
  for (const char* branch : {"then_branch", "else_branch"})
    (*one_more.mutable_node(2)->mutable_attribute())[branch].set_function("f16");
  *message.add_function() = one_more;
  EXPECT_NE(error_of([&] { from_proto(message); }).find("deeper than 16"), std::string::npos);
  std::reverse(message.mutable_function()->begin(), message.mutable_function()->end());
  EXPECT_NE(error_of([&] { from_proto(message); }).find("deeper than 16"), std::string::npos);
}

TEST(Serialize, TwoFunctionsOfOneNameAreRefusedWhenWritten) {
  auto graph = std::make_unique<Graph>();
  const Function same = doubling("f");
  graph->add_function(doubling("g", &same));
  graph->add_function(doubling("f"));  // another object, the same function
  EXPECT_EQ(parse_graph(serialize(*graph))->functions().size(), 1u);

  auto other = std::make_unique<Graph>();
  const Function inner = doubling("x");
  const Function different = doubling("f", &inner);
  other->add_function(doubling("g", &different));
  other->add_function(doubling("f"));
  EXPECT_EQ(error_of([&] { serialize(*other); }), "invalid_argument: two different functions are named 'f'");
}

TEST(Serialize, ANodeCannotAskForUnboundedOutputs) {
  GraphBuilder b;
  Output x = b.placeholder("x", Shape{0});
  for (int i = 0; i < 3; ++i)
    b.add("Split", fmt::format("s{}", i), {x}, {{"axis", std::int64_t{0}}, {"N", std::int64_t{400'000}}});
  EXPECT_EQ(error_of([&] { from_proto(to_proto(*b.graph)); }),
            "invalid_argument: node 's2': the graph has more than 1000000 outputs");
}

TEST(Serialize, ALongChainIsReadWithoutRecursion) {
  GraphBuilder b;
  Output at = b.constant("c", 1);
  for (int i = 0; i < 20'000; ++i) at = b.add("Add", "", {at, at});
  EXPECT_EQ(parse_graph(serialize(*b.graph))->size(), 20'001);
}

}  // namespace
}  // namespace troupe
