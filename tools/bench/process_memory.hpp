// Memory of a process as counted by the kernel.
#pragma once

#include <fstream>
#include <string>

#include <troupe/messages/error.hpp>

namespace troupe::bench {

// "VmRSS:": now; "VmHWM:": the peak since forget_peak(). Of this process, or of a child's number.
inline double resident_kib(const std::string& which, const std::string& process = "self") {
  const std::string path = "/proc/" + process + "/status";
  std::ifstream file(path);
  for (std::string word; file >> word;)
    if (word == which) {
      double kib = 0;
      file >> kib;
      return kib;
    }
  fail(Code::unavailable, "{} has no {}", path, which);
}
inline void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace troupe::bench
