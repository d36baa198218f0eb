// Configurations of routers, as replicas take them.
#include "troupe/actors/serving/configured_models.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.hpp"
#include <troupe/actors/serving/replica_actor.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;

TEST(ReplicaConfiguration, IsTheProgramsUntilARoutersAndThenTheNewest) {
  ReplicaChanges changes;
  int changed = 0;
  const auto change = [&] { ++changed; };
  const auto fails = [] { fail(Code::not_found, "no file"); };
  EXPECT_TRUE(changes.own(change));
  EXPECT_EQ(error_of([&] { changes.of_router({.number = 5, .models = {}}, fails); }).code(), Code::not_found);
  EXPECT_TRUE(changes.own(change));
  EXPECT_EQ(changes.configuration().number, 0u);
  EXPECT_TRUE(changes.of_router({.number = 5, .models = {}}, change));
  EXPECT_EQ(changed, 3);
  EXPECT_FALSE(changes.of_router({.number = 5, .models = {}}, change));
  EXPECT_FALSE(changes.of_router({.number = 4, .models = {}}, change));
  EXPECT_FALSE(changes.own(change));
  EXPECT_TRUE(changes.of_router({.number = 6, .models = {}}, change));
  EXPECT_EQ(changed, 4);
  EXPECT_EQ(changes.configuration().number, 6u);
}

TEST(ConfiguredModels, ComeBackFromFrames) {
  const std::vector<ServedModel> models{
      {.name = "a", .path = "p/a", .versions = LatestVersions{2}, .labels = {{"stable", 3}, {"canary", 4}}},
      {.name = "b", .path = "p/b", .versions = AllVersions{}},
      {.name = "c", .path = "p/c", .versions = SpecificVersions{{7, 9}}}};
  std::vector<ConfiguredModel> carried = configured_models(models);
  const std::vector<ServedModel> back = served_models(carried);
  ASSERT_EQ(back.size(), 3u);
  EXPECT_EQ(back[0].name, "a");
  EXPECT_EQ(back[0].path, "p/a");
  EXPECT_EQ(back[0].labels, models[0].labels);
  EXPECT_EQ(std::get<LatestVersions>(back[0].versions).count, 2u);
  EXPECT_TRUE(std::holds_alternative<AllVersions>(back[1].versions));
  EXPECT_THAT(std::get<SpecificVersions>(back[2].versions).versions, ElementsAre(7, 9));
  carried[0].labelled.pop_back();
  EXPECT_EQ(error_of([&] { served_models(carried); }).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace troupe::testing
