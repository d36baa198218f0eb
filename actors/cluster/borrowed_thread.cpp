#include "actors/cluster/borrowed_thread.hpp"

#include <algorithm>
#include <caf/abstract_actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

namespace troupe {
namespace {

constexpr std::size_t kShare = 100;  // messages in a row, as for the pool

}  // namespace

BorrowedThread::BorrowedThread(caf::actor_system& system, std::vector<caf::abstract_actor*> short_actors)
    : caf::execution_unit(&system) {
  for (caf::abstract_actor* actor : short_actors)
    if (auto* job = dynamic_cast<caf::resumable*>(actor)) short_actors_.push_back(job);
}

void BorrowedThread::exec_later(caf::resumable* job) {
  if (std::ranges::find(short_actors_, job) != short_actors_.end())
    ready_.push_back(job);
  else
    system().scheduler().enqueue(job);
}

void BorrowedThread::run() {
  for (std::size_t i = 0; i < ready_.size(); ++i) {  // grows meanwhile
    caf::resumable* const job = ready_[i];
    if (job->resume(this, kShare) == caf::resumable::resume_later)
      system().scheduler().enqueue(job);
    else
      job->intrusive_ptr_release_impl();
  }
  ready_.clear();
}

}  // namespace troupe
