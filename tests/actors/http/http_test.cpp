// The HTTP server, with clients of others' (curl where it is) and of an attacker's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <deque>
#include <future>
#include <thread>

#include "tests/actors/wire/certificates.hpp"
#include "tests/actors/wire/wire_testing.hpp"
#include "tests/error_of.hpp"
#include "tests/long_runs.hpp"
#include "tests/patience.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/http/client.hpp>
#include <troupe/actors/http/server.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::kPatience;
using ::testing::StartsWith;
using wire::RawPeer;

constexpr const char* kGet = "GET /echo?a=1 HTTP/1.1\r\nHost: localhost\r\n\r\n";

HttpAnswer echo(const HttpRequest& request) {
  if (request.path == "/fail") fail(Code::not_found, "there is no {}", request.path);
  std::string text = request.path + (request.post ? " posted " + request.body : "");
  for (const auto& [name, value] : request.parameters) text += " " + name + "=" + value;
  return {.type = "text/plain", .body = text};
}

class Http : public ::testing::Test {
 protected:
  void start(HttpServer::Options options = {}, HttpServer::Handler handler = echo) {
    server_.emplace(std::move(options), std::move(handler));
  }
  HttpTarget target(const std::string& token = "") const { return {.address = server_->address(), .token = token}; }
  std::string get(const std::string& path, const std::string& token = "") const {
    return http_get(target(token), path, kPatience);
  }
  std::string said_to(const std::string& request) const {
    RawPeer peer(server_->address().port);
    peer.send(request);
    return peer.all_that_comes();
  }
  std::optional<HttpServer> server_;
};

TEST_F(Http, AnswersWithWhatTheHandlerSaysOfTheRequest) {
  start({.headers = {{"X-Test", "yes"}}});
  EXPECT_EQ(get("/echo?b=x%20y&a=1"), "/echo a=1 b=x y");
  EXPECT_EQ(http_post(target(), "/echo", kPatience), "/echo posted ");
  EXPECT_EQ(error_of([&] { get("/fail"); }).code(), Code::not_found);
  EXPECT_EQ(error_of([&] { get("/fail"); }).message(), "there is no /fail");
  const std::string raw =
      said_to("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
  EXPECT_THAT(raw, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(raw, HasSubstr("X-Test: yes\r\n"));
  EXPECT_THAT(raw, HasSubstr("\r\n\r\n/echo posted hello"));
}

TEST_F(Http, AConnectionCarriesManyRequests) {
  start();
  RawPeer peer(server_->address().port);
  for (int i = 0; i < 3; ++i) {
    peer.send(kGet);
    std::string answer;
    while (answer.find("/echo a=1") == std::string::npos) {
      const std::string byte = peer.bytes(1);
      ASSERT_FALSE(byte.empty()) << answer;
      answer += byte;
    }
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 ")) << "request " << i;
  }
}

TEST_F(Http, TheTokenComesInAHeaderOnly) {
  start({.token = "right", .open_paths = {"/open"}});
  EXPECT_EQ(get("/echo", "right"), "/echo");
  for (const char* wrong : {"", "wrong", "righ", "right "})
    EXPECT_EQ(error_of([&] { get("/echo", wrong); }).code(), Code::unauthenticated) << wrong;
  EXPECT_EQ(error_of([&] { get("/echo?token=right"); }).code(), Code::unauthenticated);
  EXPECT_EQ(get("/open"), "/open");
  server_->set_token("other");
  EXPECT_EQ(error_of([&] { get("/echo", "right"); }).code(), Code::unauthenticated);
}

TEST_F(Http, WithoutATokenOnlyThisMachineIsAnswered) {
  start();
  EXPECT_THAT(said_to("GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 401 "));
}

TEST_F(Http, WhatMakesNoSenseIsRefused) {
  start({.max_body = 10});
  EXPECT_THAT(
      said_to("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\nConnection: close\r\n\r\n0123456789a"),
      StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(said_to("DELETE / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(said_to("nonsense\r\n\r\n"), ::testing::Not(HasSubstr(" 200 ")));
  EXPECT_EQ(get("/echo"), "/echo");
}

TEST_F(Http, ABusyPortIsNamed) {
  start();
  const Error error = error_of([&] { HttpServer({.port = server_->address().port}, echo); });
  EXPECT_EQ(error.code(), Code::unavailable);
  EXPECT_THAT(error.message(), HasSubstr(server_->address().to_string()));
}

TEST_F(Http, HealthIsAnsweredWhileAllWorkersAreBusy) {
  std::promise<void> over;
  std::atomic<int> busy{0};
  start({.prompt_paths = {"/healthz"}, .workers = 2, .max_waiting = 2},
        [&, waits = over.get_future().share()](const HttpRequest& request) -> HttpAnswer {
          if (request.path == "/slow") {
            ++busy;
            waits.wait();
          }
          return {.body = request.path};
        });
  std::vector<std::future<std::string>> slow;
  const auto ask = [&] { slow.push_back(std::async(std::launch::async, [&] { return get("/slow"); })); };
  ask();
  ask();
  EXPECT_TRUE(testing::eventually([&] { return busy == 2; }));
  EXPECT_EQ(get("/healthz"), "/healthz");
  EXPECT_TRUE(testing::eventually([&] {  // the first two that nobody answers wait: the next is one too many
    return error_of([&] { http_get(target(), "/other", std::chrono::milliseconds(300)); }).code() == Code::unavailable;
  }));
  over.set_value();
  for (auto& answer : slow) EXPECT_EQ(answer.get(), "/slow");
}

// A byte now and then keeps no connection open.
TEST_F(Http, WhoDripsIsCut) {
  start({.request_deadline = std::chrono::milliseconds(100)});
  RawPeer peer(server_->address().port);
  peer.send("GET /ec");
  EXPECT_EQ(peer.all_that_comes(), "");
  RawPeer idle(server_->address().port);
  EXPECT_EQ(idle.all_that_comes(), "");
  EXPECT_EQ(get("/echo"), "/echo");
}

TEST_F(Http, OfTooManyConnectionsTheOldestGoes) {
  start({.max_connections = 4});
  RawPeer first(server_->address().port), second(server_->address().port), third(server_->address().port);
  EXPECT_EQ(get("/echo"), "/echo");
  EXPECT_EQ(first.all_that_comes(), "");
  EXPECT_EQ(get("/echo"), "/echo");
}

TEST_F(Http, WhoTakesNoAnswerGivesWay) {
  start({.max_connections = 4}, [](const HttpRequest& request) -> HttpAnswer {
    return {.body = request.path == "/big" ? std::string(64 << 20, 'b') : request.path};
  });
  std::deque<RawPeer> takers;
  for (int i = 0; i < 3; ++i) {
    takers.emplace_back(server_->address().port);
    takers.back().send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(takers.back().bytes(4), "HTTP") << "taker " << i;
  }
  EXPECT_EQ(get("/echo"), "/echo");
}

TEST_F(Http, PagesAreToldToAnybodyWhileAllWorkersAreBusy) {
  std::promise<void> over;
  start({.token = "right", .pages = {{"/", {.type = "text/html", .body = "page"}}}, .workers = 1, .max_waiting = 1},
        [waits = over.get_future().share()](const HttpRequest&) -> HttpAnswer {
          waits.wait();
          return {.body = "answer"};
        });
  auto slow = std::async(std::launch::async, [&] { return get("/slow", "right"); });
  EXPECT_EQ(get("/"), "page");
  EXPECT_EQ(get("/"), "page");
  over.set_value();
  EXPECT_EQ(slow.get(), "answer");
}

TEST_F(Http, ThousandsOfIdleConnectionsHoldNothingUp) {
  start({.prompt_paths = {"/healthz"}});
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const std::uint64_t wanted = std::min<std::uint64_t>(testing::seeds(10'000), limit.rlim_cur / 4);
  std::vector<std::unique_ptr<RawPeer>> idle;
  for (std::uint64_t i = 0; i < wanted; ++i) {
    idle.push_back(std::make_unique<RawPeer>(server_->address().port));
    if (i % 3 == 0) idle.back()->send("GET /ec");
  }
  EXPECT_EQ(get("/echo"), "/echo");
  EXPECT_EQ(get("/healthz"), "/healthz");
}

TEST_F(Http, EndsWhileRequestsAreUnderWay) {
  std::promise<void> over;
  std::atomic<bool> busy{false};
  start({.workers = 1}, [&, waits = over.get_future().share()](const HttpRequest&) -> HttpAnswer {
    busy = true;
    waits.wait();
    return {};
  });
  std::vector<std::thread> asking;
  for (int i = 0; i < 3; ++i)  // they ask when the server may be gone
    asking.emplace_back(
        [where = target()] { static_cast<void>(error_of([&] { http_get(where, "/slow", kPatience); })); });
  EXPECT_TRUE(testing::eventually([&] { return busy.load(); }));
  std::thread ending([&] { server_.reset(); });
  over.set_value();
  ending.join();
  for (std::thread& thread : asking) thread.join();
}

TEST_F(Http, WithCertificatesOnlyMembersAreHeard) {
  testing::TemporaryDirectory directory;
  testing::Authority ca(directory.file(""), "ca"), other(directory.file(""), "other");
  start({.tls = ca.issue("server")});
  HttpTarget good = target();
  good.tls = ca.issue("client");
  EXPECT_EQ(http_get(good, "/echo", kPatience), "/echo");
  HttpTarget stranger = target();
  stranger.tls = other.issue("stranger");
  stranger.tls.ca = good.tls.ca;
  EXPECT_FALSE(error_of([&] { http_get(stranger, "/echo", kPatience); }).ok());
  EXPECT_EQ(error_of([&] { get("/echo"); }).code(), Code::unavailable);
}

}  // namespace
}  // namespace troupe
