// What the wire is measured beside: plain TCP between this process and a child, over the loopback address, with
// blocking send and recv, one thread on each side, and buffers that are made once and used again.
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

  // All return when the last byte has been received, on either side. `count` messages of `bytes` go one after the other
  // without a word in between, and the child answers the last.
  void send(std::size_t bytes, int count = 1);
  void receive(std::size_t bytes, int count = 1);
  // Both ways at once, with a second thread on each side.
  void exchange(std::size_t bytes, int count = 1);
  // Of a few bytes, there and back, `count` times in turn.
  void ping_pong(std::size_t bytes, int count);

  // What the child does (children.hpp): says its port, serves one connection until that ends.
  static void serve();

 private:
  class Channel;
  Child child_;
  std::unique_ptr<Channel> channel_;
};

}  // namespace troupe::bench
