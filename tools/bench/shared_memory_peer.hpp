// What tasks of one host could use in the place of TCP: a ring of blocks in memory that this process and a child share.
// Bytes are copied in by the one and out by the other, one thread in each, buffers made once.
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

  // `count` messages of `bytes` to the child; returns when it has the last.
  void send(std::size_t bytes, int count);

  // What the child does (children.hpp): says that it has the ring, receives until its input ends.
  static void serve();

 private:
  struct Ring;
  class Mapping;
  Child child_;
  std::unique_ptr<Mapping> ring_;
};

}  // namespace troupe::bench
