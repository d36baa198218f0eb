#include <gmock/gmock.h>

#include "tests/scheduler/toy.hpp"
#include <troupe/scheduler/plan/plan_draft.hpp>

namespace troupe {
namespace {

using namespace testing;
using ::testing::ElementsAre;

// recv -> both <- early <- feed, where `early` runs before anything arrives.
struct Draft {
  Graph g;
  Output x = feed(g, 0, kPair, "x");
  Output c = constant_node(g, i64({1, 2}), "c");
  Output early = node(g, "Add", {x, c}, "early");
  Output arrived = recv(g, 7, kPair, "arrived");
  Output both = node(g, "Add", {early, arrived}, "both");
  KernelRegistry none;
  std::string type = "CPU";
  PlanDraft draft{g, nullptr, none, type, "/job:a/task:0/device:CPU:0"};

  InputRef::Kind kind(const Output& o) const { return draft.values[PlanDraft::at(o.node)][0].kind; }
};

TEST(PlanDraft, TheFirstPhasePlacesValues) {
  Draft d;
  place_values(d.draft);
  EXPECT_EQ(d.kind(d.x), InputRef::Kind::slot);
  EXPECT_EQ(d.kind(d.c), InputRef::Kind::constant);
  EXPECT_EQ(d.draft.plan->constants.size(), 1u);
  EXPECT_EQ(d.draft.plan->num_slots, 4u);  // x, early, arrived, both
  EXPECT_THAT(d.draft.plan->feed_slots, ElementsAre(d.draft.values[PlanDraft::at(d.x.node)][0].index));
}

// Neither kernels nor devices are asked.
TEST(PlanDraft, TheSecondPhaseFormsSegmentsOfTheNodesThatRun) {
  Draft d;
  place_values(d.draft);
  form_segments(d.draft);
  EXPECT_THAT(d.draft.members, ElementsAre(ElementsAre(d.early.node), ElementsAre(d.both.node)));
  EXPECT_EQ(d.draft.segment_of[PlanDraft::at(d.c.node)], -1);
  const Plan& plan = *d.draft.plan;
  ASSERT_EQ(plan.segments.size(), 2u);
  EXPECT_EQ(plan.segments[1].first_node, 1u);
  EXPECT_EQ(plan.segments[1].waits, 2u);  // for the segment before and for what arrives
  EXPECT_THAT(plan.segments[0].successors, ElementsAre(1u));
  ASSERT_EQ(plan.arrivals.size(), 1u);
  EXPECT_THAT(plan.arrivals[0].segments, ElementsAre(1u));
  EXPECT_TRUE(plan.nodes.empty());
}

TEST(PlanDraft, TheThirdPhaseNeedsKernels) {
  Draft d;
  place_values(d.draft);
  form_segments(d.draft);
  EXPECT_NE(
      error_of([&] { emit_nodes(d.draft, nullptr); }).message().find("Add 'early' on /job:a/task:0/device:CPU:0: "),
      std::string::npos);
}

}  // namespace
}  // namespace troupe
