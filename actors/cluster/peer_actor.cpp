#include "troupe/actors/cluster/peer_actor.hpp"

#include <algorithm>
#include <caf/send.hpp>

#include <troupe/messages/overloaded.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMaxEarlyFrameBytes = 64 << 20;

std::size_t size_of(const Tensor& tensor) { return tensor.valid() ? tensor.num_bytes() : 0; }
std::size_t size_of(const std::vector<Tensor>& tensors) {
  std::size_t sum = 0;
  for (const Tensor& tensor : tensors) sum += size_of(tensor);
  return sum;
}
std::size_t size_of(const std::string& text) { return text.size(); }
std::size_t size_of(const Error& error) { return error.message().size(); }
template <class T>
std::size_t size_of(const T&) {
  return 0;
}

// Memory of a queued frame.
std::size_t size_of_frame(const Frame& frame) {
  const auto sum = [](const auto&... fields) { return (sizeof(Frame) + ... + size_of(fields)); };
  return std::visit([&](const auto& f) { return std::apply(sum, f.fields()); }, frame);
}

}  // namespace

PeerActorImpl::behavior_type PeerActorImpl::make_behavior() {
  return {
      [](const Outbound&) {},  // forwarded by enqueue()
      [](const FrameCame&) {},
      [this](const LinkLost& message) {
        tell(links_.node, PeerLost{task_, PeerActor(this), message.reason, message.left});
        stop();
      },
      [this](const JobRoutes& routes) { set_routes(routes); },
      [this](const ServingRoutes& routes) {
        const std::lock_guard lock(routes_mutex_);
        serving_ = routes;
      },
      [this](const Stop&) { stop(); },
  };
}

void PeerActorImpl::stop() {
  stopped_.store(true);
  const std::lock_guard lock(routes_mutex_);
  routes_ = JobRoutes{};
  serving_ = ServingRoutes{};
  unannounced_.clear();
  early_.clear();
  early_bytes_ = 0;
  quit();
}

// Accompanies a Join to the coordinator. Answers if the coordinator ends without handling the Join.
class JoinTicket final : public LocalWork {
 public:
  explicit JoinTicket(std::function<void()> refuse) : refuse_(std::move(refuse)) {}
  JoinTicket(const JoinTicket&) = delete;
  JoinTicket& operator=(const JoinTicket&) = delete;
  ~JoinTicket() override {
    if (refuse_) refuse_();
  }
  void run() override { refuse_ = nullptr; }

 private:
  std::function<void()> refuse_;
};

// Delivers an incoming frame to its receiver. Runs on any thread; the caller holds routes_mutex_.
struct PeerActorImpl::Passage {
  PeerActorImpl& self;
  caf::execution_unit* host;
  const LocalHandle held;  // see Inbound

  template <class F>
  void operator()(F& f) const {
    if constexpr (F::kReceiver == Receiver::scheduler)
      inbound(self.links_.scheduler, f);
    else if constexpr (F::kReceiver == Receiver::collective)
      inbound(self.links_.collective, f);
    else if constexpr (F::kReceiver == Receiver::input)
      inbound(self.links_.input, f);
    else if constexpr (F::kReceiver == Receiver::feed)
      inbound(self.routes_.feed, f);
    else if constexpr (F::kReceiver == Receiver::replica)
      inbound(self.serving_.replica, f);
    else if constexpr (F::kReceiver == Receiver::router)
      inbound(self.serving_.router, f);
    else if constexpr (F::kReceiver == Receiver::shard)
      to_job(self.routes_.shard, f);
    else if constexpr (F::kReceiver == Receiver::coordinator)
      to_job(self.routes_.coordinator, f);
    else if constexpr (F::kReceiver == Receiver::worker)
      to_job(self.routes_.worker, f);
    else if constexpr (F::kReceiver == Receiver::members)
      to_members(f);
    else  // handled by the link
      static_assert(F::kReceiver == Receiver::link);
  }
  void operator()(Put& f) const { to(self.links_.rendezvous, std::move(f)); }
  void operator()(Join& f) const {
    if (!self.routes_.coordinator && f.after + 1 < self.first_job_) return refuse(f, self.first_job_ - 1)();
    if (coordinator_takes(f))
      return to(self.routes_.coordinator,
                Inbound<Join>{self.task_, f, std::make_shared<JoinTicket>(refuse(f, self.routes_.job))});
    self.keep(std::move(f));
  }
  void operator()(Leave& f) const {
    if (coordinator_takes(f)) return inbound(self.routes_.coordinator, f);
    std::erase_if(self.early_, [&](const Frame& early) {  // a Join still queued has had no effect
      return std::holds_alternative<Join>(early) && std::get<Join>(early).incarnation == f.incarnation;
    });
    static_cast<void>(self.links_.send(left(f, 0)));
  }
  // Names its receiver. It may overtake the routes of the Join that it answers, while those of an earlier job still
  // hold.
  void operator()(Joined& f) const {
    const bool expected = f.incarnation == self.routes_.joining && (self.routes_.shard || self.routes_.worker);
    if (!expected) return self.keep(std::move(f));
    std::erase_if(self.early_, [](const Frame& early) { return std::holds_alternative<Joined>(early); });
    if (self.routes_.shard) return inbound(self.routes_.shard, f);
    inbound(self.routes_.worker, f);
  }

 private:
  template <class Actor, class Message>
  void to(const Actor& actor, Message message) const {
    static_assert(takes<Actor, Message>);
    if (!actor) return;
    MessageNote note;
    const MessageKind& kind = MessageKind::of<Message>().describe(&message, note);
    note.from = self.packed_task_;
    self.record().pass(kind, note, 1);
    caf::actor_cast<caf::abstract_actor*>(actor)->enqueue(
        caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, std::move(message)), host);
  }
  template <class Actor, class F>
  void inbound(const Actor& actor, F& frame) const {
    to(actor, Inbound<F>{self.task_, std::move(frame), held});
  }
  template <class F>
  void to_members(F& frame) const {
    const bool to_shard = self.routes_.shard && frame.job == self.routes_.job;
    if (to_shard) to(self.routes_.shard, Inbound<F>{self.task_, frame});
    if (self.routes_.worker || !to_shard) to_job(self.routes_.worker, frame);
  }
  // A joining task does not know the number of its job yet, only those of earlier jobs.
  template <class F>
  bool coordinator_takes(const F& frame) const {
    return self.routes_.coordinator && (frame.after == 0 || frame.after < self.routes_.job);
  }
  // The sender was about to join a job that is over: it would wait for the next one, while others wait for it to retry.
  std::function<void()> refuse(const Join& join, std::uint64_t job) const {
    const Joined answer{.incarnation = join.incarnation,
                        .job = job,
                        .error = Error(Code::aborted, fmt::format("the training job was over before {} had joined it",
                                                                  self.task_.to_string()))};
    return [send = self.links_.send, answer] { static_cast<void>(send(answer)); };
  }
  template <class Actor, class F>
  void to_job(const Actor& actor, F& frame) const {
    if (frame.job < std::max(self.routes_.job, self.first_job_)) return;  // of an earlier job
    if (actor && frame.job == self.routes_.job)
      inbound(actor, frame);
    else
      self.keep(std::move(frame));
  }
};

// Ends the link beyond the limit: dropping a frame would leave both sides waiting.
void PeerActorImpl::keep(Frame frame) {
  early_bytes_ += size_of_frame(frame);
  if (early_bytes_ <= kMaxEarlyFrameBytes) return early_.push_back(std::move(frame));
  early_.clear();
  give_up(Error(Code::resource_exhausted,
                fmt::format("received more than {} bytes of frames of a training job that this task has not joined yet",
                            kMaxEarlyFrameBytes)));
}

void PeerActorImpl::set_routes(const JobRoutes& routes) {
  const std::lock_guard lock(routes_mutex_);
  if (routes_.job != 0 && routes_.job != routes.job) first_job_ = std::max(first_job_, routes_.job + 1);
  routes_ = routes;
  std::deque<Frame> early;
  early.swap(early_);
  early_bytes_ = 0;
  for (Frame& frame : early) std::visit(Passage{*this, context(), nullptr}, frame);
  announced_ = true;
  std::deque<FrameCame> unannounced;
  unannounced.swap(unannounced_);
  for (FrameCame& came : unannounced) std::visit(Passage{*this, context(), std::move(came.held)}, came.frame);
}

void PeerActorImpl::enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) {
  auto& content = element->content();
  if (!stopped_.load()) {
    if (content.match_elements<Outbound>())
      return handle_at_once(*element, host, [&] { pass_out(content.get_as<Outbound>(0)); });
    if (content.match_elements<FrameCame>())
      return handle_at_once(*element, host, [&] { pass_in(content.get_mutable_as<FrameCame>(0), host); });
  }
  Counted::enqueue(std::move(element), host);
}

void PeerActorImpl::pass_out(const Outbound& outbound) {
  MessageNote note;
  const MessageKind& kind = MessageKind::of<Outbound>().describe(&outbound, note);
  record().pass(kind, note, 0);
  trace_departure(record().registry.trace(), outbound, to_);
  send(outbound.frame);
}

void PeerActorImpl::pass_in(FrameCame& came, caf::execution_unit* host) {
  const std::lock_guard lock(routes_mutex_);
  if (!announced_) return unannounced_.push_back(std::move(came));
  std::visit(Passage{*this, host, std::move(came.held)}, came.frame);
}

void PeerActorImpl::send(const Frame& frame) {
  if (!links_.send) return;
  const Error error = links_.send(frame);
  if (!error || error.code() == Code::unavailable) return;  // LinkLost reports a lost link
  // The frame cannot be sent (too large): notify its receiver, which would otherwise wait forever.
  const Error why = error.within(fmt::format("sending to {}", task_.to_string()));
  std::visit(Overloaded{[&](const Put& put) {
                          static_cast<void>(links_.send(Put{put.key, put.version, {}, why}));
                        },
                        [&](const CollectivePart& part) {
                          if (part.error) return give_up(why);
                          const CollectivePart failed{.group = part.group, .operation = {}, .tensor = {}, .error = why};
                          static_cast<void>(links_.send(failed));
                          caf::anon_send(links_.collective, Inbound<CollectivePart>{task_, failed});
                        },
                        [&](const BatchMade& made) {
                          if (made.error) return give_up(why);
                          static_cast<void>(links_.send(
                              BatchMade{.feed = made.feed, .batch = made.batch, .components = {}, .error = why}));
                        },
                        [&](const auto&) { give_up(why); }},
             frame);
}

// The link is unusable: both sides learn of the loss and its cause.
void PeerActorImpl::give_up(const Error& why) {
  if (!given_up_.exchange(true) && links_.close) links_.close(why);
}

}  // namespace troupe
