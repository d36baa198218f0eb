// What tools/check_trace.py finds wrong with a trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/apps/process.hpp"
#include "tests/paths.hpp"

namespace troupe {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::Process;
using testing::TemporaryDirectory;

// ---- The validator -------------------------------------------------------------------------------------------------

json slice(const std::string& category, const std::string& name, int pid, int tid, double begin, double length,
           json arguments = json::object()) {
  return {{"ph", "X"},  {"cat", category}, {"name", name},  {"pid", pid},
          {"tid", tid}, {"ts", begin},     {"dur", length}, {"args", std::move(arguments)}};
}
json arrow(const std::string& phase, int pid, int tid, double at) {
  return {{"ph", phase}, {"cat", "arrow"}, {"name", "Push"}, {"id", 1}, {"pid", pid}, {"tid", tid}, {"ts", at}};
}
json named(const std::string& what, int pid, int tid, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}};
}

// A worker whose kernel pushes to a shard.
json good_trace() {
  json events = {named("process_name", 1, 0, "worker"),
                 named("process_name", 2, 0, "ps"),
                 named("thread_name", 1, 1, "steps"),
                 named("thread_name", 1, 1001, "device"),
                 named("thread_name", 2, 1001, "shard"),
                 slice("step", "step 1", 1, 1, 0, 100, {{"step", 1}, {"step_key", "ab"}}),
                 slice("segment", "segment", 1, 1001, 10, 80, {{"step_key", "ab"}}),
                 slice("kernel", "MatMul", 1, 1001, 20, 30.5, {{"step_key", "ab"}}),
                 slice("message", "Push", 2, 1001, 60, 10),
                 arrow("s", 1, 1001, 50),
                 arrow("f", 2, 1001, 60),
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
  std::vector<std::string> command{"/usr/bin/python3", testing::source_file("tools/check_trace.py"),
                                   directory.write("trace.json", text)};
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
      {"outside its step: worker, device: 'MatMul'",
       [](json& t) {
         event(t, "step 1")["dur"] = 30;
         event(t, "segment")["dur"] = 15;
         event(t, "segment")["ts"] = 2;
       }},
      {"not in a step: worker, device: 'MatMul'", [](json& t) { event(t, "MatMul")["args"]["step_key"] = "cd"; }},
      {"not nested: worker, device: 'MatMul' at 20.0 us ends after 'segment'",
       [](json& t) { event(t, "MatMul")["dur"] = 79; }},
      {"arrow 1 has no end", [](json& t) { event(t, "Push", "f")["id"] = 2; }},
      {"arrow 2 has no begin", [](json& t) { event(t, "Push", "f")["id"] = 2; }},
      {"the begin of arrow 1 is not in a slice", [](json& t) { event(t, "Push", "s")["ts"] = 95; }},
      {"arrow 1 ends before it begins", [](json& t) { event(t, "Push", "s")["ts"] = 61; }},
      {"a second end of arrow 1", [](json& t) { t["traceEvents"].push_back(event(t, "Push", "f")); }},
      {"a wait without an end: ps, shard: 'm'", [](json& t) { event(t, "m", "e")["id"] = "2"; }},
      {"a wait ends without a begin", [](json& t) { event(t, "m", "e")["id"] = "2"; }},
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
  EXPECT_THAT(check(good_trace().dump(), {"--tasks", "3"}).err, HasSubstr("2 tasks, expected 3"));
  EXPECT_THAT(check(good_trace().dump(), {"--steps", "2"}).err, HasSubstr("1 whole steps, expected 2"));
}

TEST(CheckTrace, CountsRequestsThatLeadToKernels) {
  json trace = good_trace();
  json& events = trace["traceEvents"];
  events.push_back(named("thread_name", 1, 5, "REST"));
  events.push_back(slice("request", "m/3", 1, 5, 0, 100));
  for (const auto& [phase, thread] : {std::pair("s", 5), std::pair("f", 1)}) {
    events.push_back(arrow(phase, 1, thread, 0));
    events.back()["id"] = 2;
  }
  const Verdict verdict = check(trace.dump(), {"--requests", "1"});
  EXPECT_EQ(verdict.code, 0) << verdict.err;
  EXPECT_THAT(verdict.out, HasSubstr("1 requests"));
  event(trace, "MatMul")["cat"] = "work";
  EXPECT_THAT(check(trace.dump(), {"--requests", "1"}).err, HasSubstr("0 requests lead to kernels, expected 1"));
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
