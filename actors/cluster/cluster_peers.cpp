#include "troupe/actors/cluster/cluster_peers.hpp"

#include <algorithm>
#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "messages/proto/cluster.pb.h"
#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/base/task_progress.hpp>
#include <troupe/actors/cluster/meeting.hpp>
#include <troupe/actors/cluster/peer_actor.hpp>
#include <troupe/actors/cluster/rights.hpp>
#include <troupe/actors/introspection/introspection_token.hpp>
#include <troupe/actors/network/control.hpp>
#include <troupe/actors/steps/borrowed_thread.hpp>
#include <troupe/actors/wire/wire.hpp>
#include <troupe/messages/codec.hpp>
#include <troupe/scheduler/waits/wait_things.hpp>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kAnswerPatience{1};  // for a node with an open link, and for callers' reasons
constexpr std::chrono::seconds kDialPatience{5};    // for a task that may not have joined yet
std::chrono::milliseconds until(Clock::time_point deadline) {
  return std::max(std::chrono::milliseconds(1),
                  std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()));
}

// Throws data_loss.
proto::Welcome parse_welcome(const std::string& body, const TaskName& task) {
  proto::Welcome welcome;
  if (!welcome.ParseFromString(body)) fail(Code::data_loss, "{} sent a malformed welcome", task.to_string());
  return welcome;
}

std::vector<DeviceInfo> devices_of(const proto::Welcome& welcome) {
  std::vector<DeviceInfo> out;
  for (const proto::Device& d : welcome.device())
    out.push_back({DeviceName::parse(d.name()), d.type(), d.memory_bytes(), {d.kernel().begin(), d.kernel().end()}});
  return out;
}

}  // namespace

// The wire's handler. Its map of peers belongs to the wire's thread; the rest is guarded for threads in meet().
class ClusterPeers::Impl final : public WireHandler {
 public:
  explicit Impl(Config given)
      : config(std::move(given)),
        thread(config.system, ShortActors(config.scheduler, config.rendezvous, config.collective)),
        control({.system = config.system,
                 .node = config.node,
                 .send = [this](PeerId id, const Frame& frame) { return wire.send(id, frame); },
                 .close = [this](PeerId id, const Error& why) { wire.close(id, why); }}),
        wire(wire_options(config), *this) {}

  static WireOptions wire_options(const Config& config) {
    WireOptions options = config.wire;
    options.self = config.identity.task;
    options.cluster = config.identity.cluster;
    options.token = config.identity.token;
    options.incarnation = config.identity.incarnation;
    options.progress = TaskProgress(config.registry);
    if (config.cluster.contains(options.self)) options.address = config.cluster.address(options.self).to_string();
    options.admit = [&cluster = config.cluster](const TaskName& peer) { return Rights::check_name(peer, cluster); };
    return options;
  }

  void connected(PeerId id, const Hello& hello) override {
    PeerActorImpl::Links links{.send = [this, id](const Frame& frame) { return wire.send(id, frame); },
                               .close = [this, id](const Error& why) { wire.close(id, why); },
                               .node = config.node,
                               .scheduler = config.scheduler,
                               .rendezvous = config.rendezvous,
                               .collective = config.collective,
                               .input = config.input};
    auto actor = spawn_actor<ActorKind::peer, PeerActorImpl>(config.system, config.registry, hello.from.to_string(),
                                                             hello.from, std::move(links));
    peers.emplace(id, Peer{actor, Rights(hello.from, config.cluster)});
    caf::anon_send(config.node, PeerUp{hello.from, actor, hello.incarnation});
    note_open(id, hello.from);
  }
  void frame(PeerId id, Frame&& frame) override {
    const auto it = peers.find(id);
    if (it == peers.end()) return;
    if (std::holds_alternative<ControlBytes>(frame)) return control.came(id, std::get<ControlBytes>(frame).bytes);
    if (const Error wrong = it->second.rights.check(frame)) throw wrong;
    LocalHandle held = untaken(id, frame);
    thread.send(it->second.actor, FrameCame{std::move(frame), std::move(held)});
  }
  // A shard may be slower than its workers: gradients still in its mailbox earn them no credit.
  LocalHandle untaken(PeerId id, const Frame& frame) {
    if (!std::holds_alternative<Push>(frame)) return nullptr;
    const Push& push = std::get<Push>(frame);
    const auto size = [](const Tensor& tensor) { return tensor.valid() ? tensor.num_bytes() : 0; };
    const std::uint64_t bytes = size(push.gradient) + size(push.indices);
    return bytes > wire::kSmallPayload ? wire.defer_credit(id, bytes) : nullptr;
  }
  // Runs the work started by the frames here; the replies leave together.
  void frames_end() override { thread.run(); }
  void disconnected(PeerId id, const TaskName& name, const Error& reason) override {
    const auto it = peers.find(id);
    if (it == peers.end()) return;
    const Error why = reason ? reason : Error(Code::unavailable, fmt::format("{} has left", name.to_string()));
    const PeerActor actor = it->second.actor;
    peers.erase(it);
    control.lost(id);
    {
      std::lock_guard lock(mutex);
      open.erase(id.value);
      if (!meeting.find(name)) introspectors.erase(name);
    }
    // Before notifying the actors: an observer of the loss may await the next link.
    note_down(name, why, reason ? Meeting::Loss::broken : Meeting::Loss::goodbye);
    caf::anon_send(actor, LinkLost{why, !reason});
  }
  // "introspector": its URL. "provenance N": the shard's record of a version of its parameters.
  void asked(PeerId question, const std::string& text) override {
    Asked message{text, std::make_shared<PendingAnswer>([this, there = there, question](const Reply& reply) {
                    const std::lock_guard lock(there->mutex);
                    if (!there->over) wire.answer(question, reply.error(), reply.body);
                  })};
    if (text.starts_with("provenance "))
      caf::anon_send(config.node, std::move(message));
    else if (text == "introspector")
      caf::anon_send(config.introspector, std::move(message));
    else
      wire.answer(question, Error(Code::unimplemented, "unknown question: run the same release on every task"), "");
  }
  void suspected(PeerId, const TaskName& name, bool suspect) override {
    caf::anon_send(config.node, PeerSuspected{name, suspect});
  }
  void dial_failed(const TaskName& name, const Error& reason) override { note_down(name, reason); }
  void refused(const std::string&, const Error& reason) override { note_refusal(reason); }

  void note_open(PeerId id, const TaskName& task) {
    std::unique_lock lock(mutex);
    const Meeting::State* state = meeting.find(task);
    const bool dialled = state && state->ours;
    lock.unlock();
    control.open(id, task, dialled);
    lock.lock();
    open.insert_or_assign(id.value, task);
    meeting.opened(task, id.value);
    const Error why = failed;
    lock.unlock();
    changed.notify_all();
    if (why) wire.close(id, why);
  }
  void end_all(const Error& why) {
    std::map<std::uint64_t, TaskName> all;
    {
      std::lock_guard lock(mutex);
      failed = why;
      ending = true;
      all = open;
    }
    changed.notify_all();
    for (const auto& [id, task] : all) wire.close(PeerId{id}, why);
  }

  void note_down(const TaskName& task, const Error& error, Meeting::Loss loss = Meeting::Loss::refused) {
    {
      std::lock_guard lock(mutex);
      meeting.lost(task, loss, error, Clock::now());
    }
    changed.notify_all();
  }

  // Dials and greets as the meeting decides, until end_calls().
  void keep_links() {
    std::unique_lock lock(mutex);
    while (!ending) {
      if (const auto action = meeting.next(Clock::now())) {
        const Clock::time_point end = meeting_end;
        lock.unlock();
        if (action->link == 0)
          call(action->task, action->address, end);
        else
          greet(action->task, PeerId{action->link});
        lock.lock();
      } else if (const auto time = meeting.wake()) {
        changed.wait_until(lock, *time);
      } else {
        changed.wait(lock);
      }
    }
  }
  void call(const TaskName& task, const HostPort& address, Clock::time_point end) {
    try {
      const auto patience =
          end == Clock::time_point::max() ? kDialPatience : until(std::min(end, Clock::now() + kDialPatience));
      wire.dial(task, address.host, address.port, patience);
    } catch (...) {
      note_down(task, current_error());
    }
  }
  // Greets the task's node, which answers once its task has joined.
  void greet(const TaskName& task, PeerId link) {
    try {
      const Clock::time_point deadline = Clock::now() + kAnswerPatience;
      const NodeActor node = control.node(link, deadline);
      caf::scoped_actor self(config.system);
      Reply reply;
      self->request(node, until(deadline), HelloRequest{config.welcome},
                    caf::actor_cast<caf::strong_actor_ptr>(config.node))
          .receive(
              [&](const Reply& r) { reply = r; },
              [&](const caf::error&) { reply = Reply::of(Error(Code::deadline_exceeded, "its node did not answer")); });
      if (const Error refused = reply.error()) throw refused;
      remember(task, node, reply.body);
    } catch (...) {
      wire.close(link, current_error());
      note_down(task, current_error());
    }
  }
  void end_calls() {
    {
      std::lock_guard lock(mutex);
      ending = true;
    }
    changed.notify_all();
    if (caller.joinable()) caller.join();
  }

  // Throws data_loss.
  void remember(const TaskName& task, NodeActor node, const std::string& welcome) {
    const proto::Welcome parsed = parse_welcome(welcome, task);
    MetTask entry{task, std::move(node), devices_of(parsed)};
    {
      std::lock_guard lock(mutex);
      if (!parsed.introspector().empty()) {
        HostPort introspector = HostPort::parse(parsed.introspector());
        if (const Meeting::State* state = meeting.find(task)) introspector.host = state->address.host;
        introspectors.insert_or_assign(task, std::move(introspector));
      }
      if (meeting.find(task)) met.insert_or_assign(task, std::move(entry));
      meeting.met(task);
    }
    changed.notify_all();
  }

  void note_refusal(const Error& why) {
    std::lock_guard lock(mutex);
    refusal = why;
  }

  // Registers a wait for the links to the tasks of a job ("": all) while it lives.
  class Awaited {
   public:
    Awaited(Impl& links, const std::string& job) : links_(links) {
      const std::lock_guard lock(links_.mutex);
      place_ = links_.awaited.emplace(job, steady_now_ns());
    }
    ~Awaited() {
      const std::lock_guard lock(links_.mutex);
      links_.awaited.erase(place_);
    }
    Awaited(const Awaited&) = delete;
    Awaited& operator=(const Awaited&) = delete;

   private:
    Impl& links_;
    std::multimap<std::string, std::int64_t>::iterator place_;
  };

  // Waits for the links; steps can run once it returns, since the scheduler then knows the links.
  void await_links(const std::string& job, Clock::time_point deadline) {
    const Awaited awaited(*this, job);
    for (std::unique_lock lock(mutex);;) {
      await_links(lock, job, deadline);
      lock.unlock();
      sync_observers(deadline);
      lock.lock();
      if (meeting.all_up(job)) return;
    }
  }
  // Returns once the scheduler knows the links that are up.
  void sync_observers(Clock::time_point deadline) {
    caf::scoped_actor self(config.system);
    self->request(config.node, until(std::max(deadline, Clock::now() + kAnswerPatience)), SyncObservers{})
        .receive([](const Reply&) {}, [](const caf::error&) {});  // a node that has ended
  }
  std::uint64_t await_link(const TaskName& task, Clock::time_point deadline) {
    std::uint64_t link = 0;
    {
      std::unique_lock lock(mutex);
      changed.wait_until(lock, deadline, [&] {
        const Meeting::State* state = meeting.find(task);
        link = state && state->up ? state->link : 0;
        return link != 0 || failed || ending;
      });
      if (failed) throw failed;
      if (ending) fail(Code::failed_precondition, "{} has shut down", config.identity.task.to_string());
    }
    if (link != 0) sync_observers(deadline);
    return link;
  }
  void await_links(std::unique_lock<std::mutex>& lock, const std::string& job, Clock::time_point deadline) {
    Meeting::Missing missing;
    const auto over = [&] {
      missing = meeting.missing(job);
      return failed || missing.text.empty() || missing.hopeless;
    };
    const Clock::time_point begun = Clock::now();
    bool all = false;
    for (Clock::time_point word = begun + config.wait_word; !all && Clock::now() < deadline; word += config.wait_word) {
      all = changed.wait_until(lock, std::min(word, deadline), over);
      if (all || !config.on_wait || Clock::now() >= deadline) continue;
      const std::string text = fmt::format("{} waits for {}, for {:.1f} of {:.1f} s", config.identity.task.to_string(),
                                           missing.text, std::chrono::duration<double>(Clock::now() - begun).count(),
                                           std::chrono::duration<double>(deadline - begun).count());
      lock.unlock();
      config.on_wait(text);
      lock.lock();
    }
    changed.wait_until(lock, deadline + kAnswerPatience, [&] {
      return all || !meeting.calling() || meeting_end == Clock::time_point::max();
    });  // they may know the reason
    meeting_end = Clock::time_point::max();
    all = over();
    if (failed) throw failed;
    if (missing.text.empty()) return;
    if (missing.hopeless) throw missing.hopeless;
    // A rejected caller may be a stranger, or the missing task: the rejection does not end the wait, but may explain
    // it.
    const std::string hint = refusal ? fmt::format("; a task that called was turned away: {}", refusal.message()) : "";
    if (!all) fail(Code::deadline_exceeded, "no link came up to {}{}", missing.text, hint);
  }

  Config config;
  std::mutex mutex;
  std::condition_variable changed;
  Meeting meeting;                  // with the cluster's tasks; clients, which may have any name, are not recorded
  std::map<TaskName, MetTask> met;  // same
  Error refusal;                    // the last
  std::multimap<std::string, std::int64_t> awaited;  // start of each wait for links (steady clock), by job
  Clock::time_point meeting_end = Clock::time_point::max();
  bool ending = false;
  std::map<std::uint64_t, TaskName> open;      // peers
  std::map<TaskName, HostPort> introspectors;  // of all tasks that sent a Hello
  Error failed;                                // why the task has failed; every link then ends
  struct Peer {
    PeerActor actor;
    Rights rights;
  };
  // For callbacks that outlive the object.
  struct There {
    std::mutex mutex;
    bool over = false;
  };
  const std::shared_ptr<There> there = std::make_shared<There>();
  std::unordered_map<PeerId, Peer> peers;  // owned by the wire's thread
  BorrowedThread thread;                   // of the wire
  Control control;                         // any thread
  Wire wire;                               // its thread uses the members above
  std::thread caller;                      // uses the members above and the wire
};

ClusterPeers::ClusterPeers(Config config) : impl_(std::make_unique<Impl>(std::move(config))) {}
ClusterPeers::~ClusterPeers() { shutdown(); }

void ClusterPeers::meet(wire::Fd listener, const std::string& job, std::chrono::nanoseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  {
    std::lock_guard lock(impl_->mutex);
    impl_->meeting_end = deadline;
    impl_->meeting = Meeting(impl_->config.identity.task, impl_->config.cluster, Clock::now());
  }
  auto join = std::make_shared<NodeJoin>();
  join->identity = impl_->config.identity;
  join->welcome = impl_->config.welcome;
  join->task_of = [impl = impl_.get()](const caf::node_id& node) { return impl->control.task_of(node); };
  join->met = [impl = impl_.get()](const TaskName& task, NodeActor node, const std::string& welcome) {
    impl->remember(task, std::move(node), welcome);
  };
  caf::anon_send(impl_->config.node, JoinCluster{std::move(join)});
  impl_->wire.listen(std::move(listener));
  impl_->caller = std::thread([impl = impl_.get()] { impl->keep_links(); });
  impl_->await_links(job, deadline);
}

std::vector<MetTask> ClusterPeers::met() const {
  std::vector<MetTask> out;
  std::lock_guard lock(impl_->mutex);
  for (const auto& [task, entry] : impl_->met) out.push_back(entry);
  return out;
}

void ClusterPeers::await(const std::string& job, std::chrono::nanoseconds timeout) {
  impl_->await_links(job, Clock::now() + timeout);
}

std::uint64_t ClusterPeers::await_link(const TaskName& task, std::chrono::nanoseconds timeout) {
  return impl_->await_link(task, Clock::now() + timeout);
}

NodeActor ClusterPeers::node(const TaskName& task) const {
  std::lock_guard lock(impl_->mutex);
  const auto it = impl_->met.find(task);
  return it == impl_->met.end() ? NodeActor() : it->second.node;
}

std::vector<LinkSnapshot> ClusterPeers::look() const {
  std::map<TaskName, LinkSnapshot> out;
  std::map<TaskName, PeerId> open;
  {
    std::lock_guard lock(impl_->mutex);
    for (const auto& [task, state] : impl_->meeting.states()) out[task];
    for (const auto& [id, task] : impl_->open) open[task] = PeerId{id};
  }
  const std::int64_t now = steady_now_ns();
  for (const auto& [task, id] : open) {
    const auto counters = impl_->wire.counters(id);
    if (!counters) continue;
    LinkSnapshot& link = out[task];
    link.up = true;
    link.shared_memory = counters->shared_memory.load();
    link.suspect = counters->suspect.load();
    link.stalled = counters->stalled.load();
    link.bytes_sent = counters->bytes_sent.load();
    link.bytes_received = counters->bytes_received.load();
    link.frames_sent = counters->frames_sent.load();
    link.frames_received = counters->frames_received.load();
    link.queued_frames = counters->frames_queued.load() - std::min(counters->frames_queued.load(), link.frames_sent);
    link.queued_bytes = counters->bytes_waiting.load();
    link.credit = counters->credit.load();
    link.window = impl_->config.wire.connection.window;
    link.heard_ns = std::max<std::int64_t>(0, now - counters->last_heard.load());
    if (counters->peer_progress > 0) link.progress_ns = std::max<std::int64_t>(1, now - counters->progress_at.load());
  }
  std::vector<LinkSnapshot> links;
  for (auto& [task, link] : out) {
    link.peer = task.to_string();
    links.push_back(std::move(link));
  }
  return links;
}

Waiting ClusterPeers::waiting() const {
  Waiting out;
  const std::string self = impl_->config.identity.task.to_string(), meeting = wait_thing::meeting(self);
  const std::int64_t now = steady_now_ns();
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [job, since] : impl_->awaited)
    for (const auto& [task, state] : impl_->meeting.states()) {
      if (state.up || (!job.empty() && task.job != job)) continue;
      const std::string name = task.to_string(), coming = wait_thing::coming(self, name);
      out.things.push_back(
          {.id = meeting, .text = self + ", which connects to its cluster", .task = self, .for_ns = now - since});
      out.things.push_back(
          {.id = coming,
           .text = fmt::format("a link to {}{}", name, state.error ? fmt::format(" ({})", state.error.message()) : ""),
           .task = name});
      out.waits.push_back({.waiter = meeting, .awaited = coming, .kind = "peer", .text = {}, .for_ns = now - since});
    }
  return out;
}

std::vector<KnownTask> ClusterPeers::introspectors() const {
  std::vector<KnownTask> out;
  std::lock_guard lock(impl_->mutex);
  const auto target = [&](const HostPort& address) {
    return HttpTarget{.address = address,
                      .token = introspection_token(impl_->config.identity.token, impl_->config.identity.cluster),
                      .tls = impl_->config.tls};
  };
  for (const auto& [task, state] : impl_->meeting.states()) {
    const auto known = impl_->introspectors.find(task);
    if (known != impl_->introspectors.end())
      out.push_back({.task = task.to_string(), .target = target(known->second)});
    else
      out.push_back({.task = task.to_string(),
                     .unknown = fmt::format("no link yet to {}{}", state.address.to_string(),
                                            state.error ? ": " + state.error.message() : "")});
  }
  for (const auto& [task, address] : impl_->introspectors)  // clients
    if (!impl_->meeting.find(task)) out.push_back({.task = task.to_string(), .target = target(address)});
  return out;
}

void ClusterPeers::end_all(const Error& why) { impl_->end_all(why); }

void ClusterPeers::shutdown() {
  impl_->end_calls();
  impl_->wire.shutdown();
  impl_->control.end();
  const std::lock_guard lock(impl_->there->mutex);
  impl_->there->over = true;
}

}  // namespace troupe
