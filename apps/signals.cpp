#include "apps/signals.hpp"

#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// State shared with signal handlers; all of it is lock-free.
std::atomic<bool> stop_requested = false;
std::atomic<bool> in_order = false;
std::atomic<int> received = 0;
sem_t arrival;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void set_handlers(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

void handle(int number) {
  if (!in_order.load()) _exit(128 + number);
  const int saved = errno;
  set_handlers(SIG_DFL);
  received.store(number);
  stop_requested.store(true);
  sem_post(&arrival);
  errno = saved;
}

}  // namespace

StopSignals::StopSignals() {
  stop_requested = false;
  in_order = false;
  received = 0;
  if (sem_init(&arrival, 0, 0) != 0) fail(Code::internal, "sem_init: {}", std::strerror(errno));
  set_handlers(handle);
}

StopSignals::~StopSignals() {
  set_handlers(SIG_DFL);
  sem_destroy(&arrival);
}

void StopSignals::end_in_order() { in_order = true; }

const std::atomic<bool>& StopSignals::stop() const { return stop_requested; }

void StopSignals::wait() {
  while (sem_wait(&arrival) != 0 && errno == EINTR) {
  }
}

int StopSignals::exit_code() const { return received == 0 ? 0 : 128 + received; }

HandledSignal::HandledSignal(int number) : number_(number) {
  sigset_t own, all;
  sigemptyset(&own);
  sigaddset(&own, number_);
  pthread_sigmask(SIG_BLOCK, &own, nullptr);  // in all threads created later
  sigfillset(&all);
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread takes no other signal
  thread_ = std::thread([this, own] {
    for (int received = 0; sigwait(&own, &received) == 0 && !ending_.load();) {
      const std::lock_guard lock(mutex_);
      if (call_) call_();
    }
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

HandledSignal::~HandledSignal() {
  ending_.store(true);
  pthread_kill(thread_.native_handle(), number_);
  thread_.join();
}

void HandledSignal::on_signal(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  call_ = std::move(call);
}

}  // namespace troupe
