#include <gtest/gtest.h>

#include <troupe/actors/wire/handshake.hpp>

namespace troupe::wire {
namespace {

const TaskName kSelf{"ps", 0};
const TaskName kPeer{"worker", 3};

struct HandshakeTest : ::testing::Test {
  Handshake handshake{kSelf, "demo", Incarnation{1}};
  Hello good{kProtocolVersion, "demo", kPeer, kSelf, Incarnation{9}};
};

TEST_F(HandshakeTest, AcceptsTheHelloOfAPeer) {
  EXPECT_TRUE(handshake.check(good, nullptr).ok());
  EXPECT_TRUE(handshake.check(good, &kPeer).ok());
  Handshake other(kPeer, "demo", Incarnation{9});
  EXPECT_TRUE(handshake.check(other.hello_to(kSelf), &kPeer).ok());
}

TEST_F(HandshakeTest, RefusesAnotherTaskThanTheOneDialed) {
  const TaskName dialed{"worker", 4};
  EXPECT_EQ(handshake.check(good, &dialed).code(), Code::failed_precondition);
}

TEST_F(HandshakeTest, RefusesEveryEarlierIncarnation) {
  for (const std::uint64_t incarnation : {9, 10, 11}) {
    SCOPED_TRACE(::testing::Message() << "incarnation " << incarnation);
    good.incarnation = Incarnation{incarnation};
    EXPECT_TRUE(handshake.check(good, nullptr).ok());
    handshake.joined(good);
    EXPECT_TRUE(handshake.check(good, nullptr).ok());  // the same process may come again
  }
  for (const std::uint64_t earlier : {9, 10}) {
    good.incarnation = Incarnation{earlier};
    EXPECT_EQ(handshake.check(good, nullptr).code(), Code::failed_precondition) << "incarnation " << earlier;
  }
}

TEST_F(HandshakeTest, RemembersOnlySoManyNames) {
  for (int i = 0; i < 5000; ++i) {
    good.from = TaskName{"client", i};
    handshake.joined(good);
  }
  EXPECT_EQ(handshake.remembered(), 4096u);
  const Incarnation replaced = good.incarnation;
  good.incarnation = Incarnation{replaced.value + 1};
  handshake.joined(good);
  good.incarnation = replaced;
  EXPECT_EQ(handshake.check(good, nullptr).code(), Code::failed_precondition);
}

}  // namespace
}  // namespace troupe::wire
