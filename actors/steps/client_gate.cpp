#include "troupe/actors/steps/client_gate.hpp"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <mutex>

namespace troupe {

ClientGate::ClientGate(caf::actor_system& system, SchedulerActor scheduler, RendezvousActor rendezvous,
                       CollectiveActor collective)
    : system_(system),
      scheduler_(std::move(scheduler)),
      rendezvous_(std::move(rendezvous)),
      collective_(std::move(collective)),
      short_actors_(scheduler_, rendezvous_, collective_) {}

void ClientGate::run(std::shared_ptr<StepRequest> request) {
  const StepRequest* const own = request.get();
  run(scheduler_, RunStep{std::move(request)}, own);
}

void ClientGate::run(Contribute message) { run(collective_, std::move(message), nullptr); }

// Reads `to` under the lock: close() releases it.
template <class Actor, class Message>
void ClientGate::run(const Actor& to, Message message, const StepRequest* own) {
  const std::shared_lock lock(mutex_);
  if (!to) return;
  KeptAnswers kept(own);
  BorrowedThread thread(system_, short_actors_);
  thread.send(to, std::move(message));
  thread.run();
  if (auto answers = kept.take(); !answers.empty())
    // Passed as an argument, not captured: CAF dereferences a null pointer for an actor without arguments.
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
  collective_ = nullptr;
}

}  // namespace troupe
