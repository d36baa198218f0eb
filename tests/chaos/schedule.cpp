#include "tests/chaos/schedule.hpp"

#include <fmt/format.h>

namespace troupe::chaos {

// splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
std::uint64_t Dice::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

double Dice::between(double low, double high) {
  return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
}

std::string_view name(FaultKind kind) {
  switch (kind) {
    case FaultKind::kill:
      return "kill";
    case FaultKind::stop:
      return "stop";
    case FaultKind::go_on:
      return "continue";
    case FaultKind::start:
      return "start";
    case FaultKind::cut:
      return "cut off";
    case FaultKind::heal:
      return "connect";
  }
  return "?";
}

std::string Fault::to_string() const {
  return fmt::format("{} {} at {:.3f} s", name(kind), task.empty() ? "all" : task, at);
}

std::string to_string(const Schedule& schedule) {
  std::string text;
  for (const Fault& fault : schedule) text += (text.empty() ? "" : ", ") + fault.to_string();
  return text.empty() ? "nothing" : text;
}

}  // namespace troupe::chaos
