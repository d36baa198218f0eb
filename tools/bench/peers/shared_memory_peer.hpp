// An alternative to TCP for tasks on one host: a ring of blocks in memory shared by this process and a child. One
// copies bytes in and the other copies them out, with one thread each and preallocated buffers.
#pragma once

#include <cstddef>
#include <memory>

#include "tools/bench/child.hpp"

namespace troupe::bench {

class SharedMemoryPeer {
 public:
  // Starts the child and shares the ring with it. Throws Error.
  SharedMemoryPeer();
  ~SharedMemoryPeer();

  // Sends `count` messages of `bytes` to the child; returns when the last has been received.
  void send(std::size_t bytes, int count);

  // Runs in the child (children.hpp): confirms the ring, receives until its input ends.
  static void serve();

 private:
  struct Ring;
  class Mapping;
  Child child_;
  std::unique_ptr<Mapping> ring_;
};

}  // namespace troupe::bench
