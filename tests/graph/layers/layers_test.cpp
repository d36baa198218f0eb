#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/graph/count_ops.hpp"
#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>

namespace troupe {
namespace {

using testing::count_ops;
using testing::message_of;

const Shape kImages{kUnknown, 28, 28, 1};

Sequential mlp() { return Sequential({layers::flatten(), layers::dense(128, Activation::relu), layers::dense(10)}); }

struct Applied {
  Graph graph;
  VariablePool variables;
  LayerContext context{.graph = graph, .variables = variables};

  Output input(const Shape& shape = kImages) { return placeholder(graph, DType::f32, shape); }
  Output apply(const Sequential& model, const Shape& shape = kImages) { return model.apply(context, input(shape)); }
  std::string error(LayerPtr layer, const Shape& shape) {
    return message_of([&] { apply(Sequential({layer}), shape); });
  }
};

std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> out;
  for (const VariableInfo& v : variables(graph)) out.push_back(v.name + v.shape.to_string());
  return out;
}

TEST(Layers, AnMlpHasTheVariablesOfItsDenseLayers) {
  Applied a;
  const Output logits = a.apply(mlp());
  EXPECT_EQ(logits.shape(), (Shape{kUnknown, 10}));
  EXPECT_EQ(logits.name(), "dense_1/BiasAdd");
  EXPECT_EQ(names(a.graph), (std::vector<std::string>{"dense/bias[128]", "dense/kernel[784,128]", "dense_1/bias[10]",
                                                      "dense_1/kernel[128,10]"}));
  for (const char* node : {"flatten/Reshape", "dense/MatMul", "dense/BiasAdd", "dense/Relu", "dense_1/MatMul"})
    EXPECT_TRUE(a.graph.find(node)) << node;
}

TEST(Layers, ASummaryCountsParameters) {
  std::int64_t total = 0;
  for (const Sequential::Summary& row : mlp().summary(kImages)) total += row.parameters;
  EXPECT_EQ(total, 101'770);
  EXPECT_EQ(mlp().dump(kImages),
            "layer                output                 parameters\n"
            "flatten              [?,784]                         0\n"
            "dense                [?,128]                    100480\n"
            "dense_1              [?,10]                       1290\n"
            "total                                           101770\n");
}

TEST(Layers, ASmallCnnHasTheExpectedShapes) {
  const Sequential cnn({layers::conv2d(8, 3, Activation::relu), layers::max_pool(2),
                        layers::conv2d(16, 3, Activation::tanh, {.strides = {2, 2}, .padding = Padding::same}),
                        layers::average_pool(2), layers::flatten(), layers::dropout(0.5),
                        layers::dense(10, Activation::none, {.use_bias = false}),
                        layers::activation(Activation::softmax)});
  std::vector<std::string> rows;
  for (const Sequential::Summary& r : cnn.summary(Shape{32, 28, 28, 1}))
    rows.push_back(fmt::format("{} {} {}", r.name, r.output.to_string(), r.parameters));
  EXPECT_EQ(rows,
            (std::vector<std::string>{"conv2d [32,26,26,8] 80", "max_pool [32,13,13,8] 0", "conv2d_1 [32,7,7,16] 1168",
                                      "average_pool [32,3,3,16] 0", "flatten [32,144] 0", "dropout [32,144] 0",
                                      "dense [32,10] 1440", "softmax [32,10] 0"}));
}

TEST(Layers, AModelAppliedAgainSharesItsVariables) {
  Applied a;
  const Sequential model = mlp();
  a.apply(model);
  const int before = count_ops(a.graph, "Variable");
  const int random = count_ops(a.graph, "RandomUniform");
  const auto scope = a.graph.scope("evaluation");
  const Output again = a.apply(model);
  EXPECT_EQ(again.name(), "evaluation/dense_1/BiasAdd");
  EXPECT_EQ(count_ops(a.graph, "Variable"), before);
  EXPECT_EQ(count_ops(a.graph, "RandomUniform"), random);
  const Node& product = a.graph.get("evaluation/dense/MatMul");
  EXPECT_EQ(a.graph.node(product.inputs[1].node).name, "dense/kernel/read");
  EXPECT_EQ(a.variables.all().size(), 4u);
}

TEST(Layers, VariablesInAScopeAreFoundFromAnotherScope) {
  Applied a;
  const Sequential model({layers::dense(3)});
  {
    const auto scope = a.graph.scope("first");
    a.apply(model, Shape{2, 5});
  }
  a.apply(model, Shape{2, 5});
  EXPECT_EQ(names(a.graph), (std::vector<std::string>{"first/dense/bias[3]", "first/dense/kernel[5,3]"}));
}

TEST(Layers, TwoModelsInOneGraphHaveVariablesOfTheirOwn) {
  Applied a;
  VariablePool others;
  LayerContext other{.graph = a.graph, .variables = others};
  a.apply(Sequential({layers::dense(3)}), Shape{2, 5});
  Sequential({layers::dense(4)}).apply(other, a.input(Shape{2, 5}));
  EXPECT_EQ(names(a.graph),
            (std::vector<std::string>{"dense/bias[3]", "dense/bias_1[4]", "dense/kernel[5,3]", "dense/kernel_1[5,4]"}));
}

TEST(Layers, TakeVariablesThatExist) {
  Applied a;
  const VariableRef kernel = variable(a.graph, {.name = "mine", .shape = Shape{5, 3}});
  a.variables.add("dense/kernel", kernel);
  a.apply(Sequential({layers::dense(3)}), Shape{2, 5});
  EXPECT_EQ(names(a.graph), (std::vector<std::string>{"dense/bias[3]", "mine[5,3]"}));
  EXPECT_EQ(a.variables.trainable()[0].name, "mine");
  EXPECT_THROW(a.variables.add("dense/kernel", kernel), Error);
}

TEST(Layers, GlorotUniformFollowsFromTheFans) {
  Applied a;
  a.apply(Sequential({layers::conv2d(4, 3)}), Shape{1, 8, 8, 2});
  const Node& draw = a.graph.get("conv2d/kernel/RandomUniform");
  const double limit = std::sqrt(6.0 / (9 * 2 + 9 * 4));
  EXPECT_EQ(draw.attributes.real("minval"), -limit);
  EXPECT_EQ(draw.attributes.real("maxval"), limit);
  EXPECT_EQ(a.graph.get("conv2d/bias/initial_value").inputs[0].node, a.graph.get("conv2d/bias/Fill").id);
}

TEST(Layers, AnInitializerOfOnesOwnIsUsed) {
  Applied a;
  a.apply(Sequential({layers::dense(4, Activation::relu, {.kernel = {.initializer = initializers::he_normal(7)}})}),
          Shape{1, 8});
  const Node& draw = a.graph.get("dense/kernel/TruncatedNormal");
  EXPECT_EQ(draw.attributes.real("stddev"), 0.5);
  EXPECT_EQ(draw.attributes.integer("seed"), 7);
}

TEST(Layers, DropoutDropsOnlyWhileTraining) {
  Applied a;
  const Sequential model({layers::dropout(0.25, 3)});
  const Output x = a.input(Shape{2, 5});
  EXPECT_EQ(model.apply(a.context, x), x);
  a.context.training = true;
  const Node& node = model.apply(a.context, x).source();
  EXPECT_EQ(node.name, "dropout/Dropout");
  EXPECT_EQ(a.graph.node(node.inputs[1].node).attributes.tensor("value").item<double>(), 0.25);
  EXPECT_EQ(node.attributes.integer("seed"), 3);
}

TEST(Layers, BatchNormTakesTheBatchWhileTrainingAndAveragesElse) {
  Applied a;
  const Sequential model({layers::batch_norm(Activation::relu, {.momentum = 0.8, .epsilon = 0.01})});
  std::vector<RunningAverage> averages;
  LayerContext training{.graph = a.graph, .training = true, .variables = a.variables, .averages = &averages};
  const Output x = a.input(Shape{kUnknown, 4, 4, 3});
  const Output y = model.apply(training, x);
  EXPECT_EQ(y.name(), "batch_norm/BatchNorm");
  EXPECT_EQ(y.source().attributes.string("activation"), "relu");
  EXPECT_EQ(y.source().attributes.real("epsilon"), 0.01);
  ASSERT_EQ(averages.size(), 2u);
  EXPECT_EQ(averages[0].variable.name, "batch_norm/mean");
  EXPECT_EQ(averages[0].value.name(), "batch_norm/BatchNorm:1");
  EXPECT_EQ(averages[1].variable.name, "batch_norm/variance");
  EXPECT_EQ(averages[1].value.name(), "batch_norm/BatchNorm:2");
  EXPECT_DOUBLE_EQ(averages[0].part, 0.2);
  const auto scope = a.graph.scope("evaluation");
  const Output evaluated = a.apply(model, Shape{kUnknown, 4, 4, 3});
  EXPECT_EQ(evaluated.name(), "evaluation/batch_norm/BatchNormInference");
  EXPECT_EQ(evaluated.source().attributes.string("activation"), "relu");
  EXPECT_EQ(a.graph.node(evaluated.source().inputs[3].node).name, "batch_norm/mean/read");
  EXPECT_EQ(names(a.graph), (std::vector<std::string>{"batch_norm/mean[3]", "batch_norm/offset[3]",
                                                      "batch_norm/scale[3]", "batch_norm/variance[3]"}));
  EXPECT_EQ(a.variables.trainable().size(), 2u);
}

// Whatever the data is computed in; another activation is an op of its own.
TEST(Layers, NormalisationsKeepWhatTheyLearnInF32) {
  for (const DType compute : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(name(compute));
    Applied a;
    Sequential model({layers::conv2d(3, 3), layers::batch_norm(Activation::tanh), layers::flatten(),
                      layers::layer_norm({.epsilon = 1e-3}), layers::dense(2)});
    model.set_compute(compute);
    std::vector<RunningAverage> averages;
    LayerContext training{.graph = a.graph, .training = true, .variables = a.variables, .averages = &averages};
    model.apply(training, a.input(Shape{2, 5, 5, 3}));
    EXPECT_EQ(a.graph.get("batch_norm/BatchNorm").kernel_type(), compute);
    EXPECT_EQ(a.graph.get("batch_norm/Tanh").kernel_type(), compute);
    EXPECT_EQ(a.graph.get("layer_norm/LayerNorm").kernel_type(), compute);
    for (const VariableRef& v : a.variables.all()) EXPECT_EQ(v.dtype, DType::f32) << v.name;
  }
}

TEST(Layers, AResidualAddsItsShortcut) {
  Applied a;
  const Sequential body({layers::dense(4)}), shortcut({layers::dense(4)});
  const Output y = a.apply(
      Sequential({layers::dense(4), layers::residual(body, {}, Activation::relu), layers::residual(body, shortcut)}),
      Shape{2, 3});
  EXPECT_EQ(y.name(), "residual_1/Add");
  EXPECT_EQ(names(a.graph),
            (std::vector<std::string>{"dense/bias[4]", "dense/kernel[3,4]", "residual/dense/bias[4]",
                                      "residual/dense/kernel[4,4]", "residual_1/dense/bias[4]",
                                      "residual_1/dense/kernel[4,4]", "residual_1/shortcut/dense/bias[4]",
                                      "residual_1/shortcut/dense/kernel[4,4]"}));
  const Node& sum = a.graph.get("residual/Add");
  EXPECT_EQ(a.graph.node(sum.inputs[0].node).name, "residual/dense/BiasAdd");
  EXPECT_EQ(a.graph.node(sum.inputs[1].node).name, "dense/BiasAdd");
  EXPECT_TRUE(a.graph.find("residual/Relu"));
  EXPECT_EQ(Applied().error(layers::residual(body), Shape{2, 3}),
            "layer 'residual': the output of the body is [2,4], but that of its shortcut is [2,3]");
}

TEST(Layers, PoolsMayOverlapOrTakeAll) {
  const Sequential model({layers::max_pool(3, 2, Padding::same), layers::global_average_pool()});
  const auto rows = model.summary(Shape{kUnknown, 7, 7, 4});
  EXPECT_EQ(rows[0].output, (Shape{kUnknown, 4, 4, 4}));
  EXPECT_EQ(rows[1].output, (Shape{kUnknown, 4}));
}

TEST(Layers, InputsThatDoNotFitAreRefusedByTheLayersName) {
  Applied a;
  EXPECT_EQ(a.error(layers::dense(3), Shape{2, kUnknown}),
            "layer 'dense': the last dimension of the input must be known, but it is [2,?]");
  EXPECT_EQ(a.error(layers::dense(3), Shape::unknown_rank()),
            "layer 'dense': the input is [?...], but must be [..., features]");
  EXPECT_EQ(a.error(layers::flatten(), Shape{kUnknown, 28, kUnknown}),
            "layer 'flatten': all dimensions of the input but the first must be known, but it is [?,28,?]");
  EXPECT_EQ(a.error(layers::flatten(), Shape{}),
            "layer 'flatten': all dimensions of the input but the first must be known, but it is []");
  EXPECT_EQ(a.error(layers::conv2d(3, 3), Shape{1, 8, 8, kUnknown}),
            "layer 'conv2d': the number of channels of the input must be known, but it is [1,8,8,?]");
  EXPECT_EQ(a.error(layers::batch_norm(), Shape{2, kUnknown}),
            "layer 'batch_norm': the last dimension of the input must be known, but it is [2,?]");
  EXPECT_EQ(a.error(layers::layer_norm(), Shape{}),
            "layer 'layer_norm': the input is [], but must have a last dimension to normalise");
  EXPECT_EQ(a.error(layers::global_average_pool(), Shape{2, 8}),
            "layer 'global_average_pool': the input is [2,8], but must be [n, spatial..., channels]");
  EXPECT_EQ(a.error(layers::max_pool(2), Shape{1, 8}),
            "layer 'max_pool': the input is [1,8], but must be [n, height, width, channels]");
  EXPECT_NE(a.error(layers::conv2d(3, 9), Shape{1, 8, 8, 1}).find("a window of 9 is larger than the input's 8"),
            std::string::npos);
}

TEST(Layers, IntegersHaveNoWeights) {
  Applied a;
  EXPECT_EQ(message_of([&] {
              Sequential({layers::dense(3)}).apply(a.context, placeholder(a.graph, DType::i32, Shape{2, 5}));
            }),
            "layer 'dense': the input is i32, but must be floating; put an embedding, rescaling or cast before it");
}

TEST(Layers, AnotherInputShapeDoesNotFitKnownVariables) {
  Applied a;
  const Sequential model({layers::dense(3)});
  a.apply(model, Shape{2, 5});
  EXPECT_EQ(message_of([&] {
              a.apply(model, Shape{2, 6});
            }),
            "layer 'dense': variable 'dense/kernel' is f32[5,3], but f32[6,3] is needed here");
  EXPECT_EQ(message_of([&] {
              model.apply(a.context, placeholder(a.graph, DType::f64, Shape{2, 5}));
            }),
            "layer 'dense': variable 'dense/kernel' is f32[5,3], but f64[5,3] is needed here");
}

TEST(Layers, APoolServesOneGraph) {
  Applied a;
  Applied b;
  const Sequential model({layers::dense(3)});
  a.apply(model, Shape{2, 5});
  LayerContext mixed{.graph = b.graph, .variables = a.variables};
  EXPECT_EQ(message_of([&] {
              model.apply(mixed, b.input(Shape{2, 5}));
            }),
            "layer 'dense': variable 'dense/kernel' belongs to another graph; a pool serves one graph");
  EXPECT_EQ(message_of([&] {
              model.apply(b.context, a.input(Shape{2, 5}));
            }),
            "Sequential: the input belongs to another graph");
  EXPECT_EQ(message_of([&] { model.apply(b.context, {}); }), "Sequential: the input is not a tensor");
}

TEST(Layers, OptionsThatNoInputFitsAreRefusedAtOnce) {
  const double nan = std::nan("");
  EXPECT_EQ(message_of([] { layers::dense(0); }), "dense: units must be at least 1, not 0");
  EXPECT_EQ(message_of([] { layers::conv2d(0, 3); }), "conv2d: filters must be at least 1, not 0");
  EXPECT_EQ(message_of([] { layers::conv2d(3, -1); }), "conv2d: size must be at least 1, not -1");
  EXPECT_EQ(message_of([] { layers::conv2d(3, 3, Activation::none, {.strides = {1}}); }),
            "conv2d: strides are 2 numbers, one for each axis, not 1");
  EXPECT_EQ(message_of([] {
              layers::conv2d(3, 3, Activation::none, {.strides = {1, 0}});
            }),
            "conv2d: strides must be at least 1, not 0");
  EXPECT_EQ(message_of([] { layers::max_pool(0); }), "max_pool: size must be at least 1, not 0");
  EXPECT_EQ(message_of([] { layers::average_pool(0); }), "average_pool: size must be at least 1, not 0");
  EXPECT_EQ(message_of([] { layers::max_pool(2, 0, Padding::same); }), "max_pool: strides must be at least 1, not 0");
  for (const double momentum : {-0.1, 1.0, nan})
    EXPECT_EQ(message_of([&] { layers::batch_norm(Activation::none, {.momentum = momentum}); }),
              fmt::format("batch_norm: the momentum must be in [0, 1), not {}", momentum));
  EXPECT_EQ(message_of([] { layers::batch_norm(Activation::none, {.epsilon = 0}); }),
            "batch_norm: epsilon must be positive, not 0");
  EXPECT_EQ(message_of([] { layers::layer_norm({.epsilon = -1}); }), "layer_norm: epsilon must be positive, not -1");
  EXPECT_EQ(message_of([] { layers::dropout(1); }), "dropout: the rate must be in [0, 1), not 1");
  EXPECT_EQ(message_of([] { layers::dropout(-0.1); }), "dropout: the rate must be in [0, 1), not -0.1");
  EXPECT_EQ(message_of([&] { layers::dropout(nan); }), "dropout: the rate must be in [0, 1), not nan");
  EXPECT_EQ(message_of([] { Sequential({layers::flatten(), nullptr}); }), "Sequential: layer 1 is null");
}

// The dtype of each node's first output.
std::map<std::string, DType> dtypes(const Graph& graph, const std::vector<std::string>& names) {
  std::map<std::string, DType> out;
  for (const std::string& name : names) out[name] = graph.get(name).output_types.at(0);
  return out;
}

TEST(MixedPrecisionLayers, ProductsAreNarrowAndWeightsAreNot) {
  Applied a;
  Sequential model({layers::conv2d(4, 3, Activation::relu), layers::max_pool(2), layers::flatten(),
                    layers::dropout(0.5), layers::dense(8, Activation::tanh), layers::dense(10)});
  model.set_compute(DType::bf16);
  a.context.training = true;
  const Output logits = a.apply(model);
  EXPECT_EQ(logits.dtype(), DType::f32);
  EXPECT_EQ(logits.source().op->name, "Cast");
  for (const VariableInfo& v : variables(a.graph)) EXPECT_EQ(v.dtype, DType::f32) << v.name;
  EXPECT_EQ(dtypes(a.graph, {"conv2d/Conv", "conv2d/BiasAdd", "conv2d/Relu", "max_pool/MaxPool", "dropout/Dropout",
                             "dense/MatMul", "dense/Tanh", "dense_1/BiasAdd"}),
            (std::map<std::string, DType>{{"conv2d/Conv", DType::bf16},
                                          {"conv2d/BiasAdd", DType::bf16},
                                          {"conv2d/Relu", DType::bf16},
                                          {"max_pool/MaxPool", DType::bf16},
                                          {"dropout/Dropout", DType::f32},
                                          {"dense/MatMul", DType::bf16},
                                          {"dense/Tanh", DType::bf16},
                                          {"dense_1/BiasAdd", DType::bf16}}));
}

TEST(MixedPrecisionLayers, GradientsReachTheWeightsInTheirDtype) {
  Applied a;
  Sequential model = mlp();
  model.set_compute(DType::f16);
  const Output logits = a.apply(model);
  const auto gradients = compute_gradients(mean(square(logits)), a.variables.all());
  ASSERT_EQ(gradients.size(), 4u);
  for (const auto& [gradient, variable, moved_by] : gradients) {
    EXPECT_FALSE(moved_by) << variable.name;
    EXPECT_EQ(gradient.dense.dtype(), DType::f32) << variable.name;
    EXPECT_EQ(gradient.dense.source().op->name, "Cast") << variable.name;
    EXPECT_EQ(
        gradient.dense.source().inputs[0].node >= 0 ? a.graph.dtype(gradient.dense.source().inputs[0]) : DType::invalid,
        DType::f16)
        << variable.name;
  }
}

TEST(MixedPrecisionLayers, ALayerSaysForItself) {
  Applied a;
  Sequential model({layers::dense(8, Activation::relu), layers::dense(8, Activation::none, {.compute = DType::bf16}),
                    layers::activation(Activation::relu), layers::dense(4),
                    layers::dense(3, Activation::softmax, {.compute = DType::bf16})});
  const Output y = a.apply(model, Shape{2, 5});
  EXPECT_EQ(y.source().op->name, "Softmax");
  EXPECT_EQ(y.dtype(), DType::f32);
  EXPECT_EQ(dtypes(a.graph, {"dense/MatMul", "dense_1/MatMul", "relu/Relu", "dense_2/MatMul", "dense_3/BiasAdd"}),
            (std::map<std::string, DType>{{"dense/MatMul", DType::f32},
                                          {"dense_1/MatMul", DType::bf16},
                                          {"relu/Relu", DType::bf16},
                                          {"dense_2/MatMul", DType::f32},
                                          {"dense_3/BiasAdd", DType::bf16}}));
  // In a model that computes in f16, a layer may stay in f32.
  Applied b;
  Sequential mixed({layers::dense(8), layers::dense(3, Activation::none, {.compute = DType::f32})});
  mixed.set_compute(DType::f16);
  EXPECT_EQ(b.apply(mixed, Shape{2, 5}).source().op->name, "BiasAdd");
  EXPECT_EQ(b.graph.get("dense_1/MatMul").output_types[0], DType::f32);
}

TEST(MixedPrecisionLayers, TheSummaryIsTheSame) {
  Sequential model = mlp();
  const std::string before = model.dump(kImages);
  model.set_compute(DType::bf16);
  EXPECT_EQ(model.dump(kImages), before);
}

TEST(MixedPrecisionLayers, ProductsAreOfFloatingDtypes) {
  Sequential model;
  EXPECT_EQ(message_of([&] { model.set_compute(DType::i32); }),
            "Sequential: products can be computed in bf16, f16, f32 or f64, not in i32");
  EXPECT_EQ(message_of([] { layers::dense(3, Activation::none, {.compute = DType::string}); }),
            "dense: products can be computed in bf16, f16, f32 or f64, not in string");
  EXPECT_EQ(message_of([] { layers::conv2d(3, 3, Activation::none, {.compute = DType::boolean}); }),
            "conv2d: products can be computed in bf16, f16, f32 or f64, not in bool");
}

}  // namespace
}  // namespace troupe
