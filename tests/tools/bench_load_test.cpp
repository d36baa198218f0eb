// The load of troupe-bench's cases of serving: when requests are sent, how their answers are read and counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>
#include <vector>

#include "tools/bench/http_load.hpp"
#include "tools/bench/http_response.hpp"
#include "tools/bench/load_run.hpp"
#include <troupe/actors/http/server.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::bench {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const LoadRun::Time kBegin = LoadRun::Time(std::chrono::hours(1));
LoadRun::Time at(double ms) { return kBegin + std::chrono::microseconds(static_cast<std::int64_t>(ms * 1000)); }

TEST(BenchLoadRun, RequestsOfARateAreDueAtFixedTimes) {
  LoadRun run({.rate = 100, .seconds = 0.035}, kBegin);
  EXPECT_EQ(run.next(at(0)), at(0));
  EXPECT_EQ(run.next(at(9)), std::nullopt);
  EXPECT_EQ(run.due(at(9)), at(10));
  // The second and third were due long ago: nobody had time for them.
  EXPECT_EQ(run.next(at(32)), at(10));
  EXPECT_EQ(run.next(at(32)), at(20));
  EXPECT_EQ(run.next(at(32)), at(30));
  EXPECT_EQ(run.next(at(100)), std::nullopt) << "the fifth is due after the end";
  EXPECT_FALSE(run.finished(at(100)));
  for (const int intended : {0, 10, 20, 30}) run.ended(at(intended), at(40));
  EXPECT_TRUE(run.finished(at(100)));
  const LoadFigures figures = run.figures();
  EXPECT_DOUBLE_EQ(figures.longest(), 0.040) << "counted from when it was due";
  EXPECT_DOUBLE_EQ(figures.percentile(0.5), 0.020);
  EXPECT_DOUBLE_EQ(figures.rate(), 100);
}

TEST(BenchLoadRun, WithoutARateTheNextRequestIsDueAtOnceUntilTheEnd) {
  LoadRun run({.seconds = 0.01}, kBegin);
  EXPECT_EQ(run.next(at(0)), at(0));
  EXPECT_EQ(run.next(at(3)), at(3));
  EXPECT_EQ(run.next(at(10)), std::nullopt);
  run.ended(at(0), at(5));
  EXPECT_FALSE(run.finished(at(10)));
  run.ended(at(3), at(12));
  EXPECT_TRUE(run.finished(at(12)));
}

TEST(BenchLoadRun, AStopEndsIt) {
  std::atomic<bool> stop{false};
  for (const double rate : {0.0, 100.0}) {
    stop = false;
    LoadRun run({.rate = rate, .seconds = 1000, .stop = &stop}, kBegin);
    EXPECT_TRUE(run.next(at(0)));
    stop = true;
    EXPECT_FALSE(run.next(at(20)));
    EXPECT_FALSE(run.due(at(20)));
    EXPECT_FALSE(run.finished(at(20))) << "one is in flight";
  }
  EXPECT_THROW(LoadRun({.rate = -1}, kBegin), Error);
  EXPECT_THROW(LoadRun({.seconds = -1}, kBegin), Error);
}

TEST(BenchLoadRun, FailuresAreCountedAndNamed) {
  LoadRun run({}, kBegin);
  for (int i = 0; i < 3; ++i) run.next(at(0));
  run.ended(at(0), at(1), "broke");
  run.ended(at(0), at(2));
  run.ended(at(0), at(3), "wrong");
  const LoadFigures figures = run.figures();
  EXPECT_EQ(figures.failed, 2u);
  EXPECT_EQ(figures.latencies.size(), 1u);
  try {
    figures.all_right();
    ADD_FAILURE() << "failures were passed over";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), AllOf(HasSubstr("2 of 3"), HasSubstr("broke")));
  }
  EXPECT_THROW(LoadFigures().percentile(0.5), Error);
}

TEST(BenchLoadRun, PercentilesAreOfAnswers) {
  LoadFigures figures;
  for (int i = 1; i <= 200; ++i) figures.latencies.push_back(i);
  EXPECT_EQ(figures.percentile(0.5), 100);
  EXPECT_EQ(figures.percentile(0.99), 198);
  EXPECT_EQ(figures.percentile(0.991), 199);
  EXPECT_EQ(figures.percentile(0), 1);
  EXPECT_EQ(figures.longest(), 200);
}

constexpr const char* kGood = "HTTP/1.1 404 Not Found\r\ncontent-LENGTH:  3 \r\nX: y\r\n\r\nabc";

TEST(BenchHttpResponse, IsReadInPieces) {
  const std::string good = kGood;
  for (std::size_t piece = 1; piece <= good.size(); ++piece) {
    HttpResponse response;
    for (std::size_t from = 0; from < good.size(); from += piece)
      EXPECT_EQ(response.take(good.substr(from, piece)), from + piece >= good.size()) << piece << " " << from;
    EXPECT_EQ(response.status(), 404);
    EXPECT_EQ(response.body(), "abc");
  }
}

TEST(BenchHttpResponse, IsReadAgainAfterAnother) {
  HttpResponse response;
  EXPECT_TRUE(response.take(kGood));
  response.clear();
  EXPECT_FALSE(response.take("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"));
  EXPECT_TRUE(response.take("\r\n"));
  EXPECT_EQ(response.status(), 200);
  EXPECT_EQ(response.body(), "");
}

TEST(BenchHttpResponse, WhatIsNoneIsRefused) {
  const std::string large = std::to_string(HttpResponse::kMostBody + 1);
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "status line"},
           {"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n", "status line"},
           {"HTTP/1.1 99\r\nContent-Length: 0\r\n\r\n", "status line"},
           {"HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "status line"},
           {"\r\n\r\n", "status line"},
           {"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", "no Content-Length"},
           {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "a number up to"},
           {"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n", "a number up to"},
           {"HTTP/1.1 200 OK\r\nContent-Length: " + large + "\r\n\r\n", "a number up to"},
           {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "once"},
           {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", "1 bytes follow"},
           {"HTTP/1.1 200 OK\r\n" + std::string(HttpResponse::kMostHead, 'a'), "over"}}) {
    HttpResponse response;
    try {
      response.take(text);
      ADD_FAILURE() << text.substr(0, 100);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::data_loss) << text.substr(0, 100);
      EXPECT_THAT(error.message(), HasSubstr(why)) << text.substr(0, 100);
    }
  }
}

TEST(BenchHttpResponse, DamagedBytesAreReadOrRefused) {
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = kGood;
    for (unsigned damage = 1 + random() % 4; damage > 0; --damage) {
      const std::size_t where = random() % bytes.size();
      if (random() % 3 == 0)
        bytes.erase(where, 1 + random() % 6);
      else if (random() % 2 == 0)
        bytes.insert(where, bytes.substr(random() % bytes.size(), random() % 30));
      else
        bytes[where] = static_cast<char>(random());
      if (bytes.empty()) bytes = "\r\n\r\n";
    }
    HttpResponse response;
    try {
      const std::size_t half = random() % bytes.size();
      if (!response.take(bytes.substr(0, half)) && response.take(bytes.substr(half))) {
        ASSERT_LE(response.body().size(), bytes.size());
      }
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Code::data_loss) << error.message();
    }
  }
}

std::string any_answer(std::string_view) { return ""; }

HttpServer echo() {
  return HttpServer({.any_host = true, .max_body = 8 << 20}, [](HttpRequest request, HttpReply reply) {
    reply.send({.status = request.path == "/wrong" ? 503 : 200, .body = std::move(request.body)});
  });
}

TEST(BenchHttpLoad, SendsManyRequestsOverConnectionsThatStay) {
  HttpServer server = echo();
  HttpLoad load(server.address().port, 5);
  EXPECT_EQ(load.ask(http_post("/", "one")), "one");
  const LoadFigures figures = load.run(http_post("/", "text"), {.rate = 2000, .seconds = 0.05},
                                       [](std::string_view body) { return body == "text" ? "" : "not my text"; });
  EXPECT_EQ(figures.latencies.size(), 100u);
  EXPECT_EQ(figures.all_right().failed, 0u);
  EXPECT_GT(load.run(http_post("/", ""), {.seconds = 0.01}, any_answer).all_right().rate(), 0);
}

TEST(BenchHttpLoad, LargeBodiesGoThereAndBack) {
  HttpServer server = echo();
  HttpLoad load(server.address().port, 2);
  const std::string body(4 << 20, 'b');
  EXPECT_EQ(load.ask(http_post("/", body)), body);
}

TEST(BenchHttpLoad, AnswersThatAreWrongHaveFailed) {
  HttpServer server = echo();
  HttpLoad load(server.address().port, 2);
  const LoadFigures refused = load.run(http_post("/wrong", "busy"), {.rate = 1000, .seconds = 0.003}, any_answer);
  EXPECT_EQ(refused.failed, 3u);
  EXPECT_EQ(refused.first_failure, "status 503: busy");
  const LoadFigures wrong =
      load.run(http_post("/", "b"), {.rate = 1000, .seconds = 0.003}, [](std::string_view) { return "not good"; });
  EXPECT_EQ(wrong.failed, 3u);
  EXPECT_EQ(wrong.first_failure, "not good");
  EXPECT_THROW(load.ask(http_post("/wrong", "")), Error);
}

// Accepts connections one after the other, and does with each what it is told.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_TRUE(bind(fd_, any, length) == 0 && listen(fd_, 8) == 0 && getsockname(fd_, any, &length) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { close(fd_); }
  std::uint16_t port() const { return port_; }

  // Closes the next connection, once it has sent a request if `asked`.
  void accept_and_close(bool asked) const {
    const int fd = accept(fd_, nullptr, nullptr);
    if (asked) read_request(fd);
    close(fd);
  }
  void accept_and_answer() const {
    const int fd = accept(fd_, nullptr, nullptr);
    read_request(fd);
    const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";
    EXPECT_EQ(send(fd, answer.data(), answer.size(), MSG_NOSIGNAL), static_cast<ssize_t>(answer.size()));
    char byte = 0;
    recv(fd, &byte, 1, 0);  // until the client goes
    close(fd);
  }

 private:
  static void read_request(int fd) {
    std::string text;
    char byte = 0;
    while (!text.ends_with("\r\n\r\n") && recv(fd, &byte, 1, 0) == 1) text += byte;
  }
  int fd_;
  std::uint16_t port_ = 0;
};

TEST(BenchHttpLoad, AConnectionThatBreaksIsAFailureAndIsMadeAgain) {
  const Listener listener;
  std::thread server([&] {
    listener.accept_and_close(true);
    listener.accept_and_answer();
  });
  {
    HttpLoad load(listener.port(), 1);
    const LoadFigures figures = load.run(http_post("/", ""), {.rate = 1000, .seconds = 0.002}, any_answer);
    EXPECT_EQ(figures.failed, 1u);
    EXPECT_THAT(figures.first_failure, AnyOf(HasSubstr("closed the connection"), HasSubstr("broke")));
    EXPECT_EQ(figures.latencies.size(), 1u);
  }
  server.join();
}

TEST(BenchHttpLoad, AConnectionThatWasClosedWhileIdleIsNoFailure) {
  const Listener listener;
  std::promise<void> closed;
  std::thread server([&] {
    listener.accept_and_close(false);
    closed.set_value();
    listener.accept_and_answer();
  });
  {
    HttpLoad load(listener.port(), 1);
    closed.get_future().wait();
    EXPECT_EQ(load.ask(http_post("/", "")), "good");
  }
  server.join();
}

TEST(BenchHttpLoad, NobodyThereIsUnavailable) {
  std::uint16_t port = 0;
  {
    HttpServer server = echo();
    port = server.address().port;
  }
  EXPECT_THROW(HttpLoad(port, 1), Error);
}

}  // namespace
}  // namespace troupe::bench
