#include "actors/cluster/peer_actor.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxEarlyFrames = 4096;

}  // namespace

PeerActorImpl::behavior_type PeerActorImpl::make_behavior() {
  return {
      [this](const Outbound& message) { send(message.frame); },
      [this](const FrameCame& message) { came(message.frame); },
      [this](const LinkLost& message) {
        tell(links_.node, PeerDown{task_, message.reason});
        stop();
      },
      [this](const JobRoutes& routes) {
        routes_ = routes;
        std::deque<Frame> early;
        early.swap(early_);
        for (const Frame& frame : early) came(frame);
      },
      [this](const Stop&) { stop(); },
  };
}

void PeerActorImpl::stop() {
  stopped_.store(true);
  routes_ = JobRoutes{};
  quit();
}

// The frames of steps and collectives, straight to their actors. Runs on any thread.
struct PeerActorImpl::Passage {
  PeerActorImpl& self;
  caf::execution_unit* host;

  bool operator()(Put& f) const { return to(self.links_.rendezvous, std::move(f)); }
  bool operator()(StepStart& f) const { return to(self.links_.scheduler, Inbound<StepStart>{self.task_, std::move(f)}); }
  bool operator()(StepDone& f) const { return to(self.links_.scheduler, Inbound<StepDone>{self.task_, std::move(f)}); }
  bool operator()(StepAbort& f) const { return to(self.links_.scheduler, Inbound<StepAbort>{self.task_, std::move(f)}); }
  bool operator()(CollectivePart& f) const {
    return to(self.links_.collective, Inbound<CollectivePart>{self.task_, std::move(f)});
  }
  template <class F>
  bool operator()(F&) const {
    return false;
  }

 private:
  template <class Actor, class Message>
  bool to(const Actor& actor, Message message) const {
    if (!actor) return false;
    self.record().pass(1);
    caf::actor_cast<caf::abstract_actor*>(actor)->enqueue(
        caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::move(message)), host);
    return true;
  }
};

void PeerActorImpl::enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) {
  auto& content = element->content();
  if (!stopped_.load()) {
    if (content.match_elements<Outbound>()) {
      record().pass(0);
      return send(content.get_as<Outbound>(0).frame);
    }
    if (content.match_elements<FrameCame>() && std::visit(Passage{*this, host}, content.get_mutable_as<FrameCame>(0).frame)) return;
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

template <class Actor, class F>
void PeerActorImpl::to_job(const Actor& actor, const F& frame) {
  if (actor)
    tell(actor, Inbound<F>{task_, frame});
  else if (early_.size() < kMaxEarlyFrames)
    early_.push_back(frame);
}

// Which actor each kind of frame is for.
struct PeerActorImpl::Router {
  explicit Router(PeerActorImpl& peer) : self(peer) {}

  void operator()(const Pull& f) const { self.to_job(self.routes_.shard, f); }
  void operator()(const Push& f) const { self.to_job(self.routes_.shard, f); }
  void operator()(const Join& f) const { self.to_job(self.routes_.coordinator, f); }
  void operator()(const TakeToken& f) const { self.to_job(self.routes_.coordinator, f); }
  void operator()(const TokenDone& f) const { self.to_job(self.routes_.coordinator, f); }
  void operator()(const Staged& f) const { self.to_job(self.routes_.coordinator, f); }
  void operator()(const Barrier& f) const { self.to_job(self.routes_.coordinator, f); }
  void operator()(const Token& f) const { self.to_job(self.routes_.worker, f); }
  void operator()(const EpochDone& f) const { self.to_job(self.routes_.worker, f); }
  void operator()(const BarrierOpen& f) const { to_members(f); }
  void operator()(const JobFailed& f) const { to_members(f); }
  // Passage has taken these.
  void operator()(const Put&) const {}
  void operator()(const StepStart&) const {}
  void operator()(const StepDone&) const {}
  void operator()(const StepAbort&) const {}
  void operator()(const CollectivePart&) const {}
  // The wire keeps these to itself.
  void operator()(const Hello&) const {}
  void operator()(const Heartbeat&) const {}
  void operator()(const Credit&) const {}
  void operator()(const Goodbye&) const {}

 private:
  PeerActorImpl& self;

  template <class F>
  void to_members(const F& f) const {
    if (self.routes_.shard) self.tell(self.routes_.shard, Inbound<F>{self.task_, f});
    if (self.routes_.worker || !self.routes_.shard) self.to_job(self.routes_.worker, f);
  }
};

void PeerActorImpl::came(const Frame& frame) { std::visit(Router{*this}, frame); }

}  // namespace troupe
