#include "troupe/actors/serving/traced_requests.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/actors/serving/served_models.hpp"
#include <troupe/actors/base/actor_record.hpp>

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

class TracedRequests : public ::testing::Test {
 protected:
  const Servable& serve(const std::optional<BatchQueue::Options>& batching = {}) {
    save_version(directory_, "times", 3);
    server_ = std::make_unique<ModelServer>(task_, ModelServerOptions{.threads = 1});
    server_->configure({{.name = "times", .path = directory_.file("times"), .batching = batching}});
    server_->await_ready("times", kPatience);
    handle_ = server_->find("times");
    return *handle_;
  }
  // As a door does it.
  std::future<ServingResult> begin_at_door(ServingRequest request) {
    const auto traced = door_.arrival();
    if (traced) traced->start(*handle_, request);
    auto promise = std::make_shared<std::promise<ServingResult>>();
    std::future<ServingResult> out = promise->get_future();
    handle_->start(std::move(request), [this, promise, traced](ServingResult result) {
      if (traced) traced->end(result);
      if (stops_with_answer_) trace_.stop();
      promise->set_value(std::move(result));
    });
    return out;
  }
  std::vector<TraceEvent> recorded(TraceKind kind) {
    seen_ = trace_.take();
    std::erase_if(seen_.events, [&](const TraceEvent& e) { return e.kind != kind; });
    return seen_.events;
  }
  // The keys of the steps that arrows lead to from a request.
  std::set<std::uint64_t> steps_of(const TraceEvent& request) {
    std::set<std::uint64_t> out, steps;
    for (const TraceEvent& step : recorded(TraceKind::step)) steps.insert(step.step.key);
    const std::vector<TraceEvent> ends = recorded(TraceKind::arrives);
    for (const TraceEvent& begin : recorded(TraceKind::departs)) {
      if (begin.track != kInKeyedSlice || begin.step.key != request.step.key) continue;
      EXPECT_LE(request.begin_ns, begin.begin_ns);
      for (const TraceEvent& end : ends)
        if (end.track == kInKeyedSlice && end.arrow == begin.arrow) {
          EXPECT_TRUE(steps.contains(end.step.key));
          out.insert(end.step.key);
        }
    }
    return out;
  }
  void TearDown() override {
    handle_.reset();
    server_.reset();
  }

  const TemporaryDirectory directory_;
  Task task_;
  Trace& trace_ = task_.actors().trace();
  const TracedDoor door_{&trace_, "REST"};
  std::unique_ptr<ModelServer> server_;
  ServableHandle handle_;
  bool stops_with_answer_ = false;  // the recording
  TraceRecording seen_;
};

TEST_F(TracedRequests, AreNotThereWhileNobodyTraces) {
  serve();
  EXPECT_EQ(door_.arrival(), nullptr);
  EXPECT_EQ(TracedDoor(nullptr, "gRPC").arrival(), nullptr);
  EXPECT_FALSE(begin_at_door(rows_of({1, 2})).get().error);
  trace_.start();
  EXPECT_NE(door_.arrival(), nullptr);
  trace_.stop();
  EXPECT_EQ(door_.arrival(), nullptr);
  EXPECT_THAT(recorded(TraceKind::request), IsEmpty());
}

TEST_F(TracedRequests, SayWhatTheyAskForAndLeadToTheirStep) {
  serve();
  trace_.start();
  ServingRequest request = rows_of({1, 2});
  request.trace = kParent;
  EXPECT_FALSE(begin_at_door(std::move(request)).get().error);
  EXPECT_FALSE(begin_at_door(rows_of({3, 4})).get().error);
  trace_.stop();
  const std::vector<TraceEvent> requests = recorded(TraceKind::request);
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(seen_.names.at(requests[0].name), "times/3");
  EXPECT_EQ(seen_.names.at(requests[0].detail), "predict");
  EXPECT_EQ(seen_.tracks.at(requests[0].track), "REST");
  const RequestFigures first = RequestFigures::of(requests[0]), second = RequestFigures::of(requests[1]);
  EXPECT_THAT(first.trace_id, ElementsAre(0x0af7651916cd43ddull, 0x8448eb211c80319cull));
  EXPECT_THAT(second.trace_id, ElementsAre(0u, 0u));
  EXPECT_EQ(first.code, Code::ok);
  ASSERT_THAT(steps_of(requests[0]), SizeIs(1));
  ASSERT_THAT(steps_of(requests[1]), SizeIs(1));
  EXPECT_NE(steps_of(requests[0]), steps_of(requests[1]));
}

TEST_F(TracedRequests, ThatAreTheLastOfARecordingLeadToTheirStep) {
  serve();
  stops_with_answer_ = true;
  // One row is a short step, on this thread; so many as no step had yet are taken for a long one, on the device's.
  std::vector<std::int64_t> sizes(50, 1);
  for (std::int64_t rows = 1 << 15; rows > 64; rows /= 2) sizes.push_back(rows);
  for (const std::int64_t rows : sizes) {
    trace_.start();
    EXPECT_FALSE(begin_at_door({.inputs = {{"x", Tensor::zeros(DType::f32, {rows, 2})}}}).get().error);
    const std::vector<TraceEvent> requests = recorded(TraceKind::request);
    ASSERT_THAT(requests, SizeIs(1));
    ASSERT_THAT(steps_of(requests[0]), SizeIs(1)) << rows;
  }
}

TEST_F(TracedRequests, OfABatchLeadToItsStep) {
  serve(BatchQueue::Options{.most_rows = 2, .timeout = 3600 * kSecond});
  trace_.start();
  auto a = begin_at_door(rows_of({1, 2})), b = begin_at_door(rows_of({3, 4}));
  EXPECT_FALSE(a.get().error);
  EXPECT_FALSE(b.get().error);
  trace_.stop();
  const std::vector<TraceEvent> requests = recorded(TraceKind::request);
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_THAT(steps_of(requests[0]), SizeIs(1));
  EXPECT_EQ(steps_of(requests[0]), steps_of(requests[1]));
}

TEST_F(TracedRequests, OfMoreRowsThanABatchLeadToAllTheirSteps) {
  serve(BatchQueue::Options{.most_rows = 2, .timeout = 0});
  trace_.start();
  EXPECT_FALSE(begin_at_door(rows_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10})).get().error);
  trace_.stop();
  const std::vector<TraceEvent> requests = recorded(TraceKind::request);
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_THAT(steps_of(requests[0]), SizeIs(3));
}

TEST_F(TracedRequests, ThatAreRefusedSayWhy) {
  serve();
  trace_.start();
  ServingRequest request = rows_of({1, 2});
  request.signature = "none";
  request.trace = "00-0af7651916cd43dd8448eb211c80319x-b7ad6b7169203331-01";
  EXPECT_TRUE(begin_at_door(std::move(request)).get().error);
  static_cast<void>(door_.arrival());  // is not for a model: it is not recorded
  trace_.stop();
  const std::vector<TraceEvent> requests = recorded(TraceKind::request);
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_EQ(seen_.names.at(requests[0].detail), "");
  EXPECT_EQ(RequestFigures::of(requests[0]).code, Code::not_found);
  EXPECT_THAT(RequestFigures::of(requests[0]).trace_id, ElementsAre(0u, 0u));
  EXPECT_THAT(steps_of(requests[0]), IsEmpty());
}

}  // namespace
}  // namespace troupe::testing
