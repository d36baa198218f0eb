#include "apps/python/fork.hpp"

#include <pthread.h>

#include <atomic>

#include <troupe/messages/error.hpp>

namespace troupe::python {
namespace {

std::atomic<bool> used{false}, forked{false};

void watch_forks() {
  static const int watched = pthread_atfork(nullptr, nullptr, [] { forked = used.load(); });
  (void)watched;
}

}  // namespace

void check_not_forked() {
  if (forked)
    fail(Code::failed_precondition,
         "this process was made by fork() after its parent had used Troupe, whose threads do not exist here: start "
         "processes by multiprocessing's method 'spawn', or use Troupe in children only");
  watch_forks();
  used = true;
}

bool is_forked() { return forked; }

}  // namespace troupe::python
