// A tensor of four bytes that goes to and fro between two processes: from an actor through the peer, the wire and the
// rendezvous of the other side to an actor there, which sends it back in the same way. No steps, no kernels.
#pragma once

#include <memory>

#include "tools/bench/child.hpp"

namespace troupe::bench {

class Bounce {
 public:
  // Starts the child and connects.
  Bounce();
  ~Bounce();
  // There and back so often, one after the other.
  void run(int count);

  // What the child does (children.hpp): says its port, answers until its input ends.
  static void serve();

 private:
  class Side;
  Child child_;
  std::unique_ptr<Side> side_;
};

}  // namespace troupe::bench
