#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <future>
#include <thread>

#include "tests/actors/serving/served_models.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/base/actor_record.hpp>
#include <troupe/actors/introspection/introspection.hpp>

namespace troupe::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Nanoseconds kForever = 3600 * kSecond;

class Batchers : public ::testing::Test {
 protected:
  ServableHandle serve(const BatchQueue::Options& batching) {
    save_version(directory_, "times", 3);
    server_ = std::make_unique<ModelServer>(task_, ModelServerOptions{.threads = 1});
    server_->configure({{.name = "times", .path = directory_.file("times"), .batching = batching}});
    server_->await_ready("times", kPatience);
    return server_->find("times");
  }

  void TearDown() override {
    server_.reset();
    std::string still;
    EXPECT_TRUE(task_.shutdown(std::chrono::seconds(5), &still)) << still;
  }

  const TemporaryDirectory directory_;
  Task task_;
  std::unique_ptr<ModelServer> server_;
};

TEST_F(Batchers, JoinRequestsAndGiveEachItsRows) {
  const ServableHandle handle = serve({.most_rows = 4, .timeout = kForever});
  auto a = begin(*handle, rows_of({1, 2})), b = begin(*handle, rows_of({3, 4, 5, 6}));
  EXPECT_EQ(a.wait_for(std::chrono::seconds(0)), std::future_status::timeout);  // three rows of four
  auto c = begin(*handle, rows_of({7, 8}));
  EXPECT_THAT(a.get().outputs.at("y").values<float>(), ElementsAre(3, 6));
  EXPECT_THAT(b.get().outputs.at("y").values<float>(), ElementsAre(9, 12, 15, 18));
  const ServingResult last = c.get();
  EXPECT_THAT(last.outputs.at("y").values<float>(), ElementsAre(21, 24));
  EXPECT_THAT(last.outputs.at("version").values<float>(), ElementsAre(3));
  EXPECT_GT(last.times.run, 0);
}

TEST_F(Batchers, SayWhatRequestsWaitFor) {
  const ServableHandle handle = serve({.most_rows = 4, .timeout = kForever});
  auto a = begin(*handle, rows_of({1, 2})), b = begin(*handle, rows_of({3, 4, 5, 6}));
  const auto why = [&] { return task_.introspection().view().why().text; };
  EXPECT_TRUE(eventually([&] { return why().find("3 of 4 rows are there") != std::string::npos; })) << why();
  EXPECT_THAT(why(), HasSubstr("2 requests of times/3:predict"));
  auto c = begin(*handle, rows_of({7, 8}));
  EXPECT_FALSE(c.get().error);
  EXPECT_TRUE(eventually([&] { return why().find("times/3") == std::string::npos; })) << why();
}

TEST_F(Batchers, SplitLargeRequestsAndPadSmallOnes) {
  const ServableHandle handle = serve({.most_rows = 4, .timeout = 0, .allowed_sizes = {2, 4}});
  std::vector<float> values(22);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const ServingResult large = ask(*handle, {.inputs = {{"x", Tensor::of<float>({11, 2}, values)}}});
  ASSERT_FALSE(large.error) << large.error.message();
  std::ranges::for_each(values, [](float& v) { v *= 3; });
  EXPECT_THAT(large.outputs.at("y").values<float>(), ::testing::ElementsAreArray(values));
  EXPECT_EQ(large.outputs.at("version").shape(), Shape{11});
  EXPECT_THAT(ask(*handle, rows_of({1, 2})).outputs.at("y").values<float>(), ElementsAre(3, 6));
}

// The model was warmed up with one row.
TEST_F(Batchers, DoNotGetWhatTakesLessThanItIsWorth) {
  const ServableHandle handle = serve({.most_rows = 4, .timeout = kForever, .above = kForever});
  auto alone = begin(*handle, rows_of({1, 2}));
  ASSERT_EQ(alone.wait_for(kPatience), std::future_status::ready);
  EXPECT_THAT(alone.get().outputs.at("y").values<float>(), ElementsAre(3, 6));
  auto more = begin(*handle, rows_of({1, 2, 3, 4}));
  EXPECT_EQ(more.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  auto rest = begin(*handle, rows_of({5, 6, 7, 8}));
  EXPECT_THAT(more.get().outputs.at("y").values<float>(), ElementsAre(3, 6, 9, 12));
  EXPECT_FALSE(rest.get().error);
}

TEST_F(Batchers, RefuseWhatIsTooMuchAtOnceAndSayWhenToAskAgain) {
  const ServableHandle handle = serve({.most_rows = 8, .timeout = kForever, .most_waiting = 2});
  std::shared_ptr<ServingCall> call;
  auto waits = begin(*handle, rows_of({1, 2, 3, 4}), &call);
  const ServingResult refused = ask(*handle, rows_of({5, 6}));
  EXPECT_EQ(refused.error.code(), Code::unavailable);
  EXPECT_GE(refused.retry_after_ms, 1);
  EXPECT_EQ(ask(*handle, rows_of({1, 2, 3, 4, 5, 6})).error.code(), Code::invalid_argument);
  call->cancel();
  EXPECT_EQ(waits.get().error.code(), Code::cancelled);
}

TEST_F(Batchers, DoNotComputeWhatIsTooLateOrCancelled) {
  const ServableHandle handle = serve({.most_rows = 2, .timeout = kForever});
  ServingRequest late = rows_of({1, 2});
  late.deadline = steady_now_ns() + 20 * kMillisecond;
  EXPECT_EQ(ask(*handle, late).error.code(), Code::deadline_exceeded);
  std::shared_ptr<ServingCall> call;
  auto cancelled = begin(*handle, rows_of({1, 2}), &call);
  call->cancel();
  EXPECT_EQ(cancelled.get().error.code(), Code::cancelled);
  // Had either of them stayed, the first of these would not wait for the second.
  auto a = begin(*handle, rows_of({3, 4}));
  EXPECT_EQ(a.wait_for(std::chrono::milliseconds(0)), std::future_status::timeout);
  auto b = begin(*handle, rows_of({5, 6}));
  EXPECT_THAT(a.get().outputs.at("y").values<float>(), ElementsAre(9, 12));
  EXPECT_THAT(b.get().outputs.at("y").values<float>(), ElementsAre(15, 18));
}

TEST_F(Batchers, RefuseRowsThatDoNotFitBeforeTheyMeetOthers) {
  const ServableHandle handle = serve({.most_rows = 2, .timeout = kForever});
  auto good = begin(*handle, rows_of({1, 2}));
  EXPECT_EQ(ask(*handle, {.inputs = {{"x", Tensor::of<float>({1, 3}, {1, 2, 3})}}}).error.code(),
            Code::invalid_argument);
  auto other = begin(*handle, rows_of({1, 2}));
  EXPECT_FALSE(good.get().error);
  EXPECT_FALSE(other.get().error);
}

TEST_F(Batchers, RefuseInputsThatAreNotAsManyRows) {
  save_model(posix_file_system(), directory_.file("sum"), sum_model());
  ModelServer server(task_, {.threads = 1});
  server.configure({{.name = "sum", .path = directory_.file("sum"), .batching = BatchQueue::Options{.timeout = 0}}});
  server.await_ready("sum", kPatience);
  const ServableHandle handle = server.find("sum");
  const Tensor one = Tensor::of<float>({1, 2}, {1, 2}), two = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  const Error error = ask(*handle, {.inputs = {{"a", one}, {"b", two}}}).error;
  EXPECT_EQ(error.code(), Code::invalid_argument);
  EXPECT_THAT(error.message(), ::testing::HasSubstr("'b' has 2 rows, 'a' has 1"));
  EXPECT_THAT(ask(*handle, {.inputs = {{"a", two}, {"b", two}}}).outputs.at("y").values<float>(),
              ElementsAre(2, 4, 6, 8));
}

TEST_F(Batchers, AnswerWhatWaitsWhenTheyEnd) {
  const ServableHandle handle = serve({.most_rows = 2, .timeout = kForever});
  std::shared_ptr<ServingCall> call;  // clients keep it to be able to cancel
  auto waits = begin(*handle, rows_of({1, 2}), &call);
  EXPECT_EQ(task_.actors().send_stray("batcher", Stray::kill), 1);
  EXPECT_EQ(waits.get().error.code(), Code::unavailable);
}

TEST_F(Batchers, AreMadeAgainWhenTheyFail) {
  const ServableHandle handle = serve({.most_rows = 2, .timeout = kForever});
  for (int i = 0; i < 3; ++i) {
    auto waits = begin(*handle, rows_of({1, 2}));
    if (i == 0)
      EXPECT_EQ(task_.actors().send_stray("batcher", Stray::kill), 1);
    else
      EXPECT_TRUE(eventually([&] { return task_.actors().fail_next("batcher"); }));
    if (i > 0) static_cast<void>(begin(*handle, rows_of({1, 2, 3, 4})));  // whose message fails
    EXPECT_EQ(waits.get().error.code(), Code::unavailable);
    ServingResult next;
    EXPECT_TRUE(eventually([&] {  // at first there may be none
      next = ask(*handle, rows_of({1, 2, 3, 4}));
      return next.error.code() != Code::unavailable;
    }));
    ASSERT_FALSE(next.error) << next.error.message();
    EXPECT_THAT(next.outputs.at("y").values<float>(), ElementsAre(3, 6, 9, 12));
  }
}

// They would wait behind all others where a server has much to do.
TEST_F(Batchers, DoNotHaveThePriorityOfLoading) {
  const ServableHandle handle = serve({.most_rows = 2, .timeout = 0});
  std::promise<int> priority;  // of the batcher's thread, which answers
  handle->start(rows_of({1, 2}), [&](const ServingResult&) { priority.set_value(getpriority(PRIO_PROCESS, 0)); });
  EXPECT_EQ(priority.get_future().get(), getpriority(PRIO_PROCESS, 0));
}

TEST_F(Batchers, MessagesThatAreNoneHarmNobody) {
  const ServableHandle handle = serve({.most_rows = 2, .timeout = 0});
  for (const Stray what : {Stray::unknown, Stray::error, Stray::exit}) {
    for (const char* kind : {"source", "manager", "loader", "batcher"})
      EXPECT_EQ(task_.actors().send_stray(kind, what), 1) << kind;
    EXPECT_FALSE(ask(*handle, rows_of({1, 2})).error);
  }
}

TEST_F(Batchers, AnswerManyClientsAtOnce) {
  const ServableHandle handle = serve({.most_rows = 16, .timeout = kMillisecond / 5});
  std::vector<std::thread> clients;
  std::atomic<int> wrong = 0;
  for (int c = 0; c < 8; ++c)
    clients.emplace_back([&, c] {
      for (int i = 0; i < 100; ++i) {
        const auto value = static_cast<float>(100 * c + i);
        const ServingResult result = ask(*handle, rows_of({value, value + 1}));
        if (result.error || result.outputs.at("y").values<float>()[1] != 3 * (value + 1)) ++wrong;
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace troupe::testing
