// Groups of tasks that are connected over sockets: the calls that programs make.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caf/send.hpp>
#include <future>
#include <latch>
#include <thread>

#include "tests/actors/task_cluster.hpp"
#include "tests/patience.hpp"
#include <troupe/actors/base/actor_record.hpp>
#include <troupe/actors/base/inspected.hpp>
#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/session/group.hpp>
#include <troupe/troupe.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// Ranks are tasks of this process, each with a thread that runs `body`.
class Groups : public ::testing::Test {
 protected:
  explicit Groups(int ranks = 3) {
    for (int i = 0; i < ranks; ++i) members.push_back({"worker", i});
    tasks.start(members);
  }
  // What each rank's body came to: the message of its error, or "".
  std::vector<std::string> run(const std::function<void(CollectiveGroup&)>& body,
                               const CollectiveGroupOptions& options = {}) {
    return tasks.run([&](Task& task) -> std::string {
      CollectiveGroup group(task, "test", members, options);
      body(group);
      return "";
    });
  }

  std::vector<TaskName> members;
  testing::TaskCluster tasks;
};

const std::vector<std::string> kFine(3);

TEST_F(Groups, EveryCollectiveOnAllRanks) {
  EXPECT_EQ(run([](CollectiveGroup& group) {
              const auto r = static_cast<float>(group.rank());
              Tensor large(DType::f32, {300'000});
              for (float& v : large.mutable_values<float>()) v = r + 1;
              for (int round = 0; round < 3; ++round)
                for (const float v : group.all_reduce(large, Reduction::mean, "large").values<float>())
                  ASSERT_EQ(v, 2) << "round " << round;
              EXPECT_EQ(group.all_reduce(Tensor::scalar(r), Reduction::max, "small").item<float>(), 2);
              const Tensor text = group.broadcast(
                  group.rank() == 1 ? Tensor::vector<std::uint8_t>({7, 8}) : Tensor(DType::u8, {2}), 1, "text");
              EXPECT_TRUE(bitwise_equal(text, Tensor::vector<std::uint8_t>({7, 8})));
              const auto all = group.all_gather(Tensor::scalar(r), "ranks");
              for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(all.at(i).item<float>(), static_cast<float>(i));
              group.barrier("end");
            }),
            kFine);
}

TEST_F(Groups, ARankThatDisagreesIsAnErrorOnEveryRank) {
  for (const std::string& error : run([](CollectiveGroup& group) {
         group.all_reduce(Tensor::zeros(DType::f32, {group.rank() == 2 ? 11 : 10}), Reduction::sum, "x");
       }))
    EXPECT_THAT(error, AllOf(HasSubstr("f32[10]"), HasSubstr("f32[11]"), HasSubstr("/job:worker/task:2")));
}

TEST_F(Groups, ARankThatDoesNotComeIsADeadlineOnTheOthers) {
  std::vector<std::string> errors;
  const auto names_rank_1 = [&](std::chrono::milliseconds limit) {  // of the others one may be late too
    std::latch given_up(2);
    errors = run(
        [&](CollectiveGroup& group) {
          if (group.rank() == 1) return given_up.wait();  // it neither comes nor leaves
          try {
            group.barrier("start");
          } catch (...) {
            given_up.count_down();
            throw;
          }
        },
        {.timeout = limit});
    EXPECT_EQ(errors[1], "");
    const std::string seconds = fmt::format("{} s", std::chrono::duration<double>(limit).count());
    const ::testing::Matcher<std::string> says =
        AllOf(AnyOf(HasSubstr("'start' did not complete within " + seconds), HasSubstr("has waited for " + seconds)),
              HasSubstr("rank 1 (/job:worker/task:1)"));
    return says.Matches(errors[0]) && says.Matches(errors[2]);
  };
  EXPECT_TRUE(testing::holds_with_more_time(std::chrono::milliseconds(50), names_rank_1)) << errors[0] << errors[2];
}

TEST_F(Groups, AStoppedCallEndsTheGroup) {
  const std::atomic<bool> stop{true};
  const auto errors = run(
      [](CollectiveGroup& group) {
        if (group.rank() == 0) return group.barrier("start");
        group.all_reduce(Tensor::zeros(DType::f32, {9000}), Reduction::sum, "x");
      },
      {.stop = &stop});
  for (const std::string& error : errors) EXPECT_NE(error, "") << "rank " << (&error - errors.data());
}

TEST_F(Groups, ACallSaysThatItsActorWasKilled) {
  auto call = std::async(std::launch::async, [&]() -> std::string {
    try {
      CollectiveGroup group(tasks[0], "test", members, {.timeout = std::chrono::hours(1)});
      group.barrier("start");
      return "";
    } catch (const Error& error) {
      return error.message();
    }
  });
  const auto waits = [&] {
    for (const auto& record : tasks[0].actors().actors())
      if (ActorDetails details;
          record->kind == "collective" && record->look(details, std::chrono::seconds(1)) && !details.waits_for.empty())
        return true;
    return false;
  };
  while (!waits()) std::this_thread::yield();
  caf::anon_send_exit(tasks[0].handles().collective, caf::exit_reason::kill);
  EXPECT_THAT(call.get(), HasSubstr("collective /job:worker/task:0: killed"));
}

TEST_F(Groups, ATaskThatShutsDownIsNamed) {
  const auto errors = run([this](CollectiveGroup& group) {
    group.barrier("start");
    if (group.rank() != 1) {
      group.all_reduce(Tensor::zeros(DType::f32, {100'000}), Reduction::sum, "x");
    } else {
      tasks[1].shutdown();
    }
  });
  for (const int r : {0, 2})
    EXPECT_THAT(errors[static_cast<std::size_t>(r)], HasSubstr("/job:worker/task:1")) << "rank " << r;
}

}  // namespace
}  // namespace troupe
