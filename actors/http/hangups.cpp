#include "troupe/actors/http/hangups.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>

#include <troupe/messages/error.hpp>

namespace troupe {

Hangups::Hangups() : epoll_(::epoll_create1(EPOLL_CLOEXEC)), end_(::eventfd(0, EFD_CLOEXEC)) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = 0}};
  if (!epoll_ || !end_ || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, end_.get(), &event) != 0)
    fail(Code::unavailable, "no descriptors are left to watch connections with");
  thread_ = std::thread([this] { run(); });
}

Hangups::~Hangups() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(end_.get(), &one, sizeof one));
  thread_.join();
}

std::uint64_t Hangups::watch(int fd, std::function<void()> gone) {
  const std::lock_guard lock(mutex_);
  epoll_event event{.events = EPOLLRDHUP | EPOLLONESHOT, .data = {.u64 = ++last_}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return 0;
  watched_.emplace(last_, Watched{fd, std::move(gone)});
  return last_;
}

void Hangups::forget(std::uint64_t watched) {
  std::function<void()> gone;  // is destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto it = watched_.find(watched);
  if (it == watched_.end()) return;
  gone.swap(it->second.gone);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->second.fd, nullptr);
  watched_.erase(it);
}

void Hangups::run() {
  std::array<epoll_event, 64> events{};
  for (;;) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
      if (id == 0) return;
      std::function<void()> gone;
      {
        const std::lock_guard lock(mutex_);
        if (const auto it = watched_.find(id); it != watched_.end()) gone = std::exchange(it->second.gone, nullptr);
      }
      if (gone) gone();
    }
  }
}

}  // namespace troupe
