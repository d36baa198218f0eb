#include <gtest/gtest.h>

#include "tests/graph/count_ops.hpp"
#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/layers/network_format.hpp>

namespace troupe {
namespace {

using testing::count_ops;
using testing::message_of;
using VariableNames = std::vector<std::string>;

struct InGraph {
  Graph graph;
  VariablePool variables;
  ExtraLosses losses;
  LayerContext context{.graph = graph, .variables = variables, .losses = &losses};

  Output fed(const std::string& name, const Shape& shape, DType dtype = DType::f32) {
    return placeholder(graph, dtype, shape, name);
  }
  VariableNames variable_names() const {
    VariableNames out;
    for (const VariableRef& v : variables.all()) out.push_back(v.name + v.shape.to_string());
    return out;
  }
};

// Two inputs, a layer that occurs twice, and two results.
struct TwoHeads {
  Symbol image = input("image", Shape{4, 2}), age = input("age", Shape{3});
  LayerPtr shared = layers::dense(3, Activation::relu);
  Network network = [&] {
    const Symbol joined = layers::concatenate()(shared(layers::flatten()(image)), age);
    return Network({image, age},
                   {{"class", layers::dense(5)(joined)}, {"risk", layers::dense(1).named("head")(joined)}});
  }();
};

TEST(Network, JoinsNamedInputsToNamedResults) {
  InGraph g;
  const NamedOutputs results = TwoHeads().network.apply(
      g.context, {{"age", g.fed("b", Shape{kUnknown, 3})}, {"image", g.fed("a", Shape{kUnknown, 4, 2})}});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results.at("class").shape(), (Shape{kUnknown, 5}));
  EXPECT_EQ(results.at("risk").name(), "head/BiasAdd");
  EXPECT_EQ(g.variable_names(), (VariableNames{"dense/kernel[8,3]", "dense/bias[3]", "dense_1/kernel[6,5]",
                                               "dense_1/bias[5]", "head/kernel[6,1]", "head/bias[1]"}));
}

TEST(Network, ALayerThatOccursTwiceHasOneNameAndOneSetOfWeights) {
  const Symbol a = input("a", Shape{2}), b = input("b", Shape{2});
  const LayerPtr twin = layers::dense(3);
  const Network network({a, b}, {{"y", layers::subtract()(twin(a), twin(b))}});
  InGraph g;
  const Outputs ys = network.apply(g.context, Outputs{g.fed("x", Shape{1, 2}), g.fed("z", Shape{1, 2})});
  EXPECT_EQ(g.variable_names(), (VariableNames{"dense/kernel[2,3]", "dense/bias[3]"}));
  EXPECT_EQ(count_ops(g.graph, "MatMul"), 2);
  EXPECT_TRUE(g.graph.find("dense/MatMul_1"));
  // Gradients of both uses reach the weights.
  const auto gradients = compute_gradients(sum(ys[0]), g.variables.trainable());
  EXPECT_EQ(gradients[0].gradient.dense.shape(), (Shape{2, 3}));
}

TEST(Network, ANetworkIsALayerAndSharesItsWeights) {
  const Symbol x = input("x", Shape{4});
  const Network encoder({x}, {{"code", layers::dense(2)(layers::dense(3)(x))}});
  const Sequential head({layers::dense(1)});
  const Symbol left = input("left", Shape{4}), right = input("right", Shape{4});
  const Network twins({left, right}, {{"distance", head(layers::subtract()(encoder(left), encoder(right)))}});
  InGraph g;
  twins.apply(g.context, Outputs{g.fed("a", Shape{1, 4}), g.fed("b", Shape{1, 4})});
  EXPECT_EQ(g.variable_names(),
            (VariableNames{"network/dense/kernel[4,3]", "network/dense/bias[3]", "network/dense_1/kernel[3,2]",
                           "network/dense_1/bias[2]", "sequential/dense/kernel[2,1]", "sequential/dense/bias[1]"}));
}

// Splits rows in halves; adds what the first has to the loss.
class Halves final : public Layer {
 public:
  std::string kind() const override { return "halves"; }
  int outputs() const override { return 2; }
  Outputs apply_all(LayerContext& context, const Outputs& xs) const override {
    const Outputs ys = split(xs[0], -1, 2);
    context.add_loss(sum(ys[0]));
    return ys;
  }
  LayerConfig config() const override { return {.kind = kind()}; }
};

TEST(Network, ALayerMayHaveSeveralResults) {
  const Symbol x = input("x", Shape{4});
  const LayerPtr halves = std::make_shared<Halves>();
  const Symbols parts = halves.call({x});
  ASSERT_EQ(parts.size(), 2u);
  const Network network({x}, {parts[1], layers::dense(3)(parts[0])});
  EXPECT_EQ(network.plan().results[0].name, "halves");
  EXPECT_EQ(network.plan().results[1].name, "dense");
  InGraph g;
  const Outputs ys = network.apply(g.context, Outputs{g.fed("a", Shape{1, 4})});
  EXPECT_EQ(ys[0].name(), "halves/Split:1");
  EXPECT_EQ(g.losses.terms.size(), 1u);
  EXPECT_EQ(message_of([&] { halves(x); }), "layer 'halves' has 2 outputs: use call()");
  EXPECT_EQ(message_of([&] { Sequential({halves}); }),
            "Sequential: layer 'halves' has 2 outputs: join it by a Network");
}

TEST(Network, InputsMayBeOfAnyDtypeAndWeightsAreF32) {
  const Symbol ids = input("ids", Shape{kUnknown}, DType::i64), pixels = input("pixels", Shape{2, 2}, DType::u8);
  const Symbol words = layers::global_average_pool()(layers::embedding(10, 3)(ids));
  const Symbol image = layers::flatten()(layers::rescaling(1 / 255.0)(pixels));
  const Network network({ids, pixels}, {{"y", layers::dense(1)(layers::concatenate()(words, image))}, {"ids", ids}});
  InGraph g;
  const NamedOutputs ys = network.apply(g.context, {{"ids", g.fed("a", Shape{kUnknown, kUnknown}, DType::i64)},
                                                    {"pixels", g.fed("b", Shape{kUnknown, 2, 2}, DType::u8)}});
  EXPECT_EQ(ys.at("y").dtype(), DType::f32);
  EXPECT_EQ(ys.at("ids").dtype(), DType::i64);
  EXPECT_EQ(g.variable_names(), (VariableNames{"embedding/table[10,3]", "dense/kernel[7,1]", "dense/bias[1]"}));
}

TEST(Network, TheTableOfAnEmbeddingHasASparseGradient) {
  const Symbol ids = input("ids", Shape{2}, DType::i32);
  InGraph g;
  const Output y =
      Network({ids}, {layers::embedding(10, 3)(ids)}).apply(g.context, g.fed("a", Shape{5, 2}, DType::i32));
  const auto gradients = compute_gradients(sum(y), g.variables.trainable());
  EXPECT_TRUE(gradients[0].gradient.is_sparse());
}

TEST(Network, WhatDoesNotFitIsNamed) {
  const TwoHeads two;
  InGraph g;
  const Output image = g.fed("a", Shape{kUnknown, 4, 2}), age = g.fed("b", Shape{kUnknown, 4});
  EXPECT_EQ(message_of([&] { two.network.apply(g.context, {{"image", image}}); }), "Network: input 'age' is not given");
  EXPECT_EQ(message_of([&] {
              two.network.apply(g.context, {{"image", image}, {"age", age}});
            }),
            "Network: input 'age' is f32[?,4], but must be f32[?,3]");
  const Output three = slice(age, {0, 0}, {-1, 3});
  EXPECT_EQ(message_of([&] {
              two.network.apply(g.context, {{"image", image}, {"age", three}, {"sex", three}});
            }),
            "Network: there is no input 'sex'");
  EXPECT_EQ(message_of([&] { two.network.apply(g.context, Outputs{image}); }),
            "Network: 1 inputs are given, but there are 2");
  EXPECT_EQ(message_of([&] {
              Network({two.image}, {{"y", layers::add()(layers::flatten()(two.image), two.age)}});
            }),
            "Network: a result needs input 'age', which is not among the network's inputs");
  EXPECT_EQ(message_of([&] { Network({two.image, two.image}, {two.age}); }), "Network: input 'image' is listed twice");
  EXPECT_EQ(message_of([&] { Network({layers::flatten()(two.image)}, {two.age}); }),
            "Network: an input must be a symbol made by input()");
  EXPECT_EQ(message_of([&] {
              Network({two.age}, {{"y", two.age}, {"y", two.age}});
            }),
            "Network: two results are named 'y'");
  EXPECT_EQ(message_of([&] {
              Network({input("x", Shape{2}), input("x", Shape{2})}, {{"y", two.age}});
            }),
            "Network: a result needs input 'age', which is not among the network's inputs");
  const LayerPtr add = layers::add();
  EXPECT_EQ(message_of([&] { Network({two.age}, {add(two.age)}).apply(g.context, three); }),
            "layer 'add': it takes 2 inputs or more, but is called with 1");
  EXPECT_EQ(message_of([&] { Network({two.age}, {add.named("a")(add.named("b")(two.age, two.age), two.age)}); }),
            "one layer is named 'b' and 'a'");
  EXPECT_EQ(message_of([&] { Sequential({layers::dense(1).named("a/b")}); }),
            "Network: 'a/b' cannot be a layer's name: '/' separates the names of networks");
  EXPECT_EQ(message_of([&] { add(Symbol(), two.age); }), "layer 'add': symbol 0 has no value");
}

TEST(Network, TheSummaryTellsWhatLayersAreCalledOn) {
  EXPECT_EQ(TwoHeads().network.dump(),
            "layer                output                 parameters  inputs\n"
            "flatten              [?,8]                           0  image\n"
            "dense                [?,3]                          27  flatten\n"
            "concatenate          [?,6]                           0  dense, age\n"
            "dense_1              [?,5]                          35  concatenate\n"
            "head                 [?,1]                           7  concatenate\n"
            "total                                               69\n");
}

TEST(Network, ADtypeOfProductsReachesTheLayersInside) {
  const Symbol x = input("x", Shape{4});
  Network network({x}, {{"y", Sequential({layers::dense(2)})(x)}});
  network.set_compute(DType::bf16);
  InGraph g;
  EXPECT_EQ(network.apply(g.context, g.fed("a", Shape{1, 4})).dtype(), DType::f32);
  EXPECT_EQ(g.graph.get("sequential/dense/MatMul").output_types[0], DType::bf16);
}

TEST(Network, ResultsInsideKeepThePrecisionThatALayerAskedFor) {
  const Symbol x = input("x", Shape{4});
  const Sequential body({layers::dense(4)}), head({layers::dense(2), layers::activation(Activation::softmax)});
  Network network({x}, {{"y", head(body(layers::dense(4)(x)))}});
  network.set_compute(DType::bf16);
  InGraph g;
  EXPECT_EQ(network.apply(g.context, g.fed("a", Shape{1, 4})).source().op->name, "Softmax");
  EXPECT_EQ(g.graph.get("sequential_1/dense/MatMul").output_types[0], DType::bf16);
}

// Neither apply() nor apply_all().
class Nothing final : public Layer {
 public:
  std::string kind() const override { return "nothing"; }
};

TEST(Network, ALayerWithoutAFunctionIsAnError) {
  InGraph g;
  EXPECT_EQ(message_of([&] { Sequential({std::make_shared<Nothing>()}).apply(g.context, g.fed("x", Shape{1})); }),
            "layer 'nothing': a layer of kind 'nothing' is applied by apply_all()");
  EXPECT_EQ(message_of([] { serialize(Sequential({std::make_shared<Nothing>()})); }),
            "layer 'nothing': a layer of kind 'nothing' cannot be written: override Layer::config(), and add the kind "
            "to the reader's LayerRegistry");
}

TEST(Network, FrozenLayersKeepTheirNamesButAreNotTrained) {
  InGraph g;
  g.context.training = true;
  const Sequential model(
      {layers::frozen(Sequential({layers::dense(2), layers::batch_norm(), layers::dropout(0.5)})), layers::dense(1)});
  model.apply(g.context, g.fed("a", Shape{1, 4}));
  EXPECT_EQ(g.variable_names()[0], "sequential/dense/kernel[4,2]");
  EXPECT_EQ(g.variables.all().size(), 8u);
  ASSERT_EQ(g.variables.trainable().size(), 2u);
  EXPECT_EQ(g.variables.trainable()[0].name, "dense/kernel");
  EXPECT_EQ(count_ops(g.graph, "Dropout"), 0);
  EXPECT_EQ(count_ops(g.graph, "BatchNormInference"), 1);
}

TEST(Network, RegularizersAddLossesAndConstraintsGoWithTheirVariables) {
  const Symbol a = input("a", Shape{2}), b = input("b", Shape{2});
  const LayerPtr twin =
      layers::dense(3, Activation::none,
                    {.kernel = {.regularizer = regularizers::l1_l2(0.5, 0.25), .constraint = constraints::max_norm(2)},
                     .bias = {.constraint = constraints::non_negative()}});
  InGraph g;
  Network({a, b}, {{"y", layers::add()(twin(a), twin(b))}})
      .apply(g.context, Outputs{g.fed("x", Shape{1, 2}), g.fed("z", Shape{1, 2})});
  ASSERT_EQ(g.losses.terms.size(), 1u);  // though it is applied twice
  EXPECT_EQ(g.losses.terms[0].shape(), Shape{});
  ASSERT_EQ(g.variables.constrained().size(), 2u);
  EXPECT_EQ(g.variables.constrained()[0].variable.name, "dense/kernel");
  EXPECT_EQ(g.variables.constrained()[1].constraint, constraints::non_negative());
}

// ---- As data

Network everything() {
  const Symbol x = input("x", Shape{8, 8, 3}), ids = input("ids", Shape{kUnknown}, DType::i64);
  const LayerPtr twin = layers::dense(3, Activation::gelu,
                                      {.kernel = {.initializer = initializers::he_normal(3),
                                                  .regularizer = regularizers::l2(0.5),
                                                  .constraint = constraints::min_max_norm(0.5, 2, 0.9, {1})}});
  const Symbol convolved = layers::residual(
      Sequential({layers::conv2d(3, 3, Activation::none, {.padding = Padding::same}), layers::batch_norm()}))(x);
  const Symbol image = layers::flatten()(layers::max_pool(2)(convolved));
  const Symbol words = layers::global_average_pool()(layers::embedding(10, 3)(ids));
  const Symbol joined = layers::add()(twin(layers::dense(3)(image)), twin(words));
  Network network({x, ids}, {{"y", layers::frozen(layers::dense(2).named("out"))(layers::dropout(0.25, 7)(joined))}});
  network.set_compute(DType::bf16);
  return network;
}

std::string built(const Network& network) {
  InGraph g;
  g.context.training = true;
  std::vector<RunningAverage> averages;
  g.context.averages = &averages;
  network.apply(g.context, {{"x", g.fed("x", Shape{kUnknown, 8, 8, 3})},
                            {"ids", g.fed("ids", Shape{kUnknown, kUnknown}, DType::i64)}});
  return g.graph.dump();
}

TEST(NetworkFormat, WhatIsReadBackBuildsTheSameGraph) {
  const Network network = everything();
  const std::string bytes = serialize(network), text = to_text(network);
  const Network read = parse_network(bytes), from_text = parse_network_text(text);
  EXPECT_EQ(serialize(read), bytes);
  EXPECT_EQ(to_text(read), text);
  EXPECT_EQ(serialize(from_text), bytes);
  EXPECT_EQ(built(read), built(network));
}

TEST(NetworkFormat, EveryInitializerComesBack) {
  for (const Initializer& initializer :
       {initializers::zeros(), initializers::ones(), initializers::constant(0.5), initializers::glorot_uniform(1),
        initializers::he_uniform(1), initializers::lecun_uniform(1), initializers::glorot_normal(1),
        initializers::he_normal(1), initializers::lecun_normal(1), initializers::random_uniform(-1, 1, 1),
        initializers::random_normal(0, 1, 1), initializers::truncated_normal(0, 1, 1), initializers::orthogonal(2, 1),
        initializers::identity(3)}) {
    SCOPED_TRACE(initializer.kind());
    const Sequential model({layers::dense(3, Activation::none, {.kernel = {.initializer = initializer}})});
    InGraph before, after;
    model.apply(before.context, before.fed("x", Shape{1, 3}));
    parse_network(serialize(model)).apply(after.context, after.fed("x", Shape{1, 3}));
    EXPECT_EQ(after.graph.dump(), before.graph.dump());
  }
}

TEST(NetworkFormat, KindsOfOnesOwnAreReadByTheirRegistry) {
  const Symbol x = input("x", Shape{4});
  const LayerPtr halves = std::make_shared<Halves>();
  const Network network({x}, halves.call({x}));
  const std::string bytes = serialize(network);
  EXPECT_EQ(message_of([&] { parse_network(bytes); }),
            "layer 'halves': there is no layer of kind 'halves': add it to the LayerRegistry that reads the model");
  LayerRegistry mine = standard_layers();
  mine.add("halves", [](const LayerConfig&) { return std::make_shared<Halves>(); });
  EXPECT_EQ(serialize(parse_network(bytes, mine)), bytes);
  EXPECT_EQ(message_of([&] { mine.add("dense", [](const LayerConfig&) { return std::make_shared<Halves>(); }); }),
            "there is a layer kind 'dense' already");
}

TEST(NetworkFormat, WhatCannotBeWrittenSaysWhatToDo) {
  const Sequential lambda({layers::lambda([](LayerContext&, Output x) { return x * 2.0; })});
  EXPECT_EQ(message_of([&] { serialize(lambda); }),
            "layer 'lambda': a lambda is a function of the program and cannot be written: derive a layer with a "
            "config(), and add its kind to the reader's LayerRegistry");
  const Sequential own(
      {layers::dense(3, Activation::none, {.kernel = {.initializer = [](Graph& graph, const WeightSpec& spec) {
                                             return random_normal(graph, spec.shape);
                                           }}})});
  EXPECT_EQ(message_of([&] { serialize(own); }),
            "layer 'dense': the initializer of 'kernel' is a function of the program's own and cannot be written: use "
            "one of initializers::");
}

// Damaged data is refused, or read as another model, which can be refused when it is applied; nothing else happens.
TEST(NetworkFormat, DamagedBytesDoNoHarm) {
  const std::string bytes = serialize(everything());
  int read = 0, refused = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 + static_cast<int>(at * 37 % 127)));
    try {
      parse_network(damaged).summary();
      ++read;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
  for (std::size_t size = 0; size < bytes.size(); size += 7)
    EXPECT_NE(message_of([&] { parse_network(std::string_view(bytes).substr(0, size)); }), "no error");
  std::string nested;
  for (int depth = 0; depth < 100'000; ++depth) nested += "layer { key: \"layer\" value { ";
  EXPECT_NE(message_of([&] { parse_network_text("network { " + nested); }), "no error");
}

TEST(NetworkFormat, HostileDataIsRefused) {
  EXPECT_EQ(message_of([] { parse_network("nonsense"); }), "not a model: 8 bytes do not parse");
  EXPECT_EQ(
      message_of([] { parse_network_text("nonsense: 1"); }),
      "not a model: line 1, column 9: Message type \"troupe.proto.ModelConfig\" has no field named \"nonsense\".");
  const auto error = [](std::string member, std::string rest = "call { input: 0 } result { name: \"y\" value: 1 }") {
    return message_of([&] {
      parse_network_text(
          "version: 1 network { kind: \"network\" network { input { name: \"x\" dtype: 1 shape {} } "
          "member { name: \"a\" layer { " +
          member + " } } " + rest + " } }");
    });
  };
  const std::string add = "kind: \"add\"";
  EXPECT_EQ(error(add), "no error");
  EXPECT_EQ(error("kind: \"ad\""),
            "layer 'a': there is no layer of kind 'ad': add it to the LayerRegistry that reads the model");
  EXPECT_EQ(error("kind: \"flatten\" option { key: \"axis\" value { integer: 1 } }"),
            "layer 'a': flatten: there is no option 'axis'; there are: none");
  EXPECT_EQ(error("kind: \"dense\" option { key: \"units\" value { real: 1 } }"),
            "layer 'a': dense: option 'units' is of type real, but must be integer");
  EXPECT_EQ(error("kind: \"dense\" option { key: \"activation\" value { string: \"rel\" } }"),
            "layer 'a': dense: there is no activation 'rel'");
  EXPECT_EQ(error("kind: \"dense\" weight { key: \"kernal\" value { } }"),
            "layer 'a': dense: there is no weight 'kernal'; there are: kernel, bias");
  EXPECT_EQ(error("kind: \"residual\""), "layer 'a': residual: the body is missing");
  EXPECT_EQ(error("kind: \"network\""), "layer 'a': network: its layers are missing");
  EXPECT_EQ(error("kind: \"frozen\""), "layer 'a': frozen: the layer is null");
  EXPECT_EQ(error(add, "call { member: 1 input: 0 }  result { name: \"y\" value: 1 }"),
            "Network: there is no layer 1 among 1");
  EXPECT_EQ(error(add, "call { input: 1 }  result { name: \"y\" value: 1 }"), "Network: there is no value 1 among 1");
  EXPECT_EQ(error(add, "call { }  result { name: \"y\" value: 1 }"), "Network: layer 0 is called without an input");
  EXPECT_EQ(error(add, "result { name: \"y\" value: 7 }"), "Network: there is no value 7 among 1");
  EXPECT_EQ(error(add, "result { name: \"y\" value: 4294967295 }"), "number 4294967295 is too large");
  EXPECT_EQ(error(add, ""), "Network: there must be an input and a result");
  EXPECT_EQ(error(add, "compute: 9 result { name: \"y\" }"),
            "Network: products can be computed in bf16, f16, f32 or f64, not in i64");
}

}  // namespace
}  // namespace troupe
