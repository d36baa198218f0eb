// Accepts connections on a thread of its own and gives each away, at most a few ahead of those who serve them: a flood
// waits in the kernel's queue, where it takes none of this process's descriptors.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include <troupe/actors/wire/socket.hpp>

namespace troupe {

class Acceptor {
 public:
  // Owns `socket`, non-blocking and close-on-exec, from now on; returns whether it will be served. Called on the
  // acceptor's thread.
  using Give = std::function<bool(int socket, const sockaddr* from, socklen_t size)>;

  // `listener` is non-blocking and listens. Those that were given but are not served for `unseen` count as closed
  // unseen, for want of memory.
  Acceptor(wire::Fd listener, Give give, std::chrono::nanoseconds unseen = std::chrono::seconds(1))
      : listener_(std::move(listener)), give_(std::move(give)), unseen_(unseen) {}
  ~Acceptor() { stop(); }
  std::uint16_t port() const { return wire::port_of(listener_); }
  void start();
  // One of those given is served. Thread-safe.
  void served();
  // Closes the listener: clients are refused from now on.
  void stop();

 private:
  void run();
  void give(int socket, const sockaddr* from, socklen_t size);

  wire::Fd listener_;
  Give give_;
  const std::chrono::nanoseconds unseen_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable room_;
  unsigned ahead_ = 0;  // given, and not served yet
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace troupe
