#include "troupe/scheduler/serving/version_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/error_of.hpp"

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Numbers = std::vector<std::int64_t>;

TEST(VersionChoice, APolicyChoosesAmongVersionsThatAreThere) {
  const Numbers there{7, 1, 3};
  EXPECT_THAT(choose_versions(LatestVersions{}, there), ElementsAre(7));
  EXPECT_THAT(choose_versions(LatestVersions{2}, there), ElementsAre(3, 7));
  EXPECT_THAT(choose_versions(LatestVersions{9}, there), ElementsAre(1, 3, 7));
  EXPECT_THAT(choose_versions(AllVersions{}, there), ElementsAre(1, 3, 7));
  EXPECT_THAT(choose_versions(SpecificVersions{{1, 2, 7}}, there), ElementsAre(1, 7));
  EXPECT_THAT(choose_versions(LatestVersions{}, Numbers{}), IsEmpty());
  EXPECT_EQ(error_of([&] { choose_versions(LatestVersions{0}, there); }).code(), Code::invalid_argument);
}

TEST(VersionChoice, ARequestGetsTheVersionThatItNames) {
  VersionLabels labels;
  const Numbers ready{3, 7};
  labels.assign({{"stable", 3}, {"canary", 7}}, ready);
  EXPECT_EQ(labels.resolve("digits", {}, ready), 7);
  EXPECT_EQ(labels.resolve("digits", {.version = 3}, ready), 3);
  EXPECT_EQ(labels.resolve("digits", {.label = "stable"}, ready), 3);
  const auto said = [&](const VersionLabels::Wanted& wanted, const Numbers& now) {
    return error_of([&] { labels.resolve("digits", wanted, now); }).to_string();
  };
  EXPECT_EQ(said({.version = 4}, ready), "not_found: model 'digits' has no version 4 that is ready: [3, 7] are");
  EXPECT_EQ(said({.label = "beta"}, ready), "not_found: model 'digits' has no label 'beta'");
  EXPECT_EQ(said({.label = "stable"}, {7}), "not_found: model 'digits' has no version 3 that is ready: [7] are");
  EXPECT_EQ(said({}, {}), "unavailable: model 'digits' has no version that is ready");
  EXPECT_EQ(said({.version = 3, .label = "stable"}, ready),
            "invalid_argument: model 'digits': version 3 and label 'stable' are asked for: name one of them");
}

TEST(VersionChoice, ALabelMovesToVersionsThatAreReady) {
  VersionLabels labels;
  labels.assign({{"stable", 3}}, Numbers{3});
  EXPECT_EQ(error_of([&] {
              labels.assign({{"stable", 4}, {"old", 3}}, Numbers{3});
            }).to_string(),
            "failed_precondition: label 'stable' cannot name version 4, which is not ready: [3] are");
  EXPECT_THAT(labels.all(), ElementsAre(std::pair<const std::string, std::int64_t>("stable", 3)));
  labels.assign({{"stable", 3}}, Numbers{4});  // does not move
  labels.assign({}, Numbers{});
  EXPECT_THAT(labels.all(), IsEmpty());
}

TEST(VersionChoice, PublishedLabelsMoveWhenTheirVersionsAreReady) {
  using Label = std::pair<const std::string, std::int64_t>;
  VersionLabels labels;
  const auto asked = [&](const VersionLabels::Wanted& wanted, const Numbers& ready) {
    return labels.resolve("digits", wanted, ready);
  };
  labels.follow({{"stable", 3}, {"canary", 4}}, Numbers{3});
  EXPECT_THAT(labels.all(), ElementsAre(Label("stable", 3)));
  labels.follow({{"stable", 3}, {"canary", 4}}, Numbers{3, 4});
  EXPECT_EQ(asked({}, {3, 4}), 3);  // not the newest
  EXPECT_EQ(asked({.label = "canary"}, {3, 4}), 4);
  labels.follow({{"stable", 2}}, Numbers{3});  // back to one that is being loaded
  EXPECT_EQ(asked({}, {3}), 3);
  EXPECT_THAT(labels.all(), ElementsAre(Label("stable", 3)));
  labels.follow({{"stable", 2}}, Numbers{2, 3});
  EXPECT_EQ(asked({}, {2, 3}), 2);
  EXPECT_EQ(asked({}, {3}), 3);                   // the stable one has gone: better another than none
  labels.assign({{"stable", 3}}, Numbers{2, 3});  // what is configured is stronger
  EXPECT_EQ(asked({.label = "stable"}, {2, 3}), 3);
}

}  // namespace
}  // namespace troupe::testing
