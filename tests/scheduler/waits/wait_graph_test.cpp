#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include <troupe/messages/ids.hpp>
#include <troupe/messages/nanoseconds.hpp>
#include <troupe/scheduler/waits/wait_graph.hpp>
#include <troupe/scheduler/waits/wait_things.hpp>

namespace troupe {
namespace {

using State = WaitThing::State;
using Kind = RootCause::Kind;

Wait wait(std::string waiter, std::string awaited, std::string text = "", std::int64_t for_ns = 0) {
  return {.waiter = std::move(waiter),
          .awaited = std::move(awaited),
          .kind = "tensor",
          .text = std::move(text),
          .for_ns = for_ns};
}

TEST(WaitTime, IsForPeople) {
  EXPECT_EQ(wait_time(0), "0.0 s");
  EXPECT_EQ(wait_time(1'260'000'000), "1.2 s");
  EXPECT_EQ(wait_time(59'990'000'000), "59.9 s");
  EXPECT_EQ(wait_time(125 * kSecond), "2 min 5 s");
  EXPECT_EQ(wait_time(12'000 * kSecond), "3 h 20 min");
}

TEST(WaitGraph, NothingWaits) {
  EXPECT_EQ(analyse({}, {}).text, "Nothing waits.\n");
  // What works while nobody waits for it is nobody's trouble.
  EXPECT_EQ(
      analyse({.things = {{.id = "device/d", .text = "d runs MatMul", .state = State::works}}, .waits = {}}, {}).text,
      "Nothing waits.\n");
}

TEST(WaitGraph, ASilentTaskIsTheCauseOfAllThatIsOnIt) {
  Waiting waiting;
  waiting.things = {
      {.id = "step/a/12", .text = "step 12", .task = "/job:worker/task:0", .for_ns = 12 * kSecond},
      {.id = "step/a/13", .text = "step 13", .task = "/job:worker/task:0", .for_ns = 2 * kSecond},
      {.id = "version/1/0/12", .text = "version 12 of the parameters on /job:ps/task:0", .task = "/job:ps/task:0"},
      {.id = "slot/1/11/1",
       .text = "slot 1 of step 11, which /job:worker/task:1 computes",
       .task = "/job:worker/task:1"}};
  waiting.waits = {wait("step/a/12", "version/1/0/12", "", 11 * kSecond), wait("step/a/13", "version/1/0/12"),
                   wait("version/1/0/12", "slot/1/11/1", "2 of 3 slots are staged, slot 1 is missing")};
  const WaitAnalysis found =
      analyse(waiting, {{"/job:worker/task:1", "has not answered for 1.0 s: stopped, or too busy, or cut off"}});
  ASSERT_EQ(found.causes.size(), 1u);
  EXPECT_EQ(found.causes[0].kind, Kind::silent);
  EXPECT_EQ(found.causes[0].things, std::vector<std::string>{"task//job:worker/task:1"});
  EXPECT_EQ(found.causes[0].waiters, 4u);
  EXPECT_EQ(
      found.text,
      "4 things wait for 1 cause; the worst first.\n"
      "1. SILENT /job:worker/task:1 does not answer (has not answered for 1.0 s: stopped, or too busy, or cut off)\n"
      "   step 12, for 12.0 s\n"
      "     waits for version 12 of the parameters on /job:ps/task:0, for 11.0 s\n"
      "     waits for slot 1 of step 11, which /job:worker/task:1 computes: 2 of 3 slots are staged, slot 1 is "
      "missing\n"
      "     which is on /job:worker/task:1\n"
      "   Also waiting for it: step 13.\n");
}

TEST(WaitGraph, ATaskThatIsSilentIsToldThoughNothingIsKnownToWaitForIt) {
  const WaitAnalysis found = analyse({}, {{"/job:ps/task:1", "is gone"}});
  EXPECT_EQ(found.text,
            "Nothing waits, but:\n"
            "1. SILENT /job:ps/task:1 does not answer (is gone)\n"
            "   Nothing known waits for it.\n");
}

TEST(WaitGraph, ACircleIsADeadlockWithAllItsMembers) {
  Waiting waiting;
  waiting.things = {{.id = "segment/a", .text = "a segment on A"},
                    {.id = "segment/b", .text = "a segment on B"},
                    {.id = "tensor/x", .text = "tensor 'x' from B"},
                    {.id = "tensor/y", .text = "tensor 'y' from A"},
                    {.id = "step/1", .text = "step 1", .for_ns = 3 * kSecond}};
  waiting.waits = {wait("step/1", "segment/a"), wait("segment/a", "tensor/x"), wait("tensor/x", "segment/b"),
                   wait("segment/b", "tensor/y"), wait("tensor/y", "segment/a")};
  const WaitAnalysis found = analyse(waiting, {});
  ASSERT_EQ(found.causes.size(), 1u);
  EXPECT_EQ(found.causes[0].kind, Kind::deadlock);
  EXPECT_EQ(found.causes[0].things, (std::vector<std::string>{"segment/a", "segment/b", "tensor/x", "tensor/y"}));
  EXPECT_EQ(found.causes[0].waiters, 5u);
  EXPECT_EQ(found.text,
            "5 things wait for 1 cause; the worst first.\n"
            "1. DEADLOCK a segment on A waits for tensor 'x' from B, which waits for a segment on B, which waits for "
            "tensor 'y' from A, which waits for the first: none of them can proceed\n"
            "   step 1, for 3.0 s\n"
            "     waits for a segment on A\n"
            "     which is in the cycle\n");
}

TEST(WaitGraph, WhatWaitsForItselfIsADeadlock) {
  const WaitAnalysis found = analyse({.things = {}, .waits = {wait("a", "a")}}, {});
  ASSERT_EQ(found.causes.size(), 1u);
  EXPECT_EQ(found.causes[0].text, "a waits for itself: none of them can proceed");
}

TEST(WaitGraph, WorstFirst) {
  Waiting waiting;
  waiting.things = {{.id = "w1", .text = "runs", .state = State::works},
                    {.id = "n", .text = "is left", .state = State::never},
                    {.id = "s", .text = "stands", .state = State::stuck}};
  for (const char* cause : {"w1", "n", "s", "task//job:a/task:0", "unknown"})
    waiting.waits.push_back(wait(std::string("x-") + cause, cause));
  waiting.waits.push_back(wait("y", "unknown"));
  waiting.waits.push_back(wait("p", "q"));
  waiting.waits.push_back(wait("q", "p"));
  const WaitAnalysis found = analyse(waiting, {{"/job:a/task:0", "is gone"}});
  std::vector<Kind> kinds;
  for (const RootCause& cause : found.causes) kinds.push_back(cause.kind);
  EXPECT_EQ(kinds,
            (std::vector<Kind>{Kind::deadlock, Kind::never, Kind::silent, Kind::stuck, Kind::stuck, Kind::working}));
  EXPECT_EQ(found.causes[3].things[0], "unknown");  // more wait for it
  EXPECT_EQ(found.causes[3].text, "unknown: no task reports why it does not come");
}

TEST(WaitGraph, WhatIsDoneIsNotCalledStuck) {
  Waiting waiting;
  waiting.things = {{.id = "device/d", .text = "d runs MatMul 'm'", .state = State::works, .for_ns = kSecond / 2}};
  waiting.waits = {wait("step/1", "device/d")};
  EXPECT_EQ(analyse(waiting, {}).text,
            "Nothing is stuck: 1 thing waits for work in progress.\n"
            "1. WORKING d runs MatMul 'm', for 0.5 s\n"
            "   step/1\n"
            "     waits for d runs MatMul 'm'\n");
}

// A healthy job waits all the time: who waits for whom is for those who look for a cause.
TEST(WaitGraph, InBriefWhatIsDoneHasOneLineEach) {
  Waiting waiting;
  for (int i = 0; i < 6; ++i) {
    const std::string device = fmt::format("device/d{}", i);
    waiting.things.push_back({.id = device, .text = fmt::format("d{} runs MatMul", i), .state = State::works});
    waiting.waits.push_back(wait("step/1", device, "", kSecond));
  }
  waiting.waits.push_back(wait("step/2", "device/d5"));
  EXPECT_EQ(analyse(waiting, {}).brief,
            "Nothing is stuck: 2 things wait for work in progress.\n"
            "1. WORKING d5 runs MatMul, for 1.0 s; 2 wait for it\n"
            "2. WORKING d0 runs MatMul, for 1.0 s; 1 waits for it\n"
            "3. WORKING d1 runs MatMul, for 1.0 s; 1 waits for it\n"
            "4. WORKING d2 runs MatMul, for 1.0 s; 1 waits for it\n"
            "and 2 things more in progress.\n");
  waiting.things.push_back({.id = "s", .text = "stands", .state = State::stuck});
  waiting.waits.push_back(wait("a", "s"));
  EXPECT_EQ(analyse(waiting, {}).brief.substr(0, 113),
            "3 things wait for 7 causes; the worst first.\n1. STUCK stands\n   a\n     waits for stands\n2. WORKING d5 "
            "runs MatMul");
}

TEST(WaitGraph, WhatIsWrongAndHoldsNobodyUpIsNotCalledTheCause) {
  Waiting waiting;
  waiting.things = {{.id = "device/d", .text = "d runs MatMul", .state = State::works}};
  waiting.waits = {wait("step/1", "device/d")};
  const WaitAnalysis found = analyse(waiting, {{"/job:worker/task:2", "it has ended"}});
  EXPECT_EQ(found.brief,
            "Nothing is stuck, but not all is well; 1 thing waits.\n"
            "1. SILENT /job:worker/task:2 does not answer (it has ended)\n"
            "   Nothing known waits for it.\n"
            "2. WORKING d runs MatMul; 1 waits for it\n");
}

TEST(WaitGraph, ThingsThatNobodyDescribesHaveWordsAndNoRawIds) {
  using namespace wait_thing;
  constexpr SessionId session{0xab};
  constexpr StepId seven{7};
  const std::string worker0 = "/job:worker/task:0", ps1 = "/job:ps/task:1", cpu = worker0 + "/device:CPU:0";
  const std::pair<std::string, std::string> cases[] = {
      {step(session, seven), "step 7"},
      {part(session, seven, worker0), "the part of step 7 on /job:worker/task:0"},
      {segment(session, seven, cpu, 3), "a segment of step 7 on /job:worker/task:0/device:CPU:0"},
      {tensor(session, seven, EdgeId{2}), "a tensor of step 7"},
      {device(cpu), cpu},
      {link(worker0, ps1), "the connection from /job:worker/task:0 to /job:ps/task:1"},
      {task(ps1), ps1},
      {actor(ps1, "shard"), "the shard of /job:ps/task:1"},
      {client(worker0, 4), "a client on /job:worker/task:0"},
      {answer(ps1, 4), "an answer for /job:ps/task:1"},
      {meeting(worker0), "/job:worker/task:0, which connects to its cluster"},
      {coming(worker0, ps1), "a link from /job:ps/task:1 to /job:worker/task:0"},
      {worker(9, worker0), worker0},
      {version(9, 1, 12), "version 12 of the parameters of shard 1"},
      {slot(0x660f888ec43f0, 357, 0), "slot 0 of step 357"},
      {token(9, worker0), "a token for /job:worker/task:0"},
      {join(9, worker0), "/job:worker/task:0 to join the job"},
      {barrier(9), "the barrier at the end of the job"},
      {save(9), "the checkpoint being saved"},
      {collective(9, 0, 4, worker0), "/job:worker/task:0's part in a collective"},
      {"of no known form", "of no known form"},
      {"slot/1", "slot/1"},
      {"", ""}};
  for (const auto& [id, words] : cases) EXPECT_EQ(describe(id), words) << id;
  EXPECT_EQ(analyse({.things = {}, .waits = {wait(slot(9, 7, 0), slot(9, 7, 1))}}, {}).text,
            "1 thing waits for 1 cause; the worst first.\n"
            "1. STUCK slot 1 of step 7: no task reports why it does not come\n"
            "   slot 0 of step 7\n"
            "     waits for slot 1 of step 7\n");
}

TEST(WaitGraph, WhatNeverComesWaitsForNothingAnyMore) {
  Waiting waiting;
  waiting.things = {{.id = "join/1", .text = "it is gone for good", .state = State::never}};
  waiting.waits = {wait("a", "join/1"), wait("join/1", "b")};
  const WaitAnalysis found = analyse(waiting, {});
  ASSERT_EQ(found.causes.size(), 1u);
  EXPECT_EQ(found.causes[0].kind, Kind::never);
}

TEST(WaitGraph, ReportsOfSeveralTasksAreOne) {
  Waiting waiting;
  waiting.things = {{.id = "tensor/1", .text = "tensor 'x'"},
                    {.id = "tensor/1", .text = "tensor 'x' from B", .task = "/job:b/task:0"},
                    {.id = "tensor/1", .text = "gone", .state = State::never}};
  waiting.waits = {wait("a", "tensor/1"), wait("a", "tensor/1", "for 2 of 3", kSecond)};
  const WaitAnalysis found = analyse(waiting, {});
  ASSERT_EQ(found.causes.size(), 1u);
  EXPECT_EQ(found.causes[0].text, "gone");
  EXPECT_EQ(found.causes[0].waiters, 1u);
  EXPECT_EQ(found.causes[0].for_ns, kSecond);
}

TEST(WaitGraph, TellsTheWorstOfThousandsAndHowManyMoreThereAre) {
  Waiting waiting;
  for (int i = 0; i < 5000; ++i)
    waiting.waits.push_back(wait(fmt::format("step/{}", i), fmt::format("thing/{}", i % 100)));
  const WaitAnalysis found = analyse(waiting, {});
  EXPECT_EQ(found.causes.size(), 100u);
  EXPECT_EQ(found.causes[0].waiters, 50u);
  EXPECT_LE(std::ranges::count(found.text, '\n'), 60);
  EXPECT_NE(found.text.find("; and 45 more.\n"), std::string::npos);
  EXPECT_NE(found.text.find("and 92 causes more.\n"), std::string::npos);
}

TEST(WaitGraph, ALongChainIsToldFromBothEnds) {
  Waiting waiting;
  for (int i = 0; i < 100; ++i) waiting.waits.push_back(wait(fmt::format("t{:03}", i), fmt::format("t{:03}", i + 1)));
  const std::string text = analyse(waiting, {}).text;
  EXPECT_NE(text.find("   t000\n     waits for t001\n"), std::string::npos);
  EXPECT_NE(
      text.find("     waits for t009\n     … 87 in between …\n     waits for t097\n     waits for t098\n     waits "
                "for t099\n     waits for t100\n"),
      std::string::npos)
      << text;
}

TEST(WaitGraph, RanksThatHaveBegunWaitForEachOtherWhileAllIsWell) {
  const auto rank = [](int task) { return fmt::format("collective/1/0/7//job:worker/task:{}", task); };
  const auto waits = [&](int from, int to, const char* kind) {
    return Wait{.waiter = rank(from), .awaited = rank(to), .kind = kind, .text = {}};
  };
  // A ring; and everyone with everyone.
  Waiting ring{.things = {}, .waits = {waits(0, 2, kInTurn), waits(1, 0, kInTurn), waits(2, 1, kInTurn)}};
  Waiting direct{.things = {}, .waits = {waits(0, 1, "collective"), waits(1, 0, "collective")}};
  for (const Waiting& waiting : {ring, direct})
    for (const RootCause& cause : analyse(waiting, {}).causes) EXPECT_EQ(cause.kind, Kind::working) << cause.text;
  // One has not begun: it is the cause of all.
  Waiting blocked{.things = {}, .waits = {waits(0, 2, "collective"), waits(1, 0, kInTurn)}};
  const WaitAnalysis found = analyse(blocked, {});
  ASSERT_EQ(found.causes.size(), 1u);
  EXPECT_EQ(found.causes[0].things[0], rank(2));
  EXPECT_EQ(found.causes[0].waiters, 2u);
}

// ---- Properties of all graphs --------------------------------------------------------------------------------------

struct RandomWaits {
  Waiting waiting;
  std::vector<SilentTask> silent;
  std::size_t nodes = 0;
  std::vector<std::vector<bool>> reaches;  // by edges that count
};

RandomWaits random_graph(std::mt19937& random) {
  RandomWaits out;
  const auto roll = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  out.nodes = 1 + static_cast<std::size_t>(roll(12));
  out.reaches.assign(out.nodes, std::vector<bool>(out.nodes));
  std::vector<bool> ends(out.nodes);
  for (std::size_t n = 0; n < out.nodes; ++n) {
    WaitThing thing{.id = fmt::format("n{}", n)};
    if (roll(8) == 0) thing.state = roll(2) == 0 ? State::never : State::stuck;
    if (roll(8) == 0) thing.task = "/job:t/task:0";
    ends[n] = thing.state != State::waits || !thing.task.empty();
    if (ends[n] || roll(2) == 0) out.waiting.things.push_back(thing);
  }
  for (int e = roll(30); e > 0; --e) {
    const int from = roll(static_cast<int>(out.nodes)), to = roll(static_cast<int>(out.nodes));
    out.waiting.waits.push_back(wait(fmt::format("n{}", from), fmt::format("n{}", to), roll(2) == 0 ? "" : "why"));
    if (!ends[static_cast<std::size_t>(from)])
      out.reaches[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)] = true;
  }
  if (roll(4) > 0) out.silent.push_back({"/job:t/task:0", "is gone"});
  if (out.silent.empty())  // then its things are like others
    for (std::size_t n = 0; n < out.nodes; ++n)
      for (const WaitThing& thing : out.waiting.things)
        if (thing.id == fmt::format("n{}", n) && thing.state == State::waits)
          for (const Wait& w : out.waiting.waits)
            if (w.waiter == thing.id) out.reaches[n][static_cast<std::size_t>(std::stoi(w.awaited.substr(1)))] = true;
  for (std::size_t k = 0; k < out.nodes; ++k)
    for (std::size_t i = 0; i < out.nodes; ++i)
      for (std::size_t j = 0; j < out.nodes; ++j)
        if (out.reaches[i][k] && out.reaches[k][j]) out.reaches[i][j] = true;
  return out;
}

TEST(WaitGraphProperties, EveryCircleIsFoundAndNothingElseIsCalledOne) {
  std::mt19937 random(17);
  for (int i = 0; i < 3000; ++i) {
    const RandomWaits graph = random_graph(random);
    const WaitAnalysis found = analyse(graph.waiting, graph.silent);
    std::set<std::set<std::string>> expected, told;
    for (std::size_t n = 0; n < graph.nodes; ++n) {
      if (!graph.reaches[n][n]) continue;
      std::set<std::string> members;
      for (std::size_t m = 0; m < graph.nodes; ++m)
        if (graph.reaches[n][m] && graph.reaches[m][n]) members.insert(fmt::format("n{}", m));
      expected.insert(members);
    }
    for (const RootCause& cause : found.causes)
      if (cause.kind == Kind::deadlock) told.emplace(cause.things.begin(), cause.things.end());
    ASSERT_EQ(told, expected) << "graph " << i << "\n" << found.text;
  }
}

TEST(WaitGraphProperties, WhatWaitsHasACause) {
  std::mt19937 random(18);
  for (int i = 0; i < 3000; ++i) {
    const RandomWaits graph = random_graph(random);
    const WaitAnalysis found = analyse(graph.waiting, graph.silent);
    for (const RootCause& cause : found.causes) {
      ASSERT_FALSE(cause.things.empty()) << "graph " << i;
      ASSERT_FALSE(cause.text.empty()) << "graph " << i;
      if (cause.kind == Kind::silent || cause.kind == Kind::deadlock) continue;
      const auto at = static_cast<std::size_t>(std::stoi(cause.things[0].substr(1)));
      std::size_t waiters = 0;
      for (std::size_t n = 0; n < graph.nodes; ++n) waiters += graph.reaches[n][at] && n != at ? 1 : 0;
      ASSERT_EQ(cause.waiters, waiters) << "graph " << i << " cause " << at << "\n" << found.text;
    }
    ASSERT_TRUE(graph.waiting.waits.empty() || !found.causes.empty()) << "graph " << i;
  }
}

TEST(WaitGraphProperties, TheOrderOfReportsDoesNotMatter) {
  std::mt19937 random(19);
  for (int i = 0; i < 500; ++i) {
    RandomWaits graph = random_graph(random);
    const WaitAnalysis first = analyse(graph.waiting, graph.silent);
    std::ranges::shuffle(graph.waiting.things, random);
    std::ranges::shuffle(graph.waiting.waits, random);
    graph.waiting.append(Waiting(graph.waiting));  // and saying it twice neither
    const WaitAnalysis second = analyse(graph.waiting, graph.silent);
    ASSERT_EQ(first.text, second.text) << "graph " << i;
  }
}

// Would not end within the test's time if it took more than time in proportion.
TEST(WaitGraphProperties, AHundredThousandWaits) {
  constexpr int kMany = 100'000;
  Waiting chain, star, circle, pairs;
  for (int i = 0; i < kMany; ++i) {
    chain.waits.push_back(wait(fmt::format("t{:06}", i), fmt::format("t{:06}", i + 1)));
    star.waits.push_back(wait(fmt::format("t{:06}", i), "all"));
    circle.waits.push_back(wait(fmt::format("t{:06}", i), fmt::format("t{:06}", (i + 1) % kMany)));
    pairs.waits.push_back(wait(fmt::format("t{:06}", i), fmt::format("u{:06}", i)));
  }
  // A tower: all that is above waits for each of the many causes beside it.
  Waiting tower;
  for (int i = 0; i < kMany / 2; ++i) {
    tower.waits.push_back(wait(fmt::format("t{:06}", i), fmt::format("t{:06}", i + 1)));
    tower.waits.push_back(wait(fmt::format("t{:06}", i), fmt::format("u{:06}", i)));
  }
  EXPECT_EQ(analyse(chain, {}).causes.at(0).waiters, static_cast<std::size_t>(kMany));
  EXPECT_EQ(analyse(star, {}).causes.at(0).waiters, static_cast<std::size_t>(kMany));
  EXPECT_EQ(analyse(circle, {}).causes.at(0).things.size(), static_cast<std::size_t>(kMany));
  EXPECT_EQ(analyse(pairs, {}).causes.size(), static_cast<std::size_t>(kMany));
  EXPECT_EQ(analyse(tower, {}).causes.size(), static_cast<std::size_t>(kMany / 2 + 1));
}

}  // namespace
}  // namespace troupe
