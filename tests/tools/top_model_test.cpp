// What the user of troupe-top sees and does, without a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/top_example.hpp"
#include "tools/top/model.hpp"
#include "tools/top/text.hpp"

namespace troupe::top {
namespace {

using ::testing::AllOf;
using testing::example_observation;
using ::testing::HasSubstr;
using ::testing::Not;
using Kind = Key::Kind;

const Asked kFresh{.age = 0.2};

class TopModel : public ::testing::Test {
 protected:
  TopModel() { model_.take(example_observation()); }

  // Presses each character; "\n" is Enter, "\x1b" Escape, "\b" Backspace.
  std::string after(std::string_view keys) {
    for (const char c : keys)
      model_.press(c == '\n'     ? Key{Kind::enter}
                   : c == '\x1b' ? Key{Kind::escape}
                   : c == '\b'   ? Key{Kind::backspace}
                                 : Key{Kind::character, c});
    return seen();
  }
  std::string press(Kind kind) {
    model_.press({kind});
    return seen();
  }
  std::string seen(const Asked& asked = kFresh) { return plain_text(model_.page(asked)); }
  // The line that begins with this.
  std::string line(const std::string& begin) {
    const std::string all = "\n" + seen();
    const std::size_t at = all.find("\n" + begin);
    return at == std::string::npos ? "" : all.substr(at + 1, all.find('\n', at + 1) - at - 1);
  }

  Model model_{1};
};

TEST_F(TopModel, SummaryIn80Columns) {
  EXPECT_EQ(seen(), R"( troupe-top  demo, 4 tasks, asked ps/0                     0.2 s old, every 1 s
 [1 Summary] 2 Actors  3 Devices  4 Shards  5 Edges  6 Why  7 Inputs  8 Models
tasks      3 answer, 1 SILENT
job        sync, epoch 3 of 5, step 20 of 1,000 (2%), 98.0 s left
speed      10 steps/s, 640 images/s, 5.0 MiB/s between tasks, loss 0.1250
gradients  120 staged, 20 updates; dropped: 3 stale
staleness  █▂ from 0 to 1; 90% current, mean 0.10 updates
stuck      ! silent: worker/2 has not answered within 1.0 s

 task     state   busy steps/s images/s   loss mail does                 memory▶
>ps/0     answers  50%       -        -      -    3 coordinates: trai…  3.0 MiB
 worker/0 answers 100%      10      320 0.2500    0 step 20, slot 1 f… 64.0 MiB
 worker/1 answers 100%      10      320 1.2500    0 step 20, slot 1 f… 64.0 MiB
 worker/2 SILENT     -       -        -      -    - has not answered …        -








 ps/0: coordinates: training
 Enter in  Esc back  / filter  < > sort  r reverse  p pause  ? help  q quit
)");
}

TEST_F(TopModel, ActorsIn80Columns) {
  EXPECT_EQ(after("a"), R"( troupe-top  demo, 4 tasks, asked ps/0                     0.2 s old, every 1 s
  1 Summary [2 Actors] 3 Devices  4 Shards  5 Edges  6 Why  7 Inputs  8 Models
! worker/2 is silent: has not answered within 1.0 s
 task     actor         state   for mailbox peak msg/s busy handles; waits for ▶
>ps/0     node          idle              0    0   0.0   0%
 ps/0     shard         busy   0 ns       3   57   100  25% Push; waits for sl…
 ps/0     coordinator   waits 7.2 s       0    0    30   0% waits for step 20 …
 ps/0     peer worker/0 idle              0    0   100   0%
 worker/0 scheduler     idle              0    0   200   0%
 worker/0 device CPU:0  busy  1.0 s       0    0    20  50% ExecuteSegment
 worker/1 scheduler     idle              0    0   200   0%
 worker/1 device CPU:0  busy  1.0 s       0    0    20  50% ExecuteSegment











 Enter in  Esc back  / filter  < > sort  r reverse  p pause  ? help  q quit
)");
}

TEST_F(TopModel, ActorsIn140Columns) {
  model_.resize({140, 16});
  // Each "~" stands for 25 blanks.
  const auto page = [](std::string text) {
    for (std::size_t at; (at = text.find('~')) != text.npos;) text.replace(at, 1, 25, ' ');
    return text;
  };
  EXPECT_EQ(after("a"),
            page(R"( troupe-top  demo, 4 tasks, asked ps/0                               ~~0.2 s old, every 1 s
  1 Summary [2 Actors] 3 Devices  4 Shards  5 Edges  6 Why  7 Inputs  8 Models
! worker/2 is silent: has not answered within 1.0 s
 task     actor         state   for mailbox peak msg/s busy handles; waits for             ~restarts handled sent/s
>ps/0     node          idle              0    0   0.0   0%              ~~0      12    0.0
 ps/0     shard         busy   0 ns       3   57   100  25% Push; waits for slot 1 of step 20     ~1     200     50
 ps/0     coordinator   waits 7.2 s       0    0    30   0% waits for step 20 slot 1 of worker/1  ~0      60    0.0
 ps/0     peer worker/0 idle              0    0   100   0%              ~~0     200    0.0
 worker/0 scheduler     idle              0    0   200   0%              ~~0     400    0.0
 worker/0 device CPU:0  busy  1.0 s       0    0    20  50% ExecuteSegment                        ~0      40    0.0
 worker/1 scheduler     idle              0    0   200   0%              ~~0     400    0.0
 worker/1 device CPU:0  busy  1.0 s       0    0    20  50% ExecuteSegment                        ~0      40    0.0



 Enter in  Esc back  / filter  < > sort  r reverse  p pause  ? help  q quit
)"));
}

TEST_F(TopModel, ShowsEveryScreen) {
  EXPECT_THAT(after("d"),
              AllOf(HasSubstr("[3 Devices]"), HasSubstr("nodes/s"), HasSubstr("3.0 MiB"), HasSubstr("100%")));
  EXPECT_THAT(after("h"), AllOf(HasSubstr("[4 Shards]"), HasSubstr("1 of 2"), HasSubstr("slot 1: worker/1")));
  EXPECT_THAT(after("e"),
              AllOf(HasSubstr("[5 Edges]"), HasSubstr("stalled"), HasSubstr("down"), HasSubstr("60.0 MiB")));
  EXPECT_THAT(after("w"), AllOf(HasSubstr("[6 Why]"),
                                HasSubstr("step 20 waits for slot 1 of step 20\n  which waits for worker/2\n")));
  EXPECT_THAT(after("1"), HasSubstr("[1 Summary]"));
  EXPECT_THAT(press(Kind::tab), HasSubstr("[2 Actors]"));
  EXPECT_THAT(press(Kind::back_tab), HasSubstr("[1 Summary]"));
  EXPECT_THAT(press(Kind::back_tab), HasSubstr("[8 Models]"));
  EXPECT_THAT(press(Kind::back_tab), HasSubstr("[7 Inputs]"));
  EXPECT_THAT(press(Kind::back_tab), HasSubstr("[6 Why]"));
}

TEST_F(TopModel, GoesIntoAnActor) {
  model_.resize({80, 40});
  after("a");
  press(Kind::down);
  EXPECT_THAT(after("\n"), AllOf(HasSubstr("shard of ps/0\n"), HasSubstr("waits for  slot 1 of step 20, for 1.5 s"),
                                 HasSubstr("mailbox    3 now, 57 at most"), HasSubstr("200 handled (100/s)"),
                                 HasSubstr("busy       25% now; 500 ms in all, 25% of the task's time"),
                                 HasSubstr("restarts   1"), HasSubstr(" Push                        120    60\n"),
                                 HasSubstr(" worker/1                                  136\n"),
                                 HasSubstr("missing    slot 1: worker/1"), HasSubstr("   1  ███▍")));
  EXPECT_THAT(after("\x1b"), Not(HasSubstr("mailbox    3 now")));
}

TEST_F(TopModel, WhatIsGoneIsSaidToBe) {
  after("a");
  press(Kind::down);
  after("\n");
  auto later = example_observation();
  later.snapshot.tasks[0].snapshot->actors.erase(later.snapshot.tasks[0].snapshot->actors.begin() + 1);
  later.rates = no_rates(later.snapshot);
  model_.take(later);
  EXPECT_THAT(seen(), HasSubstr("It no longer exists. Esc: back"));
  EXPECT_THAT(after("\x1b"), HasSubstr(">ps/0     coordinator"));  // what is at its place now
}

TEST_F(TopModel, GoesIntoDevicesShardsAndEdges) {
  EXPECT_THAT(after("d\n"), AllOf(HasSubstr("device CPU:0 of ps/0"), HasSubstr("3.0 MiB in use, peak 4.0 MiB"),
                                  HasSubstr("f32[784,128] dense/weights")));
  EXPECT_THAT(after("h\n"), AllOf(HasSubstr("shard 0 of ps/0"), HasSubstr("398 KiB in 4 slices, version 20 of job 9"),
                                  HasSubstr("stale")));
  EXPECT_THAT(after("e\n"),
              AllOf(HasSubstr("link to worker/0 of ps/0"), HasSubstr("2.0 MiB (1.0 MiB/s) in 140 frames (70/s)"),
                    HasSubstr("60.0 MiB of 64.0 MiB")));
}

TEST_F(TopModel, GoesFromATaskToItsActors) {
  press(Kind::down);
  EXPECT_THAT(after("\n"),
              AllOf(HasSubstr("actors of worker/0\n"), HasSubstr("device CPU:0"), Not(HasSubstr("coordinator"))));
  EXPECT_THAT(after("\x1b"), HasSubstr("[1 Summary]"));
  press(Kind::end);
  EXPECT_THAT(after("\n"), HasSubstr("[1 Summary]"));  // a silent task has none to show
}

TEST_F(TopModel, TheChoiceStaysWithItsRow) {
  after("a");
  press(Kind::down);
  EXPECT_THAT(seen(), HasSubstr(">ps/0     shard"));
  after(">>");  // by the name of the actor
  EXPECT_THAT(seen(), AllOf(HasSubstr("actor▼"), HasSubstr(">ps/0     shard")));
  EXPECT_THAT(after("r"), AllOf(HasSubstr("actor▲"), HasSubstr(">ps/0     shard")));
  EXPECT_THAT(after("<<"), AllOf(Not(HasSubstr("▲")), HasSubstr(">ps/0     shard")));
}

TEST_F(TopModel, TheFirstRowIsChosenUntilAnotherIs) {
  EXPECT_THAT(after("a>>>>>>>"), AllOf(HasSubstr("msg/s▼"), HasSubstr(">worker/0 scheduler")));
  EXPECT_THAT(after("r"), HasSubstr(">ps/0     node"));
}

TEST_F(TopModel, KeepsRowsWithTheWordsThatAreTyped) {
  EXPECT_THAT(after("a/DEV"), AllOf(HasSubstr("filter \"DEV\": 2 of 8 rows"), HasSubstr(" / DEV_"),
                                    HasSubstr("device CPU:0"), Not(HasSubstr("coordinator"))));
  EXPECT_THAT(after("q/a"), HasSubstr("filter \"DEVq/a\": 0 of 8 rows"));  // keys are letters meanwhile
  EXPECT_FALSE(model_.ended());
  EXPECT_THAT(after("\b\b\b\n"), AllOf(HasSubstr("filter \"DEV\": 2 of 8 rows"), Not(HasSubstr(" / DEV_"))));
  EXPECT_THAT(after("1a"), HasSubstr("filter \"DEV\""));
  EXPECT_THAT(after("\x1b"), AllOf(Not(HasSubstr("filter \"")), HasSubstr("coordinator")));
}

TEST_F(TopModel, ShowsOtherColumns) {
  after("a");
  EXPECT_THAT(seen(), AllOf(HasSubstr("▶"), Not(HasSubstr("restarts"))));
  for (int i = 0; i < 20; ++i) press(Kind::right);
  EXPECT_THAT(seen(), AllOf(HasSubstr("◀task"), HasSubstr("sent/s"), HasSubstr("coordinator")));
  for (int i = 0; i < 20; ++i) press(Kind::left);
  EXPECT_THAT(seen(), HasSubstr(" task"));
}

TEST_F(TopModel, AnswersOfTheClusterAreNotWaitedFor) {
  Model empty(1);
  EXPECT_THAT(plain_text(empty.page({.waiting = 0.4})),
              AllOf(HasSubstr("asked 0.4 s ago, no answer yet"), HasSubstr("Waiting for the first answer.")));
  for (const char c : std::string("adhew1<>r/x")) empty.press({Kind::character, c});
  EXPECT_THAT(plain_text(empty.page({.waiting = 0.4, .error = "nobody\x1b]"})),
              HasSubstr("! no answer: nobody\uFFFD]"));
  EXPECT_THAT(seen({.age = 3.2, .waiting = 2.2}), HasSubstr("asked 2.2 s ago, no answer yet"));
  EXPECT_THAT(seen({.age = 1.0, .waiting = 0.1}), HasSubstr("1.0 s old, every 1 s"));
}

TEST_F(TopModel, StandsStillAndGoesSlowerOrFaster) {
  EXPECT_FALSE(model_.paused());
  EXPECT_THAT(after("p"), HasSubstr("PAUSED"));
  EXPECT_TRUE(model_.paused());
  after("p+");
  EXPECT_EQ(model_.interval(), 2);
  after("--------------------");
  EXPECT_EQ(model_.interval(), 0.25);
  after("++++++++++++++++++++");
  EXPECT_EQ(model_.interval(), 60);
  EXPECT_FALSE(model_.ended());
  after("q");
  EXPECT_TRUE(model_.ended());
}

TEST_F(TopModel, TeachesItsKeys) {
  EXPECT_THAT(after("?"), AllOf(HasSubstr("1 to 8, Tab"), HasSubstr("< >"), HasSubstr("Esc back")));
  EXPECT_THAT(after("?"), HasSubstr("[1 Summary]"));
}

TEST_F(TopModel, ScrollsWhatIsLongerThanTheScreen) {
  model_.resize({80, 12});
  EXPECT_THAT(after("a\n"), Not(HasSubstr("more lines")));
  press(Kind::escape);
  press(Kind::down);
  EXPECT_THAT(after("\n"), AllOf(HasSubstr("shard of ps/0"), HasSubstr("more lines: Down, PgDn")));
  EXPECT_THAT(press(Kind::end), AllOf(HasSubstr("updates"), Not(HasSubstr("more lines"))));
  EXPECT_THAT(press(Kind::home), HasSubstr("shard of ps/0"));
  after("\x1b");
  press(Kind::end);
  EXPECT_THAT(seen(), HasSubstr(">worker/1"));
  EXPECT_THAT(press(Kind::page_up), Not(HasSubstr(">worker/1")));
}

TEST_F(TopModel, EveryScreenFitsEverySize) {
  for (const char* keys : {"1", "2", "2\n", "3", "3\n", "4", "4\n", "5", "5\n", "6", "?", "2/xyz", "\x1b"}) {
    after(keys);
    for (const std::size_t columns : {1, 2, 10, 23, 40, 80, 81, 131, 300})
      for (const std::size_t rows : {1, 2, 3, 4, 5, 9, 24, 60}) {
        model_.resize({columns, rows});
        const Lines lines = model_.page(kFresh);
        EXPECT_EQ(lines.size(), rows) << keys << " " << columns << " x " << rows;
        for (const Line& each : lines) {
          std::size_t used = 0;
          for (const Span& span : each) used += width(span.text);
          ASSERT_LE(used, columns) << keys << " " << columns << " x " << rows << ": " << plain_text({each});
        }
      }
    model_.resize({80, 24});
  }
}

// Every text of a snapshot that others chose.
Observation hostile() {
  const std::string evil =
      "\x1b]0;owned\x07\x9b"
      "31m\r\n\x08\xff\xe2\x80\xae"
      "evil";
  Observation out = example_observation();
  out.snapshot.cluster = out.snapshot.asked = evil;
  for (TaskReport& report : out.snapshot.tasks) {
    report.task += evil;
    report.error += evil;
    if (!report.snapshot) continue;
    TaskSnapshot& task = *report.snapshot;
    task.task = report.task;
    task.failure = evil;
    for (ActorSnapshot& actor : task.actors) {
      for (std::string* text : {&actor.kind, &actor.name, &actor.state, &actor.current, &actor.waits_for})
        *text += evil;
      actor.messages[evil] = actor.peers[evil] = 1;
    }
    for (DeviceSnapshot& device : task.devices) {
      for (std::string* text : {&device.name, &device.type, &device.running, &device.failure, &device.last_refusal})
        *text += evil;
      device.recordings = 1;
      device.largest = {{evil, evil, 1}};
    }
    for (ShardSnapshot& shard : task.shards) {
      shard.waits_for = evil;
      shard.counts[evil] = 1;
    }
    for (LinkSnapshot& link : task.links) link.peer = evil;
    if (task.training) task.training->doing = task.training->mode = evil;
    if (task.job) {
      task.job->mode = task.job->stage = evil;
      for (MemberSnapshot& member : task.job->members) member.task += evil;
    }
  }
  out.rates = rates(out.snapshot, out.snapshot);
  out.waits.text = evil;
  for (RootCause& cause : out.waits.causes) cause.text = evil;
  return out;
}

TEST(TopHostile, NoNameReachesTheTerminalAsItIs) {
  const auto harmless = [](const std::string& text) {
    EXPECT_THAT(text, HasSubstr("evil"));
    for (const char* part : {"\x1b", "\x07", "\x08", "\r", "\xff", "\xe2\x80\xae"})
      EXPECT_THAT(text, Not(HasSubstr(part)));
    std::string lines = text;
    std::erase(lines, '\n');
    EXPECT_EQ(clean(lines), lines);
  };
  harmless(whole_text(hostile()));
  Model model(1);
  model.resize({400, 80});
  model.take(hostile());
  for (const char key : std::string("123456")) {
    model.press({Kind::character, key});
    harmless(plain_text(model.page({.age = 1, .error = "evil\x1b"})));
    model.press({Kind::enter});
    harmless(plain_text(model.page(kFresh)));
  }
}

TEST(TopDevices, ALostDeviceSaysWhyAndPinnedMemoryIsShown) {
  Observation seen = example_observation();
  for (TaskReport& report : seen.snapshot.tasks)
    if (report.snapshot && report.task == "/job:worker/task:0") {
      report.snapshot->devices.front().failure = "its GPU is lost";
      report.snapshot->devices.front().pinned_bytes = std::uint64_t{3} << 20;
    }
  EXPECT_THAT(whole_text(seen), ::testing::ContainsRegex("worker/0 CPU:0 .* its GPU is lost .* 0 B "));
  Model model(1);
  model.resize({120, 40});
  model.take(seen);
  model.press({Kind::character, '3'});
  model.press({Kind::down});
  model.press({Kind::enter});
  EXPECT_THAT(plain_text(model.page(kFresh)),
              AllOf(HasSubstr("lost       its GPU is lost"),
                    HasSubstr("pinned     3.0 MiB of host memory, for copies to and from this device")));
}

TEST(TopInputs, ShowStagesOfPipelinesAndTheirBatches) {
  Observation seen = example_observation();
  for (TaskReport& report : seen.snapshot.tasks)
    if (report.snapshot && report.task == "/job:worker/task:0")
      report.snapshot->pipelines = {
          {.data = "training",
           .feeds = 3,
           .made = 100,
           .waited = 40,
           .wanted = 2,
           .making = 1,
           .kept = 5,
           .kept_bytes = 5 << 20,
           .makers = 2,
           .ahead = 8,
           .stages = {
               {.name = "records", .elements = 3264, .busy = 0.04},
               {.name = "map decode", .elements = 3200, .busy = 0.93, .held_bytes = 3 << 20, .skipped_records = 7}}}};
  seen.rates = no_rates(seen.snapshot);
  EXPECT_THAT(whole_text(seen), AllOf(HasSubstr("INPUTS"),
                                      ::testing::ContainsRegex("worker/0 +training +map decode .*93% .*3.0 MiB +3,200"),
                                      ::testing::ContainsRegex("worker/0 +training +batches .*5.0 MiB +100 +40")));
  Model model(1);
  model.resize({120, 40});
  model.take(seen);
  model.press({Kind::character, 'i'});
  EXPECT_THAT(plain_text(model.page(kFresh)), HasSubstr("[7 Inputs]"));
  model.press({Kind::down});
  model.press({Kind::enter});
  EXPECT_THAT(plain_text(model.page(kFresh)),
              AllOf(HasSubstr("100 batches, of which 40 were wanted before they were made"),
                    HasSubstr("2 wanted, 1 being made, 5 kept: 5.0 MiB"), HasSubstr("2 threads, 8 batches ahead")));
}

TEST(TopModels, ShowVersionsOfServedModels) {
  Observation seen;
  LatencySnapshot total{.count = 100, .sum_ns = 100'000'000, .longest_ns = 2'000'000};
  total.buckets.resize(21);
  total.buckets[20] = 100;  // below 1.024 ms
  TaskSnapshot task{.task = "/job:serve/task:0"};
  task.servables = {{.model = "digits",
                     .version = 3,
                     .state = "Ready",
                     .labels = {"stable"},
                     .bytes = 5 << 20,
                     .in_flight = 2,
                     .waiting_rows = 7,
                     .requests = {{"ok", 100}, {"unavailable", 4}},
                     .stages = {{"run", total}, {"total", total}},
                     .batches = {1, 0, 0, 9},
                     .batch_rows = 65},
                    {.model = "digits", .version = 4, .state = "New", .error = "it does not fit"}};
  seen.snapshot.tasks = {{.task = task.task, .answered = true, .snapshot = std::move(task)}};
  seen.rates = no_rates(seen.snapshot);
  EXPECT_THAT(
      whole_text(seen),
      AllOf(HasSubstr("MODELS"),
            ::testing::ContainsRegex("serve/0 +digits +3 +Ready +stable +- +- +.*s +.*s +6.5 +7 +2 +100 +5.0 MiB"),
            ::testing::ContainsRegex("serve/0 +digits +4 +New")));
  Model model(1);
  model.resize({120, 40});
  model.take(seen);
  model.press({Kind::character, 'm'});
  EXPECT_THAT(plain_text(model.page(kFresh)), HasSubstr("[8 Models]"));
  model.press({Kind::enter});
  EXPECT_THAT(plain_text(model.page(kFresh)),
              AllOf(HasSubstr("version 3 of digits"), HasSubstr("4 ended with unavailable"),
                    HasSubstr("2 in flight, 7 rows wait for a batch"), HasSubstr("1 of 1, 9 of 5 to 8 rows")));
  model.press({Kind::escape});
  model.press({Kind::down});
  model.press({Kind::enter});
  EXPECT_THAT(plain_text(model.page(kFresh)), HasSubstr("New: it does not fit"));
}

TEST(TopSummary, ThatNoUpdateIsLateIsSaidPlainly) {
  Observation seen = example_observation();
  seen.snapshot.tasks[0].snapshot->shards[0].staleness = {36, 0, 0};
  EXPECT_THAT(whole_text(seen), HasSubstr("\nstaleness  none late\n"));
}

// What is wrong and holds nobody up is not what the job is stuck for.
TEST(TopSummary, TellsWhatTheJobIsStuckForApartFromOtherTrouble) {
  Observation seen = example_observation();
  seen.waits.causes.assign(6, {.kind = RootCause::Kind::silent, .text = "/job:worker/task:2 has ended"});
  seen.waits.causes[0] = {.kind = RootCause::Kind::stuck, .text = "the shard", .waiters = 3};
  EXPECT_THAT(whole_text(seen), HasSubstr("\nstuck      ! stuck: the shard\n"
                                          "trouble    ! silent: worker/2 has ended\n"
                                          "           ! silent: worker/2 has ended\n"
                                          "           ! silent: worker/2 has ended\n"
                                          "           ! and 2 more\n"));
}

TEST(TopActors, OfOneKindAndNameAreOneRow) {
  Observation seen = example_observation();
  const std::string device = "/job:worker/task:0/device:CPU:0";
  TaskSnapshot& task = *seen.snapshot.tasks[1].snapshot;
  for (int i = 0; i < 3; ++i)
    task.actors.push_back({.kind = "partition",
                           .name = device,
                           .state = i == 1 ? "busy" : "idle",
                           .mailbox_peak = static_cast<std::uint64_t>(i),
                           .handled = 2,
                           .current = i == 1 ? "BuildPlan" : "",
                           .messages = {{"BuildPlan", 2}}});
  seen.rates = rates(seen.snapshot, seen.snapshot);
  Model model(1);
  model.resize({100, 40});
  model.take(seen);
  for (const char key : std::string("a/partition")) model.press({Kind::character, key});
  model.press({Kind::enter});
  EXPECT_THAT(plain_text(model.page(kFresh)),
              AllOf(HasSubstr("1 of 9 rows"), HasSubstr(">worker/0 partition CPU:0 ×3 busy")));
  model.press({Kind::enter});
  EXPECT_THAT(plain_text(model.page(kFresh)), AllOf(HasSubstr("partition CPU:0 ×3 of worker/0"), HasSubstr("2 at most"),
                                                    HasSubstr("6 handled"), HasSubstr("BuildPlan")));
}

TEST(TopOnce, PrintsEverything) {
  EXPECT_EQ(whole_text(example_observation()), R"(demo, 4 tasks, asked ps/0
tasks      3 answer, 1 SILENT
job        sync, epoch 3 of 5, step 20 of 1,000 (2%), 98.0 s left
speed      10 steps/s, 640 images/s, 5.0 MiB/s between tasks, loss 0.1250
gradients  120 staged, 20 updates; dropped: 3 stale
staleness  █▂ from 0 to 1; 90% current, mean 0.10 updates
stuck      ! silent: worker/2 has not answered within 1.0 s

TASKS
 task     state   busy steps/s images/s   loss mail does                            memory   out/s    in/s    up  pid
 ps/0     answers  50%       -        -      -    3 coordinates: training          3.0 MiB 1.0 MiB 2.0 MiB 2.0 s 4711
 worker/0 answers 100%      10      320 0.2500    0 step 20, slot 1 for 12 ms     64.0 MiB 2.0 MiB     0 B 2.0 s 4711
 worker/1 answers 100%      10      320 1.2500    0 step 20, slot 1 for 12 ms     64.0 MiB 2.0 MiB     0 B 2.0 s 4711
 worker/2 SILENT     -       -        -      -    - has not answered within 1.0 s        -       -       -     -    -

ACTORS
 task     actor         state   for mailbox peak msg/s busy handles; waits for                  restarts handled sent/s
 ps/0     node          idle              0    0   0.0   0%                                            0      12    0.0
 ps/0     shard         busy   0 ns       3   57   100  25% Push; waits for slot 1 of step 20          1     200     50
 ps/0     coordinator   waits 7.2 s       0    0    30   0%                                            0      60    0.0
          waits for step 20 slot 1 of worker/1
 ps/0     peer worker/0 idle              0    0   100   0%                                            0     200    0.0
 worker/0 scheduler     idle              0    0   200   0%                                            0     400    0.0
 worker/0 device CPU:0  busy  1.0 s       0    0    20  50% ExecuteSegment                             0      40    0.0
 worker/1 scheduler     idle              0    0   200   0%                                            0     400    0.0
 worker/1 device CPU:0  busy  1.0 s       0    0    20  50% ExecuteSegment                             0      40    0.0

DEVICES
 task     device busy nodes/s queue   in use     peak   limit runs                   cached allocations reused
 ps/0     CPU:0   50%   1,000     0  3.0 MiB  4.0 MiB    none                       1.0 MiB       1,000    99%
 worker/0 CPU:0  100%   5,000     1 64.0 MiB 96.0 MiB 128 MiB MatMul 'dense/matmul'     0 B           0      -
 worker/1 CPU:0  100%   5,000     1 64.0 MiB 96.0 MiB 128 MiB MatMul 'dense/matmul'     0 B           0      -

LARGEST TENSORS
 task device   bytes share tensors                  of
 ps/0 CPU:0  1.1 MiB   38% 3 × 392 KiB f32[784,128] dense/weights
 ps/0 CPU:0    512 B    0% 512 B f32[128]           bias

SHARDS
 task shard   bytes version staged push/s pull/s parked dropped late             pushes pulls updates slices
 ps/0     0 398 KiB      20 1 of 2     60     40      1       3 slot 1: worker/1    120    80      20      4

EDGES
 task     peer     state   by       out/s    in/s queue  queued   credit   window  heard frames/s    sent received
 ps/0     worker/0 up      memory 1.0 MiB 2.0 MiB     2 4.0 KiB 60.0 MiB 64.0 MiB 3.0 ms      170 2.0 MiB  4.0 MiB
 ps/0     worker/2 down    socket     0 B     0 B     0     0 B      0 B      0 B 12.0 s      0.0     0 B      0 B
 worker/0 ps/0     up      socket 2.0 MiB     0 B     0     0 B      0 B 64.0 MiB   0 ns      0.0 4.0 MiB      0 B
 worker/1 ps/0     stalled socket 2.0 MiB     0 B     0     0 B      0 B 64.0 MiB   0 ns      0.0 4.0 MiB      0 B

WHY
silent: worker/2 has not answered within 1.0 s
)");
  EXPECT_EQ(whole_text(example_observation()), whole_text(example_observation()));
}

}  // namespace
}  // namespace troupe::top
