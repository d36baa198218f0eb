// What is done to the tasks of a cluster, and when: drawn from a seed, so that it can be repeated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::chaos {

// Numbers from a seed, the same on every machine.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 0x1234567) {}
  std::uint64_t next();
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  double between(double low, double high);

 private:
  std::uint64_t state_;
};

enum class FaultKind {
  kill,   // SIGKILL
  stop,   // SIGSTOP
  go_on,  // SIGCONT
  start,  // of one that does not run
  cut,    // the task's network
  heal,
};
std::string_view name(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kill;
  std::string task;               // "worker/1"; "" : all
  double at = 0;                  // seconds since the training has begun
  std::string to_string() const;  // "kill worker/1 at 1.250 s"
};

using Schedule = std::vector<Fault>;  // by time
std::string to_string(const Schedule& schedule);

}  // namespace troupe::chaos
