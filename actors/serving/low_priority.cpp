#include "troupe/actors/serving/low_priority.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <thread>

#include <troupe/messages/nanoseconds.hpp>

namespace troupe {
namespace {

// A nice value, which on Linux is the thread's: a tenth of the time of a thread that answers requests. With
// 19 it would be a seventieth, and a busy server would never get a new version.
constexpr int kLow = 10;

// Linux 6.12 and later take this thread from its processor at once for one with shorter slices of time, as they are by
// default; this is the longest. Others ignore it.
constexpr Nanoseconds kSlice = 100 * kMillisecond;

// The kernel's struct sched_attr, which the C library does not have.
struct ScheduleAttributes {
  std::uint32_t size = sizeof(ScheduleAttributes), policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = kLow;
  std::uint32_t priority = 0;
  std::uint64_t runtime = kSlice, deadline = 0, period = 0;
};

}  // namespace

void lower_priority() {
  const ScheduleAttributes attributes;
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) setpriority(PRIO_PROCESS, 0, kLow);
}

// A priority cannot be raised again, and threads inherit it, as those of batchers would that of their loader.
void at_low_priority(const std::function<void()>& work) {
  std::exception_ptr failed;
  std::thread([&] {
    lower_priority();
    try {
      work();
    } catch (...) {
      failed = std::current_exception();
    }
  }).join();
  if (failed) std::rethrow_exception(failed);
}

}  // namespace troupe
