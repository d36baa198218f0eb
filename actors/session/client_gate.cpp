#include "actors/session/client_gate.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <mutex>

namespace troupe {

ClientGate::ClientGate(caf::actor_system& system, SchedulerActor scheduler, RendezvousActor rendezvous)
    : system_(system), scheduler_(std::move(scheduler)), rendezvous_(std::move(rendezvous)), short_actors_(scheduler_, rendezvous_) {}

void ClientGate::run(std::shared_ptr<StepRequest> request) {
  const std::shared_lock lock(mutex_);
  if (!scheduler_) return;
  KeptAnswers kept(*request);
  BorrowedThread thread(system_, short_actors_);
  thread.send(scheduler_, RunStep{std::move(request)});
  thread.run();
  if (auto answers = kept.take(); !answers.empty())
    // As an argument, not captured: CAF follows a null pointer for an actor that is given none.
    system_.spawn(
        [](caf::event_based_actor*, const KeptAnswers::Answers& given) {
          for (const auto& answer : given) answer();
        },
        std::move(answers));
}

void ClientGate::close() {
  const std::unique_lock lock(mutex_);
  scheduler_ = nullptr;
  rendezvous_ = nullptr;
}

}  // namespace troupe
