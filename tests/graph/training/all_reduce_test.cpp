#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/graph/training/classifier_graph.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/placement/partition.hpp>
#include <troupe/graph/placement/placement.hpp>
#include <troupe/graph/training/all_reduce.hpp>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names_of(const Graph& graph, std::string_view op) {
  std::vector<std::string> out;
  for (int id = 0; id < graph.size(); ++id)
    if (graph.node(id).op->name == op) out.push_back(graph.node(id).name);
  return out;
}

TEST(AllReduce, IsAContributionAndWhatIsCollectedAfterIt) {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {2, 3}, "x");
  const Output sum = all_reduce(x, {.reduction = "sum", .name = "total"});
  EXPECT_EQ(sum.dtype(), DType::f32);
  EXPECT_EQ(sum.shape(), (Shape{2, 3}));
  EXPECT_EQ(sum.name(), "total");
  const Node& given = graph.get("total/contribute");
  EXPECT_EQ(given.attributes.integer("channel"), 1);
  EXPECT_EQ(given.attributes.string("reduction"), "sum");
  EXPECT_THAT(sum.source().controls, ElementsAre(given.id));
  EXPECT_EQ(all_reduce(x).source().attributes.integer("channel"), 2);
}

class Gradients : public ::testing::Test {
 protected:
  GradientAndVariable make(const std::string& name, const Shape& shape, DType dtype = DType::f32) {
    const VariableRef v = variable(graph, {.name = name, .shape = shape, .dtype = dtype});
    return {{.dense = -v.read()}, v};
  }
  Graph graph;
};

TEST_F(Gradients, TravelInBucketsOfADtypeInTheOrderInWhichTheyAreMade) {
  const auto a = make("a", {10}), b = make("b", {3, 5}), c = make("c", {4}, DType::f64), d = make("d", {100}),
             e = make("e", {7});
  const auto means = all_reduce_gradients(graph, std::vector{e, d, c, b, a}, {.bucket_bytes = 100});
  ASSERT_EQ(means.size(), 5u);
  const GradientAndVariable* given[] = {&e, &d, &c, &b, &a};
  for (std::size_t i = 0; i < means.size(); ++i) {
    SCOPED_TRACE(given[i]->variable.name);
    EXPECT_EQ(means[i].variable.name, given[i]->variable.name);
    EXPECT_EQ(means[i].gradient.dense.dtype(), given[i]->gradient.dense.dtype());
    EXPECT_EQ(means[i].gradient.dense.shape(), given[i]->gradient.dense.shape());
    EXPECT_NE(means[i].gradient.dense, given[i]->gradient.dense);
  }
  // a and b make 100 bytes; d alone is more; c is of another dtype; e is left.
  std::vector<std::int64_t> sizes;
  for (const std::string& name : names_of(graph, "Contribute"))
    sizes.push_back(graph.shape(graph.get(name).inputs[0]).num_elements());
  EXPECT_THAT(sizes, ElementsAre(25, 100, 7, 4));
}

// First how many ranks have each row, then the rows that any has.
TEST_F(Gradients, SparseOnesTravelAsRows) {
  const VariableRef v = variable(graph, {.name = "table", .shape = {20'000, 4}});
  const Output rows = placeholder(graph, DType::i64, {kUnknown}, "rows");
  const GradientAndVariable sparse{{.indices = rows, .values = placeholder(graph, DType::f32, {kUnknown, 4}, "values")},
                                   v};
  const auto means = all_reduce_gradients(graph, std::vector{make("a", {3}), sparse, make("b", {2})});
  ASSERT_EQ(means.size(), 3u);
  EXPECT_EQ(means[0].gradient.dense.shape(), (Shape{3}));
  EXPECT_EQ(means[2].gradient.dense.shape(), (Shape{2}));
  ASSERT_TRUE(means[1].gradient.is_sparse());
  EXPECT_EQ(means[1].variable.name, "table");
  EXPECT_EQ(means[1].gradient.values.shape(), (Shape{kUnknown, 4}));
  std::multiset<std::string> travel;
  for (const std::string& name : names_of(graph, "Contribute")) {
    const Endpoint x = graph.get(name).inputs[0];
    travel.insert(std::string(troupe::name(graph.dtype(x))) + graph.shape(x).to_string());
  }
  EXPECT_EQ(travel, (std::multiset<std::string>{"f32[5]", "f32[?,4]", "i32[20000]"}));
}

TEST_F(Gradients, OfUnknownShapeAreRefused) {
  const VariableRef v = variable(graph, {.name = "w", .shape = {5}});
  const GradientAndVariable unknown{{.dense = placeholder(graph, DType::f32, {kUnknown}, "g")}, v};
  try {
    all_reduce_gradients(graph, std::vector{unknown});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("the gradient of 'w' has shape [?]"));
  }
}

TEST(AllReduceOfATrainingGraph, HasTheMeansAppliedAndStaysOnOneDevice) {
  const Sequential model({layers::flatten(), layers::dense(4)});
  const testing::ClassifierGraph training =
      testing::classifier_graph(model, Shape{3}, optimizers::SGD{}, {.batch = 2, .all_reduce = true});
  EXPECT_EQ(names_of(*training.graph, "Contribute").size(), 1u);
  const Node& apply = training.graph->get("train/dense/kernel");
  EXPECT_EQ(training.graph->node(apply.inputs.back().node).op->name, "Reshape");
}

}  // namespace
}  // namespace troupe
