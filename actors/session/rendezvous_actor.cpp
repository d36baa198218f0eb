#include "actors/session/rendezvous_actor.hpp"

namespace troupe {

RendezvousActorImpl::behavior_type RendezvousActorImpl::make_behavior() {
  return {
      [this](const Put& put) {
        if (table_.put(put)) tell(scheduler_, Delivered{put});
        show_waits();
      },
      [this](const Await& await) {
        for (const RendezvousKey& key : await.keys) {
          if (auto put = table_.get(key)) tell(scheduler_, Delivered{std::move(*put)});
        }
        show_waits();
      },
      [this](const EndStep& end) {
        table_.end_step(end.session, end.step);
        show_waits();
      },
      [this](const EndSession& end) {
        table_.end_session(end.session);
        show_waits();
      },
      [this](const Stop&) {
        scheduler_ = nullptr;
        quit();
      },
  };
}

void RendezvousActorImpl::show_waits() {
  const std::size_t waiting = table_.consumers_waiting();
  if (waiting == 0)
    wait_slot().clear();
  else
    wait_slot().set(WaitKind::tensor, 0, 0, 0, waiting);
}

}  // namespace troupe
