#include "troupe/actors/steps/rendezvous_actor.hpp"

namespace troupe {

RendezvousActorImpl::behavior_type RendezvousActorImpl::make_behavior() {
  tell_of_itself();
  return {
      [this](const Put& put) {
        if (table_.put(put)) tell(scheduler_, Delivered{put});
      },
      [this](const Await& await) {
        for (const RendezvousKey& key : await.keys) {
          if (auto put = table_.get(key)) tell(scheduler_, Delivered{std::move(*put)});
        }
      },
      [this](const EndStep& end) { table_.end_step(end.session, end.step); },
      [this](const EndSession& end) { table_.end_session(end.session); },
      [this](const Stop&) {
        scheduler_ = nullptr;
        quit();
      },
  };
}

void RendezvousActorImpl::inspect(ActorDetails& out) const {
  if (const std::size_t awaited = table_.consumers_waiting(); awaited > 0)
    out.waits_for = fmt::format("{} tensors", awaited);
  if (const std::size_t held = table_.tensors_held(); held > 0)
    out.waits_for += fmt::format("{}steps to begin, with {} tensors ({} bytes) held for them",
                                 out.waits_for.empty() ? "" : ", and for ", held, table_.bytes_held());
}

}  // namespace troupe
