// Who serves a new connection, and how many wait for that.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tests/actors/wire/wire_testing.hpp"
#include "tests/patience.hpp"
#include <troupe/actors/http/acceptor.hpp>
#include <troupe/actors/http/server.hpp>

namespace troupe {
namespace {

using testing::eventually;
using wire::RawPeer;

class AcceptorTest : public ::testing::Test {
 protected:
  // Keeps connections, if it `serves` them, or else closes them.
  void start(bool serves, std::chrono::nanoseconds unseen = std::chrono::hours(1)) {
    acceptor_.emplace(
        wire::listen_on(wire::resolve("127.0.0.1", 0)),
        [this, serves](int socket, const sockaddr* from, socklen_t) {
          EXPECT_EQ(from->sa_family, AF_INET);
          wire::Fd owned(socket);
          const std::lock_guard lock(mutex_);
          ++given_;
          if (serves) kept_.push_back(std::move(owned));
          return serves;
        },
        unseen);
    acceptor_->start();
  }
  int given() {
    const std::lock_guard lock(mutex_);
    return given_;
  }
  void connect(int peers) {
    for (int i = 0; i < peers; ++i) peers_.emplace_back(acceptor_->port());
  }
  std::mutex mutex_;
  int given_ = 0;
  std::vector<wire::Fd> kept_;
  std::deque<RawPeer> peers_;
  std::optional<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, TakesAFewConnectionsAheadOfThoseWhoServeThem) {
  start(true);
  connect(100);
  EXPECT_TRUE(eventually([&] { return given() == 64; }));
  for (int served = 1; served <= 36; ++served) {
    ASSERT_EQ(given(), 63 + served);
    acceptor_->served();
    ASSERT_TRUE(eventually([&] { return given() == 64 + served; }));
  }
}

TEST_F(AcceptorTest, DoesNotWaitForThoseThatNobodyWillServe) {
  start(false);
  const wire::Address address = wire::resolve("127.0.0.1", acceptor_->port());
  connect(100);
  ASSERT_TRUE(eventually([&] { return given() == 100; }));
  for (RawPeer& peer : peers_) EXPECT_EQ(peer.all_that_comes(), "");
  acceptor_->stop();
  const wire::Fd late = wire::start_connect(address);
  EXPECT_EQ(wire::connect_result(late), ECONNREFUSED);
}

TEST_F(AcceptorTest, DoesNotWaitForEverForThoseThatWereClosedUnseen) {
  start(true, std::chrono::milliseconds(1));
  connect(100);
  EXPECT_TRUE(eventually([&] { return given() == 100; }));
}

TEST_F(AcceptorTest, EndsWhileItHasNoRoom) {
  start(true);
  connect(70);
  EXPECT_TRUE(eventually([&] { return given() == 64; }));
  acceptor_->stop();
  EXPECT_EQ(given(), 64);
}

TEST(HttpServer, SpreadsConnectionsOverItsThreads) {
  std::mutex mutex;
  std::map<std::thread::id, int> requests;
  HttpServer server({.threads = 3}, [&](HttpRequest, HttpReply reply) {
    {
      const std::lock_guard lock(mutex);
      ++requests[std::this_thread::get_id()];
    }
    reply.send({.body = "yes"});
  });
  const auto ask = [](RawPeer& peer) {
    peer.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    std::string answer;
    std::array<char, 1> next{};
    while (!answer.ends_with("yes") && ::recv(peer.fd(), next.data(), next.size(), 0) == 1) answer += next[0];
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  };
  std::deque<RawPeer> peers;
  while (peers.size() < 30) peers.emplace_back(server.address().port);
  for (RawPeer& peer : peers) ask(peer);
  ASSERT_EQ(requests.size(), 3u);
  for (const auto& [thread, count] : requests) EXPECT_EQ(count, 10);
}

}  // namespace
}  // namespace troupe
