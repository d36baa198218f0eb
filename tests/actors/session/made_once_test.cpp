#include "troupe/actors/session/made_once.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "tests/error_of.hpp"
#include "tests/patience.hpp"

namespace troupe {
namespace {

using testing::error_of;

using Made = MadeOnce<int, std::string>;

TEST(MadeOnce, MakesAValueOnceForAllWhoAskForItMeanwhile) {
  Made made;
  std::atomic<int> times = 0;
  std::promise<void> begun, gate;
  const auto slow = [&] {
    ++times;
    begun.set_value();
    gate.get_future().wait();
    return std::string("one");
  };
  auto first = std::async(std::launch::async, [&] { return made.get(1, slow); });
  begun.get_future().wait();
  std::vector<std::future<std::string>> others;
  for (int i = 0; i < 3; ++i) others.push_back(std::async(std::launch::async, [&] { return made.get(1, slow); }));
  auto two = std::async(std::launch::async, [&] { return made.get(2, [] { return std::string("two"); }); });
  EXPECT_EQ(two.wait_for(testing::kPatience), std::future_status::ready) << "another key waits for nobody";
  gate.set_value();
  EXPECT_EQ(two.get(), "two");
  EXPECT_EQ(first.get(), "one");
  for (auto& other : others) EXPECT_EQ(other.get(), "one");
  EXPECT_EQ(made.get(1, slow), "one");
  EXPECT_EQ(times, 1);
}

TEST(MadeOnce, AFailureIsThatOfAllWhoWaitedAndTheNextCallTriesAgain) {
  Made made;
  std::promise<void> begun, gate;
  auto first = std::async(std::launch::async, [&] {
    return error_of([&] {
      made.get(1, [&]() -> std::string {
        begun.set_value();
        gate.get_future().wait();
        fail(Code::unavailable, "not now");
      });
    });
  });
  begun.get_future().wait();
  std::atomic<bool> asks = false;
  auto second = std::async(std::launch::async, [&] {
    asks = true;
    return error_of([&] { made.get(1, [] { return std::string("by the second"); }); });
  });
  ASSERT_TRUE(testing::eventually([&] { return asks.load(); }));
  gate.set_value();
  EXPECT_EQ(first.get().message(), "not now");
  const Error other = second.get();  // it may have come after the failure, and then it made the value
  EXPECT_TRUE(!other || other.message() == "not now") << other.message();
  EXPECT_EQ(made.get(1, [] { return std::string("later"); }), other ? "later" : "by the second");
}

TEST(MadeOnce, CloseWaitsForThoseWhoMakeAndRefusesOthers) {
  Made made;
  EXPECT_EQ(made.get(2, [] { return std::string("two"); }), "two");
  std::promise<void> begun, gate;
  auto first = std::async(std::launch::async, [&] {
    return made.get(1, [&] {
      begun.set_value();
      gate.get_future().wait();
      return std::string("one");
    });
  });
  begun.get_future().wait();
  auto closing = std::async(std::launch::async, [&] { made.close(Error(Code::cancelled, "closed")); });
  const auto refused = [&] { return error_of([&] { made.get(2, [] { return std::string(); }); }).message(); };
  EXPECT_TRUE(testing::eventually([&] { return refused() == "closed"; }));
  EXPECT_EQ(closing.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  gate.set_value();
  closing.get();
  EXPECT_EQ(first.get(), "one");
}

}  // namespace
}  // namespace troupe
