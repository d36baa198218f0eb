#include "tools/bench/http_load.hpp"

#include <errno.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "tools/bench/http_response.hpp"
#include <troupe/messages/error.hpp>

namespace troupe::bench {
namespace {

constexpr std::chrono::seconds kPatience{60};

using Events = std::array<epoll_event, 64>;

// A connection with at most one request in flight.
class HttpConnection {
 public:
  explicit HttpConnection(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    if (fd_ < 0 || connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
      const int error = errno;
      if (fd_ >= 0) close(fd_);
      fail(Code::unavailable, "cannot connect to port {}: {}", port, std::strerror(error));
    }
  }
  ~HttpConnection() { close(fd_); }
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  int fd() const { return fd_; }
  bool busy() const { return request_ != nullptr; }
  LoadRun::Time intended() const { return intended_; }
  const HttpResponse& response() const { return response_; }

  void begin(const std::string& request, LoadRun::Time intended) {
    request_ = &request;
    intended_ = intended;
    sent_ = 0;
    response_.clear();
  }
  void end() { request_ = nullptr; }

  bool sent() const { return sent_ == request_->size(); }
  // Sends what fits. Throws unavailable.
  void send_more() {
    while (!sent()) {
      const ssize_t n = send(fd_, request_->data() + sent_, request_->size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n < 0) fail(Code::unavailable, "the connection broke: {}", std::strerror(errno));
      sent_ += static_cast<std::size_t>(n);
    }
  }
  // Reads what is there; returns whether the response is complete. Throws unavailable, data_loss.
  bool read_more() {
    std::array<char, 64 << 10> bytes;
    for (;;) {
      const ssize_t n = recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return false;
      if (n < 0) fail(Code::unavailable, "the connection broke: {}", std::strerror(errno));
      if (n == 0) fail(Code::unavailable, "the server closed the connection");
      if (!busy()) fail(Code::data_loss, "the server sent {} bytes that nobody asked for", n);
      if (response_.take({bytes.data(), static_cast<std::size_t>(n)})) return true;
    }
  }

 private:
  const int fd_;
  const std::string* request_ = nullptr;
  std::size_t sent_ = 0;
  LoadRun::Time intended_;
  HttpResponse response_;
};

}  // namespace

std::string http_post(const std::string& path, const std::string& body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", path,
      body.size(), body);
}

class HttpLoad::Impl {
 public:
  Impl(std::uint16_t port, std::size_t connections) : port_(port), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    if (epoll_ < 0) fail(Code::resource_exhausted, "cannot make an epoll instance: {}", std::strerror(errno));
    connections_.resize(connections);
    for (std::size_t i = 0; i < connections; ++i) connect_again(i);
  }
  ~Impl() { close(epoll_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  LoadFigures run(const std::string& request, const LoadPlan& plan, const Check& check) {
    prctl(PR_SET_TIMERSLACK, 1);  // nanosecond: requests are sent when they are due
    replace_closed();
    LoadRun run(plan, LoadClock::now());
    while (!run.finished(LoadClock::now())) {
      begin_what_is_due(run, request);
      Events events;
      const std::chrono::nanoseconds time = time_to_wait(run);
      const int n = wait(time, events);
      if (n == 0 && time == kPatience) fail(Code::deadline_exceeded, "no answer came within {} s", kPatience.count());
      for (int i = 0; i < n; ++i) handle(run, events[static_cast<std::size_t>(i)], check);
    }
    return run.figures();
  }

 private:
  void begin_what_is_due(LoadRun& run, const std::string& request) {
    while (!free_.empty()) {
      const auto intended = run.next(LoadClock::now());
      if (!intended) return;
      const std::size_t at = free_.front();
      free_.pop_front();
      HttpConnection& connection = *connections_[at];
      connection.begin(request, *intended);
      try {
        connection.send_more();
      } catch (const Error& error) {
        fail_request(run, at, error.message());
        continue;
      }
      if (!connection.sent()) watch(at, EPOLLIN | EPOLLOUT);
    }
  }

  // Until the next request is due and can be sent.
  std::chrono::nanoseconds time_to_wait(const LoadRun& run) const {
    const LoadRun::Time now = LoadClock::now();
    const auto due = run.due(now);
    return !due || free_.empty() ? kPatience
                                 : std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(*due - now));
  }

  int wait(std::chrono::nanoseconds time, Events& events) const {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
    const timespec limit{seconds.count(), (time - seconds).count()};
    const int n = epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &limit, nullptr);
    if (n < 0 && errno != EINTR) fail(Code::unavailable, "cannot wait for answers: {}", std::strerror(errno));
    return n;
  }

  // Of connections that have been idle for long: the server may have closed them.
  void replace_closed() {
    Events events;
    for (int n = 1; n > 0;) {
      n = wait(std::chrono::nanoseconds(0), events);
      for (int i = 0; i < n; ++i) connect_again(events[static_cast<std::size_t>(i)].data.u64);
    }
  }

  void handle(LoadRun& run, const epoll_event& event, const Check& check) {
    const std::size_t at = event.data.u64;
    HttpConnection& connection = *connections_[at];
    try {
      if (connection.busy() && !connection.sent()) {
        connection.send_more();
        if (connection.sent()) watch(at, EPOLLIN);
      }
      if (!connection.read_more()) return;
    } catch (const Error& error) {
      return fail_request(run, at, error.message());
    }
    const LoadRun::Time now = LoadClock::now();
    const HttpResponse& response = connection.response();
    const std::string wrong = response.status() == 200
                                  ? check(response.body())
                                  : fmt::format("status {}: {}", response.status(), response.body().substr(0, 200));
    run.ended(connection.intended(), now, wrong);
    connection.end();
    free_.push_back(at);
  }

  // Of a connection that is of no use any more.
  void fail_request(LoadRun& run, std::size_t at, const std::string& why) {
    if (connections_[at]->busy()) run.ended(connections_[at]->intended(), LoadClock::now(), why);
    connect_again(at);
  }

  void connect_again(std::size_t at) {
    std::erase(free_, at);
    connections_[at].reset();
    connections_[at] = std::make_unique<HttpConnection>(port_);
    epoll_event event{.events = EPOLLIN, .data = {.u64 = at}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, connections_[at]->fd(), &event) != 0)
      fail(Code::resource_exhausted, "cannot watch a connection: {}", std::strerror(errno));
    free_.push_back(at);
  }

  void watch(std::size_t at, std::uint32_t what) {
    epoll_event event{.events = what, .data = {.u64 = at}};
    if (epoll_ctl(epoll_, EPOLL_CTL_MOD, connections_[at]->fd(), &event) != 0)
      fail(Code::internal, "cannot watch a connection: {}", std::strerror(errno));
  }

  const std::uint16_t port_;
  const int epoll_;
  std::vector<std::unique_ptr<HttpConnection>> connections_;
  std::deque<std::size_t> free_;
};

HttpLoad::HttpLoad(std::uint16_t port, std::size_t connections) : impl_(std::make_unique<Impl>(port, connections)) {}
HttpLoad::~HttpLoad() = default;

std::string HttpLoad::ask(const std::string& request) {
  std::string out;
  const LoadFigures figures = impl_->run(request, {.rate = 1, .seconds = 0.5}, [&](std::string_view body) {
    out = body;
    return "";
  });
  if (figures.failed > 0) fail(Code::unavailable, "{}", figures.first_failure);
  return out;
}

LoadFigures HttpLoad::run(const std::string& request, const LoadPlan& plan, const Check& check) {
  return impl_->run(request, plan, check);
}

}  // namespace troupe::bench
