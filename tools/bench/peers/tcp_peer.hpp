// The wire's peer: plain TCP between this process and a child, over the loopback address, with blocking send and recv,
// one thread on each side, and preallocated, reused buffers.
#pragma once

#include <cstdint>
#include <memory>

#include "tools/bench/child.hpp"

namespace troupe::bench {

class TcpPeer {
 public:
  // Starts the child and connects. Throws Error.
  TcpPeer();
  ~TcpPeer();

  // All return when the last byte has been received, on either side. `count` messages of `bytes` are sent one after the
  // other without replies in between, and the child answers the last.
  void send(std::size_t bytes, int count = 1);
  void receive(std::size_t bytes, int count = 1);
  // Both directions at once, with a second thread on each side.
  void exchange(std::size_t bytes, int count = 1);
  // Sends a few bytes back and forth, `count` times.
  void ping_pong(std::size_t bytes, int count);

  // Runs in the child (children.hpp): reports its port, serves one connection until it ends.
  static void serve();

 private:
  class Channel;
  Child child_;
  std::unique_ptr<Channel> channel_;
};

}  // namespace troupe::bench
