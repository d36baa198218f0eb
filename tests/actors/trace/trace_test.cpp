// Traces of tasks, and the file that is made of them. What the file must be like, tools/check_trace.py says.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/actors/training/classifying.hpp"
#include "tests/actors/training/job_tasks.hpp"
#include "tests/error_of.hpp"
#include "tests/paths.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/base/actor_record.hpp>
#include <troupe/actors/base/message_kind.hpp>
#include <troupe/actors/trace/trace_file.hpp>
#include <troupe/devices/kernel.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/kernels/readers/digits.hpp>
#include <troupe/messages/caf/protocol.hpp>
#include <troupe/scheduler/trace/request_figures.hpp>

namespace troupe {
namespace {

using ::testing::HasSubstr;
using testing::JobTasks;
using testing::TemporaryDirectory;

// ---- Both ends of an arrow -----------------------------------------------------------------------------------------

template <class Message>
std::uint64_t arrow_of(const Message& message) {
  return MessageKind::of<Message>().arrow(&message);
}

TEST(TraceArrow, IsTheSameForWhoSendsAndWhoTakes) {
  const TaskName from{"worker", 1};
  const Push push{.worker = 1, .step = 2, .slot = 3, .slice = 4, .gradient = {}, .indices = {}, .job = 5, .view = 6};
  EXPECT_NE(arrow_of(Outbound{push}), 0u);
  EXPECT_EQ(arrow_of(Outbound{push}), arrow_of(Inbound<Push>{from, push}));
  const Put put{{SessionId{1}, StepId{2}, EdgeId{3}}, 4, {}, {}};
  EXPECT_EQ(arrow_of(Outbound{put}), arrow_of(put));
  EXPECT_EQ(arrow_of(put) & kUniqueArrow, kUniqueArrow);
  const Pull pull{.worker = 1, .reply_to = put.key, .slice = 2};
  EXPECT_EQ(arrow_of(Outbound{pull}), arrow_of(Inbound<Pull>{from, pull}));
  EXPECT_NE(arrow_of(Outbound{pull}), arrow_of(Outbound{put}));
  const CollectivePart part{
      .group = 1, .channel = 2, .sequence = 3, .operation = {}, .hop = 4, .tensor = {}, .error = {}};
  EXPECT_EQ(arrow_of(Outbound{part}), arrow_of(Inbound<CollectivePart>{from, part}));
}

TEST(TraceArrow, DiffersWithAnyOfItsNumbersAndSomeMessagesHaveNone) {
  const Push push{.worker = 1, .step = 2, .slot = 3, .slice = 4, .gradient = {}, .indices = {}, .job = 5};
  std::set<std::uint64_t> all{arrow_of(Outbound{push})};
  for (const auto change : std::initializer_list<void (*)(Push&)>{
           [](Push& p) { ++p.worker; }, [](Push& p) { ++p.step; }, [](Push& p) { ++p.slot; },
           [](Push& p) { ++p.slice; }, [](Push& p) { ++p.job; }}) {
    Push other = push;
    change(other);
    all.insert(arrow_of(Outbound{other}));
  }
  EXPECT_EQ(all.size(), 6u);
  EXPECT_EQ(arrow_of(Outbound{Heartbeat{}}), 0u);
  EXPECT_EQ(arrow_of(EndStep{}), 0u);
}

// ---- Of tasks ------------------------------------------------------------------------------------------------------

TaskTrace trace_of(Task& task) {
  return parse_task_trace(answer_trace(task.actors().trace(), task.name().to_string(), false, {{"events", ""}}));
}

// Makes a file of what all have recorded and has it checked.
TraceFile checked_file(const std::vector<Task*>& tasks, const std::string& conditions) {
  for (Task* task : tasks) task->actors().trace().stop();
  std::vector<AlignedTrace> traces;
  for (Task* task : tasks) traces.push_back({trace_of(*task), 0, 0});
  TraceFile file = make_trace_file(traces, "test");
  const TemporaryDirectory directory;
  const std::string path = directory.write("trace.json", file.json);
  const std::string command =
      fmt::format("python3 {} {} {} 2>&1", testing::source_file("tools/check_trace.py"), path, conditions);
  FILE* output = popen(command.c_str(), "r");
  std::string text;
  for (char part[256]; fgets(part, sizeof part, output);) text += part;
  EXPECT_EQ(pclose(output), 0) << text;
  return file;
}

std::set<std::string> names_of(const TraceFile& file, const std::string& category) {
  std::set<std::string> out;
  const auto json = nlohmann::json::parse(file.json);
  for (const auto& event : json.at("traceEvents"))
    if (event.value("cat", "") == category) out.insert(event.at("name").get<std::string>());
  return out;
}

TEST(TraceOfTasks, AGraphOverTwoTasksHasItsKernelsInItsStepsAndArrowsForWhatCrosses) {
  JobTasks tasks(0, 2);
  Graph g;
  Output x = placeholder(g, DType::f32, {2, 2}, "x");
  Output there, here;
  {
    auto scope = g.on_device("/job:worker/task:1");
    there = add_op("Identity", {matmul(x, x)}, {}, "there");
  }
  {
    auto scope = g.on_device("/job:worker/task:0");
    here = add_op("Identity", {there + x}, {}, "here");
  }
  Session session(tasks[0], g);
  const Tensor value = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  session.run({{x, value}}, here);  // is not recorded
  for (std::size_t i = 0; i < 2; ++i) tasks[i].actors().trace().start();
  constexpr int kSteps = 5;
  for (int i = 0; i < kSteps + 1; ++i) session.run({{x, value}}, here);
  const TraceFile file = checked_file({&tasks[0], &tasks[1]}, "--tasks 2 --steps 5 --across");
  EXPECT_EQ(file.lost_arrows, 0u);
  // The other task may still be in the function that has sent its last StepDone when a recording begins or ends.
  EXPECT_LE(file.cut_arrows, 2u);
  EXPECT_GE(file.arrows, 4u * kSteps);  // StepStart, a tensor there, one back, StepDone
  std::map<int, int> kernels;           // by task
  const auto json = nlohmann::json::parse(file.json);
  for (const auto& event : json.at("traceEvents"))
    kernels[event["pid"].get<int>()] += event.value("cat", "") == "kernel";
  for (const int pid : {1, 2}) EXPECT_GE(kernels[pid], kSteps) << "pid " << pid;
  const auto arrows = names_of(file, "arrow");
  for (const char* name : {"StepStart", "Put", "StepDone"}) EXPECT_EQ(arrows.count(name), 1u) << name;
}

TrainingResult train(Task& task, const JobMode& mode) {
  Model model({layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(16, Activation::relu), layers::dense(10)},
              Shape{28, 28, 1}, DType::u8);
  model.compile(testing::classifying(optimizers::SGD{}), task);
  return model.fit(draw_digits({.train = 320, .test = 20}), {.mode = mode, .epochs = 1, .batch = 16});
}

std::vector<std::string> parameters(JobTasks& tasks, const JobMode& mode) {
  return tasks.run([&](Task& task) { return train(task, mode).params_sha256; });
}

TEST(TraceOfTasks, TrainingWithParameterServersHasEveryArrowAndTheSameBits) {
  JobTasks tasks(2, 2);
  const auto expected = parameters(tasks, SyncMode{});
  for (std::size_t i = 0; i < 4; ++i) tasks[i].actors().trace().start();
  EXPECT_EQ(parameters(tasks, SyncMode{}), expected);
  const TraceFile file = checked_file({&tasks[0], &tasks[1], &tasks[2], &tasks[3]}, "--tasks 4 --steps 10 --across");
  EXPECT_EQ(file.lost_arrows, 0u);
  const auto arrows = names_of(file, "arrow");
  for (const char* name : {"Pull", "Put", "Push", "TakeToken", "Token", "TokenDone", "Staged"})
    EXPECT_EQ(arrows.count(name), 1u) << name;
  const auto work = names_of(file, "work");
  for (const char* name : {"update", "batch"}) EXPECT_EQ(work.count(name), 1u) << name;
}

TEST(TraceOfTasks, TrainingByAllReduceHasEveryHop) {
  JobTasks tasks(0, 2);
  for (std::size_t i = 0; i < 2; ++i) tasks[i].actors().trace().start();
  parameters(tasks, AllReduceMode{});
  const TraceFile file = checked_file({&tasks[0], &tasks[1]}, "--tasks 2 --steps 10 --across");
  EXPECT_EQ(file.lost_arrows, 0u);
  EXPECT_EQ(names_of(file, "arrow").count("CollectivePart"), 1u);
}

// ---- A slow step ---------------------------------------------------------------------------------------------------

constexpr int kSlowStep = 12;
constexpr std::chrono::milliseconds kSlow{300}, kTooSlow{250};

TaskOptions with_a_slow_op() {
  auto ops = std::make_shared<OpRegistry>(standard_ops());
  ops->add(Op("TwelfthIsSlow").stateful());
  TaskOptions options;
  options.threads = 1;
  options.ops = ops;
  options.register_kernels = [](KernelRegistry& kernels) {
    kernels.add({.op = "TwelfthIsSlow", .device_type = "CPU", .dtypes = {}, .make = [](const KernelInit&) -> Kernel {
                   return [run = 0](KernelContext&) mutable {
                     if (++run != kSlowStep) return;
                     for (const auto until = std::chrono::steady_clock::now() + kSlow;
                          std::chrono::steady_clock::now() < until;)
                       continue;
                   };
                 }});
  };
  return options;
}

TEST(TraceOfTasks, ASlowStepEndsTheRecordingAndIsInItWithThoseBefore) {
  Task task(with_a_slow_op());
  Graph g(task.ops());
  const std::string node = g.add({.op = "TwelfthIsSlow", .name = "slow"}).name;
  Session session(task, g);
  const auto say = [&](bool post, const std::map<std::string, std::string>& parameters) {
    return parse_task_trace(answer_trace(task.actors().trace(), task.name().to_string(), post, parameters));
  };
  EXPECT_EQ(say(false, {}).status.state, Trace::State::idle);
  EXPECT_EQ(say(true, {{"slower_than_ms", std::to_string(kTooSlow.count())}, {"steps", "2"}}).status.state,
            Trace::State::waiting);
  for (int i = 1; i <= 20; ++i) session.run({}, std::vector<Output>{}, {g.output(g.get(node), 0)});
  const TaskTrace seen = say(false, {});
  EXPECT_EQ(seen.status.state, Trace::State::done);
  // The twelfth, if none before it was slow on a busy machine.
  EXPECT_GE(seen.status.slow_step_ns,
            std::chrono::nanoseconds(seen.status.steps == kSlowStep ? kSlow : kTooSlow).count());
  EXPECT_LE(seen.status.steps, static_cast<std::uint64_t>(kSlowStep));
  const std::uint64_t kept = std::min<std::uint64_t>(seen.status.steps, 3);
  const TraceFile file = checked_file({&task}, fmt::format("--steps {}", kept));
  EXPECT_EQ(file.steps, kept);
  EXPECT_EQ(names_of(file, "kernel"), std::set<std::string>{"slow"});
}

// ---- Requests and files --------------------------------------------------------------------------------------------

TEST(TraceRequest, WhatIsNoneIsRefusedInWords) {
  Trace trace;
  const auto refusal = [&](const std::map<std::string, std::string>& parameters) {
    return testing::error_of([&] { answer_trace(trace, "t", true, parameters); }).message();
  };
  EXPECT_THAT(refusal({{"steps", "many"}}), HasSubstr("steps must be a number from 0 to 1000000, not 'many'"));
  EXPECT_THAT(refusal({{"steps", "-1"}}), HasSubstr("not '-1'"));
  EXPECT_THAT(refusal({{"slower_than_ms", "0"}}), HasSubstr("slower_than_ms must be a number from"));
  EXPECT_FALSE(trace.on());
  const auto malformed = [](std::string_view json) {
    return testing::error_of([&] { parse_task_trace(json); }).message();
  };
  EXPECT_THAT(malformed("{"), HasSubstr("malformed trace of a task"));
  EXPECT_THAT(malformed(R"({"format":3})"), HasSubstr("format 3, written by a later Troupe"));
  const std::string good = answer_trace(trace, "t", false, {{"events", ""}});
  EXPECT_EQ(to_json(parse_task_trace(good)), good);
  std::string bad = good;
  bad.replace(bad.find("\"events\":[]"), 11, "\"events\":[[0,0,0,0,0,99,0,0,0,0,0,0,0,0,0,0,0]]");
  EXPECT_THAT(malformed(bad), HasSubstr("out of range"));
}

TaskTrace recording(const std::string& task, std::int64_t began_ns, std::int64_t ended_ns,
                    std::vector<TraceEvent> events) {
  return {.task = task,
          .clock = "",
          .now_ns = 0,
          .status = {},
          .recording = TraceRecording{.began_ns = began_ns,
                                      .ended_ns = ended_ns,
                                      .overwritten = 0,
                                      .tracks = {"a", "b"},
                                      .names = {"", "Put", "Push", "/job:ps/task:0", "/job:worker/task:0", "<\"\xff"},
                                      .events = std::move(events)}};
}

TraceEvent work(std::int64_t begin, std::int64_t end) {
  return {.kind = TraceKind::work, .name = 5, .begin_ns = begin, .end_ns = end};
}
TraceEvent step(std::int64_t begin, std::int64_t end) {
  return {.kind = TraceKind::step,
          .name = 1,
          .begin_ns = begin,
          .end_ns = end,
          .step = {static_cast<std::uint64_t>(begin), 1}};
}
TraceEvent arrow(TraceKind kind, std::int64_t at, std::uint64_t id, std::uint32_t task) {
  return {.kind = kind, .name = task == 0 ? 1u : 2u, .detail = task, .begin_ns = at, .end_ns = at, .arrow = id};
}

// The clock of the second task is 1000 ns ahead.
TEST(TraceFileOfTasks, ClocksAreAlignedAndOnlyTheTimeThatAllHaveIsInIt) {
  const TaskTrace worker =
      recording("/job:worker/task:0", 100, 900, {work(100, 150), work(200, 300), arrow(TraceKind::departs, 250, 7, 3)});
  const TaskTrace ps = recording("/job:ps/task:0", 1190, 2000,
                                 {work(1240, 1500), arrow(TraceKind::arrives, 1260, 7, 4), work(1950, 1990)});
  const TraceFile file = make_trace_file({{worker, 0, 0}, {ps, 1000, 5}}, "test");
  EXPECT_EQ(file.arrows, 1u);
  const auto json = nlohmann::json::parse(file.json);
  std::map<std::string, std::vector<double>> times;
  for (const auto& event : json.at("traceEvents"))
    if (event.contains("ts")) times[event["ph"]].push_back(event["ts"].get<double>());
  EXPECT_EQ(times["X"], (std::vector<double>{0.01, 0.05}));  // from 190 to 900 of our clock
  EXPECT_EQ(times["s"], std::vector<double>{0.06});
  EXPECT_EQ(times["f"], std::vector<double>{0.07});
}

TEST(TraceFileOfTasks, ArrowsWithOneEndAreLeftOutAndCounted) {
  // The longest step takes 100: what is under way at 150 or 850 may be cut, at 500 it cannot be.
  const TaskTrace worker =
      recording("/job:worker/task:0", 100, 900,
                {work(100, 900), step(110, 200), step(400, 500), step(800, 900), arrow(TraceKind::departs, 150, 7, 3),
                 arrow(TraceKind::departs, 500, 8, 3), arrow(TraceKind::arrives, 850, 9, 3)});
  const TraceFile file = make_trace_file({{worker, 0, 0}}, "test");
  EXPECT_EQ(file.arrows, 0u);
  EXPECT_EQ(file.cut_arrows, 2u);
  EXPECT_EQ(file.lost_arrows, 1u);
}

TEST(TraceFileOfTasks, ATaskThatStandsStillAtTheEndsLosesNoArrows) {
  const auto lost = [](std::vector<TraceEvent> events, std::int64_t at) {
    events.insert(events.begin(), work(100, 900));
    events.push_back(arrow(TraceKind::departs, at, 7, 3));
    return make_trace_file({{recording("/job:worker/task:0", 100, 900, std::move(events)), 0, 0}}, "test").lost_arrows;
  };
  TraceEvent cut = step(550, 900);
  cut.cut = true;
  EXPECT_EQ(lost({step(100, 200), step(450, 550), step(800, 900)}, 600), 1u);
  EXPECT_EQ(lost({step(100, 200), step(450, 550), step(760, 800), cut}, 600),
            0u);                                               // the step that waits for it has not ended
  EXPECT_EQ(lost({step(100, 200), step(450, 550)}, 600), 0u);  // no other could begin
  EXPECT_EQ(lost({step(420, 500), step(700, 750), step(800, 900)}, 400), 0u);  // the first could not begin
}

TEST(TraceFileOfTasks, AnArrowWhoseSliceSticksOutIsLeftOut) {
  const TaskTrace worker =
      recording("/job:worker/task:0", 100, 900, {work(150, 400), arrow(TraceKind::departs, 300, 7, 3)});
  const TaskTrace ps = recording("/job:ps/task:0", 200, 900, {work(310, 400), arrow(TraceKind::arrives, 320, 7, 4)});
  const TraceFile file = make_trace_file({{worker, 0, 0}, {ps, 0, 0}}, "test");
  EXPECT_EQ(file.arrows, 0u);
  EXPECT_EQ(file.cut_arrows, 1u);
  EXPECT_EQ(file.lost_arrows, 0u);
}

// ---- Requests ------------------------------------------------------------------------------------------------------

constexpr std::uint64_t kFirst = 11, kSecond = 12, kThird = 13;  // keys of requests

TraceEvent request(std::int64_t begin, std::int64_t end, std::uint64_t key, const RequestFigures& figures = {}) {
  TraceEvent out{.kind = TraceKind::request, .track = 1, .name = 6, .detail = 7, .begin_ns = begin, .end_ns = end};
  out.step.key = key;
  figures.write_to(out);
  return out;
}
TraceEvent keyed_arrow(TraceKind kind, std::int64_t at, std::uint64_t id, std::uint64_t key) {
  TraceEvent out = arrow(kind, at, id, 0);
  out.track = kInKeyedSlice;
  out.step.key = key;
  return out;
}

struct WrittenRequests {
  TraceFile file;
  nlohmann::json requests = nlohmann::json::array(), starts = nlohmann::json::array(), ends = nlohmann::json::array();
  std::map<int, std::string> threads{};
};
// By way of the JSON that tasks answer with.
WrittenRequests written(std::vector<TraceEvent> events) {
  TaskTrace trace = recording("/job:serve/task:0", 100, 900, std::move(events));
  trace.recording->names.insert(trace.recording->names.end(), {"digits/3", "predict"});
  trace.recording->tracks[1] = "REST";
  WrittenRequests out{.file = make_trace_file({{parse_task_trace(to_json(trace)), 0, 0}}, "test")};
  const auto json = nlohmann::json::parse(out.file.json);
  for (const auto& event : json.at("traceEvents")) {
    if (event.value("cat", "") == "request") out.requests.push_back(event);
    if (event["ph"] == "s") out.starts.push_back(event);
    if (event["ph"] == "f") out.ends.push_back(event);
    if (event["name"] == "thread_name") out.threads[event["tid"]] = event["args"]["name"];
  }
  return out;
}

TEST(TraceFileOfRequests, ThoseThatOverlapAreInLanesOfTheirDoor) {
  const WrittenRequests seen =
      written({request(100, 400, kFirst), request(200, 500, kSecond), request(400, 600, kThird)});
  ASSERT_EQ(seen.requests.size(), 3u);
  const int lanes[] = {seen.requests[0]["tid"], seen.requests[1]["tid"], seen.requests[2]["tid"]};
  EXPECT_NE(lanes[0], lanes[1]);
  EXPECT_EQ(lanes[0], lanes[2]);  // the first has ended
  EXPECT_EQ(seen.threads.at(lanes[0]), "REST");
  EXPECT_EQ(seen.threads.at(lanes[1]), "REST (2)");
}

TEST(TraceFileOfRequests, TheySayWhatTheyAskForAndWhatTheyTook) {
  const WrittenRequests seen = written({request(100, 400, kFirst,
                                                {.trace_id = {0x0af7651916cd43ddull, 0x8448eb211c80319cull},
                                                 .queued = 5'900,
                                                 .batched = 2'000,
                                                 .run = 7'000}),
                                        request(500, 600, kSecond, {.code = Code::unavailable})});
  ASSERT_EQ(seen.requests.size(), 2u);
  EXPECT_EQ(seen.requests[0]["name"], "digits/3");
  EXPECT_EQ(seen.requests[0]["args"],
            nlohmann::json::parse(R"({"model":"digits","version":"3","signature":"predict","queue_us":5,"batch_us":2,
                                      "run_us":7,"trace_id":"0af7651916cd43dd8448eb211c80319c"})"));
  EXPECT_EQ(seen.requests[1]["args"]["error"], "unavailable");
  EXPECT_FALSE(seen.requests[1]["args"].contains("trace_id"));
}

// The step begins after the thread that has sent it there has told of the arrow.
TEST(TraceFileOfRequests, ArrowsLeadFromRequestsIntoTheirStep) {
  const WrittenRequests seen =
      written({request(100, 700, kFirst), request(150, 650, kSecond), keyed_arrow(TraceKind::departs, 200, 1, kFirst),
               keyed_arrow(TraceKind::arrives, 200, 1, 300), keyed_arrow(TraceKind::departs, 200, 2, kSecond),
               keyed_arrow(TraceKind::arrives, 200, 2, 300), step(300, 600)});
  EXPECT_EQ(seen.file.arrows, 2u);
  ASSERT_EQ(seen.starts.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(seen.starts[i]["tid"], seen.requests[i]["tid"]);
    EXPECT_EQ(seen.starts[i]["ts"], 0.1);
    EXPECT_EQ(seen.threads.at(seen.ends[i]["tid"]), "steps");
    EXPECT_EQ(seen.ends[i]["ts"], 0.2);
  }
}

TEST(TraceFileOfRequests, AnArrowOfOneThatIsNotInTheFileIsCut) {
  const WrittenRequests seen = written({request(100, 250, kSecond), keyed_arrow(TraceKind::departs, 200, 1, kFirst),
                                        keyed_arrow(TraceKind::arrives, 200, 1, 300), step(300, 600),
                                        keyed_arrow(TraceKind::departs, 500, 2, kThird)});
  EXPECT_EQ(seen.file.arrows, 0u);
  EXPECT_EQ(seen.file.cut_arrows, 2u);
  EXPECT_EQ(seen.file.lost_arrows, 0u);
}

TEST(TraceFileOfTasks, WithoutTimeInCommonThereIsNone) {
  const TaskTrace early = recording("a", 0, 100, {}), late = recording("b", 200, 300, {});
  EXPECT_THAT(testing::error_of([&] {
                make_trace_file({{early, 0, 0}, {late, 0, 0}}, "");
              }).message(),
              HasSubstr("the recordings do not overlap in time"));
}

}  // namespace
}  // namespace troupe
