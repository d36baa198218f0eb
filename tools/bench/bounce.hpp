// A four-byte tensor sent back and forth between two processes: from an actor through the peer, the wire and the
// rendezvous of the other side to an actor there, which returns it the same way. No steps, no kernels.
#pragma once

#include <memory>

#include "tools/bench/child.hpp"

namespace troupe::bench {

class Bounce {
 public:
  // Starts the child and connects.
  Bounce();
  ~Bounce();
  // Makes `count` round trips, one after the other.
  void run(int count);

  // Runs in the child (children.hpp): reports its port, answers until its input ends.
  static void serve();

 private:
  class Side;
  Child child_;
  std::unique_ptr<Side> side_;
};

}  // namespace troupe::bench
