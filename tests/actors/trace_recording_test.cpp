// Recording tasks that are pretended.
#include "actors/introspection/trace_recording.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "messages/error.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"

namespace troupe {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

// A task whose clock is `ahead` of ours, and which ends a step whenever it is asked.
class PretendedTask {
 public:
  PretendedTask(std::string name, std::int64_t ahead_ns, bool has_steps = true)
      : name_(std::move(name)), ahead_ns_(ahead_ns), has_steps_(has_steps) {}

  TracedTask task() {
    return {name_, [this](const std::string& path, bool post) { return answer(path, post); }};
  }
  std::vector<std::string> asked;
  std::uint64_t slow_step = 0;  // of this number takes a second
  bool silent = false;
  std::int64_t began_late_ns = 0;  // its ring has nothing before

 private:
  std::string answer(const std::string& path, bool post) {
    if (asked.empty() || asked.back() != path) asked.push_back(path);
    if (silent) fail(Code::deadline_exceeded, "no answer within 1.0 s");
    TaskTrace out{.task = name_, .clock = "of " + name_, .now_ns = 0, .status = {}, .recording = {}};
    using State = Trace::State;
    if (post)
      status_.state = path.ends_with("stop")                     ? State::done
                      : path.find("slower") != std::string::npos ? State::waiting
                                                                 : State::recording;
    if (post && status_.state != State::done) status_.began_ns = now();
    // As if a second had passed: what is recorded in no time may be shorter than the clocks' offset is unsure.
    if (post && status_.state == State::done && status_.ended_ns == 0) status_.ended_ns = now() + 1'000'000'000;
    if (!post && status_.state != State::done && has_steps_ && ++status_.steps == slow_step) {
      status_.state = State::done;
      status_.slow_step = slow_step;
      status_.slow_step_ns = 1'000'000'000;
      status_.ended_ns = now();
    }
    if (path.find("events") != std::string::npos) {
      TraceRecording& r = out.recording.emplace();
      const auto from = path.find("from=");
      r.began_ns = std::max<std::int64_t>(
          began_late_ns, from == std::string::npos ? status_.began_ns : std::stoll(path.substr(from + 5)));
      r.ended_ns = status_.ended_ns;
      r.names = {"", "step"};
      r.events = {
          {.kind = TraceKind::step, .name = 1, .begin_ns = r.ended_ns - 1, .end_ns = r.ended_ns, .step = {1, 1}}};
    }
    out.status = status_;
    out.now_ns = now();
    return to_json(out);
  }
  std::int64_t now() const { return Trace::now_ns() + ahead_ns_; }

  std::string name_;
  std::int64_t ahead_ns_;
  bool has_steps_;
  Trace::Status status_;
};

constexpr std::int64_t kHour = 3'600'000'000'000;
const TraceRequest kThreeSteps{.steps = 3, .pause = std::chrono::nanoseconds(0)};

TEST(RecordTrace, StartsAllWaitsForTheStepsAndCollectsWhatAllHaveOnOneClock) {
  PretendedTask worker("/job:worker/task:0", kHour), ps("/job:ps/task:0", -kHour, false);
  std::vector<std::string> said;
  const TraceFile file = record_trace({worker.task(), ps.task()}, "demo", kThreeSteps,
                                      [&](const std::string& text) { said.push_back(text); });
  EXPECT_THAT(worker.asked, ElementsAre("/trace", "/trace?stop", "/trace", "/trace?events"));
  EXPECT_EQ(worker.asked, ps.asked);
  EXPECT_THAT(said, ElementsAre("1 of 3 steps", "2 of 3 steps", "3 of 3 steps"));
  const json about = json::parse(file.json).at("otherData");
  EXPECT_EQ(about["cluster"], "demo");
  const std::int64_t ahead = about["tasks"][0]["offset_ns"], unsure = about["tasks"][0]["uncertainty_ns"];
  EXPECT_LE(std::abs(ahead - kHour), unsure);
  EXPECT_LE(std::abs(about["tasks"][1]["offset_ns"].get<std::int64_t>() + kHour),
            about["tasks"][1]["uncertainty_ns"].get<std::int64_t>());
}

TEST(RecordTrace, ASlowStepOfOneTaskStopsAllAndTheirTimeIsAskedFor) {
  PretendedTask slow("/job:worker/task:1", 0), other("/job:worker/task:0", kHour);
  slow.slow_step = 7;
  std::vector<std::string> said;
  record_trace({other.task(), slow.task()}, "",
               {.steps = 2, .slower_than_ms = 50, .pause = std::chrono::nanoseconds(0)},
               [&](const std::string& text) { said.push_back(text); });
  EXPECT_EQ(other.asked.at(0), "/trace?slower_than_ms=50&steps=2");
  EXPECT_EQ(said.back(), "step 7 of /job:worker/task:1 took 1000.000 ms");
  const std::string from = other.asked.back().substr(other.asked.back().find("from=") + 5);
  EXPECT_GT(std::stoll(from), kHour);  // on its own clock
}

TEST(RecordTrace, WhoHasNotRecordedAllOfTheSlowStepIsLeftOut) {
  PretendedTask slow("/job:worker/task:1", 0), late("/job:worker/task:0", 0);
  slow.slow_step = 3;
  late.began_late_ns = INT64_MAX - 1;
  std::vector<std::string> said;
  const TraceFile file = record_trace({late.task(), slow.task()}, "",
                                      {.steps = 1, .slower_than_ms = 50, .pause = std::chrono::nanoseconds(0)},
                                      [&](const std::string& text) { said.push_back(text); });
  EXPECT_EQ(said.back(), "/job:worker/task:0 is left out: it has not recorded all of these steps");
  EXPECT_EQ(json::parse(file.json)["otherData"]["tasks"].size(), 1u);
}

TEST(RecordTrace, WhoDoesNotAnswerIsLeftOutAndANameIsSaid) {
  PretendedTask worker("/job:worker/task:0", 0), silent("/job:ps/task:0", 0);
  silent.silent = true;
  std::vector<std::string> said;
  const auto say = [&](const std::string& text) { said.push_back(text); };
  EXPECT_EQ(
      json::parse(record_trace({worker.task(), silent.task()}, "", kThreeSteps, say).json)["otherData"]["tasks"].size(),
      1u);
  EXPECT_EQ(said.at(0), "/job:ps/task:0 is left out: no answer within 1.0 s");
  try {
    record_trace({silent.task()}, "", kThreeSteps, say);
    FAIL() << "nobody was traced";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::deadline_exceeded);
  }
}

TEST(RecordTrace, WithoutStepsItSaysSo) {
  PretendedTask idle("/job:worker/task:0", 0, false);
  try {
    record_trace({idle.task()}, "", {.patience = std::chrono::nanoseconds(1), .pause = std::chrono::nanoseconds(0)},
                 [](const std::string&) {});
    FAIL() << "a trace without steps";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("no step has ended within"));
  }
  EXPECT_THAT(idle.asked, ElementsAre("/trace", "/trace?stop"));
}

TEST(RecordTrace, EndsWithWhatThereIsWhenItIsTold) {
  PretendedTask worker("/job:worker/task:0", 0), idle("/job:worker/task:1", 0, false);
  std::stop_source stop;
  const auto say = [&](const std::string& text) {
    if (text.starts_with("2 of ")) stop.request_stop();
  };
  const TraceRequest endless{.steps = 1000000,
                             .patience = std::chrono::hours(1),
                             .pause = std::chrono::nanoseconds(0),
                             .stop = stop.get_token()};
  EXPECT_EQ(record_trace({worker.task()}, "", endless, say).steps, 1u);
  EXPECT_THAT(worker.asked, ElementsAre("/trace", "/trace?stop", "/trace", "/trace?events"));
  const Error none = error_of([&] { record_trace({idle.task()}, "", endless, say); });
  EXPECT_EQ(none.code(), Code::aborted);
  EXPECT_THAT(idle.asked, ElementsAre("/trace", "/trace?stop"));
}

TEST(TracedTask, OfThisProcessIsAskedWithoutASocket) {
  Trace trace;
  const TracedTask task = traced_task(trace, "/job:local/task:0");
  EXPECT_EQ(parse_task_trace(task.ask("/trace", false)).status.state, Trace::State::idle);
  EXPECT_EQ(parse_task_trace(task.ask("/trace?slower_than_ms=50&steps=2", true)).status.state, Trace::State::waiting);
  trace.begin_step({1, 1}, "step");
  trace.end_step(1);
  EXPECT_EQ(parse_task_trace(task.ask("/trace?stop", true)).status.steps, 1u);
  EXPECT_EQ(parse_task_trace(task.ask("/trace?events", false)).recording->events.size(), 1u);
  EXPECT_EQ(parse_task_trace(task.ask("/trace?events&to=1", false)).recording->events.size(), 0u);
  EXPECT_THAT(error_of([&] { task.ask("/trace?steps=x", true); }).message(), HasSubstr("steps is a number"));
}

TEST(TracePath, IsLookedAtBeforeAnythingIsRecorded) {
  const testing::TemporaryDirectory directory;
  check_trace_path(directory.file("t.json"));
  for (const std::string& wrong : {std::string("/nonexistent/t.json"), directory.file("")})
    EXPECT_EQ(error_of([&] { check_trace_path(wrong); }).code(), Code::permission_denied) << wrong;
}

}  // namespace
}  // namespace troupe
