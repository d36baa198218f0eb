#include "troupe/actors/steps/borrowed_thread.hpp"

#include <caf/actor_system.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

namespace troupe {
namespace {

constexpr std::size_t kShare = 100;  // consecutive messages, as in the pool

template <class Actor>
caf::resumable* job_of(const Actor& actor) {
  return actor ? dynamic_cast<caf::resumable*>(caf::actor_cast<caf::abstract_actor*>(actor)) : nullptr;
}

}  // namespace

ShortActors::ShortActors(const SchedulerActor& scheduler, const RendezvousActor& rendezvous,
                         const CollectiveActor& collective)
    : jobs{job_of(scheduler), job_of(rendezvous), job_of(collective)} {}

void BorrowedThread::exec_later(caf::resumable* job) {
  for (std::size_t i = 0; i < ready_.size(); ++i)
    if (actors_.jobs[i] == job) {
      ready_[i] = true;
      return;
    }
  system().scheduler().enqueue(job);
}

void BorrowedThread::run() {
  for (bool idle = false; !idle;) {
    idle = true;
    for (std::size_t i = 0; i < ready_.size(); ++i) {
      if (!std::exchange(ready_[i], false)) continue;
      idle = false;
      caf::resumable* const job = actors_.jobs[i];
      if (job->resume(this, kShare) == caf::resumable::resume_later)
        system().scheduler().enqueue(job);
      else
        job->intrusive_ptr_release_impl();
    }
  }
}

}  // namespace troupe
