#include "troupe/actors/network/control.hpp"

#include <algorithm>
#include <caf/actor_system_config.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/scribe.hpp>
#include <caf/scoped_actor.hpp>
#include <future>
#include <map>
#include <mutex>
#include <utility>

#include <troupe/actors/network/control_guard.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kFirstHandle = std::int64_t{1} << 40;  // CAF uses socket numbers below it
constexpr std::uint16_t kPort = 1;                            // CAF's key for the node; nobody listens on it
constexpr std::size_t kPieceBytes = 64 << 10;

std::string bytes_of(caf::actor_system& system, const caf::node_id& node) {
  std::vector<char> out;
  caf::binary_serializer sink(system, out);
  if (sink(node)) fail(Code::internal, "the id of a node cannot be serialised");
  return {out.begin(), out.end()};
}

caf::actor broker_of(caf::actor_system& system) {
  return system.middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP"));
}

}  // namespace

struct Control::Shared {
  explicit Shared(Config given) : config(std::move(given)), own(bytes_of(config.system, config.system.node())) {}

  // Called by Scribes, which may outlive their Control.
  void send(PeerId link, std::string bytes) {
    const std::lock_guard lock(mutex_of_links);
    if (!ended)
      static_cast<void>(config.send(link, ControlBytes{std::move(bytes)}));  // a lost link is reported separately
  }
  void close(PeerId link, const Error& why) {
    const std::lock_guard lock(mutex_of_links);
    if (!ended) config.close(link, why);
  }
  void end() {
    const std::lock_guard lock(mutex_of_links);
    ended = true;
    config.node = nullptr;
  }

  Config config;
  const std::string own;
  std::mutex mutex_of_links;
  bool ended = false;
  mutable std::mutex mutex;  // guards the members below
  std::map<PeerId, caf::intrusive_ptr<Scribe>> scribes;
  struct Owner {
    PeerId link;
    TaskName task;
  };
  std::map<std::string, Owner> nodes;  // by their ids, serialised
};

// One connection of CAF's broker. All members except `task` belong to CAF's middleman thread.
class Control::Scribe final : public caf::io::scribe {
 public:
  Scribe(std::shared_ptr<Shared> shared, PeerId link, TaskName task, bool dialled)
      : scribe(caf::io::connection_handle::from_int(kFirstHandle + static_cast<std::int64_t>(link.value))),
        shared_(std::move(shared)),
        link_(link),
        task_(std::move(task)),
        guard_(shared_->own, dialled) {}

  // Deferred: CAF requests bytes while it is busy.
  void configure_read(caf::io::receive_policy::config config) override {
    wanted_ = config.second;
    if (passing_) return;
    backend().post([self = caf::intrusive_ptr<Scribe>(this)] {
      if (self->ended_)  // before CAF learned of it
        self->detach(&self->backend(), true);
      else
        self->pass();
    });
  }
  void ack_writes(bool) override {}
  std::vector<char>& wr_buf() override { return out_; }
  std::vector<char>& rd_buf() override { return in_; }
  void flush() override {
    guard_.sends({out_.data(), out_.size()});
    for (std::size_t begin = 0; begin < out_.size(); begin += kPieceBytes) {
      const std::size_t size = std::min(kPieceBytes, out_.size() - begin);
      shared_->send(link_, std::string(out_.data() + begin, size));
    }
    out_.clear();
  }
  std::string addr() const override { return task_.to_string(); }
  std::uint16_t port() const override { return kPort; }
  void add_to_loop() override {}
  void remove_from_loop() override {}
  // CAF no longer needs this connection.
  void graceful_shutdown() override { end(Error(Code::unavailable, "the nodes of the two tasks are incompatible")); }

  // Thread-safe. Bytes are queued here for CAF's thread, because its own queue is a pipe that can be full.
  void came(const std::string& bytes) {
    {
      const std::lock_guard lock(arrived_mutex_);
      arrived_ += bytes;
      if (std::exchange(arrival_told_, true)) return;
    }
    backend().post([self = caf::intrusive_ptr<Scribe>(this)] { self->take_arrived(); });
  }
  void lost() {
    ended_ = true;
    detach(&backend(), true);
  }

 private:
  caf::io::network::multiplexer& backend() const { return shared_->config.system.middleman().backend(); }

  void take_arrived() {
    came_.erase(0, std::exchange(taken_, 0));
    {
      const std::lock_guard lock(arrived_mutex_);
      arrival_told_ = false;
      came_ += std::exchange(arrived_, std::string());
    }
    if (!ended_) pass();
  }

  // Passes CAF the bytes it requested. CAF requests more while it receives them.
  void pass() {
    if (std::exchange(passing_, true)) return;
    while (!ended_ && !detached() && wanted_ > 0 && came_.size() - taken_ >= (ignored_ > 0 ? ignored_ : wanted_)) {
      if (ignored_ > 0) {
        taken_ += std::exchange(ignored_, 0);
        continue;
      }
      const std::string_view piece(came_.data() + taken_, wanted_);
      bool wanted = false;
      try {
        wanted = passes(piece);
      } catch (...) {
        end(current_error());
        break;
      }
      if (wanted) in_.assign(piece.begin(), piece.end());
      taken_ += piece.size();
      if (wanted && !consume(&backend(), nullptr, piece.size())) break;
    }
    passing_ = false;
  }

  // Returns whether CAF may see the piece. Throws the guard's errors.
  bool passes(std::string_view piece) {
    if (payload_ == 0) {
      payload_ = guard_.check_header(piece);
      if (!guard_.ignored()) return true;
      ignored_ = std::exchange(payload_, 0);
      return false;
    }
    guard_.check_payload(piece);
    payload_ = 0;
    if (known_) return true;
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->scribes.contains(link_)) fail(Code::unavailable, "the link is lost");
    const auto [it, first] = shared_->nodes.try_emplace(guard_.peer(), Shared::Owner{link_, task_});
    if (!first) invalid_argument("the node is already that of {}", it->second.task.to_string());
    known_ = true;
    return true;
  }

  void end(const Error& why) {
    if (std::exchange(ended_, true)) return;
    shared_->close(link_, why);
  }

  const std::shared_ptr<Shared> shared_;
  const PeerId link_;
  const TaskName task_;
  ControlGuard guard_;
  std::mutex arrived_mutex_;
  std::string arrived_;
  bool arrival_told_ = false;
  std::vector<char> out_, in_;
  std::string came_;
  std::size_t taken_ = 0;    // of came_
  std::size_t wanted_ = 0;   // next, by CAF
  std::size_t payload_ = 0;  // size of the next payload; 0 before a header
  std::size_t ignored_ = 0;  // bytes still to hide from CAF
  bool passing_ = false, known_ = false, ended_ = false;
};

void load_networking(caf::actor_system_config& config) {
  config.set("middleman.workers", 1u);
  config.load<caf::io::middleman>();
}

Control::Control(Config config) : shared_(std::make_shared<Shared>(std::move(config))) {}
Control::~Control() { end(); }

void Control::open(PeerId link, const TaskName& peer, bool dialled) {
  auto scribe = caf::make_counted<Scribe>(shared_, link, peer, dialled);
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->scribes.emplace(link, scribe);
  }
  if (dialled) return;
  // On CAF's thread, like everything below: by then CAF has forgotten a lost link to the same node.
  shared_->config.system.middleman().backend().post([shared = shared_, scribe] {
    caf::actor_system& system = shared->config.system;
    caf::anon_send(broker_of(system), caf::publish_atom::value, caf::io::scribe_ptr(scribe), kPort,
                   caf::actor_cast<caf::strong_actor_ptr>(shared->config.node), system.message_types<NodeActor>());
  });
}

void Control::came(PeerId link, const std::string& bytes) {
  caf::intrusive_ptr<Scribe> scribe;
  {
    const std::lock_guard lock(shared_->mutex);
    if (const auto it = shared_->scribes.find(link); it != shared_->scribes.end()) scribe = it->second;
  }
  if (scribe) scribe->came(bytes);
}

void Control::lost(PeerId link) {
  caf::intrusive_ptr<Scribe> scribe;
  {
    const std::lock_guard lock(shared_->mutex);
    std::erase_if(shared_->nodes, [&](const auto& entry) { return entry.second.link == link; });
    if (auto found = shared_->scribes.extract(link)) scribe = std::move(found.mapped());
  }
  if (scribe) shared_->config.system.middleman().backend().post([scribe] { scribe->lost(); });
}

void Control::end() { shared_->end(); }

NodeActor Control::node(PeerId link, std::chrono::steady_clock::time_point deadline) {
  caf::io::scribe_ptr scribe;
  {
    const std::lock_guard lock(shared_->mutex);
    const auto it = shared_->scribes.find(link);
    if (it == shared_->scribes.end()) fail(Code::unavailable, "the link is lost");
    scribe = it->second;
  }
  caf::actor_system& system = shared_->config.system;
  std::promise<void> turn;
  system.middleman().backend().post([&] { turn.set_value(); });
  turn.get_future().wait();
  caf::scoped_actor self(system);
  NodeActor found;
  Error error;
  const auto patience =
      std::max(std::chrono::steady_clock::duration::zero(), deadline - std::chrono::steady_clock::now());
  self->request(broker_of(system), patience, caf::connect_atom::value, scribe, kPort)
      .receive(
          [&](const caf::node_id&, caf::strong_actor_ptr& node, const std::set<std::string>& messages) {
            if (node && system.assignable(messages, system.message_types<NodeActor>()))
              found = caf::actor_cast<NodeActor>(std::move(node));
            else
              error = Error(Code::failed_precondition, "the peer is not a Troupe node of this version");
          },
          [&](const caf::error& why) {
            error = why == caf::sec::request_timeout ? Error(Code::deadline_exceeded, "its node did not answer")
                                                     : Error(Code::unavailable, "the link is lost");
          });
  if (error) throw error;
  return found;
}

std::optional<TaskName> Control::task_of(const caf::node_id& node) const {
  const std::string id = bytes_of(shared_->config.system, node);
  const std::lock_guard lock(shared_->mutex);
  const auto it = shared_->nodes.find(id);
  if (it == shared_->nodes.end()) return std::nullopt;
  return it->second.task;
}

}  // namespace troupe
