// Handlers of the HTTP server that answer at once or later: headers, memory, clients that go, the end of the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "tests/actors/wire/certificates.hpp"
#include "tests/actors/wire/wire_testing.hpp"
#include "tests/error_of.hpp"
#include "tests/patience.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/http/client.hpp>
#include <troupe/actors/http/server.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using testing::error_of;
using testing::eventually;
using ::testing::HasSubstr;
using testing::kPatience;
using ::testing::Not;
using ::testing::StartsWith;
using wire::RawPeer;

class AsyncHttp : public ::testing::Test {
 protected:
  void start(HttpServer::Options options, HttpServer::AsyncHandler handler) {
    server_.emplace(std::move(options), std::move(handler));
  }
  // Keeps the replies.
  HttpServer::AsyncHandler keep() {
    return [this](HttpRequest, HttpReply reply) {
      const std::lock_guard lock(mutex_);
      kept_.push_back(std::move(reply));
    };
  }
  std::size_t kept() {
    const std::lock_guard lock(mutex_);
    return kept_.size();
  }
  HttpTarget where() const { return {.address = server_->address()}; }
  std::string got(const std::string& path = "/") const { return http_get(where(), path, kPatience); }
  std::string said(const std::string& request) const {
    RawPeer peer(server_->address().port);
    peer.send(request);
    return peer.all_that_comes();
  }
  static std::string post(std::size_t length, const std::string& body, const std::string& headers = "") {
    return "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
           "Content-Length: " + std::to_string(length) + "\r\n\r\n" + body;
  }
  std::mutex mutex_;
  std::vector<HttpReply> kept_;
  std::optional<HttpServer> server_;
};

TEST_F(AsyncHttp, AnswersAtOnceWithMethodsAndHeaders) {
  std::thread::id first;
  start({.request_headers = {"X-Wanted", "X-Absent"}}, [&](HttpRequest request, HttpReply reply) {
    EXPECT_FALSE(request.headers.contains("X-Absent"));
    if (first == std::thread::id()) first = std::this_thread::get_id();
    EXPECT_EQ(std::this_thread::get_id(), first);
    std::string text = request.method + " " + request.body;
    for (const auto& [name, value] : request.headers) text += " " + name + "=" + value;
    reply.send({.status = 202, .type = "text/plain", .body = text, .headers = {{"X-Answer", "yes"}}});
  });
  const std::string answer = said(
      "DELETE / HTTP/1.1\r\nHost: localhost\r\nx-wanted: it\r\nX-Other: no\r\nContent-Length: 2\r\n"
      "Connection: close\r\n\r\nab");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 202 "));
  EXPECT_THAT(answer, HasSubstr("X-Answer: yes\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\nDELETE ab X-Wanted=it"));
  EXPECT_THAT(said("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), HasSubstr("\r\n\r\nGET "));
}

TEST_F(AsyncHttp, AnswersLaterFromAnotherThreadWhileOthersAreAnswered) {
  std::promise<HttpReply> slow;
  start({}, [&](HttpRequest request, HttpReply reply) {
    if (request.path == "/slow") return slow.set_value(std::move(reply));
    reply.send({.body = "quick"});
  });
  auto asked = std::async(std::launch::async, [&] { return got("/slow"); });
  HttpReply reply = slow.get_future().get();
  EXPECT_EQ(got("/"), "quick");
  reply.send({.body = "slow"});
  reply.send({.body = "the first counts"});
  EXPECT_EQ(asked.get(), "slow");
}

// Between the return of the handler and the suspension of its connection, and around it.
TEST_F(AsyncHttp, AnswersOfOtherThreadsAtAnyMomentArrive) {
  std::mutex mutex;
  std::vector<std::thread> answering;
  start({.threads = 2}, [&](HttpRequest request, HttpReply reply) {
    auto shared = std::make_shared<HttpReply>(std::move(reply));
    const std::lock_guard lock(mutex);
    answering.emplace_back([shared, path = request.path] { shared->send({.body = path}); });
    shared->on_gone([] {});
  });
  std::vector<std::future<void>> clients;
  for (int c = 0; c < 4; ++c)
    clients.push_back(std::async(std::launch::async, [&, c] {
      for (int i = 0; i < 100; ++i) {
        const std::string path = "/" + std::to_string(c) + "/" + std::to_string(i);
        ASSERT_EQ(got(path), path);
      }
    }));
  for (auto& client : clients) client.get();
  const std::lock_guard lock(mutex);
  for (std::thread& thread : answering) thread.join();
}

TEST_F(AsyncHttp, WhoeverDropsTheReplyOrThrowsAnswers) {
  start({}, [&](HttpRequest request, HttpReply reply) {
    if (request.path == "/throw") fail(Code::not_found, "nothing is here");
    if (request.path == "/late") std::thread([late = std::move(reply)] {}).detach();
  });
  EXPECT_EQ(error_of([&] { got("/throw"); }).message(), "nothing is here");
  for (const char* path : {"/drop", "/late"}) {
    EXPECT_EQ(error_of([&] { got(path); }).code(), Code::internal) << path;
    EXPECT_THAT(error_of([&] { got(path); }).message(), HasSubstr("without an answer")) << path;
  }
}

TEST_F(AsyncHttp, AClientThatGoesIsNoticed) {
  std::atomic<int> gone{0};
  start({}, [&](HttpRequest, HttpReply reply) {
    reply.on_gone([&] { ++gone; });
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(reply));
  });
  {
    RawPeer peer(server_->address().port);
    peer.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_TRUE(eventually([&] { return kept() == 1; }));
    EXPECT_EQ(gone, 0);
  }
  EXPECT_TRUE(eventually([&] { return gone == 1; }));
  kept_.front().send({});
  auto stays = std::async(std::launch::async, [&] { return got(); });
  EXPECT_TRUE(eventually([&] { return kept() == 2; }));
  kept_.back().send({.body = "here"});
  EXPECT_EQ(stays.get(), "here");
  server_.reset();
  EXPECT_EQ(gone, 1);
}

TEST_F(AsyncHttp, TheEndAnswersWhatIsLeft) {
  std::atomic<int> gone{0};
  start({}, [&](HttpRequest, HttpReply reply) {
    reply.on_gone([&] { ++gone; });
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(reply));
  });
  auto asked = std::async(std::launch::async, [&] { return error_of([&] { got(); }); });
  EXPECT_TRUE(eventually([&] { return kept() == 1; }));
  server_.reset();
  EXPECT_EQ(asked.get().code(), Code::unavailable);
  EXPECT_EQ(gone, 1);
  kept_.front().send({.body = "too late"});
}

TEST_F(AsyncHttp, DrainsWhatIsInFlightAndListensNoMore) {
  start({}, keep());
  RawPeer peer(server_->address().port);
  peer.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return kept() == 1; }));
  EXPECT_FALSE(server_->drain(std::chrono::nanoseconds(0)));
  EXPECT_EQ(error_of([&] { got(); }).code(), Code::unavailable);
  kept_.front().send({.body = "finished"});
  EXPECT_TRUE(server_->drain(kPatience));
  const std::string answer = peer.all_that_comes();
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\nfinished"));
}

TEST_F(AsyncHttp, BodiesHaveABudgetTogether) {
  start({.max_body = 1000, .memory = 1500},
        [](HttpRequest request, HttpReply reply) { reply.send({.body = std::to_string(request.body.size())}); });
  EXPECT_THAT(said(post(1001, std::string(1001, 'x'))), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(said(post(1001, "", "Expect: 100-continue\r\n")), StartsWith("HTTP/1.1 413 "));
  {
    RawPeer holds(server_->address().port);
    holds.send(post(1000, "half"));
    EXPECT_TRUE(eventually([&] { return said(post(600, std::string(600, 'x'))).starts_with("HTTP/1.1 503 "); }));
    EXPECT_THAT(said(post(600, std::string(600, 'x'))), HasSubstr("Retry-After: 1\r\n"));
    EXPECT_THAT(said(post(400, std::string(400, 'x'))), HasSubstr("\r\n\r\n400"));
  }
  EXPECT_TRUE(eventually([&] { return said(post(600, std::string(600, 'x'))).ends_with("\r\n\r\n600"); }));
  std::string chunked = "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 10; ++i) chunked += "64\r\n" + std::string(100, 'x') + "\r\n";
  EXPECT_THAT(said(chunked + "0\r\n\r\n"), HasSubstr("\r\n\r\n1000"));
  EXPECT_THAT(said(chunked + "1\r\nx\r\n0\r\n\r\n"), StartsWith("HTTP/1.1 413 "));
}

TEST_F(AsyncHttp, LongBodiesGoBothWays) {
  start({.max_body = 64 << 20, .connection_memory = 64 << 10},
        [](HttpRequest request, HttpReply reply) { reply.send({.body = std::move(request.body)}); });
  std::string body(8 << 20, 'x');
  body[5'000'000] = 'y';
  const std::string answer = said(post(body.size(), body));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(answer.substr(answer.size() - body.size()), body);
}

TEST_F(AsyncHttp, AnyHostIsServedIfAsked) {
  const auto handler = [](HttpRequest, HttpReply reply) { reply.send({}); };
  const std::string request = "GET / HTTP/1.1\r\nHost: models.example\r\nConnection: close\r\n\r\n";
  start({}, handler);
  EXPECT_THAT(said(request), StartsWith("HTTP/1.1 401 "));
  start({.any_host = true}, handler);
  EXPECT_THAT(said(request), StartsWith("HTTP/1.1 200 "));
}

TEST_F(AsyncHttp, ClientsNeedNoCertificatesIfAsked) {
  testing::TemporaryDirectory directory;
  testing::Authority ca(directory.file(""), "ca");
  TlsFiles files = ca.issue("server");
  const TlsFiles client = ca.issue("client");
  files.ca.clear();
  start({.tls = files, .client_certificates = false},
        [](HttpRequest, HttpReply reply) { reply.send({.body = "secret"}); });
  HttpTarget target = where();
  target.tls = client;
  EXPECT_EQ(http_get(target, "/", kPatience), "secret");
}

}  // namespace
}  // namespace troupe
