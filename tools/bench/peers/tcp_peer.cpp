#include "tools/bench/peers/tcp_peer.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "tools/bench/children.hpp"
#include <troupe/messages/error.hpp>

namespace troupe::bench {
namespace {

enum class Direction : std::uint32_t { to_child, from_child, both, ping_pong };

struct Request {
  Direction direction = Direction::to_child;
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;
};

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

[[noreturn]] void fail_socket(const char* what) {
  fail(Code::unavailable, "raw TCP: {}: {}", what, std::strerror(errno));
}

int new_socket() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail_socket("socket");
  return fd;
}

}  // namespace

// One end of the connection.
class TcpPeer::Channel {
 public:
  explicit Channel(int fd) : fd_(fd), second_([this] { run_second(); }) {
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~Channel() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    second_.join();
    ::close(fd_);
  }

  void send_all(const void* data, std::size_t bytes, int flags = 0) {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t n = ::send(fd_, at, bytes, MSG_NOSIGNAL | flags);
      if (n <= 0) fail_socket("send");
      at += n;
      bytes -= static_cast<std::size_t>(n);
    }
  }
  // False at the end of the connection.
  bool receive_all(void* data, std::size_t bytes) {
    auto* at = static_cast<char*>(data);
    while (bytes > 0) {
      const ssize_t n = ::recv(fd_, at, bytes, 0);
      if (n < 0) fail_socket("recv");
      if (n == 0) return false;
      at += n;
      bytes -= static_cast<std::size_t>(n);
    }
    return true;
  }

  void ask(Direction direction, std::size_t bytes, int count) {
    const Request request{direction, static_cast<std::uint32_t>(count), bytes};
    send_all(&request, sizeof request, direction == Direction::to_child ? MSG_MORE : 0);
  }
  void send_messages(std::size_t bytes, std::uint32_t count) {
    if (out_.size() < bytes) out_.assign(bytes, 'x');
    for (std::uint32_t i = 0; i < count; ++i) send_all(out_.data(), bytes);
  }
  void receive_messages(std::size_t bytes, std::uint32_t count) {
    if (in_.size() < bytes) in_.resize(bytes);
    for (std::uint32_t i = 0; i < count; ++i)
      if (!receive_all(in_.data(), bytes)) fail(Code::unavailable, "raw TCP: the other side has ended");
  }
  void exchange(std::size_t bytes, std::uint32_t count) {
    start_second(bytes, count);
    receive_messages(bytes, count);
    await_second();
  }
  void answer() { send_all("done", 4); }
  void await_answer() {
    char text[4];
    if (!receive_all(text, sizeof text)) fail(Code::unavailable, "raw TCP: the other side has ended");
  }

 private:
  // The second thread, which sends while the first receives. Made once, so that its start is not measured.
  void start_second(std::size_t bytes, std::uint32_t count) {
    {
      const std::lock_guard lock(mutex_);
      bytes_ = bytes;
      count_ = count;
    }
    changed_.notify_all();
  }
  void await_second() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return count_ == 0; });
    if (error_) throw error_;
  }
  void run_second() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return count_ > 0 || ending_; });
      if (ending_) return;
      lock.unlock();
      Error error;
      try {
        send_messages(bytes_, count_);
      } catch (...) {
        error = current_error();
      }
      lock.lock();
      error_ = error;
      count_ = 0;
      changed_.notify_all();
    }
  }

  const int fd_;
  std::vector<char> out_, in_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t bytes_ = 0;
  std::uint32_t count_ = 0;  // messages for the second thread to send
  Error error_;
  bool ending_ = false;
  std::thread second_;  // last: it uses the other members
};

TcpPeer::TcpPeer() : child_({own_path(), "--child", kTcp}) {
  const auto address = loopback(static_cast<std::uint16_t>(std::stoi(child_.read_line())));
  const int fd = new_socket();
  channel_ = std::make_unique<Channel>(fd);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail_socket("connect");
}
TcpPeer::~TcpPeer() = default;

void TcpPeer::send(std::size_t bytes, int count) {
  channel_->ask(Direction::to_child, bytes, count);
  channel_->send_messages(bytes, static_cast<std::uint32_t>(count));
  channel_->await_answer();
}

void TcpPeer::receive(std::size_t bytes, int count) {
  channel_->ask(Direction::from_child, bytes, count);
  channel_->receive_messages(bytes, static_cast<std::uint32_t>(count));
}

void TcpPeer::exchange(std::size_t bytes, int count) {
  channel_->ask(Direction::both, bytes, count);
  channel_->exchange(bytes, static_cast<std::uint32_t>(count));
  channel_->await_answer();
}

void TcpPeer::ping_pong(std::size_t bytes, int count) {
  channel_->ask(Direction::ping_pong, bytes, count);
  for (int i = 0; i < count; ++i) {
    channel_->send_messages(bytes, 1);
    channel_->receive_messages(bytes, 1);
  }
}

void TcpPeer::serve() {
  const int listener = new_socket();
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), size) != 0 || ::listen(listener, 1) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    fail_socket("listen");
  fmt::print("{}\n", ntohs(address.sin_port));
  std::fflush(stdout);
  Channel channel(::accept(listener, nullptr, nullptr));
  Request request;
  while (channel.receive_all(&request, sizeof request)) {
    switch (request.direction) {
      case Direction::to_child:
        channel.receive_messages(request.bytes, request.count);
        channel.answer();
        break;
      case Direction::from_child:
        channel.send_messages(request.bytes, request.count);
        break;
      case Direction::both:
        channel.exchange(request.bytes, request.count);
        channel.answer();
        break;
      case Direction::ping_pong:
        for (std::uint32_t i = 0; i < request.count; ++i) {
          channel.receive_messages(request.bytes, 1);
          channel.send_messages(request.bytes, 1);
        }
        break;
    }
  }
}

}  // namespace troupe::bench
