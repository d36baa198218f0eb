// How troupe-top records a cluster, on tasks that are pretended; and what tools/check_trace.py finds wrong with a trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "messages/error.hpp"
#include "tests/apps/process.hpp"
#include "tools/top/trace.hpp"

namespace troupe {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Process;
using testing::TemporaryDirectory;

// ---- Recording -----------------------------------------------------------------------------------------------------------

// A task whose clock is `ahead` of ours, and which ends a step whenever it is asked.
class PretendedTask {
 public:
  PretendedTask(std::string name, std::int64_t ahead_ns, bool has_steps = true) : name_(std::move(name)), ahead_ns_(ahead_ns), has_steps_(has_steps) {}

  top::TracedTask task() {
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
    if (post) status_.state = path.ends_with("stop") ? State::done : path.find("slower") != std::string::npos ? State::waiting : State::recording;
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
      r.began_ns = std::max<std::int64_t>(began_late_ns, from == std::string::npos ? status_.began_ns : std::stoll(path.substr(from + 5)));
      r.ended_ns = status_.ended_ns;
      r.names = {"", "step"};
      r.events = {{.kind = TraceKind::step, .name = 1, .begin_ns = r.ended_ns - 1, .end_ns = r.ended_ns, .step = {1, 1}}};
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
const top::TraceRequest kThreeSteps{.steps = 3, .pause = std::chrono::nanoseconds(0)};

TEST(RecordTrace, StartsAllWaitsForTheStepsAndCollectsWhatAllHaveOnOneClock) {
  PretendedTask worker("/job:worker/task:0", kHour), ps("/job:ps/task:0", -kHour, false);
  std::vector<std::string> said;
  const TraceFile file = top::record_trace({worker.task(), ps.task()}, "demo", kThreeSteps, [&](const std::string& text) { said.push_back(text); });
  EXPECT_THAT(worker.asked, ElementsAre("/trace", "/trace?stop", "/trace", "/trace?events"));
  EXPECT_EQ(worker.asked, ps.asked);
  EXPECT_THAT(said, ElementsAre("1 of 3 steps", "2 of 3 steps", "3 of 3 steps"));
  const json about = json::parse(file.json).at("otherData");
  EXPECT_EQ(about["cluster"], "demo");
  const std::int64_t ahead = about["tasks"][0]["offset_ns"], unsure = about["tasks"][0]["uncertainty_ns"];
  EXPECT_LE(std::abs(ahead - kHour), unsure);
  EXPECT_LE(std::abs(about["tasks"][1]["offset_ns"].get<std::int64_t>() + kHour), about["tasks"][1]["uncertainty_ns"].get<std::int64_t>());
}

TEST(RecordTrace, ASlowStepOfOneTaskStopsAllAndTheirTimeIsAskedFor) {
  PretendedTask slow("/job:worker/task:1", 0), other("/job:worker/task:0", kHour);
  slow.slow_step = 7;
  std::vector<std::string> said;
  top::record_trace({other.task(), slow.task()}, "", {.steps = 2, .slower_than_ms = 50, .pause = std::chrono::nanoseconds(0)}, [&](const std::string& text) { said.push_back(text); });
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
  const TraceFile file = top::record_trace({late.task(), slow.task()}, "", {.steps = 1, .slower_than_ms = 50, .pause = std::chrono::nanoseconds(0)}, [&](const std::string& text) { said.push_back(text); });
  EXPECT_EQ(said.back(), "/job:worker/task:0 is left out: it has not recorded all of these steps");
  EXPECT_EQ(json::parse(file.json)["otherData"]["tasks"].size(), 1u);
}

TEST(RecordTrace, WhoDoesNotAnswerIsLeftOutAndANameIsSaid) {
  PretendedTask worker("/job:worker/task:0", 0), silent("/job:ps/task:0", 0);
  silent.silent = true;
  std::vector<std::string> said;
  const auto say = [&](const std::string& text) { said.push_back(text); };
  EXPECT_EQ(json::parse(top::record_trace({worker.task(), silent.task()}, "", kThreeSteps, say).json)["otherData"]["tasks"].size(), 1u);
  EXPECT_EQ(said.at(0), "/job:ps/task:0 is left out: no answer within 1.0 s");
  try {
    top::record_trace({silent.task()}, "", kThreeSteps, say);
    FAIL() << "nobody was traced";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::deadline_exceeded);
  }
}

TEST(RecordTrace, WithoutStepsItSaysSo) {
  PretendedTask idle("/job:worker/task:0", 0, false);
  try {
    top::record_trace({idle.task()}, "", {.patience = std::chrono::nanoseconds(1), .pause = std::chrono::nanoseconds(0)}, [](const std::string&) {});
    FAIL() << "a trace without steps";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("no step has ended within"));
  }
  EXPECT_THAT(idle.asked, ElementsAre("/trace", "/trace?stop"));
}

// ---- The validator -------------------------------------------------------------------------------------------------------

json slice(const std::string& category, const std::string& name, int pid, int tid, double begin, double length, json arguments = json::object()) {
  return {{"ph", "X"}, {"cat", category}, {"name", name}, {"pid", pid}, {"tid", tid}, {"ts", begin}, {"dur", length}, {"args", std::move(arguments)}};
}
json arrow(const std::string& phase, int pid, int tid, double at) {
  return {{"ph", phase}, {"cat", "arrow"}, {"name", "Push"}, {"id", 1}, {"pid", pid}, {"tid", tid}, {"ts", at}};
}
json named(const std::string& what, int pid, int tid, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}};
}

// A worker whose kernel pushes to a shard.
json good_trace() {
  json events = {named("process_name", 1, 0, "worker"), named("process_name", 2, 0, "ps"), named("thread_name", 1, 1, "steps"), named("thread_name", 1, 1001, "device"),
                 named("thread_name", 2, 1001, "shard"), slice("step", "step 1", 1, 1, 0, 100, {{"step", 1}, {"step_key", "ab"}}),
                 slice("segment", "segment", 1, 1001, 10, 80, {{"step_key", "ab"}}), slice("kernel", "MatMul", 1, 1001, 20, 30.5, {{"step_key", "ab"}}),
                 slice("message", "Push", 2, 1001, 60, 10), arrow("s", 1, 1001, 50), arrow("f", 2, 1001, 60),
                 {{"ph", "b"}, {"cat", "mailbox"}, {"name", "m"}, {"id", "1"}, {"pid", 2}, {"tid", 1001}, {"ts", 55}},
                 {{"ph", "e"}, {"cat", "mailbox"}, {"name", "m"}, {"id", "1"}, {"pid", 2}, {"tid", 1001}, {"ts", 60}}};
  return {{"traceEvents", std::move(events)}, {"otherData", {{"lost_arrows", 0}, {"tasks", json::array()}}}};
}

struct Verdict {
  int code;
  std::string out, err;
};
Verdict check(const std::string& text, std::vector<std::string> options = {}) {
  const TemporaryDirectory directory;
  std::vector<std::string> command{"/usr/bin/python3", TROUPE_CHECK_TRACE, directory.write("trace.json", text)};
  command.insert(command.end(), options.begin(), options.end());
  Process process(command);
  const int code = process.wait();
  return {code, process.out, process.err};
}
json& event(json& trace, const std::string& name, const std::string& phase = "X") {
  for (json& e : trace["traceEvents"])
    if (e["name"] == name && e["ph"] == phase) return e;
  throw std::runtime_error("no event " + name);
}

TEST(CheckTrace, SaysWhatIsInAGoodOne) {
  const Verdict verdict = check(good_trace().dump(), {"--tasks", "2", "--steps", "1", "--across"});
  EXPECT_EQ(verdict.code, 0) << verdict.err;
  EXPECT_THAT(verdict.out, HasSubstr("2 tasks, 1 whole steps, 1 kernels, 1 arrows (1 between tasks), 1 waits"));
}

TEST(CheckTrace, FindsWhatIsWrong) {
  const std::vector<std::pair<const char*, void (*)(json&)>> wrong = {
      {"outside its step: worker, device: 'MatMul'", [](json& t) { event(t, "step 1")["dur"] = 30; event(t, "segment")["dur"] = 15; event(t, "segment")["ts"] = 2; }},
      {"of no step: worker, device: 'MatMul'", [](json& t) { event(t, "MatMul")["args"]["step_key"] = "cd"; }},
      {"not nested: worker, device: 'MatMul' at 20.0 us ends after 'segment'", [](json& t) { event(t, "MatMul")["dur"] = 79; }},
      {"arrow 1 has no end", [](json& t) { event(t, "Push", "f")["id"] = 2; }},
      {"arrow 2 has no begin", [](json& t) { event(t, "Push", "f")["id"] = 2; }},
      {"the begin of arrow 1 is in no slice", [](json& t) { event(t, "Push", "s")["ts"] = 95; }},
      {"arrow 1 ends before it begins", [](json& t) { event(t, "Push", "s")["ts"] = 61; }},
      {"a second end of arrow 1", [](json& t) { t["traceEvents"].push_back(event(t, "Push", "f")); }},
      {"a wait without end", [](json& t) { event(t, "m", "e")["id"] = "2"; }},
      {"a wait that has not begun", [](json& t) { event(t, "m", "e")["id"] = "2"; }},
      {"thread (1, 7) has no name", [](json& t) { event(t, "MatMul")["tid"] = 7; }},
      {"dur missing", [](json& t) { event(t, "MatMul").erase("dur"); }},
      {"3 arrows are lost", [](json& t) { t["otherData"]["lost_arrows"] = 3; }},
  };
  for (const auto& [text, change] : wrong) {
    json trace = good_trace();
    change(trace);
    const Verdict verdict = check(trace.dump());
    EXPECT_EQ(verdict.code, 1) << text;
    EXPECT_THAT(verdict.err, HasSubstr(text));
  }
  EXPECT_THAT(check("{").err, HasSubstr("trace.json: "));
  EXPECT_THAT(check(good_trace().dump(), {"--tasks", "3"}).err, HasSubstr("2 tasks, not 3"));
  EXPECT_THAT(check(good_trace().dump(), {"--steps", "2"}).err, HasSubstr("1 whole steps, not 2"));
}

// Two clocks that agree only so far.
TEST(CheckTrace, ClocksMayDifferByWhatIsNotKnownOfThem) {
  json trace = good_trace();
  event(trace, "Push", "s")["ts"] = 61;
  trace["otherData"]["tasks"] = {{{"pid", 1}, {"uncertainty_ns", 600}}, {{"pid", 2}, {"uncertainty_ns", 600}}};
  EXPECT_EQ(check(trace.dump()).code, 0);
  trace["otherData"]["tasks"][1]["uncertainty_ns"] = 300;
  EXPECT_EQ(check(trace.dump()).code, 1);
}

}  // namespace
}  // namespace troupe
