#include "apps/ending.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace troupe {

int end_task(const std::string& program, Task& task, int code) {
  std::string still_running;
  if (task.shutdown(std::chrono::seconds(5), &still_running)) return code;
  fmt::print(stderr, "{}: still running 5 s after shutdown began: {}\n", program, still_running);
  std::fflush(stdout);
  _exit(1);
}

int end_output(const std::string& program, int code) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return code;
  fmt::print(stderr, "{}: cannot write all results to stdout: {}\n", program,
             errno != 0 ? std::strerror(errno) : "a write failed");
  return code != 0 ? code : 1;
}

}  // namespace troupe
