// Functions of elements, written with the graph builder.
#include "troupe/actors/data/graph_function.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/error_of.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/random.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/layers/preprocessing.hpp>
#include <troupe/scheduler/data/element_stream.hpp>
#include <troupe/scheduler/data/element_table.hpp>

namespace troupe::testing {
namespace {

using data::Element;
using data::GraphFunctionContext;
using data::NamedResults;
using data::Pipeline;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Pipeline points() {
  return data::tensors({{"x", Tensor::of<float>(Shape{3, 2}, {1, 3, 2, 6, 5, 5})},
                        {"word", Tensor::of<std::string>(Shape{3}, {"b", "a", "c"})}});
}

std::vector<float> floats_in(const Tensor& tensor) {
  return {tensor.values<float>().begin(), tensor.values<float>().end()};
}

TEST(GraphFunction, ComputesNewComponentsOfEachElement) {
  const auto centred = data::graph_function("centre", [](GraphFunctionContext& c) {
    const Output x = c["x"];
    return NamedResults{{"x", (x - mean(x)) * 2.0}, {"word", c["word"]}, {"sum", sum(x)}};
  });
  const Pipeline pipeline = points().map(centred);
  EXPECT_EQ(pipeline.stage()->name, "map centre");
  EXPECT_EQ(to_string(pipeline.schema()), "x f32[2], word string[], sum f32[]");
  EXPECT_TRUE(pipeline.addressable());
  const auto table = open_table(pipeline.stage());
  const Element second = table->read(0, 1);
  EXPECT_THAT(floats_in(second.at(0)), ElementsAre(-4, 4));
  EXPECT_EQ(second.at(1).item<std::string>(), "a");
  EXPECT_EQ(second.at(2).item<float>(), 8);
}

TEST(GraphFunction, RandomNumbersFollowFromSeedEpochAndNumber) {
  const auto noisy = [](std::uint64_t seed) {
    return data::range(0, 40).map(data::graph_function(
        "noise",
        [](GraphFunctionContext& c) {
          return NamedResults{{"noise", random_uniform(c.graph, Shape{4}) + cast(c["number"], DType::f32) * 0.0}};
        },
        {.seed = seed}));
  };
  const auto table = open_table(noisy(1).stage()), other = open_table(noisy(2).stage());
  const std::vector<float> first = floats_in(table->read(3, 7).at(0));
  EXPECT_NE(floats_in(table->read(3, 8).at(0)), first);
  EXPECT_NE(floats_in(table->read(4, 7).at(0)), first);
  EXPECT_NE(floats_in(other->read(3, 7).at(0)), first);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      const auto again = open_table(noisy(1).stage());
      for (std::uint64_t i = 0; i < 40; ++i)
        EXPECT_TRUE(bitwise_equal(again->read(3, i).at(0), table->read(3, i).at(0))) << i;
    });
}

TEST(GraphFunction, AppliesLayersWithoutWeightsToBatchesOfOne) {
  const LayerPtr scale = layers::normalization(Tensor::vector<float>({1, 3}), Tensor::vector<float>({4, 4}));
  const LayerPtr lookup = layers::string_lookup({"a", "b"});
  const auto function =
      data::graph_function("prepare",
                           [=](GraphFunctionContext& c) {
                             LayerContext context = c.layers();
                             return NamedResults{{"x", scale->apply_all(context, {c["x"]})[0]},
                                                 {"word", lookup->apply_all(context, {c["word"]})[0]}};
                           },
                           {.as_batch = true});
  const Pipeline pipeline = points().filter("all", [](const Element&) { return true; }).map(function);
  EXPECT_EQ(to_string(pipeline.schema()), "x f32[2], word i64[]");
  const auto stream = open_stream(pipeline.stage());
  stream->start(0);
  std::vector<std::int64_t> words;
  for (std::optional<Element> element; (element = stream->next());) {
    words.push_back(element->at(1).item<std::int64_t>());
    if (words.size() == 2) {
      EXPECT_THAT(floats_in(element->at(0)), ElementsAre(0.5F, 1.5F));
    }
  }
  EXPECT_THAT(words, ElementsAre(2, 1, 0));
}

TEST(GraphFunction, RefusesWhatCannotWorkByName) {
  const auto refused = [](const data::GraphFunction& function, bool as_batch = false) {
    return error_of([&] { points().map(data::graph_function("bad", function, {.as_batch = as_batch})); }).to_string();
  };
  EXPECT_THAT(refused([](GraphFunctionContext& c) {
                const VariableRef w = variable(c.graph, {.name = "w", .initial_value = constant(c.graph, 1.0F)});
                return NamedResults{{"x", c["x"] * w.read()}};
              }),
              AllOf(HasSubstr("stage 'map bad'"), HasSubstr("node 'w'"), HasSubstr("no variables")));
  EXPECT_THAT(refused([](GraphFunctionContext& c) {
                return NamedResults{{"x", c["y"]}};
              }),
              AllOf(HasSubstr("no component 'y'"), HasSubstr("x f32[2]")));
  EXPECT_THAT(refused([](GraphFunctionContext& c) {
                return NamedResults{{"x", c["x"]}, {"x", c["x"]}};
              }),
              HasSubstr("two components 'x'"));
  EXPECT_THAT(refused([](GraphFunctionContext&) { return NamedResults{{"x", Output()}}; }), HasSubstr("no tensor"));
  EXPECT_THAT(refused(
                  [](GraphFunctionContext& c) {
                    return NamedResults{{"x", sum(c["x"])}};
                  },
                  true),
              HasSubstr("expected one row"));
  EXPECT_THAT(refused([](GraphFunctionContext& c) {
                return NamedResults{{"x", placeholder(c.graph, DType::f32, Shape{2})}};
              }),
              HasSubstr("no kernel"));
}

TEST(GraphFunction, AKernelThatFailsIsNamed) {
  const auto pipeline = points().map(data::graph_function("pick", [](GraphFunctionContext& c) {
    const Output index = cast(c["x"], DType::i64);
    return NamedResults{{"x", gather(constant(c.graph, {1.0F, 2.0F}), index)}};
  }));
  EXPECT_THAT(error_of([&] { open_table(pipeline.stage())->read(0, 0); }).to_string(),
              AllOf(HasSubstr("stage 'map pick'"), HasSubstr("Gather")));
}

TEST(GraphFunction, TakesGraphsThatAreMadeElsewhere) {
  const auto scaled = data::graph_function("scale", [](const BatchSchema& elements) {
    const auto graph = std::make_shared<Graph>();
    const Output x = placeholder(*graph, elements[0].dtype, elements[0].shape);
    const Output word = placeholder(*graph, elements[1].dtype, elements[1].shape);
    const Output factor = placeholder(*graph, DType::f32, Shape{});
    const Output checked = assert_true(less(sum(x), constant(*graph, 9.0F)), {x}, {.message = "x is large"});
    return data::ElementGraph{.graph = graph,
                              .components = {x, word},
                              .results = {{"x", x * factor}},
                              .effects = {checked},
                              .known = {{factor, Tensor::scalar(3.0F)}}};
  });
  const auto table = open_table(points().map(scaled).stage());
  EXPECT_THAT(floats_in(table->read(0, 1).at(0)), ElementsAre(6, 18));
  EXPECT_THAT(error_of([&] { table->read(0, 2); }).to_string(), HasSubstr("x is large"));
}

}  // namespace
}  // namespace troupe::testing
