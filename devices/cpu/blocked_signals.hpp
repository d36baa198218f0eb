// Keeps handlers of signals away from code that oneDNN generates: it uses the stack pointer for more than the stack,
// and the frame that the kernel writes there for a handler destroys memory.
#pragma once

#include <csignal>

namespace troupe {

// While alive, the calling thread handles no signals but those of its own faults; they wait. Costs two system calls on
// threads of others, and nothing on threads of devices, which never handle any.
class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  // For as long as the calling thread runs, but for UsualSignals.
  static void for_good();

 private:
  bool blocks_;
  sigset_t before_;
};

// While alive, a thread that blocks signals for good handles those that it did before: a function of the user's may
// start programs, which have its mask.
class UsualSignals {
 public:
  UsualSignals();
  ~UsualSignals();
  UsualSignals(const UsualSignals&) = delete;
  UsualSignals& operator=(const UsualSignals&) = delete;

 private:
  bool blocks_again_;
};

}  // namespace troupe
