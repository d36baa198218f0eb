#include "troupe/scheduler/serving/replica_configurations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/long_runs.hpp"

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

using Replica = ReplicaConfigurations::Replica;
using Actions = ReplicaConfigurations::Actions;

constexpr Nanoseconds kPatience = 10 * kSecond;

std::vector<ConfiguredModel> models_named(const std::string& name) { return {{.name = name, .path = name}}; }

class Configurations : public ::testing::Test {
 protected:
  Actions comes(Replica replica, const ModelConfiguration& has = {}, Nanoseconds now = 0) {
    configurations_.up(replica);
    return reports(replica, has, now);
  }
  Actions reports(Replica replica, const ModelConfiguration& has, Nanoseconds now = 0) {
    Actions out;
    configurations_.reports(replica, has, now, out);
    return out;
  }
  Actions down(Replica replica) {
    Actions out;
    configurations_.down(replica, 0, out);
    return out;
  }
  Actions begin(const std::string& name, std::uint64_t clock = 100) {
    Actions out;
    const Error error = configurations_.begin(models_named(name), clock, 0, out);
    EXPECT_FALSE(error) << error.message();
    return out;
  }
  Error refused(const std::string& name = "m") {
    Actions out;
    Error error = configurations_.begin(models_named(name), 100, 0, out);
    EXPECT_THAT(out.send, IsEmpty());
    return error;
  }
  Actions answered(const ReplicaConfigurations::Send& send, const Error& error = {}) {
    Actions out;
    configurations_.answered(send.replica, send.request, error, 0, out);
    return out;
  }
  // As a replica does that takes it.
  Actions takes(const ReplicaConfigurations::Send& send) {
    Actions out = reports(send.replica, send.configuration);
    answered(send);
    return out;
  }
  Actions expired(Nanoseconds now) {
    Actions out;
    configurations_.expired(now, out);
    return out;
  }
  // All replicas take a configuration.
  void configure(const std::string& name, std::uint64_t clock = 100) {
    Actions actions = begin(name, clock);
    while (!actions.over) {
      const auto sends = actions.send;
      ASSERT_THAT(sends, Not(IsEmpty()));
      for (const auto& send : sends) actions = send.decided ? takes(send) : answered(send);
    }
    ASSERT_TRUE(actions.over->ok()) << actions.over->message();
  }

  ReplicaConfigurations configurations_{{.patience = kPatience, .most_bytes = 1000}};
};

TEST_F(Configurations, AreTriedByAllThenTakenByAll) {
  comes(0);
  comes(1);
  const Actions trial = begin("m");
  ASSERT_THAT(trial.send, SizeIs(2));
  for (const auto& send : trial.send) {
    EXPECT_FALSE(send.decided);
    EXPECT_EQ(send.configuration.models, models_named("m"));
  }
  EXPECT_THAT(answered(trial.send[0]).send, IsEmpty());
  EXPECT_THAT(answered(trial.send[0]).send, IsEmpty());  // twice is not for both
  const Actions decided = answered(trial.send[1]);
  ASSERT_THAT(decided.send, SizeIs(2));
  for (const auto& send : decided.send) {
    EXPECT_TRUE(send.decided);
    EXPECT_EQ(send.configuration, (ModelConfiguration{100, models_named("m")}));
    EXPECT_TRUE(configurations_.usable(send.replica));  // requests go on meanwhile
  }
  EXPECT_FALSE(takes(decided.send[0]).over);
  EXPECT_THAT(configurations_.behind(), ElementsAre(1));
  const Actions over = takes(decided.send[1]);
  ASSERT_TRUE(over.over);
  EXPECT_FALSE(*over.over) << over.over->message();
  EXPECT_THAT(configurations_.behind(), IsEmpty());
  EXPECT_EQ(configurations_.next_time(), std::nullopt);
  EXPECT_EQ(configurations_.current().models, models_named("m"));
}

TEST_F(Configurations, OneThatIsRefusedChangesNothing) {
  comes(0);
  comes(1);
  configure("m");
  const Actions trial = begin("n", 200);
  EXPECT_FALSE(answered(trial.send[0]).over);
  const Actions over = answered(trial.send[1], Error(Code::failed_precondition, "not ready"));
  ASSERT_TRUE(over.over);
  EXPECT_THAT(over.send, IsEmpty());
  EXPECT_EQ(over.over->code(), Code::failed_precondition);
  EXPECT_THAT(over.over->message(), StartsWith("replica 1: not ready; no replica has changed"));
  EXPECT_EQ(configurations_.current().models, models_named("m"));
  EXPECT_THAT(answered(trial.send[0]).send, IsEmpty());  // late
  EXPECT_TRUE(configurations_.usable(0) && configurations_.usable(1));
  configure("n", 300);
}

TEST_F(Configurations, ThoseThatComeHaveTheCurrentOneBeforeTheyAreUsable) {
  comes(0);
  configure("m");
  Actions actions = comes(1);
  EXPECT_FALSE(configurations_.usable(1));
  ASSERT_THAT(actions.send, SizeIs(1));
  EXPECT_EQ(actions.send[0].replica, 1u);
  EXPECT_TRUE(actions.send[0].decided);
  EXPECT_EQ(actions.send[0].configuration, configurations_.current());
  EXPECT_THAT(reports(1, {}).send, IsEmpty());  // it was told
  EXPECT_FALSE(configurations_.usable(1));
  takes(actions.send[0]);
  EXPECT_TRUE(configurations_.usable(1));
  // The same task with another process, or another server.
  down(1);
  EXPECT_FALSE(configurations_.usable(1));
  actions = comes(1);
  ASSERT_THAT(actions.send, SizeIs(1));
  takes(actions.send[0]);
  actions = reports(1, {});
  EXPECT_FALSE(configurations_.usable(1));
  EXPECT_THAT(actions.send, SizeIs(1));
  // Before there is one, all are usable.
  ReplicaConfigurations fresh;
  fresh.up(0);
  EXPECT_FALSE(fresh.usable(0));  // what it has is not known yet
  fresh.reports(0, {}, 0, actions);
  EXPECT_TRUE(fresh.usable(0));
}

TEST_F(Configurations, ReplicasThatDieHoldNothingUp) {
  for (const Replica replica : {0, 1, 2}) comes(replica);
  const Actions trial = begin("m");
  answered(trial.send[0]);
  EXPECT_THAT(down(1).send, IsEmpty());
  const Actions decided = down(2);
  ASSERT_THAT(decided.send, SizeIs(1));
  EXPECT_EQ(decided.send[0].replica, 0u);
  comes(1);
  EXPECT_TRUE(takes(decided.send[0]).over);  // the other has come since, and is told

  const Actions again = begin("n", 200);
  ASSERT_THAT(again.send, SizeIs(2));
  EXPECT_FALSE(down(0).over);
  const Actions none = down(1);
  ASSERT_TRUE(none.over);
  EXPECT_EQ(none.over->code(), Code::unavailable);
  EXPECT_EQ(configurations_.current().models, models_named("m"));

  comes(0, configurations_.current());
  const Actions last = begin("n", 300);
  EXPECT_THAT(answered(last.send[0]).send, SizeIs(1));
  const Actions lost = down(0);
  ASSERT_TRUE(lost.over);
  EXPECT_THAT(lost.over->message(), HasSubstr("those that come"));
  EXPECT_EQ(configurations_.current().models, models_named("n"));
}

TEST_F(Configurations, SilentReplicasHoldNothingUpForEver) {
  comes(0);
  comes(1);
  const Actions trial = begin("m");
  answered(trial.send[0]);
  EXPECT_EQ(configurations_.next_time(), kPatience);
  EXPECT_FALSE(expired(kPatience - 1).over);
  Actions late = expired(kPatience);
  ASSERT_TRUE(late.over);
  EXPECT_EQ(late.over->code(), Code::deadline_exceeded);
  EXPECT_THAT(late.over->message(),
              StartsWith("replica 1: it has not answered within 10 s; no replica has changed: end that one"));
  EXPECT_EQ(configurations_.current().number, 0u);
  EXPECT_EQ(configurations_.next_time(), std::nullopt);

  const Actions again = begin("m");
  answered(again.send[0]);
  const Actions decided = answered(again.send[1]);
  takes(decided.send[1]);
  late = expired(kPatience);
  ASSERT_TRUE(late.over);
  EXPECT_THAT(late.over->message(), StartsWith("replica 0: it has not answered within 10 s; it is asked for nothing"));
  EXPECT_THAT(late.troubles, ElementsAre(late.over->message()));
  EXPECT_FALSE(configurations_.usable(0));
  EXPECT_TRUE(configurations_.usable(1));
  // It is told again, which is said once.
  ASSERT_THAT(late.send, SizeIs(1));
  EXPECT_TRUE(late.send[0].decided);
  late = expired(2 * kPatience);
  EXPECT_THAT(late.troubles, IsEmpty());
  ASSERT_THAT(late.send, SizeIs(1));
  const Error failed(Code::internal, "late");
  EXPECT_THAT(answered(decided.send[0], failed).troubles, IsEmpty());  // of what it was told first
  takes(late.send[0]);
  EXPECT_THAT(answered(late.send[0], failed).troubles, IsEmpty());
  EXPECT_TRUE(configurations_.usable(0));
  EXPECT_EQ(configurations_.next_time(), std::nullopt);
}

TEST_F(Configurations, OneThatFailsIsNotUsableAndToldAgain) {
  comes(0);
  comes(1);
  const Actions trial = begin("m");
  answered(trial.send[0]);
  const Actions decided = answered(trial.send[1]);
  const Actions failed = answered(decided.send[1], Error(Code::not_found, "no batching file"));
  EXPECT_FALSE(failed.over);  // of the other nothing is known yet
  EXPECT_FALSE(configurations_.usable(1));
  EXPECT_THAT(failed.troubles, ElementsAre(StartsWith("replica 1: no batching file; it is asked for nothing until")));
  const Actions over = takes(decided.send[0]);
  ASSERT_TRUE(over.over);
  EXPECT_EQ(over.over->code(), Code::not_found);
  EXPECT_THAT(reports(1, {}).send, IsEmpty());  // not at each of its reports
  EXPECT_EQ(configurations_.next_time(), kPatience);
  const Actions again = expired(kPatience);
  ASSERT_THAT(again.send, SizeIs(1));
  EXPECT_THAT(again.troubles, IsEmpty());
  takes(again.send[0]);
  EXPECT_TRUE(configurations_.usable(1));
}

TEST_F(Configurations, OneAtATimeAndForReplicasThatAreThere) {
  EXPECT_EQ(refused().code(), Code::unavailable);
  configurations_.up(0);
  EXPECT_EQ(refused().code(), Code::unavailable);  // it may be none of a replica
  comes(0);
  EXPECT_EQ(refused(std::string(2000, 'm')).code(), Code::invalid_argument);
  begin("m");
  EXPECT_EQ(refused().code(), Code::aborted);
}

TEST_F(Configurations, ANewerOneOfAnotherRouterIsTaken) {
  const ModelConfiguration newer{.number = 500, .models = models_named("n")};
  comes(0);
  comes(1);
  configure("m");
  const Actions trial = begin("o", 300);
  const Actions actions = reports(0, newer);
  ASSERT_TRUE(actions.over);
  EXPECT_EQ(actions.over->code(), Code::aborted);
  ASSERT_THAT(actions.send, SizeIs(1));
  EXPECT_EQ(actions.send[0].replica, 1u);
  EXPECT_EQ(actions.send[0].configuration, newer);
  EXPECT_EQ(configurations_.current(), newer);
  EXPECT_TRUE(configurations_.usable(1));  // until it is late
  EXPECT_THAT(expired(kPatience).troubles, SizeIs(1));
  EXPECT_FALSE(configurations_.usable(1));
  // The clock of this one is behind: its numbers still grow.
  comes(1, newer);
  configure("p", 400);
  EXPECT_EQ(configurations_.current().number, 501u);
}

// Replicas come, go, are started again, are silent, refuse, and take what they are told, at random: what was begun is
// over once; none is usable that came with another configuration, and in the end all have the same.
TEST(ConfigurationsAtRandom, EndWithTheSameEverywhere) {
  const int seeds = is_long_run() ? 1000 : 100;
  for (int seed = 0; seed < seeds; ++seed) {
    std::mt19937 draw(static_cast<unsigned>(seed));
    const auto one_in = [&](unsigned n) { return draw() % n == 0; };
    ReplicaConfigurations configurations({.patience = 50});
    struct Process {
      ModelConfiguration has{};
      std::vector<ReplicaConfigurations::Send> mailbox{};
      bool confirmed = false;  // it has reported the current configuration since it was started
    };
    std::map<Replica, Process> processes;
    Nanoseconds now = 0;
    std::uint64_t clock = 0;
    int open = 0;
    const auto act = [&](const Actions& actions) {
      for (const auto& send : actions.send) {
        ASSERT_TRUE(processes.contains(send.replica)) << seed;
        processes[send.replica].mailbox.push_back(send);
      }
      if (actions.over) {
        ASSERT_EQ(open--, 1) << seed;
      }
    };
    const auto report = [&](Replica replica) {
      Actions actions;
      Process& process = processes[replica];
      configurations.reports(replica, process.has, now, actions);
      process.confirmed |= process.has.number == configurations.current().number;
      act(actions);
    };
    const auto handle = [&](Replica replica, bool refuses) {
      Process& process = processes[replica];
      const ReplicaConfigurations::Send send = process.mailbox.front();
      process.mailbox.erase(process.mailbox.begin());
      if (!refuses && send.decided && send.configuration.number > process.has.number) {
        process.has = send.configuration;
        report(replica);
      }
      Actions actions;
      configurations.answered(replica, send.request, refuses ? Error(Code::internal, "no") : Error(), now, actions);
      act(actions);
    };
    for (int step = 0; step < 500; ++step) {
      now += draw() % 5;
      ++clock;
      const auto replica = static_cast<Replica>(draw() % 4);
      const auto process = processes.find(replica);
      Actions actions;
      if (one_in(15)) {
        if (process == processes.end()) {
          processes[replica] = {};
          configurations.up(replica);
          report(replica);
        } else if (one_in(2)) {                               // another server in the same process
          const bool same = process->second.has.number == 0;  // as if it had not been told yet
          process->second = {.has = {}, .mailbox = {}, .confirmed = same && process->second.confirmed};
          report(replica);
        } else {
          processes.erase(process);
          configurations.down(replica, now, actions);
        }
      } else if (one_in(15)) {
        if (!configurations.begin(models_named(std::to_string(step)), clock, now, actions)) ++open;
      } else if (process != processes.end() && !process->second.mailbox.empty()) {
        handle(replica, one_in(6));
      } else {
        configurations.expired(now, actions);
      }
      act(actions);
      ASSERT_LE(open, 1) << seed;
      for (const auto& [name, each] : processes)
        if (configurations.usable(name)) {
          ASSERT_TRUE(each.confirmed) << seed << " " << step;
        }
    }
    for (int round = 0; round < 3; ++round) {
      for (auto& [replica, process] : processes)
        while (!process.mailbox.empty()) handle(replica, false);
      Actions actions;
      now += 50;
      configurations.expired(now, actions);
      act(actions);
    }
    ASSERT_EQ(open, 0) << seed;
    ASSERT_EQ(configurations.next_time(), std::nullopt) << seed;
    for (const auto& [replica, process] : processes) {
      ASSERT_TRUE(configurations.usable(replica)) << seed;
      ASSERT_EQ(process.has, configurations.current()) << seed;
    }
  }
}

}  // namespace
}  // namespace troupe::testing
