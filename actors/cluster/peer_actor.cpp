#include "actors/cluster/peer_actor.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxEarlyFrames = 4096;

}  // namespace

PeerActorImpl::behavior_type PeerActorImpl::make_behavior() {
  return {
      [](const Outbound&) {},   // enqueue() has passed them on
      [](const FrameCame&) {},
      [this](const LinkLost& message) {
        tell(links_.node, PeerDown{task_, message.reason});
        stop();
      },
      [this](const JobRoutes& routes) { set_routes(routes); },
      [this](const Stop&) { stop(); },
  };
}

void PeerActorImpl::stop() {
  stopped_.store(true);
  const std::lock_guard lock(routes_mutex_);
  routes_ = JobRoutes{};
  early_.clear();
  quit();
}

// Hands a frame that has come to the actor it is for. Runs on any thread, which holds routes_mutex_.
struct PeerActorImpl::Passage {
  PeerActorImpl& self;
  caf::execution_unit* host;

  void operator()(Put& f) const { to(self.links_.rendezvous, std::move(f)); }
  void operator()(StepStart& f) const { inbound(self.links_.scheduler, f); }
  void operator()(StepDone& f) const { inbound(self.links_.scheduler, f); }
  void operator()(StepAbort& f) const { inbound(self.links_.scheduler, f); }
  void operator()(CollectivePart& f) const { inbound(self.links_.collective, f); }
  void operator()(Pull& f) const { to_shard(f); }
  void operator()(Push& f) const { to_shard(f); }
  void operator()(Join& f) const { to_coordinator(f); }
  void operator()(TakeToken& f) const { to_coordinator(f); }
  void operator()(TokenDone& f) const { to_coordinator(f); }
  void operator()(Staged& f) const { to_coordinator(f); }
  void operator()(Barrier& f) const { to_coordinator(f); }
  void operator()(Token& f) const { to_worker(f); }
  void operator()(EpochDone& f) const { to_worker(f); }
  void operator()(BarrierOpen& f) const { to_members(f); }
  void operator()(JobFailed& f) const { to_members(f); }
  // The wire keeps these to itself.
  void operator()(Hello&) const {}
  void operator()(Heartbeat&) const {}
  void operator()(Credit&) const {}
  void operator()(Goodbye&) const {}

 private:
  template <class Actor, class Message>
  void to(const Actor& actor, Message message) const {
    if (!actor) return;
    self.record().pass(1);
    caf::actor_cast<caf::abstract_actor*>(actor)->enqueue(
        caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::move(message)), host);
  }
  template <class Actor, class F>
  void inbound(const Actor& actor, F& frame) const {
    to(actor, Inbound<F>{self.task_, std::move(frame)});
  }
  template <class F>
  void to_shard(F& frame) const {
    to_job(self.routes_.shard, frame);
  }
  template <class F>
  void to_coordinator(F& frame) const {
    to_job(self.routes_.coordinator, frame);
  }
  template <class F>
  void to_worker(F& frame) const {
    to_job(self.routes_.worker, frame);
  }
  template <class F>
  void to_members(F& frame) const {
    if (self.routes_.shard) to(self.routes_.shard, Inbound<F>{self.task_, frame});
    if (self.routes_.worker || !self.routes_.shard) to_job(self.routes_.worker, frame);
  }
  template <class Actor, class F>
  void to_job(const Actor& actor, F& frame) const {
    if (actor)
      inbound(actor, frame);
    else if (self.early_.size() < kMaxEarlyFrames)
      self.early_.push_back(std::move(frame));
  }
};

void PeerActorImpl::set_routes(const JobRoutes& routes) {
  const std::lock_guard lock(routes_mutex_);
  routes_ = routes;
  std::deque<Frame> early;
  early.swap(early_);
  for (Frame& frame : early) std::visit(Passage{*this, context()}, frame);
}

void PeerActorImpl::enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) {
  auto& content = element->content();
  if (!stopped_.load()) {
    if (content.match_elements<Outbound>()) {
      record().pass(0);
      return send(content.get_as<Outbound>(0).frame);
    }
    if (content.match_elements<FrameCame>()) {
      const std::lock_guard lock(routes_mutex_);
      return std::visit(Passage{*this, host}, content.get_mutable_as<FrameCame>(0).frame);
    }
  }
  Counted::enqueue(std::move(element), host);
}

void PeerActorImpl::send(const Frame& frame) {
  if (!links_.send) return;
  const Error error = links_.send(frame);
  if (!error || error.code() == Code::unavailable) return;  // a lost link is told by LinkLost
  // A tensor that cannot travel (too large): its consumer must hear, or it waits for ever.
  if (const Put* put = std::get_if<Put>(&frame))
    static_cast<void>(links_.send(Put{put->key, put->version, {}, error.within(fmt::format("sending to {}", task_.to_string()))}));
}

}  // namespace troupe
