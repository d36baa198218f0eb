// The ThreadSanitizer of g++ 12 does not know pthread_mutex_clocklock(), by which std::timed_mutex waits for a steady
// clock: each mutex that is locked so would look unlocked. This one waits by a function that it knows.
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>

enum { kSecond = 1000000000 };

int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const struct timespec* deadline) {
  struct timespec now, until;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &until);
  const long long left = (deadline->tv_sec - now.tv_sec) * (long long)kSecond + deadline->tv_nsec - now.tv_nsec;
  const long long nanoseconds = until.tv_sec * (long long)kSecond + until.tv_nsec + left;
  until.tv_sec = nanoseconds / kSecond;
  until.tv_nsec = nanoseconds % kSecond;
  return pthread_mutex_timedlock(mutex, &until);
}
