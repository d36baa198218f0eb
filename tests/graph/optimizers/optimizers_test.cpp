#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/error_of.hpp"
#include "tests/graph/messages.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/optimizers/optimizers.hpp>
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/shard_variables.hpp>

namespace troupe {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::message_of;

// loss = sum(w^2) + sum(b^2).
struct Model {
  Graph graph;
  VariableRef w = variable(graph, {.name = "w", .shape = Shape{2, 3}, .device = "/job:ps"});
  VariableRef b = variable(graph, {.name = "b", .shape = Shape{3}});
  Output loss = sum(square(w.read())) + sum(square(b.read()));

  std::string error(const Optimizer& optimizer) {
    return message_of([&] { minimize(loss, optimizer); });
  }
};

std::vector<std::string> inputs(const Graph& graph, std::string_view name) {
  std::vector<std::string> out;
  for (const Endpoint& e : graph.get(name).inputs) out.push_back(graph.node(e.node).name);
  return out;
}
std::vector<std::string> controls(const Graph& graph, std::string_view name) {
  std::vector<std::string> out;
  for (int id : graph.get(name).controls) out.push_back(graph.node(id).name);
  return out;
}
std::vector<std::string> variable_names(const Graph& graph, bool trainable) {
  std::vector<std::string> out;
  for (const VariableInfo& v : variables(graph))
    if (v.trainable == trainable) out.push_back(v.name);
  return out;
}
std::vector<std::string> slots(const Optimizer& optimizer) {
  Model m;
  minimize(m.loss, optimizer);
  return variable_names(m.graph, false);
}

using Strings = std::vector<std::string>;

template <std::size_t... I>
std::vector<Optimizer> optimizers_of(std::index_sequence<I...>) {
  return {Optimizer(std::in_place_index<I>)...};
}
std::vector<Optimizer> each_optimizer() {
  return optimizers_of(std::make_index_sequence<std::variant_size_v<Optimizer>>());
}

TEST(Optimizers, SgdUpdatesEveryTrainableVariable) {
  Model m;
  variable(m.graph, {.name = "fixed", .shape = Shape{2}, .trainable = false});
  const Output train = minimize(m.loss, optimizers::SGD{.learning_rate = 0.5});
  EXPECT_EQ(train.name(), "train");
  EXPECT_EQ(train.source().op->name, "NoOp");
  EXPECT_EQ(controls(m.graph, "train"), (Strings{"train/b", "train/w"}));
  const Node& apply = m.graph.get("train/w");
  EXPECT_EQ(apply.op->name, "ApplySGD");
  EXPECT_EQ(apply.colocate_with, "w");
  EXPECT_EQ(inputs(m.graph, "train/w")[0], "w");
  EXPECT_EQ(inputs(m.graph, "train/w")[1], "learning_rate");
  EXPECT_EQ(m.graph.get("learning_rate").attributes.tensor("value").item<float>(), 0.5f);
  EXPECT_EQ(variable_names(m.graph, false), Strings{"fixed"});
}

TEST(Optimizers, AnUpdateComesAfterTheRead) {
  Model m;
  minimize(m.loss, optimizers::Momentum{});
  EXPECT_EQ(controls(m.graph, "train/w"), Strings{"w/read"});
  // Initialization waits for no read.
  EXPECT_EQ(controls(m.graph, "w/momentum_accum/assign"), Strings{});
  EXPECT_EQ(controls(m.graph, "learning_rate"), Strings{});
}

TEST(Optimizers, SlotsAreVariablesBesideTheVariable) {
  EXPECT_EQ(slots(optimizers::Momentum{}), (Strings{"b/momentum_accum", "w/momentum_accum"}));
  EXPECT_EQ(slots(optimizers::Adagrad{}), (Strings{"b/adagrad_accum", "w/adagrad_accum"}));
  EXPECT_EQ(slots(optimizers::RMSProp{}), (Strings{"b/rmsprop_mom", "b/rmsprop_ms", "w/rmsprop_mom", "w/rmsprop_ms"}));
  EXPECT_EQ(slots(optimizers::Adam{}), (Strings{"b/adam_m", "b/adam_v", "global_step", "w/adam_m", "w/adam_v"}));
  EXPECT_EQ(slots(optimizers::Lion{}), (Strings{"b/lion_m", "w/lion_m"}));
  EXPECT_EQ(slots(optimizers::Adadelta{}),
            (Strings{"b/adadelta_accum", "b/adadelta_accum_update", "w/adadelta_accum", "w/adadelta_accum_update"}));
  EXPECT_EQ(slots(optimizers::Ftrl{}), (Strings{"b/ftrl_accum", "b/ftrl_linear", "w/ftrl_accum", "w/ftrl_linear"}));
  EXPECT_EQ(slots(optimizers::RMSProp{.centered = true}), (Strings{"b/rmsprop_mg", "b/rmsprop_mom", "b/rmsprop_ms",
                                                                   "w/rmsprop_mg", "w/rmsprop_mom", "w/rmsprop_ms"}));
  EXPECT_EQ(slots(optimizers::AdamW{.amsgrad = true}), (Strings{"b/adamw_m", "b/adamw_v", "b/adamw_vhat", "global_step",
                                                                "w/adamw_m", "w/adamw_v", "w/adamw_vhat"}));
  EXPECT_EQ(slots(optimizers::Adamax{}),
            (Strings{"b/adamax_m", "b/adamax_u", "global_step", "w/adamax_m", "w/adamax_u"}));
  EXPECT_EQ(slots(optimizers::Nadam{}), (Strings{"b/nadam_m", "b/nadam_v", "global_step", "w/nadam_m", "w/nadam_v"}));
  Model m;
  minimize(m.loss, optimizers::Adam{});
  EXPECT_EQ(m.graph.get("w/adam_m").device, m.graph.get("w").device);
  EXPECT_EQ(find_variable(m.graph, "w/adam_m").shape, (Shape{2, 3}));
}

TEST(Optimizers, SlotsTakeTheVariablesDtype) {
  Graph graph;
  const VariableRef x = variable(graph, {.name = "x", .shape = Shape{2}});
  const VariableRef y = variable(graph, {.name = "y", .shape = Shape{2}, .dtype = DType::f64});
  minimize(sum(cast(x.read(), DType::f64) * y.read()), optimizers::Adagrad{});
  EXPECT_EQ(find_variable(graph, "y/adagrad_accum").dtype, DType::f64);
  EXPECT_EQ(inputs(graph, "train/x")[2], "learning_rate");
  EXPECT_EQ(inputs(graph, "train/y")[2], "learning_rate_1");
  EXPECT_EQ(graph.get("learning_rate_1").attributes.dtype("T"), DType::f64);
}

TEST(Optimizers, AdagradStartsFromItsInitialAccumulator) {
  Model m;
  minimize(m.loss, optimizers::Adagrad{.initial_accumulator = 0.25});
  EXPECT_EQ(inputs(m.graph, "w/adagrad_accum/initial_value"), Strings{"w/adagrad_accum/Fill"});
  const Node& fill = m.graph.get("w/adagrad_accum/Fill");
  EXPECT_EQ(m.graph.node(fill.inputs[1].node).attributes.tensor("value").item<float>(), 0.25f);
  EXPECT_EQ(fill.device, m.graph.get("w").device);
}

TEST(Optimizers, AdamCountsOnceForAllVariables) {
  Model m;
  minimize(m.loss, optimizers::Adam{});
  EXPECT_EQ(inputs(m.graph, "train/w")[4], "global_step/next");
  EXPECT_EQ(inputs(m.graph, "train/b")[4], "global_step/next");
  EXPECT_EQ(inputs(m.graph, "global_step/next"), (Strings{"global_step/read", "global_step/one"}));
  EXPECT_EQ(inputs(m.graph, "train/AssignAddVariable"), (Strings{"global_step", "global_step/one"}));
  EXPECT_EQ(controls(m.graph, "train/AssignAddVariable"), (Strings{"train/b", "train/w"}));
  EXPECT_EQ(controls(m.graph, "train"), (Strings{"train/b", "train/w", "train/AssignAddVariable"}));
  EXPECT_EQ(find_variable(m.graph, "global_step").dtype, DType::i64);
}

TEST(Optimizers, TwoOfThemInOneGraphKeepApart) {
  Model m;
  const auto gradients = compute_gradients(m.loss, std::vector{m.w});
  apply_gradients(m.graph, optimizers::Adam{}, gradients);
  EXPECT_EQ(apply_gradients(m.graph, optimizers::Adam{}, gradients).name(), "train_1");
  EXPECT_EQ(inputs(m.graph, "train_1/w"), (Strings{"w", "w/adam_m_1", "w/adam_v_1", "learning_rate_1",
                                                   "global_step_1/next", inputs(m.graph, "train/w")[5]}));
  const auto scope = m.graph.scope("outer");
  EXPECT_EQ(apply_gradients(m.graph, optimizers::Adam{}, gradients).name(), "outer/train");
}

TEST(Optimizers, HyperparametersReachTheNodes) {
  Model m;
  const auto gradients = compute_gradients(m.loss, std::vector{m.w});
  const auto attribute = [&](const Optimizer& o, const char* attr) {
    const Output train = apply_gradients(m.graph, o, gradients);
    return m.graph.get(train.name() + "/w").attributes.all().find(attr)->second;
  };
  EXPECT_EQ(std::get<double>(attribute(optimizers::Momentum{.momentum = 0.3}, "momentum")), 0.3);
  EXPECT_TRUE(std::get<bool>(attribute(optimizers::Momentum{.nesterov = true}, "nesterov")));
  EXPECT_EQ(std::get<double>(attribute(optimizers::RMSProp{.rho = 0.3}, "rho")), 0.3);
  EXPECT_EQ(std::get<double>(attribute(optimizers::RMSProp{.momentum = 0.3}, "momentum")), 0.3);
  EXPECT_EQ(std::get<double>(attribute(optimizers::RMSProp{.epsilon = 0.3}, "epsilon")), 0.3);
  EXPECT_EQ(std::get<double>(attribute(optimizers::Adagrad{.epsilon = 0.3}, "epsilon")), 0.3);
  EXPECT_EQ(std::get<double>(attribute(optimizers::Adam{.beta1 = 0.3}, "beta1")), 0.3);
  EXPECT_EQ(std::get<double>(attribute(optimizers::Adam{.beta2 = 0.3}, "beta2")), 0.3);
  EXPECT_EQ(std::get<double>(attribute(optimizers::Adam{.epsilon = 0.3}, "epsilon")), 0.3);
}

TEST(Optimizers, SparseGradientsStaySparse) {
  Graph graph;
  const VariableRef table = variable(graph, {.name = "table", .shape = Shape{100, 4}});
  const Output rows = gather(table.read(), placeholder(graph, DType::i64, Shape{kUnknown}));
  for (const Optimizer& o : each_optimizer()) {
    const Output train = minimize(sum(square(rows)), o);
    EXPECT_TRUE(graph.get(train.name() + "/table").op->name.starts_with("SparseApply")) << name(o);
    EXPECT_FALSE(graph.get(train.name() + "/table").attributes.boolean("exact")) << name(o);
  }
  for (Optimizer o : each_optimizer()) {
    std::visit([](auto& options) { options.slot_updates = SlotUpdates::exact; }, o);
    const Output train = minimize(sum(square(rows)), o);
    EXPECT_TRUE(graph.get(train.name() + "/table").attributes.boolean("exact")) << name(o);
  }
}

TEST(Optimizers, WeightsDecayWhereTheirNamesSaySo) {
  using Names = std::vector<std::string>;
  const auto decays = [](const Names& only, const Names& except, std::string_view variable) {
    return WeightDecay{.rate = 0.5, .only = only, .except = except}.rate_of(variable) == 0.5;
  };
  EXPECT_TRUE(decays({}, {}, "dense/kernel"));
  EXPECT_FALSE(decays({}, {"*/bias", "*norm*"}, "dense/bias"));
  EXPECT_FALSE(decays({}, {"*/bias", "*norm*"}, "block/layer_norm_2/scale"));
  EXPECT_TRUE(decays({}, {"*/bias", "*norm*"}, "dense/biases"));
  EXPECT_TRUE(decays({"*/kernel"}, {}, "a/b/kernel"));
  EXPECT_FALSE(decays({"*/kernel"}, {}, "a/b/kernel_1"));
  EXPECT_FALSE(decays({"*/kernel"}, {"a/*"}, "a/b/kernel"));
  EXPECT_TRUE(decays({"dense_?/kernel"}, {}, "dense_1/kernel"));
  EXPECT_FALSE(decays({"dense_?/kernel"}, {}, "dense_12/kernel"));
  EXPECT_FALSE(decays({"dense_?/kernel"}, {}, "dense_/kernel"));
  EXPECT_TRUE(decays({"*a*b*"}, {}, "xaxaxb"));
  EXPECT_FALSE(decays({"*ab*c"}, {}, "aabbcd"));
  EXPECT_TRUE(decays({"**"}, {}, ""));
  Model m;
  minimize(m.loss, optimizers::AdamW{.weight_decay = {.rate = 0.25, .except = {"b*"}}});
  EXPECT_EQ(m.graph.get("train/w").attributes.real("weight_decay"), 0.25);
  EXPECT_EQ(m.graph.get("train/b").attributes.real("weight_decay"), 0);
}

TEST(Optimizers, AnAverageOfWeightsIsAVariableThatAShardMoves) {
  for (const WeightAverage& average : std::vector<WeightAverage>{averages::Exponential{.momentum = 0.75},
                                                                 averages::Stochastic{.from = 10, .every = 5}}) {
    SCOPED_TRACE(part_of_weights(average).to_string());
    Model m;
    minimize(m.loss, optimizers::Momentum{.average = average});
    std::vector<std::string> pairs;
    for (const auto& [of, averaged] : weight_averages(m.graph)) pairs.push_back(of.name + " " + averaged.name);
    EXPECT_EQ(pairs, (Strings{"b b/average", "w w/average"}));
    EXPECT_EQ(m.graph.get("w/average").device, m.graph.get("w").device);
    const ShardedGraph sharded = shard_variables(m.graph, ShardMap(updated_variables(m.graph), 2));
    ASSERT_EQ(sharded.rules.size(), 4u);
    for (const char* name : {"w/average", "b/average"}) {
      const UpdateRule& rule = sharded.rules.at(name);
      EXPECT_EQ(rule.op, "ApplySGD");
      ASSERT_TRUE(rule.schedule);
      EXPECT_EQ(rule.schedule->to_string(), part_of_weights(average).to_string());
    }
    EXPECT_EQ(sharded.rules.at("w").op, "ApplyMomentum");
  }
}

// They are not gradients of the loss: neither scaled nor averaged again.
TEST(Optimizers, AverageOfWeightsIsKeptWithAScaledLoss) {
  for (const bool on_shards : {false, true}) {
    Graph graph;
    LossScale scale = loss_scale(graph, {});
    scale.on_shards = on_shards;
    const VariableRef w = variable(graph, {.name = "w", .shape = Shape{2}});
    const VariableRef moved = variable(graph, {.name = "moved", .shape = Shape{2}, .trainable = false});
    auto gradients = compute_gradients(scale.scaled(sum(square(w.read()))), std::vector{w});
    gradients.push_back({.gradient = {.dense = moved.read()}, .variable = moved, .moved_by = 0.5});
    apply_scaled_gradients(graph, optimizers::SGD{.average = averages::Stochastic{}}, scale, gradients);
    EXPECT_EQ(weight_averages(graph).size(), 1u);
    if (!on_shards) continue;
    const ShardedGraph sharded = shard_variables(graph, ShardMap(updated_variables(graph), 1));
    EXPECT_TRUE(sharded.rules.at("w/average").guarded);
    EXPECT_TRUE(sharded.rules.at("w/average").schedule);
    EXPECT_EQ(sharded.rules.at("moved").learning_rate.item<float>(), 0.5f);
  }
}

TEST(Optimizers, SayWhatTheirOptionsAre) {
  using namespace optimizers;
  EXPECT_EQ(to_string(SGD{}), "sgd(learning_rate=0.01)");
  EXPECT_EQ(to_string(Momentum{}), "momentum(learning_rate=0.01, momentum=0.9, nesterov=false)");
  EXPECT_EQ(to_string(Adagrad{}), "adagrad(learning_rate=0.01, initial_accumulator=0.1, epsilon=1e-07)");
  EXPECT_EQ(to_string(RMSProp{.centered = true}),
            "rmsprop(learning_rate=0.001, rho=0.9, momentum=0, epsilon=1e-07, centered=true)");
  EXPECT_EQ(to_string(AdamW{.learning_rate = schedules::Cosine{.rate = 0.1, .steps = 9}, .weight_decay = {}}),
            "adamw(learning_rate=cosine(rate=0.1, end=0, steps=9), beta1=0.9, beta2=0.999, epsilon=1e-07, "
            "amsgrad=false, weight_decay=0)");
  EXPECT_EQ(to_string(Lion{.weight_decay = {.rate = 0.1, .only = {"*/kernel"}, .except = {"head/*", "x"}},
                           .slot_updates = SlotUpdates::exact,
                           .average = averages::Exponential{}}),
            "lion(learning_rate=0.001, beta1=0.9, beta2=0.99, weight_decay=decay(rate=0.1, only=[\"*/kernel\"], "
            "except=[\"head/*\", \"x\"]), slot_updates=exact, average=exponential(momentum=0.99))");
  EXPECT_EQ(to_string(SGD{.average = averages::Stochastic{.from = 3, .every = 2}}),
            "sgd(learning_rate=0.01, average=stochastic(from=3, every=2))");
  std::vector<std::string> names;
  for (const Optimizer& o : each_optimizer()) names.push_back(name(o));
  EXPECT_EQ(names, (Strings{"sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw", "adamax", "nadam", "adadelta",
                            "ftrl", "lion"}));
}

std::string rule_text(const Optimizer& optimizer, std::string_view variable) {
  const OptimizerRule rule = rule_of(optimizer, variable);
  std::string out(rule_kind(rule).name);
  const Attributes options = attributes_of(rule);
  for (const auto& [name, value] : options.all()) out += fmt::format(" {}={}", name, to_string(value));
  return out;
}

// Each with its defaults, and with every option at another value.
TEST(Optimizers, TextHoldsAllOfThem) {
  using namespace optimizers;
  const Schedule rate =
      Schedule(schedules::Polynomial{.rate = 0.3, .end = 1e-9, .power = 2.5, .steps = 77}).after_warm_up(5);
  const WeightDecay decay{.rate = 0.1 + 0.2, .only = {"a\"b\\c\n"}, .except = {"*/bias", "x?"}};
  const auto exact = SlotUpdates::exact;
  const averages::Stochastic often{.from = 3, .every = 2};
  std::vector<Optimizer> all = each_optimizer();
  all.insert(
      all.end(),
      {SGD{rate, decay, exact, often}, Momentum{rate, 0.25, true, decay, exact, often},
       Adagrad{rate, 0.25, 1e-300, decay, exact, often}, RMSProp{rate, 0.25, 0.125, 0.5, true, decay, exact, often},
       Adam{rate, 0.25, 0.125, 0.5, true, exact, often}, AdamW{rate, 0.25, 0.125, 0.5, true, decay, exact, often},
       Adamax{rate, 0.25, 0.125, 0.5, decay, exact, often}, Nadam{rate, 0.25, 0.125, 0.5, decay, exact, often},
       Adadelta{rate, 0.25, 0.125, decay, exact, often},
       Ftrl{rate, 0.25, 0.125, 0.5, 0.75, -0.25, 0.3, decay, exact, often},
       Lion{rate, 0.25, 0.125, decay, exact, averages::Exponential{.momentum = 0.7}}, AdamW{.weight_decay = {}}});
  for (const Optimizer& optimizer : all) {
    const Optimizer again = parse_optimizer(to_string(optimizer));
    EXPECT_EQ(to_string(again), to_string(optimizer));
    EXPECT_EQ(again.index(), optimizer.index());
    for (const char* variable : {"x1", "a\"b\\c\n", "dense/bias"})
      EXPECT_EQ(rule_text(again, variable), rule_text(optimizer, variable)) << to_string(optimizer);
    for (const std::int64_t t : {0, 3, 50, 100})
      EXPECT_EQ(learning_rate(again).rate(t), learning_rate(optimizer).rate(t)) << to_string(optimizer);
  }
  EXPECT_EQ(to_string(parse_optimizer(" adam ( ) ")), to_string(Adam{}));
  EXPECT_EQ(to_string(parse_optimizer("adam(learning_rate=1)")), to_string(Adam{.learning_rate = 1}));
}

TEST(Optimizers, TextThatIsNoOptimizerIsRefused) {
  const auto error = [](const char* text) { return error_of([&] { parse_optimizer(text); }).to_string(); };
  EXPECT_THAT(error("adan"),
              HasSubstr("invalid_argument: there is no optimizer 'adan': expected one of sgd, momentum, "));
  EXPECT_EQ(error("adam(beta=0.5)"), "invalid_argument: optimizer adam: adam has no option 'beta'");
  EXPECT_EQ(error("adam(weight_decay=0.5)"), "invalid_argument: optimizer adam: adam has no option 'weight_decay'");
  EXPECT_EQ(error("adam(beta1=\"x\")"), "invalid_argument: optimizer adam: adam: beta1 must be a number, not \"x\"");
  EXPECT_EQ(error("adam(beta1=1)"), "invalid_argument: optimizer adam: beta1 must be in [0, 1), not 1");
  EXPECT_EQ(error("sgd(learning_rate=-1)"),
            "invalid_argument: optimizer sgd: learning rate: constant: rate must be 0 or more, not -1");
  EXPECT_EQ(error("sgd(slot_updates=fast)"),
            "invalid_argument: optimizer sgd: slot_updates must be lazy or exact, not fast");
  EXPECT_EQ(error("sgd(average=mean)"),
            "invalid_argument: optimizer sgd: an average must be exponential or stochastic, not mean");
  EXPECT_EQ(error("sgd(weight_decay=decay(rate=1, all=true))"),
            "invalid_argument: optimizer sgd: decay has no option 'all'");
}

TEST(Optimizers, TrainableVariablesThatTheLossDoesNotDependOnAreNamed) {
  Model m;
  variable(m.graph, {.name = "a", .shape = Shape{2}});
  variable(m.graph, {.name = "c", .shape = Shape{2}});
  EXPECT_EQ(m.error(optimizers::SGD{}),
            "the loss 'Add' does not depend on 'a', 'c'; make them not trainable, or leave them out");
}

TEST(Optimizers, WhatCannotBeAppliedIsRefused) {
  Model m;
  Model other;
  const Gradient g = compute_gradients(m.loss, std::vector{m.w})[0].gradient;
  const Gradient foreign = compute_gradients(other.loss, std::vector{other.w})[0].gradient;
  const auto error = [&](std::vector<GradientAndVariable> pairs) {
    return message_of([&] { apply_gradients(m.graph, optimizers::SGD{}, pairs); });
  };
  EXPECT_EQ(error({}), "apply_gradients: there are no variables to update");
  EXPECT_EQ(error({{{}, m.w}}), "apply_gradients: variable 'w' has no gradient");
  EXPECT_EQ(error({{g, m.w}, {g, m.w}}), "apply_gradients: variable 'w' is given twice; add its gradients first");
  EXPECT_EQ(error({{foreign, m.w}}), "apply_gradients: variable 'w' or its gradient belongs to another graph");
  EXPECT_EQ(error({{g, other.w}}), "apply_gradients: variable 'w' or its gradient belongs to another graph");
  EXPECT_EQ(message_of([&] { minimize(square(m.w.read()), optimizers::SGD{}); }),
            "compute_gradients: the loss 'Square_2' is [2,3], but must be a scalar; take its mean or sum");
  EXPECT_EQ(message_of([] { minimize({}, optimizers::SGD{}); }), "minimize: the loss is not a tensor");
}

TEST(Optimizers, OptionsThatMakeNoSenseAreNamed) {
  Model m;
  const double nan = std::nan("");
  EXPECT_EQ(m.error(optimizers::SGD{.learning_rate = -1}), "optimizer sgd: learning_rate must be 0 or more, not -1");
  EXPECT_EQ(m.error(optimizers::Adam{.learning_rate = nan}),
            "optimizer adam: learning_rate must be 0 or more, not nan");
  EXPECT_EQ(m.error(optimizers::Momentum{.momentum = 1}), "optimizer momentum: momentum must be in [0, 1), not 1");
  EXPECT_EQ(m.error(optimizers::Adagrad{.initial_accumulator = -1}),
            "optimizer adagrad: initial_accumulator must be 0 or more, not -1");
  EXPECT_EQ(m.error(optimizers::RMSProp{.rho = nan}), "optimizer rmsprop: rho must be in [0, 1), not nan");
  EXPECT_EQ(m.error(optimizers::RMSProp{.momentum = -1}), "optimizer rmsprop: momentum must be in [0, 1), not -1");
  EXPECT_EQ(m.error(optimizers::Adam{.beta1 = 1}), "optimizer adam: beta1 must be in [0, 1), not 1");
  EXPECT_EQ(m.error(optimizers::Adam{.beta2 = 1}), "optimizer adam: beta2 must be in [0, 1), not 1");
  EXPECT_EQ(m.error(optimizers::Ftrl{.l1 = -1}), "optimizer ftrl: l1 must be 0 or more, not -1");
  EXPECT_EQ(m.error(optimizers::Ftrl{.learning_rate_power = 0.5}),
            "optimizer ftrl: learning_rate_power must be 0 or less, not 0.5");
  EXPECT_EQ(m.error(optimizers::Lion{.beta2 = 1}), "optimizer lion: beta2 must be in [0, 1), not 1");
  EXPECT_EQ(m.error(optimizers::AdamW{.weight_decay = {.rate = -1}}),
            "optimizer adamw: weight_decay must be 0 or more, not -1");
  EXPECT_EQ(m.error(optimizers::SGD{.average = averages::Exponential{.momentum = 1}}),
            "optimizer sgd: average: momentum must be in [0, 1), not 1");
  EXPECT_EQ(m.error(optimizers::SGD{.average = averages::Stochastic{.from = -1}}),
            "optimizer sgd: average: from must be 0 or more, not -1");
  EXPECT_EQ(m.error(optimizers::SGD{.average = averages::Stochastic{.every = 0}}),
            "optimizer sgd: average: every must be 1 or more, not 0");
  for (const Optimizer& o : std::vector<Optimizer>{optimizers::Adagrad{.epsilon = 0}, optimizers::RMSProp{.epsilon = 0},
                                                   optimizers::Adam{.epsilon = 0}, optimizers::Adadelta{.epsilon = 0}})
    EXPECT_EQ(m.error(o), "optimizer " + name(o) + ": epsilon must be positive, not 0");
}

// An optimizer that counts for nothing else counts for its rate.
TEST(Optimizers, ARateThatChangesFollowsTheCountOfUpdates) {
  const Schedule schedule = schedules::Step{.rate = 0.5, .every = 3};
  for (const Optimizer& optimizer : {Optimizer(optimizers::SGD{.learning_rate = schedule}),
                                     Optimizer(optimizers::Adam{.learning_rate = schedule})}) {
    SCOPED_TRACE(name(optimizer));
    Model m;
    minimize(m.loss, optimizer);
    const Node& rate = m.graph.get("learning_rate");
    EXPECT_EQ(rate.op->name, "LearningRate");
    EXPECT_EQ(m.graph.node(rate.inputs[0].node).name, "global_step/read");
    EXPECT_EQ(Schedule::of(rate.attributes).to_string(), schedule.to_string());
    const ShardedGraph sharded = shard_variables(m.graph, ShardMap(updated_variables(m.graph), 2));
    for (const auto& [variable, rule] : sharded.rules) {
      EXPECT_FALSE(rule.learning_rate.valid()) << variable;
      ASSERT_TRUE(rule.schedule) << variable;
      EXPECT_EQ(rule.schedule->to_string(), schedule.to_string()) << variable;
    }
    EXPECT_FALSE(make_callable_graph(*sharded.graph, {.targets = {"train"}})->find("learning_rate"));
  }
}

TEST(Optimizers, AShardedGraphKeepsNoUpdateAndNoSlot) {
  Model m;
  minimize(m.loss, optimizers::Adam{.learning_rate = 0.125, .beta1 = 0.5});
  initializer(m.graph);
  const std::vector<VariableSpec> updated = updated_variables(m.graph);
  ASSERT_EQ(updated.size(), 2u);
  const ShardedGraph sharded = shard_variables(m.graph, ShardMap(updated, 2));
  ASSERT_EQ(sharded.rules.size(), 2u);
  const UpdateRule& rule = sharded.rules.at("w");
  EXPECT_EQ(rule.op, "ApplyAdam");
  EXPECT_TRUE(rule.counts_updates);
  EXPECT_EQ(rule.learning_rate.item<float>(), 0.125f);
  EXPECT_EQ(rule.attributes.real("beta1"), 0.5);
  ASSERT_EQ(rule.slots.size(), 2u);
  EXPECT_EQ(rule.slots[0].role, "m");
  EXPECT_EQ(rule.slots[1].name, "w/adam_v");
  EXPECT_EQ(rule.slots[1].shape, (Shape{2, 3}));
  // The step of a worker pulls and pushes both; what is left of the optimizer is its count of steps.
  const auto step = make_callable_graph(*sharded.graph, {.targets = {"train"}});
  std::vector<std::string> ops;
  for (int id = 0; id < step->size(); ++id) ops.push_back(step->node(id).op->name);
  EXPECT_EQ(std::ranges::count(ops, "Pull"), 2);
  EXPECT_EQ(std::ranges::count(ops, "Push"), 2);
  EXPECT_EQ(std::ranges::count(ops, "ApplyAdam"), 0);
  EXPECT_EQ(std::ranges::count(ops, "Variable"), 1);
  EXPECT_TRUE(step->find("global_step"));
}

}  // namespace
}  // namespace troupe
