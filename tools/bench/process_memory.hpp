// Memory of this process as counted by the kernel.
#pragma once

#include <fstream>
#include <string>

#include <troupe/messages/error.hpp>

namespace troupe::bench {

// "VmRSS:": now; "VmHWM:": the peak since forget_peak().
inline double resident_kib(const std::string& which) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (word == which) {
      double kib = 0;
      file >> kib;
      return kib;
    }
  fail(Code::unavailable, "/proc/self/status has no {}", which);
}
inline void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace troupe::bench
