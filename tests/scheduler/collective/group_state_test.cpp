#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/devices/collective/collective_testing.hpp"
#include <troupe/scheduler/collective/group_state.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::random_tensor;
using testing::reduced_by_hand;

// The ranks of a group; frames between two of them may overtake each other.
class Group {
 public:
  static constexpr std::int64_t kTimeout = 1000;  // ns
  explicit Group(std::uint32_t ranks, std::uint64_t max_early_bytes = 1 << 20) {
    std::vector<std::string> names;
    for (std::uint32_t r = 0; r < ranks; ++r) names.push_back(fmt::format("/job:worker/task:{}", r));
    for (std::uint32_t r = 0; r < ranks; ++r)
      states.emplace_back(
          GroupOptions{
              .id = 7, .members = names, .rank = r, .max_early_bytes = max_early_bytes, .timeout_ns = kTimeout},
          [this, r](DType dtype, const Shape& shape) {
            if (without_memory.contains(r))
              fail(Code::resource_exhausted, "no memory for {} bytes", checked_bytes(dtype, shape));
            return Tensor(dtype, shape);
          });
    ended.resize(ranks);
    launched.resize(ranks);
  }

  void begin(std::uint32_t rank, CollectivePosition position, const CollectiveSpec& spec, Tensor local) {
    GroupOutbox out;
    states[rank].begin(position, spec, std::move(local), out);
    carry(rank, out);
  }
  void sum(std::uint32_t rank, CollectivePosition position, const std::string& name, Tensor local) {
    const CollectiveSpec spec{.dtype = local.dtype(), .shape = local.shape(), .name = name};
    begin(rank, position, spec, std::move(local));
  }
  // The tensor is never looked at.
  void on_devices(std::uint32_t rank, CollectivePosition position, const std::string& name, std::int64_t size = 10) {
    GroupOutbox out;
    states[rank].begin_on_devices(position, {.dtype = DType::f32, .shape = {size}, .name = name},
                                  Tensor(DType::f32, {size}), out);
    carry(rank, out);
  }
  void end(std::uint32_t rank, CollectivePosition position, const Error& error = {}) {
    GroupOutbox out;
    states[rank].ended(position, {Tensor::vector<float>({static_cast<float>(rank)})}, error, out);
    carry(rank, out);
  }
  void lose(std::uint32_t rank, std::uint32_t lost, bool left = false) {
    GroupOutbox out;
    states[rank].lost(lost, Error(Code::unavailable, "silence"), left, out);
    carry(rank, out);
  }
  void deliver(unsigned seed = 0) {
    std::mt19937 random(seed);
    while (!flying.empty()) {
      std::swap(flying[random() % flying.size()], flying.back());
      const auto [from, sent] = std::move(flying.back());
      flying.pop_back();
      GroupOutbox out;
      states[sent.to].take(from, sent.part, out);
      carry(sent.to, out);
    }
  }
  std::string error_of(std::uint32_t rank) const {
    return ended[rank].empty() ? "nothing ended" : ended[rank].back().error.message();
  }

  std::set<std::uint32_t> without_memory;  // ranks
  std::vector<GroupState> states;
  std::vector<std::vector<GroupOutbox::Ended>> ended;      // by rank
  std::vector<std::vector<GroupOutbox::Launch>> launched;  // likewise
  std::vector<std::pair<std::uint32_t, GroupOutbox::Sent>> flying;

 private:
  void carry(std::uint32_t rank, GroupOutbox& out) {
    for (auto& sent : out.sent) flying.emplace_back(rank, std::move(sent));
    for (auto& e : out.ended) ended[rank].push_back(std::move(e));
    for (auto& l : out.launches) launched[rank].push_back(std::move(l));
  }
};

TEST(GroupState, OperationsOfSeveralChannelsOverlapAndWhatComesEarlyIsKept) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Group group(3);
    std::map<CollectivePosition, std::vector<Tensor>> locals;
    for (std::uint32_t r = 0; r < 3; ++r)
      for (const std::uint32_t channel : {0u, 4u}) {
        const CollectivePosition position{channel, 0};
        locals[position].push_back(random_tensor(DType::f32, {9000 + channel}, r + 10 * channel));
      }
    // The last rank begins when all others have sent what they could, and in another order.
    for (const std::uint32_t r : {0u, 1u})
      for (const auto& [position, tensors] : locals) group.sum(r, position, "x", tensors[r]);
    group.deliver(seed);
    EXPECT_GT(group.states[2].early_bytes(), 0u);
    for (const std::uint32_t channel : {4u, 0u}) group.sum(2, {channel, 0}, "x", locals[{channel, 0}][2]);
    group.deliver(seed);
    for (std::uint32_t r = 0; r < 3; ++r) {
      SCOPED_TRACE(::testing::Message() << "rank " << r);
      ASSERT_EQ(group.ended[r].size(), 2u);
      for (const auto& ended : group.ended[r])
        EXPECT_TRUE(bitwise_equal(ended.result.at(0), reduced_by_hand(locals.at(ended.position), Reduction::sum)));
      EXPECT_EQ(group.states[r].early_bytes(), 0u);
      EXPECT_EQ(group.states[r].waiting().need, 0u);
    }
  }
}

// Another name, dtype, size, or collective at the same place.
TEST(GroupState, ARankThatDisagreesIsAnErrorOnEveryRank) {
  const CollectiveSpec ours{.dtype = DType::f32, .shape = {10}, .name = "x"};
  std::vector<CollectiveSpec> others(5, ours);
  others[0].name = std::string("y");
  others[1].dtype = DType::f64;
  others[2].shape = {11};
  others[3].reduction = Reduction::mean;
  others[4].kind = CollectiveKind::all_gather;
  for (const CollectiveSpec& other : others)
    for (unsigned seed = 0; seed < 5; ++seed) {
      Group group(3);
      for (std::uint32_t r = 0; r < 3; ++r) {
        const CollectiveSpec& spec = r == 1 ? other : ours;
        group.begin(r, {}, spec, Tensor::zeros(spec.dtype, spec.shape));
      }
      group.deliver(seed);
      for (std::uint32_t r = 0; r < 3; ++r) {
        ASSERT_EQ(group.ended[r].size(), 1u) << other.describe();
        EXPECT_THAT(group.error_of(r),
                    AllOf(HasSubstr(ours.describe()), HasSubstr(other.describe()), HasSubstr("task:1")))
            << "seed " << seed << ", rank " << r;
      }
    }
}

TEST(GroupState, ARankThatLeavesOutAnOperationIsAnErrorThere) {
  Group group(2);
  group.sum(0, {0, 0}, "x", Tensor::vector<float>({1}));
  group.sum(1, {0, 1}, "x", Tensor::vector<float>({1}));
  group.deliver();
  for (const std::uint32_t r : {0u, 1u})
    EXPECT_THAT(group.error_of(r), HasSubstr("is operation 1 of channel 0, but the next must be 0")) << "rank " << r;
}

TEST(GroupState, ARankThatRepeatsAnOperationIsAnErrorOnEveryRank) {
  Group group(2);
  for (const std::uint32_t r : {0u, 1u}) group.sum(r, {}, "x", Tensor::vector<float>({1}));
  group.deliver();
  GroupOutbox out;
  group.states[0].take(1, CollectivePart{.group = 7, .operation = "again", .tensor = Tensor::vector<float>({1})}, out);
  EXPECT_THAT(group.states[0].failure().message(), AllOf(HasSubstr("again"), HasSubstr("which has ended on rank 0")));
  ASSERT_EQ(out.sent.size(), 1u);
  EXPECT_TRUE(out.sent[0].part.error);
}

// Each program calls one operation after the other. A root waits for all, but those before the slow rank go on.
TEST(GroupState, RanksRunAheadOfASlowOneWithBroadcasts) {
  for (const std::int64_t size : {0, 3, 70'000})
    for (unsigned seed = 0; seed < 5; ++seed) {
      SCOPED_TRACE(::testing::Message() << size << " elements, seed " << seed);
      Group group(4);
      std::vector<std::size_t> begun(4, 0);
      const auto go_on = [&](std::uint32_t rank) {
        if (begun[rank] == 4 || begun[rank] > group.ended[rank].size()) return false;
        const auto root = static_cast<std::uint32_t>(begun[rank]);
        const CollectiveSpec spec{
            .kind = CollectiveKind::broadcast, .root = root, .dtype = DType::f32, .shape = {size}, .name = "x"};
        group.begin(rank, {0, begun[rank]++}, spec, rank == root ? random_tensor(DType::f32, {size}, root) : Tensor());
        group.deliver(seed);
        return true;
      };
      while (go_on(0) || go_on(1) || go_on(2)) {
      }
      EXPECT_EQ(begun, (std::vector<std::size_t>{1, 2, 3, 0})) << "each root waits for the slow rank";
      while (go_on(3) || go_on(2) || go_on(1) || go_on(0)) {
      }
      for (std::uint32_t r = 0; r < 4; ++r) {
        ASSERT_EQ(group.ended[r].size(), 4u) << "rank " << r;
        for (std::uint32_t root = 0; root < 4; ++root) {
          EXPECT_EQ(group.ended[r][root].error.to_string(), Error().to_string()) << "rank " << r << ", root " << root;
          EXPECT_TRUE(bitwise_equal(group.ended[r][root].result.at(0), random_tensor(DType::f32, {size}, root)))
              << "rank " << r << ", root " << root;
        }
      }
    }
}

TEST(GroupState, RanksThatDisagreeAboutABroadcastOfNothingHearIt) {
  Group group(3);
  for (const std::uint32_t r : {0u, 1u, 2u})
    group.begin(r, {},
                {.kind = CollectiveKind::broadcast, .dtype = DType::f32, .shape = {0}, .name = r == 1 ? "y" : "x"},
                Tensor(DType::f32, {0}));
  group.deliver();
  for (const std::uint32_t r : {0u, 1u, 2u})
    EXPECT_THAT(group.error_of(r), AllOf(HasSubstr("'x'"), HasSubstr("'y'"))) << "rank " << r;
}

// A rank that was told alone, by one that has left.
TEST(GroupState, ARankThatHearsOfAFailureTellsAllOthersOnce) {
  Group group(3);
  for (const std::uint32_t r : {0u, 2u}) group.sum(r, {}, "x", random_tensor(DType::f32, {9000}, r));
  group.flying.clear();
  GroupOutbox out;
  group.states[0].take(
      1, CollectivePart{.group = 7, .operation = {}, .tensor = {}, .error = Error(Code::cancelled, "it has left")},
      out);
  ASSERT_EQ(out.sent.size(), 2u);
  GroupOutbox echo;
  group.states[2].take(0, out.sent[1].part, echo);
  EXPECT_EQ(echo.ended.size(), 1u);
  EXPECT_EQ(group.states[2].failure().message(), "it has left");
  GroupOutbox again;
  for (const auto& sent : echo.sent)
    if (sent.to == 0) group.states[0].take(2, sent.part, again);
  EXPECT_TRUE(again.sent.empty());
}

// Around the ring 0 waits for 2, which waits for 1, which does not come.
TEST(GroupState, AfterItsTimeoutTheRankThatIsMissingIsNamedByWhoKnows) {
  Group group(3);
  for (const std::uint32_t r : {0u, 2u}) group.sum(r, {}, "x", random_tensor(DType::f32, {9000}, r));
  group.deliver();
  const auto tick = [&](std::uint32_t rank, std::int64_t now) {
    GroupOutbox out;
    group.states[rank].tick(now, out);
    EXPECT_EQ(group.states[rank].failure() ? Code::deadline_exceeded : Code::ok, group.states[rank].failure().code());
    return out;
  };
  std::int64_t now = 1'000'000;
  for (; now < 1'000'000 + Group::kTimeout; now += 100)
    for (const std::uint32_t r : {0u, 1u, 2u}) EXPECT_TRUE(tick(r, now).sent.empty()) << "rank " << r << " at " << now;
  GroupState& zero = group.states[0];
  EXPECT_TRUE(tick(0, now).sent.empty()) << "2 has sent what it could";
  const GroupOutbox out = tick(2, now);
  ASSERT_EQ(out.ended.size(), 1u);
  EXPECT_EQ(out.ended[0].error.message(),
            "rank 2 (/job:worker/task:2) has waited for 1e-06 s: rank 1 (/job:worker/task:1) has not begun all_reduce "
            "sum of f32[9000] 'x'");
  EXPECT_EQ(out.sent.size(), 2u);
  // Nobody may be left who knows more.
  for (; now < 1'000'000 + Group::kTimeout * 3 / 2; now += 100) EXPECT_TRUE(tick(0, now).sent.empty()) << now;
  EXPECT_EQ(tick(0, now).sent.size(), 2u);
  EXPECT_THAT(zero.failure().message(),
              HasSubstr("still missing 3 of 4 messages of all_reduce sum of f32[9000] 'x', the next from rank 2"));
  EXPECT_FALSE(group.states[1].failure()) << "it waits for nobody";
}

TEST(GroupState, TheTimeoutIsOfSilenceAndNotOfATaskThatWasItselfStopped) {
  Group group(3);
  const auto fails_at = [&](std::int64_t now) {
    GroupOutbox out;
    group.states[2].tick(now, out);
    return static_cast<bool>(group.states[2].failure());
  };
  group.sum(2, {}, "x", Tensor::vector<float>({1}));
  for (std::int64_t now = 0; now < 900; now += 100) EXPECT_FALSE(fails_at(now)) << now;
  group.sum(0, {}, "x", Tensor::vector<float>({1}));
  group.deliver();  // one more message
  for (std::int64_t now = 900; now < 1900; now += 100) EXPECT_FALSE(fails_at(now)) << now;
  EXPECT_FALSE(fails_at(5000)) << "it was stopped";
  for (std::int64_t now = 5100; now < 6000; now += 100) EXPECT_FALSE(fails_at(now)) << now;
  EXPECT_TRUE(fails_at(6000));
}

TEST(GroupState, WhatComesEarlyIsBounded) {
  Group far(2), much(2, 1000);
  GroupOutbox out;
  far.states[0].take(1, CollectivePart{.group = 7, .sequence = 2, .operation = "x"}, out);
  EXPECT_EQ(far.states[0].failure().code(), Code::resource_exhausted);
  much.states[0].take(1, CollectivePart{.group = 7, .operation = "x", .tensor = Tensor::zeros(DType::f32, {300})}, out);
  EXPECT_EQ(much.states[0].failure().code(), Code::resource_exhausted);
}

TEST(GroupState, ALostRankIsNamedToThoseWhoNeedItAndToAllAfterThem) {
  Group group(3);
  for (const std::uint32_t r : {0u, 2u}) group.sum(r, {}, "x", random_tensor(DType::f32, {9000}, r));
  group.lose(2, 1);  // the next around the ring
  group.deliver();
  for (const std::uint32_t r : {0u, 2u}) {
    SCOPED_TRACE(::testing::Message() << "rank " << r);
    ASSERT_EQ(group.ended[r].size(), 1u);
    EXPECT_EQ(group.ended[r][0].error.code(), Code::unavailable);
    EXPECT_THAT(group.error_of(r), HasSubstr("/job:worker/task:1 was lost: silence"));
  }
  group.sum(0, {}, "y", Tensor::vector<float>({1}));
  EXPECT_THAT(group.error_of(0), HasSubstr("/job:worker/task:1 was lost"));
}

TEST(GroupState, ARankThatHasSentAllItOwesMayLeave) {
  Group group(3);
  const CollectiveSpec end{.kind = CollectiveKind::barrier, .name = "end"};
  for (const std::uint32_t r : {0u, 1u}) group.begin(r, {}, end, {});
  group.deliver();
  group.lose(0, 1, true);
  EXPECT_TRUE(group.ended[0].empty());
  group.begin(2, {}, end, {});
  group.deliver();
  ASSERT_EQ(group.ended[0].size(), 1u);
  EXPECT_FALSE(group.ended[0][0].error);
  group.begin(0, {0, 1}, end, {});
  EXPECT_THAT(group.error_of(0), HasSubstr("/job:worker/task:1 was lost")) << "what begins later needs all";
}

TEST(GroupState, ARankThatIsLostMayNotHaveWhatItWasSent) {
  Group group(3);
  const CollectiveSpec end{.kind = CollectiveKind::barrier, .name = "end"};
  for (const std::uint32_t r : {0u, 1u}) group.begin(r, {}, end, {});
  group.deliver();
  group.lose(0, 1);
  group.deliver();
  for (const std::uint32_t r : {0u, 1u})
    EXPECT_THAT(group.error_of(r), HasSubstr("/job:worker/task:1 was lost")) << "rank " << r;
}

TEST(GroupState, SaysWhatItWaitsFor) {
  Group group(2);
  EXPECT_EQ(group.states[0].waits_for(), "nothing");
  group.sum(0, {}, "x", Tensor::vector<float>({1}));
  EXPECT_EQ(group.states[0].waits_for(),
            "1 of 1 messages of all_reduce sum of f32[1] 'x', the next from rank 1 (/job:worker/task:1)");
  EXPECT_EQ(group.states[0].waiting().need, 1u);
}

TEST(GroupState, SaysForHowLongItHasWaited) {
  GroupState state({.id = 7, .members = {"/job:worker/task:0", "/job:worker/task:1"}},
                   [](DType dtype, const Shape& shape) { return Tensor(dtype, shape); });
  GroupOutbox out;
  state.begin({}, {.dtype = DType::f32, .shape = {1}, .name = "x"}, Tensor::vector<float>({1}), out, 1000);
  const Waiting waiting = state.waits(3500);
  ASSERT_EQ(waiting.waits.size(), 1u);
  EXPECT_EQ(waiting.waits[0].for_ns, 2500);
}

TEST(GroupState, ATensorThatIsNotAsItSaysEndsTheGroup) {
  Group group(2);
  group.begin(0, {}, {.dtype = DType::f32, .shape = {2}, .name = "x"}, Tensor::vector<float>({1}));
  EXPECT_THAT(group.error_of(0), HasSubstr("got f32[1]"));
  ASSERT_EQ(group.flying.size(), 1u);
}

// When an operation begins, and while it runs.
TEST(GroupState, ARankWithoutMemoryFailsTheGroupOnAllRanks) {
  for (const bool at_once : {true, false}) {
    SCOPED_TRACE(at_once ? "at once" : "when the result is added up");
    Group group(3);
    if (at_once) group.without_memory = {1};
    const Tensor held = random_tensor(DType::f32, {9000}, 1), small = random_tensor(DType::f32, {90}, 1);
    for (const std::uint32_t r : {0u, 1u, 2u}) group.sum(r, {}, "x", at_once ? held : small);
    group.without_memory = {1};  // adding up a small tensor takes the result's
    group.deliver();
    for (const std::uint32_t r : {0u, 1u, 2u}) {
      SCOPED_TRACE(::testing::Message() << "rank " << r);
      if (!at_once && r != 1) continue;  // these had all they needed
      ASSERT_EQ(group.ended[r].size(), 1u);
      EXPECT_EQ(group.ended[r][0].error.code(), Code::resource_exhausted);
      EXPECT_THAT(group.error_of(r), AllOf(HasSubstr("rank 1 (/job:worker/task:1)"), HasSubstr("no memory for")));
      EXPECT_TRUE(group.states[r].failure());
    }
    group.sum(1, {0, 1}, "y", small);
    EXPECT_THAT(group.error_of(1), HasSubstr("no memory for")) << "the group stays failed";
  }
}

// ---- Between devices -----------------------------------------------------------------------------------------------

std::vector<CollectivePosition> launches(const Group& group, std::uint32_t rank) {
  std::vector<CollectivePosition> out;
  for (const auto& launch : group.launched[rank]) out.push_back(launch.position);
  return out;
}

// Whatever the order in which a rank begins the operations of its channels, and in which it hears of them.
TEST(GroupStateOnDevices, AllRanksLaunchInTheSameOrderAndOnlyWhatAllHaveBegun) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Group group(4);
    std::mt19937 random(seed);
    for (std::uint32_t r = 0; r < 3; ++r) {
      std::vector<std::uint32_t> channels = {1, 2, 3, 4, 5};
      std::ranges::shuffle(channels, random);
      for (const std::uint32_t channel : channels) {
        group.on_devices(r, {channel, 0}, "x");
        if (random() % 2) group.deliver(seed);
      }
    }
    group.deliver(seed);
    for (std::uint32_t r = 0; r < 4; ++r) EXPECT_TRUE(group.launched[r].empty()) << "rank 3 has begun nothing";
    for (const std::uint32_t channel : {3u, 1u, 5u, 4u, 2u}) group.on_devices(3, {channel, 0}, "x");
    group.deliver(seed);
    EXPECT_EQ(group.launched[0].size(), 5u);
    for (std::uint32_t r = 1; r < 4; ++r) EXPECT_EQ(launches(group, r), launches(group, 0)) << "rank " << r;
    EXPECT_TRUE(group.ended[0].empty());
    for (std::uint32_t r = 0; r < 4; ++r)
      for (const auto& launch : group.launched[r]) group.end(r, launch.position);
    for (std::uint32_t r = 0; r < 4; ++r) {
      SCOPED_TRACE(::testing::Message() << "rank " << r);
      ASSERT_EQ(group.ended[r].size(), 5u);
      for (const auto& ended : group.ended[r]) {
        EXPECT_FALSE(ended.error);
        EXPECT_EQ(ended.result.at(0).item<float>(), static_cast<float>(r));
      }
      EXPECT_EQ(group.states[r].in_flight(), 0u);
    }
  }
}

TEST(GroupStateOnDevices, ARankThatDisagreesIsAnErrorOnEveryRankAndNothingIsLaunched) {
  Group group(3);
  for (const std::uint32_t r : {0u, 1u, 2u}) group.on_devices(r, {}, "x", r == 1 ? 11 : 10);
  group.deliver();
  for (const std::uint32_t r : {0u, 1u, 2u}) {
    SCOPED_TRACE(::testing::Message() << "rank " << r);
    EXPECT_THAT(group.error_of(r), AllOf(HasSubstr("f32[10] 'x'"), HasSubstr("f32[11] 'x'"), HasSubstr("task:1")));
    EXPECT_TRUE(group.launched[r].empty());
  }
}

TEST(GroupStateOnDevices, ARankWhoseTensorIsOnTheHostIsAnErrorOnEveryRank) {
  Group group(2);
  group.on_devices(0, {}, "x");
  group.sum(1, {}, "x", Tensor::zeros(DType::f32, {10}));
  group.deliver();
  for (const std::uint32_t r : {0u, 1u})
    EXPECT_THAT(group.error_of(r), AllOf(HasSubstr("all_reduce sum of f32[10] 'x' between devices on rank 0"),
                                         HasSubstr("all_reduce sum of f32[10] 'x' on rank 1")))
        << "rank " << r;
}

// Before it has begun, after, and while the devices work.
TEST(GroupStateOnDevices, ALostRankIsNamedWhateverItHadDone) {
  for (int done = 0; done < 3; ++done) {
    SCOPED_TRACE(::testing::Message() << "done " << done);
    Group group(3);
    for (const std::uint32_t r : {0u, 1u, 2u})
      if (r != 1 || done > 0) group.on_devices(r, {}, "x");
    if (done > 1) group.deliver();
    EXPECT_EQ(group.launched[2].size(), done > 1 ? 1u : 0u);
    group.lose(2, 1);
    group.deliver();
    for (const std::uint32_t r : {0u, 2u}) {
      SCOPED_TRACE(::testing::Message() << "rank " << r);
      ASSERT_EQ(group.ended[r].size(), 1u);
      EXPECT_THAT(group.error_of(r), HasSubstr("/job:worker/task:1 was lost: silence"));
    }
    group.end(2, {});  // too late
    EXPECT_EQ(group.ended[2].size(), 1u);
  }
}

TEST(GroupStateOnDevices, AnErrorOfOneDeviceIsHeardByAll) {
  Group group(3);
  for (const std::uint32_t r : {0u, 1u, 2u}) group.on_devices(r, {}, "x");
  group.deliver();
  group.end(1, {}, Error(Code::unavailable, "the network is gone"));
  group.deliver();
  for (const std::uint32_t r : {0u, 1u, 2u})
    EXPECT_EQ(group.error_of(r), "rank 1 (/job:worker/task:1): the network is gone") << "rank " << r;
}

TEST(GroupStateOnDevices, WhoHasNotBegunOrDoesNotGoOnIsNamedAfterTheTimeout) {
  const auto error_after = [](Group& group, std::uint32_t rank, std::int64_t until) {
    for (std::int64_t now = 0; now <= until; now += 100) {
      GroupOutbox out;
      group.states[rank].tick(now, out);
    }
    return group.states[rank].failure().message();
  };
  Group group(3);
  for (const std::uint32_t r : {0u, 2u}) group.on_devices(r, {}, "x");
  group.deliver();
  EXPECT_EQ(error_after(group, 0, Group::kTimeout),
            "rank 0 (/job:worker/task:0) has waited for 1e-06 s: rank 1 (/job:worker/task:1) has not begun all_reduce "
            "sum of f32[10] 'x' between devices");
  // Rank 0 has heard of all, and stands still before it tells them.
  Group still(3);
  for (const std::uint32_t r : {0u, 1u, 2u}) still.on_devices(r, {}, "x");
  std::erase_if(still.flying, [](const auto& sent) { return sent.second.to == 0; });
  still.deliver();
  EXPECT_THAT(error_after(still, 2, Group::kTimeout), HasSubstr("rank 0 (/job:worker/task:0) has not begun"));
  // All have, and the devices do not come to an end.
  Group stuck(3);
  for (const std::uint32_t r : {0u, 1u, 2u}) stuck.on_devices(r, {}, "x");
  stuck.deliver();
  EXPECT_EQ(error_after(stuck, 1, Group::kTimeout), "");
  EXPECT_THAT(error_after(stuck, 1, Group::kTimeout * 2),
              HasSubstr("still missing the result of all_reduce sum of f32[10] 'x' between devices"));
}

TEST(GroupStateOnDevices, SaysWhatItWaitsFor) {
  Group group(3);
  group.on_devices(0, {}, "x");
  EXPECT_EQ(group.states[0].waits_for(),
            "2 of 3 start signals of all_reduce sum of f32[10] 'x' between devices, the next from rank 1 "
            "(/job:worker/task:1), rank 2 (/job:worker/task:2)");
  const auto causes = [&group] {
    Waiting all;
    for (const GroupState& state : group.states) all.append(state.waits());
    return analyse(all, {}).causes;
  };
  group.on_devices(2, {}, "x");
  group.deliver();
  ASSERT_EQ(causes().size(), 1u);
  EXPECT_EQ(causes()[0].kind, RootCause::Kind::stuck);
  EXPECT_THAT(causes()[0].text,
              HasSubstr("rank 1 (/job:worker/task:1)'s part in all_reduce sum of f32[10] 'x' between devices"));
  group.on_devices(1, {}, "x");
  group.deliver();
  for (const RootCause& cause : causes()) EXPECT_EQ(cause.kind, RootCause::Kind::working) << cause.text;
  EXPECT_THAT(group.states[1].waits_for(), HasSubstr("the result of all_reduce"));
}

TEST(GroupStateOnDevices, OperationsThroughTheHostGoOnBesideThem) {
  Group group(2);
  for (const std::uint32_t r : {0u, 1u}) group.on_devices(r, {1, 0}, "x");
  for (const std::uint32_t r : {0u, 1u}) group.sum(r, {0, 0}, "y", Tensor::vector<float>({1}));
  group.deliver();
  for (const std::uint32_t r : {0u, 1u}) {
    SCOPED_TRACE(::testing::Message() << "rank " << r);
    ASSERT_EQ(group.ended[r].size(), 1u);
    EXPECT_EQ(group.ended[r][0].result.at(0).item<float>(), 2);
    EXPECT_EQ(group.launched[r].size(), 1u);
  }
}

TEST(GroupStateOnDevices, AWordThatCannotBeEndsTheGroup) {
  for (const auto& [from, hop, part] : {std::tuple(1u, 1u, 1u), {1u, 0u, 0u}, {1u, 2u, 1u}}) {
    SCOPED_TRACE(::testing::Message() << "from " << from << ", hop " << hop << ", part "
                                      << part);  // a number that is not rank 0's; another's word; no word at all
    Group group(2);
    group.on_devices(0, {}, "x");
    GroupOutbox out;
    group.states[0].take(
        from,
        CollectivePart{
            .group = 7, .operation = "all_reduce sum of f32[10] 'x' between devices", .hop = hop, .part = part},
        out);
    EXPECT_THAT(group.states[0].failure().message(),
                HasSubstr(fmt::format("rank 1 sent an invalid message for all_reduce sum of f32[10] 'x' between "
                                      "devices: part {}, piece 0, hop {}",
                                      part, hop)));
  }
}

}  // namespace
}  // namespace troupe
