#include "actors/cluster/links.hpp"

#include <algorithm>
#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "actors/cluster/control.hpp"
#include "actors/cluster/peer_actor.hpp"
#include "actors/session/borrowed_thread.hpp"
#include "actors/wire/wire.hpp"
#include "messages/codec.hpp"
#include "messages/proto/cluster.pb.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

std::chrono::milliseconds until(Clock::time_point deadline) {
  return std::max(std::chrono::milliseconds(1), std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()));
}

// Throws data_loss.
proto::Welcome parse_welcome(const std::string& body, const TaskName& task) {
  proto::Welcome welcome;
  if (!welcome.ParseFromString(body) || welcome.data_port() == 0 || welcome.data_port() > 65535)
    fail(Code::data_loss, "{} sent a malformed welcome", task.to_string());
  return welcome;
}

std::vector<DeviceInfo> devices_of(const proto::Welcome& welcome) {
  std::vector<DeviceInfo> out;
  for (const proto::Device& d : welcome.device())
    out.push_back({DeviceName::parse(d.name()), d.type(), d.memory_bytes(), {d.kernel().begin(), d.kernel().end()}});
  return out;
}

}  // namespace

// The wire's handler: its map of peers belongs to the wire's thread; the rest is guarded for those who wait in meet().
class Links::Impl final : public WireHandler {
 public:
  explicit Impl(Config given)
      : config(std::move(given)),
        thread(config.system, ShortActors(config.scheduler, config.rendezvous, config.collective)),
        wire(wire_options(config), *this) { own_welcome = config.welcome(wire.listen()); }

  static WireOptions wire_options(const Config& config) {
    WireOptions options = config.wire;
    options.self = config.identity.task;
    options.cluster = config.identity.cluster;
    options.token = config.identity.token;
    options.incarnation = config.identity.incarnation;
    return options;
  }

  void connected(PeerId id, const Hello& hello) override {
    PeerActorImpl::Links links{.send = [this, id](const Frame& frame) { return wire.send(id, frame); },
                               .close = [this, id](const Error& why) { wire.close(id, why); },
                               .node = config.node,
                               .scheduler = config.scheduler,
                               .rendezvous = config.rendezvous,
                               .collective = config.collective};
    auto actor = config.system.spawn<PeerActorImpl>(config.registry.add("peer", hello.from.to_string()), hello.from, std::move(links));
    peers[id] = actor;
    caf::anon_send(config.node, PeerUp{hello.from, actor});
    set_state(hello.from, State{.up = true});
  }
  void frame(PeerId id, Frame&& frame) override {
    const auto it = peers.find(id);
    if (it == peers.end()) return;
    LocalHandle held = untaken(id, frame);
    thread.send(it->second, FrameCame{std::move(frame), std::move(held)});
  }
  // A shard may be slower than those who push to it: gradients in its mailbox earn them no credit.
  LocalHandle untaken(PeerId id, const Frame& frame) {
    const auto* push = std::get_if<Push>(&frame);
    if (!push) return nullptr;
    const auto size = [](const Tensor& tensor) { return tensor.valid() ? tensor.num_bytes() : 0; };
    const std::uint64_t bytes = size(push->gradient) + size(push->indices);
    return bytes > wire::kSmallPayload ? wire.defer_credit(id, bytes) : nullptr;
  }
  // What the frames have set going runs here, and what that sends leaves together.
  void frames_end() override { thread.run(); }
  void disconnected(PeerId id, const TaskName& name, const Error& reason) override {
    const auto it = peers.find(id);
    if (it == peers.end()) return;
    const Error why = reason ? reason : Error(Code::unavailable, fmt::format("{} has left", name.to_string()));
    caf::anon_send(it->second, LinkLost{why});
    peers.erase(it);
    set_state(name, State{.up = false, .error = why});
  }
  void dial_failed(const TaskName& name, const Error& reason) override { set_state(name, State{.up = false, .error = reason}); }

  struct State {
    bool up = false;
    Error error;
  };
  void set_state(const TaskName& task, State state) {
    {
      std::lock_guard lock(mutex);
      if (!awaited.contains(task)) return;
      states[task] = std::move(state);
    }
    changed.notify_all();
  }

  // Returns the port of the task's data connections.
  std::uint16_t greet(const TaskName& task, const HostPort& address, Clock::time_point deadline) {
    const NodeActor node = find_node(task, address, deadline);
    const Hello hello{kProtocolVersion, config.identity.cluster, config.identity.token, config.identity.task, task,
                      config.identity.incarnation};
    caf::scoped_actor self(config.system);
    Reply reply;
    self->request(node, until(deadline), HelloRequest{encode_to_string(hello), own_welcome},
                  caf::actor_cast<caf::strong_actor_ptr>(config.node))
        .receive([&](const Reply& r) { reply = r; },
                 [&](const caf::error&) {
                   reply = Reply::of(Error(Code::deadline_exceeded, fmt::format("{} at {} did not answer in time", task.to_string(),
                                                                                address.to_string())));
                 });
    if (const Error refused = reply.error()) throw refused.within(fmt::format("{} at {}", task.to_string(), address.to_string()));
    remember(task, node, reply.body);
    return static_cast<std::uint16_t>(parse_welcome(reply.body, task).data_port());
  }

  // Throws data_loss.
  void remember(const TaskName& task, NodeActor node, const std::string& welcome) {
    MetTask entry{task, std::move(node), devices_of(parse_welcome(welcome, task))};
    std::lock_guard lock(mutex);
    if (awaited.contains(task)) met.insert_or_assign(task, std::move(entry));
  }

  void note_refusal(const Error& why) {
    std::lock_guard lock(mutex);
    refusal = why;
  }

  // Tries until the deadline: the peer may not have started yet.
  NodeActor find_node(const TaskName& task, const HostPort& address, Clock::time_point deadline) {
    const auto where = [&] { return fmt::format("{} at {}", task.to_string(), address.to_string()); };
    std::string reason;
    do {
      try {
        return connect_node(config.system, config.wire.tls.get(), address, deadline);
      } catch (const Error& error) {
        if (error.code() != Code::unavailable && error.code() != Code::deadline_exceeded) throw error.within(where());
        reason = error.message();
      }
      std::this_thread::sleep_for(std::min(std::chrono::milliseconds(50), until(deadline)));
    } while (Clock::now() < deadline);
    fail(Code::deadline_exceeded, "{} did not come: {}", where(), reason);
  }

  void await_links(const ClusterSpec& cluster, Clock::time_point deadline) {
    std::unique_lock lock(mutex);
    std::string missing;
    Error refused;
    const bool all = changed.wait_until(lock, deadline, [&] {
      missing.clear();
      for (const auto& [task, address] : cluster.tasks) {
        if (task == config.identity.task) continue;
        const auto it = states.find(task);
        if (it != states.end() && it->second.up) continue;
        if (it != states.end() && it->second.error && !refused) refused = it->second.error.within(task.to_string());
        missing += fmt::format("{}{} ({})", missing.empty() ? "" : ", ", task.to_string(), address.to_string());
      }
      return missing.empty() || refused;
    });
    if (missing.empty()) return;
    if (refused) throw refused;
    // Whoever was turned away may be a stranger, or the one that is missing: it does not end the wait, but may explain it.
    const std::string hint = refusal ? fmt::format("; a task that called was turned away: {}", refusal.message()) : "";
    if (!all) fail(Code::deadline_exceeded, "no link came up to {}{}", missing, hint);
  }

  Config config;
  std::string own_welcome;
  std::mutex mutex;
  std::condition_variable changed;
  std::set<TaskName> awaited;  // the cluster's: of clients, which may have any names, nothing is kept
  std::map<TaskName, State> states;
  std::map<TaskName, MetTask> met;
  Error refusal;  // the last
  std::unordered_map<PeerId, PeerActor> peers;  // of the wire's thread
  BorrowedThread thread;                        // the wire's
  Wire wire;                                    // last: its thread uses the above
};

Links::Links(Config config) : impl_(std::make_unique<Impl>(std::move(config))) {}
Links::~Links() { shutdown(); }

std::vector<MetTask> Links::meet(const ClusterSpec& cluster, std::chrono::nanoseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const TaskName& self = impl_->config.identity.task;
  {
    std::lock_guard lock(impl_->mutex);
    for (const auto& [task, address] : cluster.tasks) impl_->awaited.insert(task);
  }
  auto join = std::make_shared<NodeJoin>();
  join->identity = impl_->config.identity;
  join->welcome = impl_->own_welcome;
  join->met = [impl = impl_.get()](const TaskName& task, NodeActor node, const std::string& welcome) {
    impl->remember(task, std::move(node), welcome);
  };
  join->refused = [impl = impl_.get()](const Error& why) { impl->note_refusal(why); };
  caf::anon_send(impl_->config.node, JoinCluster{std::move(join)});
  const bool client = !cluster.contains(self);
  for (const auto& [task, address] : cluster.tasks)
    if (client || task < self) impl_->wire.dial(task, address.host, impl_->greet(task, address, deadline), until(deadline));
  impl_->await_links(cluster, deadline);
  std::vector<MetTask> out;
  std::lock_guard lock(impl_->mutex);
  for (const auto& [task, entry] : impl_->met)
    if (cluster.contains(task)) out.push_back(entry);
  return out;
}

void Links::shutdown() { impl_->wire.shutdown(); }

}  // namespace troupe
