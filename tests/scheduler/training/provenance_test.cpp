// What a shard remembers of its versions, and who it takes nothing from any more.
#include "tests/scheduler/training/shard_fixture.hpp"

namespace troupe::testing {
namespace {

class ShardHistory : public ShardTest {
 protected:
  std::string history(std::uint64_t version) const {
    const Provenance* found = state->provenance(version);
    return found ? found->to_string() : "unknown";
  }
  Push of_view(Push push, std::uint64_t view) {
    push.view = view;
    return push;
  }
};

TEST_F(ShardHistory, NamesWhoComputedTheSlotsOfAVersionAndWhatWasDropped) {
  make(2);
  EXPECT_FALSE(push(0, 1, 10, 1, 3));
  push_all(0, 0, 1, 1);
  push_all(0, 1, 1, 2);  // has taken over from worker 3
  push_all(0, 0, 1, 2);
  EXPECT_EQ(history(1),
            "version 1: applied step 0 slot 0 of worker 1 (2 gradients); applied step 0 slot 1 of worker 3 (1 "
            "gradient); applied step 0 "
            "slot 1 of worker 2 (1 gradient); dropped as duplicate step 0 slot 1 of worker 2 (1 gradient); dropped as "
            "stale step 0 "
            "slot 0 of worker 2 (2 gradients)");
  EXPECT_EQ(history(2), "unknown");
}

TEST_F(ShardHistory, KeepsTheLastVersions) {
  ShardOptions options;
  options.provenance = 3;
  make(options);
  for (std::uint64_t step = 0; step < 5; ++step) push_all(step, 0, 1);
  EXPECT_EQ(history(2), "unknown");
  for (std::uint64_t version : {3, 4, 5})
    EXPECT_EQ(history(version),
              fmt::format("version {}: applied step {} slot 0 of worker 0 (2 gradients)", version, version - 1));
  EXPECT_FALSE(push(0, 0, 10, 1));
  EXPECT_EQ(state->counters().stale, 1u);
  EXPECT_EQ(history(1), "unknown");
}

TEST_F(ShardHistory, IsHandedOutOnceAndWhatComesLateOnceMore) {
  ShardOptions options;
  options.slots = 2;
  options.keep_history = true;
  make(options);
  const auto taken = [&](bool all = false) {
    std::string text;
    for (const Provenance& version : state->take_history(all)) text += version.to_string() + "\n";
    return text;
  };
  push_all(0, 0, 1);
  EXPECT_EQ(taken(), "");
  push_all(0, 1, 1, 2);
  push_all(1, 0, 1);
  push_all(1, 1, 1, 1);
  push_all(2, 0, 1);
  push_all(2, 0, 1, 3);
  EXPECT_EQ(
      taken(),
      "version 1: applied step 0 slot 0 of worker 0 (2 gradients); applied step 0 slot 1 of worker 2 (2 gradients)\n"
      "version 2: applied step 1 slot 0 of worker 0 (2 gradients); applied step 1 slot 1 of worker 1 (2 gradients)\n");
  push_all(0, 1, 1, 1);
  EXPECT_EQ(taken(), "version 1: dropped as stale step 0 slot 1 of worker 1 (2 gradients)\n");
  EXPECT_EQ(taken(true), "version 3: dropped as duplicate step 2 slot 0 of worker 3 (2 gradients)\n");
  EXPECT_EQ(taken(true), "");
  EXPECT_NE(history(1).find("worker 2 (2 gradients); dropped as stale"), std::string::npos);
}

TEST_F(ShardHistory, ListsSomeOfWhatWasDroppedAndCountsTheRest) {
  ShardOptions options;
  options.slots = 40;
  make(options);
  for (std::uint32_t slot = 0; slot < 39; ++slot)
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(push(0, slot, 10, 1)) << "slot " << slot;
  const Provenance* found = state->provenance(1);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->sources.size(), 32u);
  EXPECT_EQ(found->left_out, 14u);
  EXPECT_NE(found->to_string().find("; and 14 more dropped"), std::string::npos);
}

TEST_F(ShardHistory, KnowsWhichBatchesMadeAnUpdate) {
  make_async(2);
  push_all(4, 0, 1, 1);
  push_all(2, 0, 1, 0);
  push_all(4, 0, 1, 2);
  EXPECT_EQ(history(1),
            "version 1: applied step 4 slot 0 of worker 1 (2 gradients); applied step 2 slot 0 of worker 0 (2 "
            "gradients); dropped as "
            "duplicate step 4 slot 0 of worker 2 (2 gradients)");
}

TEST_F(ShardHistory, DropsWhatAWorkerSentBeforeItWasFenced) {
  make(1);
  EXPECT_FALSE(push(of_view(message(0, 0, 10, 1, 1), 5)));
  state->fence({1, 6});
  EXPECT_FALSE(push(of_view(message(0, 0, 20, 1, 1), 5)));
  EXPECT_EQ(state->version(), 0u);
  EXPECT_FALSE(state->pull({1, {}, 10, 0, 0, 5}, out));
  EXPECT_TRUE(said<Put>().empty());
  EXPECT_EQ(state->counters().fenced, 2u);
  EXPECT_FALSE(push(of_view(message(0, 0, 20, 1, 1), 7)));
  EXPECT_EQ(state->version(), 1u);  // what was staged before is as good as any
  EXPECT_NE(history(1).find("dropped as fenced step 0 slot 0 of worker 1 (1 gradient)"), std::string::npos)
      << history(1);
}

TEST_F(ShardHistory, AMessageOfALaterViewIsAFenceToo) {
  make_async();
  EXPECT_FALSE(push(of_view(message(0, 0, 10, 1, 1), 5)));
  EXPECT_FALSE(push(of_view(message(0, 0, 20, 100, 1), 7)));  // half a batch of the process before is not completed
  EXPECT_EQ(state->version(), 0u);
  EXPECT_EQ(state->counters().abandoned, 1u);
  EXPECT_FALSE(push(of_view(message(0, 0, 10, 100, 1), 5)));
  EXPECT_EQ(state->version(), 0u);
  EXPECT_FALSE(push(of_view(message(0, 0, 10, 2, 1), 7)));
  EXPECT_EQ(value(10), 2);
  EXPECT_EQ(value(20), 100);
  EXPECT_EQ(state->counters().fenced, 1u);
  state->fence({1, 7});  // late: it changes nothing
  EXPECT_FALSE(push(of_view(message(1, 0, 10, 1, 1), 7)));
  state->fence({1, 6});
  EXPECT_EQ(state->counters().abandoned, 1u);
}

}  // namespace
}  // namespace troupe::testing
