#include "troupe/devices/cpu/blocked_signals.hpp"

#include <pthread.h>

#include <utility>

namespace troupe {
namespace {

thread_local bool blocks_always = false;
thread_local sigset_t usual;  // of a thread that does

void block(sigset_t* before) {
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP}) sigdelset(&signals, fault);
  pthread_sigmask(SIG_BLOCK, &signals, before);
}

}  // namespace

BlockedSignals::BlockedSignals() : blocks_(!blocks_always) {
  if (blocks_) block(&before_);
}
BlockedSignals::~BlockedSignals() {
  if (blocks_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void BlockedSignals::for_good() {
  if (!std::exchange(blocks_always, true)) block(&usual);
}

UsualSignals::UsualSignals() : blocks_again_(std::exchange(blocks_always, false)) {
  if (blocks_again_) pthread_sigmask(SIG_SETMASK, &usual, nullptr);
}
UsualSignals::~UsualSignals() {
  if (blocks_again_) BlockedSignals::for_good();
}

}  // namespace troupe
