// Who calls whom and when, in virtual time.
#include "troupe/actors/cluster/meeting.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

using namespace std::chrono_literals;
using Loss = Meeting::Loss;

const TaskName kPs0{"ps", 0}, kW0{"worker", 0}, kW1{"worker", 1}, kClient{"client", 0};
const Error kNobody(Code::unavailable, "nobody listens");

class Meetings : public ::testing::Test {
 protected:
  static ClusterSpec cluster() {
    return {.name = "c", .token = "t", .tasks = {{kPs0, {"h", 1}}, {kW0, {"h", 2}}, {kW1, {"h", 3}}}};
  }
  Meeting of(const TaskName& self) const { return {self, cluster(), now}; }
  // "call /job:ps/task:0", "greet /job:ps/task:0"
  std::string next(Meeting& meeting) const {
    const auto action = meeting.next(now);
    if (!action) return "";
    return fmt::format("{} {}", action->link == 0 ? "call" : "greet", action->task.to_string());
  }
  // How long until the task is called again, from now on; it is then.
  std::chrono::milliseconds pause(Meeting& meeting) {
    const auto wake = meeting.wake();
    EXPECT_TRUE(wake);
    EXPECT_EQ(next(meeting), "");
    const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(*wake - now);
    now = *wake;
    EXPECT_NE(next(meeting), "");
    return pause;
  }
  Meeting::Time now{1000s};
};

TEST_F(Meetings, OfTwoTasksTheOneWithTheGreaterNameCalls) {
  Meeting worker = of(kW1), shard = of(kPs0);
  EXPECT_EQ(next(worker), "call /job:ps/task:0");
  EXPECT_EQ(next(worker), "call /job:worker/task:0");
  EXPECT_EQ(next(worker), "");
  EXPECT_TRUE(worker.calling());
  EXPECT_EQ(next(shard), "");
  EXPECT_FALSE(shard.wake());
}

TEST_F(Meetings, WhoIsInNoClusterFileCallsAll) {
  Meeting client = of(kClient);
  for (const TaskName& task : {kPs0, kW0, kW1}) EXPECT_EQ(next(client), "call " + task.to_string());
}

TEST_F(Meetings, ALinkIsGreetedBeforeOthersAreCalledAndUpWhenTheTwoHaveMet) {
  Meeting meeting = of(kW1);
  meeting.next(now);
  meeting.opened(kPs0, 7);
  EXPECT_EQ(next(meeting), "greet /job:ps/task:0");
  EXPECT_EQ(next(meeting), "call /job:worker/task:0");
  EXPECT_FALSE(meeting.all_up("ps"));
  meeting.met(kPs0);
  EXPECT_TRUE(meeting.all_up("ps"));
  EXPECT_FALSE(meeting.all_up(""));
}

TEST_F(Meetings, ATaskThatCallsIsNotGreetedButWaitedFor) {
  Meeting meeting = of(kPs0);
  meeting.met(kW0);  // over which link?
  EXPECT_FALSE(meeting.find(kW0)->up);
  meeting.opened(kW0, 7);
  EXPECT_EQ(next(meeting), "");
  EXPECT_FALSE(meeting.find(kW0)->up);
  meeting.met(kW0);
  EXPECT_TRUE(meeting.find(kW0)->up);
}

TEST_F(Meetings, PausesBetweenCallsDoubleUpToALimitAndBeginAnewWithAMeeting) {
  Meeting meeting = of(kW0);
  EXPECT_EQ(next(meeting), "call /job:ps/task:0");
  std::vector<std::chrono::milliseconds> pauses;
  for (int i = 0; i < 7; ++i) {
    meeting.lost(kPs0, Loss::refused, kNobody, now);
    pauses.push_back(pause(meeting));
  }
  EXPECT_EQ(pauses, (std::vector<std::chrono::milliseconds>{40ms, 80ms, 160ms, 320ms, 500ms, 500ms, 500ms}));
  meeting.opened(kPs0, 7);
  meeting.met(kPs0);
  meeting.lost(kPs0, Loss::broken, kNobody, now);
  EXPECT_FALSE(meeting.find(kPs0)->up);
  EXPECT_EQ(pause(meeting), 20ms);
  meeting.lost(kPs0, Loss::goodbye, kNobody, now);  // it has left: it does not come again at once
  EXPECT_EQ(pause(meeting), 1000ms);
}

TEST_F(Meetings, TheTaskThatIsDueFirstIsCalledFirst) {
  Meeting meeting = of(kW1);
  meeting.next(now);
  meeting.next(now);
  meeting.lost(kPs0, Loss::goodbye, kNobody, now);
  meeting.lost(kW0, Loss::refused, kNobody, now);
  EXPECT_EQ(meeting.wake(), now + 40ms);
  now += 40ms;
  EXPECT_EQ(next(meeting), "call /job:worker/task:0");
  EXPECT_EQ(next(meeting), "");
  now += 960ms;
  EXPECT_EQ(next(meeting), "call /job:ps/task:0");
}

TEST_F(Meetings, SaysWhoIsMissingAndWhoWillNeverCome) {
  Meeting meeting = of(kW1);
  EXPECT_EQ(meeting.missing("").text, "/job:ps/task:0 at h:1, /job:worker/task:0 at h:2");
  meeting.next(now);
  meeting.lost(kPs0, Loss::refused, kNobody, now);
  EXPECT_EQ(meeting.missing("ps").text, "/job:ps/task:0 at h:1: nobody listens");
  EXPECT_FALSE(meeting.missing("ps").hopeless);
  meeting.lost(kPs0, Loss::refused, Error(Code::unauthenticated, "another token"), now);
  EXPECT_EQ(meeting.missing("").hopeless.message(), "/job:ps/task:0 at h:1: another token");
  EXPECT_FALSE(meeting.missing("worker").hopeless);
  meeting.opened(kPs0, 7);
  EXPECT_TRUE(meeting.calling());  // it is about to be greeted, and may say why not
  meeting.met(kPs0);
  EXPECT_EQ(meeting.missing("ps").text, "");
}

TEST_F(Meetings, WhateverBreaksALinkOfTasksThatHadMetTheyMayMeetAgain) {
  Meeting meeting = of(kW1);
  const Error failed(Code::internal, "a peer failed");
  meeting.opened(kPs0, 7);
  meeting.met(kPs0);
  meeting.lost(kPs0, Loss::broken, failed, now);
  EXPECT_EQ(meeting.missing("ps").text, "/job:ps/task:0 at h:1: a peer failed");
  EXPECT_FALSE(meeting.missing("ps").hopeless);
  meeting.opened(kPs0, 8);
  meeting.lost(kPs0, Loss::broken, failed, now);  // before they met
  EXPECT_TRUE(meeting.missing("ps").hopeless);
}

TEST_F(Meetings, NothingIsKeptOfTasksThatAreNotInTheClusterFile) {
  Meeting meeting = of(kPs0);
  meeting.opened(kClient, 9);
  meeting.met(kClient);
  meeting.lost(kClient, Loss::broken, kNobody, now);
  EXPECT_EQ(meeting.find(kClient), nullptr);
  EXPECT_EQ(meeting.find(kPs0), nullptr);  // nor of itself
  EXPECT_EQ(meeting.states().size(), 2u);
}

}  // namespace
}  // namespace troupe
