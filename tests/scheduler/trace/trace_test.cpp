#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "tests/scheduler/toy.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/scheduler/trace/request_figures.hpp>
#include <troupe/scheduler/trace/trace.hpp>

namespace troupe {
namespace {

using namespace testing;

std::vector<TraceEvent> of_kind(const TraceRecording& recording, TraceKind kind) {
  std::vector<TraceEvent> out;
  for (const TraceEvent& e : recording.events)
    if (e.kind == kind) out.push_back(e);
  return out;
}

bool within(const TraceEvent& inner, const TraceEvent& outer) {
  return outer.begin_ns <= inner.begin_ns && inner.end_ns <= outer.end_ns;
}

TraceStep step_of(std::uint64_t number) { return TraceStep::of(SessionId{1}, StepId{number}, number); }

TEST(Trace, RecordsNothingWhileItIsOff) {
  Trace trace;
  { const TraceSlice slice(trace, TraceKind::work, "a"); }
  { const TraceSlice slice(TraceKind::work, "b"); }
  TraceSlice::arrow(trace, TraceKind::departs, 7, "c", {}, "");
  EXPECT_EQ(TraceSlice::current(), nullptr);
  EXPECT_EQ(trace.status().state, Trace::State::idle);
  trace.start();
  trace.stop();
  EXPECT_TRUE(trace.take().events.empty());
  EXPECT_EQ(trace.status().state, Trace::State::done);
}

TEST(Trace, SlicesOfAThreadAreNested) {
  Trace trace;
  trace.start();
  const std::uint32_t track = trace.add_track("shard 0");
  {
    const TraceSlice outer(trace, track, TraceKind::message, "Push", step_of(3));
    { const TraceSlice inner(TraceKind::work, "update", {}, "weights"); }
    TraceSlice::arrow(trace, TraceKind::departs, 7, "Put", step_of(3), "/job:worker/task:1");
  }
  std::thread([&] { const TraceSlice other(trace, TraceKind::work, "elsewhere"); }).join();
  trace.stop();
  const TraceRecording seen = trace.take();
  ASSERT_EQ(seen.events.size(), 4u);
  const TraceEvent &outer = seen.events[0], &inner = seen.events[1], &arrow = seen.events[2], &other = seen.events[3];
  EXPECT_TRUE(within(inner, outer));
  EXPECT_TRUE(within(arrow, outer));
  EXPECT_EQ(inner.track, track);
  EXPECT_EQ(inner.step.number, 3u);  // of what is around it
  EXPECT_EQ(seen.names.at(inner.detail), "weights");
  EXPECT_EQ(seen.names.at(arrow.detail), "/job:worker/task:1");
  EXPECT_EQ(seen.tracks.at(track), "shard 0");
  EXPECT_NE(other.track, track);
  EXPECT_EQ(seen.tracks.at(other.track).rfind("thread ", 0), 0u);
}

TEST(Trace, ForgetsTheOldestAndKnowsSinceWhenItHasAll) {
  Trace trace;
  trace.start({.events_per_thread = 4});
  const std::uint32_t track = trace.add_track("t");
  for (int i = 0; i < 10; ++i) {
    const std::string name = std::to_string(i);  // a slice keeps a view until it ends
    const TraceSlice slice(trace, track, TraceKind::work, name);
  }
  trace.stop();
  const TraceRecording seen = trace.take();
  EXPECT_EQ(seen.overwritten, 6u);
  ASSERT_FALSE(seen.events.empty());
  EXPECT_EQ(seen.names.at(seen.events.back().name), "9");
  for (const TraceEvent& e : seen.events) EXPECT_GE(e.begin_ns, seen.began_ns);
  EXPECT_LE(seen.events.size(), 4u);
}

TEST(Trace, StartingAnewForgetsWhatWas) {
  Trace trace;
  trace.start();
  { const TraceSlice slice(trace, TraceKind::work, "a"); }
  trace.begin_step(step_of(1), "step 1");
  {
    const TraceSlice slice(trace, TraceKind::work, "b");
    trace.start();
  }
  trace.end_step(step_of(1).key);
  trace.stop();
  EXPECT_TRUE(trace.take().events.empty());
  EXPECT_EQ(trace.status().steps, 0u);
}

TEST(Trace, StopsByItselfAfterSoManySteps) {
  Trace trace;
  trace.start({.steps = 2, .skip = 1});
  for (std::uint64_t i = 1; i <= 4; ++i) {
    trace.begin_step(step_of(i), "step");
    trace.end_step(step_of(i).key);
    EXPECT_EQ(trace.on(), i < 3) << "step " << i;
  }
  const auto steps = of_kind(trace.take(), TraceKind::step);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].step.number, 2u);
  EXPECT_EQ(steps[1].step.number, 3u);
}

TEST(Trace, EndsWhenNobodyWantsItAnyMore) {
  Trace trace;
  const std::uint32_t track = trace.add_track("t");
  const auto work = [&](std::int64_t after_ns) {
    const std::int64_t at = Trace::now_ns() + after_ns;
    trace.add({.kind = TraceKind::work, .track = track, .begin_ns = at, .end_ns = at}, "work");
  };
  constexpr std::int64_t kMost = 1'000'000'000'000;
  trace.start({.most_ns = kMost});
  work(0);
  EXPECT_TRUE(trace.on());
  work(kMost);
  EXPECT_FALSE(trace.on());
  EXPECT_EQ(trace.status().state, Trace::State::done);
  EXPECT_EQ(trace.take().events.size(), 1u);
}

TEST(Trace, AStepThatHasNotEndedIsCutAndWhatBelongsToNoneIsLeftOut) {
  Trace trace;
  const std::uint32_t track = trace.add_track("CPU:0");
  trace.start();
  { const TraceSlice kernel(trace, track, TraceKind::kernel, "early", step_of(1)); }  // its step began before
  trace.begin_step(step_of(2), "step 2");
  { const TraceSlice kernel(trace, track, TraceKind::kernel, "late", step_of(2)); }
  trace.stop();
  const TraceRecording seen = trace.take();
  ASSERT_EQ(seen.events.size(), 2u);
  EXPECT_EQ(seen.events[0].kind, TraceKind::step);
  EXPECT_TRUE(seen.events[0].cut);
  EXPECT_EQ(seen.names.at(seen.events[1].name), "late");
  EXPECT_TRUE(within(seen.events[1], seen.events[0]));
}

TEST(Trace, ASlowStepEndsItWithTheOnesBefore) {
  Trace trace;
  trace.start({.steps = 2, .slower_than_ns = std::int64_t{1} << 60});
  EXPECT_EQ(trace.status().state, Trace::State::waiting);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    trace.begin_step(step_of(i), "step");
    trace.end_step(step_of(i).key);
  }
  EXPECT_TRUE(trace.on());
  trace.start({.steps = 2, .slower_than_ns = 1'000'000});
  for (std::uint64_t i = 11; i <= 15; ++i) {
    trace.begin_step(step_of(i), "step");
    for (const std::int64_t until = Trace::now_ns() + (i == 15 ? 2'000'000 : 0); Trace::now_ns() < until;) continue;
    trace.end_step(step_of(i).key);
    if (!trace.on()) break;  // a machine that is busy may find an earlier one slow
  }
  const Trace::Status status = trace.status();
  EXPECT_EQ(status.state, Trace::State::done);
  EXPECT_GT(status.slow_step_ns, 1'000'000);
  const auto steps = of_kind(trace.take(), TraceKind::step);
  ASSERT_FALSE(steps.empty());
  EXPECT_LE(steps.size(), 3u);
  EXPECT_EQ(steps.back().step.number, status.slow_step);
}

TEST(RequestFigures, AreKeptInAnEvent) {
  const RequestFigures figures{.trace_id = {1, ~std::uint64_t{0}},
                               .queued = 3 * kMicrosecond + 999,
                               .batched = -1,
                               .run = 10'000 * kSecond,
                               .code = Code::unauthenticated};
  TraceEvent event{.kind = TraceKind::request};
  figures.write_to(event);
  const RequestFigures kept = RequestFigures::of(event);
  EXPECT_EQ(kept.trace_id, figures.trace_id);
  EXPECT_EQ(kept.queued, 3 * kMicrosecond);
  EXPECT_EQ(kept.batched, 0);
  EXPECT_EQ(kept.run, 2'147'483'647 * kMicrosecond);  // the most
  EXPECT_EQ(kept.code, Code::unauthenticated);
}

// The nodes of a step, one after the other and side by side.
TEST(Trace, HasASliceForEveryNodeOfAPlan) {
  for (const int threads : {1, 4}) {
    SCOPED_TRACE(::testing::Message() << threads << " threads");
    Graph g;
    Output x = feed(g, 0, Shape{2}, "x");
    Output sum = x;
    for (int i = 0; i < 8; ++i)
      sum = node(g, "Add", {sum, node(g, "Neg", {x}, fmt::format("n{}", i))}, fmt::format("s{}", i));
    send(g, sum, 5, "out");
    if (threads > 1) make_costly(g);
    ToyTask task(g, threads);
    Trace trace;
    const std::uint32_t track = trace.add_track("CPU:0");
    task.start(1, {i64({1, 2})});  // is not recorded
    trace.start();
    {
      const TraceSlice segment(trace, track, TraceKind::segment, "segment");
      task.start(2, {i64({1, 2})});
    }
    trace.stop();
    EXPECT_EQ(numbers(task.out[1]->sent[5]), numbers(task.out[2]->sent[5]));
    const TraceRecording seen = trace.take();
    std::map<std::string, int> count;
    std::map<std::uint32_t, std::int64_t> ends;
    const auto segments = of_kind(seen, TraceKind::segment);
    ASSERT_EQ(segments.size(), 1u);
    for (const TraceEvent& e : of_kind(seen, TraceKind::kernel)) {
      ++count[seen.names.at(e.detail)];
      EXPECT_TRUE(within(e, segments[0]));
      EXPECT_GE(e.begin_ns, ends[e.track]);  // nodes of a track do not overlap
      ends[e.track] = e.end_ns;
      EXPECT_EQ(e.bytes, 16u);
      EXPECT_EQ(e.rank, 1);
      EXPECT_EQ(e.dims[0], 2);
    }
    EXPECT_EQ(count, (std::map<std::string, int>{{"Add", 8}, {"Neg", 8}}));
    const auto sends = of_kind(seen, TraceKind::transfer);
    ASSERT_EQ(sends.size(), 1u);
    EXPECT_EQ(sends[0].bytes, 16u);
  }
}

}  // namespace
}  // namespace troupe
