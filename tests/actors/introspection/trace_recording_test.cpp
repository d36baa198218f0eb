// Recording tasks that are pretended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/introspection/trace_recording.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

constexpr std::int64_t kHour = 3'600'000'000'000;

// Passes while a task is asked, and never otherwise.
struct PretendedTime {
  std::int64_t now_ns = 2 * kHour;
};

// A task whose clock is `ahead` of ours, and which ends a step whenever it is asked.
class PretendedTask {
 public:
  PretendedTask(PretendedTime& time, std::string name, std::int64_t ahead_ns, bool has_steps = true)
      : time_(time), name_(std::move(name)), ahead_ns_(ahead_ns), has_steps_(has_steps) {}

  // One question in four is not held up.
  static constexpr std::int64_t kThere = 3000, kBack = 1000, kHeldUp = 50'000;

  TracedTask task() {
    return {name_, [this](const std::string& path, bool post) {
              const std::int64_t held_up = ++questions_ % 4 == 0 ? 0 : kHeldUp;
              time_.now_ns += kThere + held_up;
              const std::string out = answer(path, post);
              time_.now_ns += kBack;
              return out;
            }};
  }
  std::vector<std::string> asked;
  std::uint64_t slow_step = 0;  // of this number takes a second
  bool silent = false;
  std::int64_t began_late_ns = 0;  // its ring has nothing before

 private:
  std::string answer(const std::string& path, bool post) {
    if (asked.empty() || asked.back() != path) asked.push_back(path);
    if (silent) fail(Code::deadline_exceeded, "no answer within 1.0 s");
    TaskTrace out{.task = name_, .clock = "of " + name_, .now_ns = now(), .status = {}, .recording = {}};
    using State = Trace::State;
    if (post)
      status_.state = path.ends_with("stop")                     ? State::done
                      : path.find("slower") != std::string::npos ? State::waiting
                                                                 : State::recording;
    if (post && status_.state != State::done) status_.began_ns = now();
    if (post && status_.state == State::done && status_.ended_ns == 0) status_.ended_ns = now();
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
    return to_json(out);
  }
  std::int64_t now() const { return time_.now_ns + ahead_ns_; }

  PretendedTime& time_;
  std::string name_;
  std::int64_t ahead_ns_;
  bool has_steps_;
  int questions_ = 0;
  Trace::Status status_;
};

class RecordTrace : public ::testing::Test {
 protected:
  // Asked in this order.
  TraceFile record(const std::vector<PretendedTask*>& tasks, TraceRequest request, const std::string& cluster = "") {
    request.pause = std::chrono::nanoseconds(0);
    request.now_ns = [this] { return time.now_ns; };
    std::vector<TracedTask> traced;
    for (PretendedTask* task : tasks) traced.push_back(task->task());
    return record_trace(std::move(traced), cluster, request, [this](const std::string& text) {
      said.push_back(text);
      if (on_said) on_said(text);
    });
  }

  PretendedTime time;
  std::vector<std::string> said;
  std::function<void(const std::string&)> on_said;
};

TEST_F(RecordTrace, StartsAllWaitsForTheStepsAndCollectsWhatAllHaveOnOneClock) {
  PretendedTask worker(time, "/job:worker/task:0", kHour), ps(time, "/job:ps/task:0", -kHour, false);
  const TraceFile file = record({&worker, &ps}, {.steps = 3}, "demo");
  EXPECT_THAT(worker.asked, ElementsAre("/trace", "/trace?stop", "/trace", "/trace?events"));
  EXPECT_EQ(worker.asked, ps.asked);
  EXPECT_THAT(said, ElementsAre("1 of 3 steps", "2 of 3 steps", "3 of 3 steps"));
  const json about = json::parse(file.json).at("otherData");
  EXPECT_EQ(about["cluster"], "demo");
  EXPECT_EQ(about["tasks"][0]["task"], "/job:worker/task:0");
  EXPECT_EQ(about["tasks"][1]["task"], "/job:ps/task:0");
}

// By the question that was not held up: as if it had taken as long there as back.
TEST_F(RecordTrace, SaysHowFarEachClockIsAheadAndHowUnsureThatIs) {
  PretendedTask ahead(time, "/job:worker/task:0", kHour), behind(time, "/job:ps/task:0", -kHour);
  const json tasks = json::parse(record({&ahead, &behind}, {.steps = 3}).json).at("otherData").at("tasks");
  constexpr std::int64_t kUnsure = (PretendedTask::kThere + PretendedTask::kBack) / 2;
  EXPECT_EQ(tasks[0]["offset_ns"], kHour + PretendedTask::kThere - kUnsure);
  EXPECT_EQ(tasks[1]["offset_ns"], -kHour + PretendedTask::kThere - kUnsure);
  for (const json& task : tasks) EXPECT_EQ(task["uncertainty_ns"], kUnsure) << task.dump();
}

TEST_F(RecordTrace, ASlowStepOfOneTaskStopsAllAndTheirTimeIsAskedFor) {
  PretendedTask slow(time, "/job:worker/task:1", 0), other(time, "/job:worker/task:0", kHour);
  slow.slow_step = 7;
  record({&other, &slow}, {.steps = 2, .slower_than_ms = 50});
  EXPECT_EQ(other.asked.at(0), "/trace?slower_than_ms=50&steps=2");
  EXPECT_EQ(said.back(), "step 7 of /job:worker/task:1 took 1000.000 ms");
  const std::string from = other.asked.back().substr(other.asked.back().find("from=") + 5);
  EXPECT_GT(std::stoll(from), 3 * kHour);  // on its own clock
}

TEST_F(RecordTrace, WhoHasNotRecordedAllOfTheSlowStepIsLeftOut) {
  PretendedTask slow(time, "/job:worker/task:1", 0), late(time, "/job:worker/task:0", 0);
  slow.slow_step = 3;
  late.began_late_ns = INT64_MAX - 1;
  const TraceFile file = record({&late, &slow}, {.steps = 1, .slower_than_ms = 50});
  EXPECT_EQ(said.back(), "/job:worker/task:0 is skipped: it did not record all of these steps");
  EXPECT_EQ(json::parse(file.json)["otherData"]["tasks"].size(), 1u);
}

TEST_F(RecordTrace, WhoDoesNotAnswerIsLeftOutAndANameIsSaid) {
  PretendedTask worker(time, "/job:worker/task:0", 0), silent(time, "/job:ps/task:0", 0);
  silent.silent = true;
  EXPECT_EQ(json::parse(record({&worker, &silent}, {.steps = 3}).json)["otherData"]["tasks"].size(), 1u);
  EXPECT_EQ(said.at(0), "/job:ps/task:0 is skipped: no answer within 1.0 s");
  EXPECT_EQ(error_of([&] { record({&silent}, {.steps = 3}); }).code(), Code::deadline_exceeded);
}

TEST_F(RecordTrace, WithoutStepsItSaysSoWhenItsPatienceIsOver) {
  PretendedTask idle(time, "/job:worker/task:0", 0, false);
  const std::int64_t begin = time.now_ns;
  const Error error = error_of([&] { record({&idle}, {.patience = std::chrono::milliseconds(1)}); });
  EXPECT_EQ(error.code(), Code::deadline_exceeded);
  EXPECT_THAT(error.message(), HasSubstr("no step has ended within"));
  EXPECT_GT(time.now_ns - begin, 1'000'000);
  EXPECT_THAT(idle.asked, ElementsAre("/trace", "/trace?stop"));
}

TEST_F(RecordTrace, EndsWithWhatThereIsWhenItIsTold) {
  PretendedTask worker(time, "/job:worker/task:0", 0), idle(time, "/job:worker/task:1", 0, false);
  std::stop_source stop;
  on_said = [&](const std::string& text) {
    if (text.starts_with("2 of ")) stop.request_stop();
  };
  const TraceRequest endless{.steps = 1000000, .patience = std::chrono::hours(1), .stop = stop.get_token()};
  EXPECT_EQ(record({&worker}, endless).steps, 1u);
  EXPECT_THAT(worker.asked, ElementsAre("/trace", "/trace?stop", "/trace", "/trace?events"));
  const Error none = error_of([&] { record({&idle}, endless); });
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
  EXPECT_THAT(error_of([&] { task.ask("/trace?steps=x", true); }).message(),
              HasSubstr("steps must be a number from 0 to 1000000, not 'x'"));
}

TEST(TracePath, IsLookedAtBeforeAnythingIsRecorded) {
  const testing::TemporaryDirectory directory;
  check_trace_path(directory.file("t.json"));
  for (const std::string& wrong : {std::string("/nonexistent/t.json"), directory.file("")})
    EXPECT_EQ(error_of([&] { check_trace_path(wrong); }).code(), Code::permission_denied) << wrong;
}

}  // namespace
}  // namespace troupe
