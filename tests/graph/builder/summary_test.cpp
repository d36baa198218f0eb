#include "troupe/graph/builder/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

class Summaries : public ::testing::Test {
 protected:
  std::vector<std::string> tags(int first = 0) {
    std::vector<std::string> out;
    for (const SummaryOutput& summary : summaries_of(graph, first)) out.push_back(summary.tag);
    return out;
  }
  Output input(DType dtype, const Shape& shape) { return placeholder(graph, dtype, shape); }

  Graph graph;
};

TEST_F(Summaries, AreTheOutputsOfAGraphInTheirOrder) {
  const Output x = input(DType::f32, Shape{kUnknown, 8, 6, 3}), words = input(DType::string, {});
  summary::image("images", x, 5);
  summary::histogram("x", x);
  summary::scalar("mean", mean(x));
  summary::text("words", words);
  const auto found = summaries_of(graph);
  ASSERT_EQ(found.size(), 4u);
  const SummaryKind kinds[] = {SummaryKind::image, SummaryKind::histogram, SummaryKind::scalar, SummaryKind::text};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(found[i].kind, kinds[i]) << i;
  EXPECT_THAT(tags(), ElementsAre("images", "x", "mean", "words"));
  EXPECT_EQ(found[0].max_outputs, 5);
  EXPECT_EQ(found[0].value.shape(), x.shape());
}

TEST_F(Summaries, HaveTagsOfTheirScopeThatDiffer) {
  const Output x = input(DType::f32, {});
  for (int i = 0; i < 2; ++i) {
    const auto scope = graph.scope("dense");
    summary::scalar("x y", x);  // a tag is no name of a node
  }
  const int first = graph.size();
  summary::scalar("dense/x y", x);
  EXPECT_THAT(tags(), ElementsAre("dense/x y", "dense/x y_1", "dense/x y_2"));
  EXPECT_THAT(tags(first), ElementsAre("dense/x y"));
}

TEST_F(Summaries, OfOtherTensorsAreRefusedByName) {
  const Output vector = input(DType::f32, Shape{3}), words = input(DType::string, Shape{2}),
               image = input(DType::i32, Shape{1, 2, 2, 3}), deep = input(DType::u8, Shape{1, 2, 2, 5});
  const auto message = [](const auto& call) { return error_of(call).message(); };
  EXPECT_EQ(message([&] { summary::scalar("a", vector); }),
            "summary::scalar 'a': it must be a number, such as a mean, not f32[3]");
  EXPECT_EQ(message([&] { summary::histogram("b", words); }),
            "summary::histogram 'b': it must be numbers, not string[2]");
  EXPECT_THAT(message([&] { summary::image("c", image); }), HasSubstr("it must be u8, or floats in [0, 1], not i32"));
  EXPECT_THAT(message([&] { summary::image("d", deep); }), HasSubstr("with 1 to 4 channels, not u8[1,2,2,5]"));
  EXPECT_THAT(message([&] { summary::image("d", deep, 0); }), HasSubstr("max_outputs must be at least 1, not 0"));
  EXPECT_THAT(message([&] { summary::text("e", words); }), HasSubstr("it must be one string, not string[2]"));
  EXPECT_THAT(message([&] { summary::scalar("", mean(vector)); }), HasSubstr("it has no name"));
  EXPECT_THAT(message([&] { summary::scalar("g", Output()); }), HasSubstr("its value is not a tensor"));
  EXPECT_THAT(tags(), ElementsAre());
}

// Nothing of a loop's body is seen outside but its results.
TEST_F(Summaries, InsideOfALoopAreRefused) {
  const Output begin = input(DType::f32, {});
  const auto loop = [&] {
    while_loop([](const Outputs& x) { return less(x[0], scalar_like(x[0], 3)); },
               [](const Outputs& x) {
                 summary::scalar("x", x[0]);
                 return Outputs{x[0] + scalar_like(x[0], 1)};
               },
               {begin});
  };
  EXPECT_THAT(error_of(loop).message(), HasSubstr("it is inside of a function of the graph"));
}

}  // namespace
}  // namespace troupe
