#include "troupe/actors/http/acceptor.hpp"

#include <poll.h>

#include <cerrno>
#include <utility>

namespace troupe {
namespace {

constexpr unsigned kMostAhead = 64;
constexpr int kRetry = 10;  // ms, while there is no descriptor or memory for another connection

bool is_want_of_resources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

void Acceptor::start() {
  thread_ = std::thread([this] { run(); });
}

void Acceptor::served() {
  const std::lock_guard lock(mutex_);
  if (ahead_ > 0 && ahead_-- == kMostAhead) room_.notify_one();
}

void Acceptor::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopped_, true)) return;
  }
  room_.notify_one();
  ::shutdown(listener_.get(), SHUT_RDWR);  // wakes the thread; accept4 fails from now on
  if (thread_.joinable()) thread_.join();
  listener_.reset();
}

void Acceptor::run() {
  pollfd wanted{.fd = listener_.get(), .events = POLLIN, .revents = 0};
  for (;;) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const int socket =
        ::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    const int error = socket < 0 ? errno : 0;
    if (socket >= 0) give(socket, reinterpret_cast<const sockaddr*>(&from), size);
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return;
    }
    if (error == EAGAIN) ::poll(&wanted, 1, -1);
    if (is_want_of_resources(error)) ::poll(nullptr, 0, kRetry);
  }
}

void Acceptor::give(int socket, const sockaddr* from, socklen_t size) {
  {
    const std::lock_guard lock(mutex_);
    ++ahead_;
  }
  const bool is_served = give_(socket, from, size);
  std::unique_lock lock(mutex_);
  if (!is_served && ahead_ > 0) --ahead_;
  if (!room_.wait_for(lock, unseen_, [&] { return stopped_ || ahead_ < kMostAhead; })) ahead_ = 0;
}

}  // namespace troupe
