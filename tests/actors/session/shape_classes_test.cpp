// Which shapes get plans of their own: no session is needed to tell.
#include "troupe/actors/session/shape_classes.hpp"

#include <gtest/gtest.h>

#include <string>

namespace troupe {
namespace {

using Classes = ShapeClasses<std::string>;

// Rows of a batch as the shape of the first feed; the second has a shape of its own, which is not open.
struct Fed {
  explicit Fed(std::size_t most)
      : classes({0}, most, [this](const Classes::Shapes& shapes) { wanted.push_back(shapes[0][0]); }) {}

  // The plan for so many rows, "general" if there is none.
  std::string step(std::int64_t rows) {
    const Tensor feeds[] = {Tensor::zeros(DType::f32, {rows, 2}), Tensor::zeros(DType::f32, {3})};
    const auto plan = classes.find(feeds);
    return plan ? *plan : "general";
  }
  void steps(std::int64_t rows, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) step(rows);
  }
  void make(std::int64_t rows) {
    classes.made({Shape{rows, 2}}, std::make_shared<const std::string>(std::to_string(rows)));
  }

  std::vector<std::int64_t> wanted;
  Classes classes;
};

TEST(ShapeClasses, AShapeThatComesAgainGetsAPlanAndKeepsIt) {
  Fed fed(2);
  fed.steps(4, Classes::kRepeats - 1);
  EXPECT_TRUE(fed.wanted.empty());
  EXPECT_EQ(fed.step(4), "general");
  EXPECT_EQ(fed.wanted, (std::vector<std::int64_t>{4}));
  fed.steps(4, 100);
  EXPECT_EQ(fed.wanted.size(), 1u) << "it is wanted once";
  fed.make(4);
  EXPECT_EQ(fed.step(4), "4");
  EXPECT_EQ(fed.step(5), "general");
  ASSERT_EQ(fed.classes.list().size(), 1u);
  EXPECT_EQ(fed.classes.list()[0].steps, 1u);
}

TEST(ShapeClasses, ShapesThatAlternateAreCountedEach) {
  Fed fed(2);
  for (std::uint64_t i = 0; i < Classes::kRepeats; ++i)
    for (const std::int64_t rows : {1, 2, 3}) fed.step(rows);
  EXPECT_EQ(fed.wanted, (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(ShapeClasses, ShapesThatNeverComeBackWantNothing) {
  Fed fed(8);
  for (int round = 0; round < 10; ++round)
    for (std::int64_t rows = 0; rows <= static_cast<std::int64_t>(Classes::kRemembered); ++rows) fed.step(rows);
  EXPECT_TRUE(fed.wanted.empty());
}

TEST(ShapeClasses, ThePlanThatWasNotUsedForLongestIsDropped) {
  Fed fed(2);
  fed.make(1);
  fed.make(2);
  fed.step(1);
  std::weak_ptr<const std::string> dropped = fed.classes.list()[1].plan;
  fed.make(3);
  EXPECT_EQ(fed.classes.list().size(), 2u);
  EXPECT_TRUE(dropped.expired());
  EXPECT_EQ(fed.step(1), "1");
  EXPECT_EQ(fed.step(2), "general");
  EXPECT_EQ(fed.step(3), "3");
}

// So that shapes which push each other out cost ever fewer compilations.
TEST(ShapeClasses, EachPlanThatIsDroppedDoublesTheStepsOfTheNext) {
  Fed fed(1);
  std::vector<std::int64_t> at;
  for (std::int64_t step = 0; step < 1000; ++step) {
    fed.step(step % 2);
    if (fed.wanted.empty()) continue;
    at.push_back(step);
    fed.make(fed.wanted.back());
    fed.wanted.clear();
  }
  EXPECT_LE(at.size(), 9u);
  EXPECT_GE(at.size(), 7u);
}

TEST(ShapeClasses, AShapeWhosePlanCannotBeMadeKeepsTheGeneralOne) {
  Fed fed(1);
  fed.steps(4, Classes::kRepeats);
  fed.classes.made({Shape{4, 2}}, nullptr);
  fed.steps(4, 50);
  EXPECT_EQ(fed.wanted.size(), 1u);
  EXPECT_EQ(fed.step(4), "general");
}

TEST(ShapeClasses, OnceClosedAllIsGeneral) {
  Fed fed(1);
  fed.make(4);
  std::weak_ptr<const std::string> dropped = fed.classes.list()[0].plan;
  fed.classes.close();
  EXPECT_TRUE(dropped.expired());
  fed.steps(4, 50);
  fed.make(4);
  EXPECT_EQ(fed.step(4), "general");
  EXPECT_TRUE(fed.wanted.empty());
}

}  // namespace
}  // namespace troupe
