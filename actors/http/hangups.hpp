// Notices that clients close connections on which nobody reads: libmicrohttpd does not look at a connection whose
// answer is awaited. A client that closes only its own direction counts as gone too. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>

#include <troupe/actors/wire/socket.hpp>

namespace troupe {

class Hangups {
 public:
  Hangups();   // starts a thread; throws unavailable if the system has no descriptors left
  ~Hangups();  // once a call that runs has returned

  // Calls `gone` at most once, on the thread of this. The descriptor stays open until forget(). Returns 0 if it cannot
  // be watched.
  std::uint64_t watch(int fd, std::function<void()> gone);
  // `gone` may still be running.
  void forget(std::uint64_t watched);

 private:
  struct Watched {
    int fd;
    std::function<void()> gone;
  };
  void run();

  wire::Fd epoll_, end_;
  std::mutex mutex_;
  std::uint64_t last_ = 0;  // 0 itself is `end_`
  std::unordered_map<std::uint64_t, Watched> watched_;
  std::thread thread_;
};

}  // namespace troupe
