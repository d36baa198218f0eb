#include "tools/bench/bounce.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <future>
#include <iostream>

#include "tools/bench/children.hpp"
#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/cluster/peer_actor.hpp>
#include <troupe/actors/steps/borrowed_thread.hpp>
#include <troupe/actors/steps/rendezvous_actor.hpp>
#include <troupe/actors/wire/wire.hpp>

namespace troupe::bench {
namespace {

const TaskName kCaller{"worker", 1}, kAnswerer{"worker", 0};
constexpr EdgeId kThere{1}, kBack{2};

Put put_of(std::uint64_t step, EdgeId edge, float value) {
  return {{SessionId{1}, StepId{step}, edge}, 0, Tensor::scalar(value), {}};
}

// The consumer at one side's rendezvous, instead of a scheduler.
class Consumer final : public caf::event_based_actor {
 public:
  Consumer(caf::actor_config& config, bool calls) : caf::event_based_actor(config), calls_(calls) {}

  caf::behavior make_behavior() override {
    return {
        [this](const MeetAt& message) { rendezvous_ = message.rendezvous; },
        [this](const PeerUp& message) {
          peer_ = message.peer;
          if (!calls_) await(1, kThere);
          up_.set_value();
        },
        [this](std::uint64_t count) {
          left_ = count;
          call();
        },
        [this](const Delivered& message) {
          const std::uint64_t step = message.put.key.step.value;
          const float value = message.put.tensor.item<float>();
          send(rendezvous_, EndStep{SessionId{1}, StepId{step}});
          if (!calls_) {
            await(step + 1, kThere);
            return send(peer_, Outbound{put_of(step, kBack, -value)});
          }
          wrong_ = wrong_ || value != -value_of(step);
          if (--left_ > 0)
            call();
          else
            done_.set_value(!std::exchange(wrong_, false));
        },
    };
  }
  // Call first: ready when the other side is connected.
  std::future<void> up() { return up_.get_future(); }
  // Call before each message of a count: yields whether all answers were right.
  std::future<bool> expect() {
    done_ = {};
    return done_.get_future();
  }
  void on_exit() override {  // the rendezvous keeps us alive
    rendezvous_ = nullptr;
    peer_ = nullptr;
  }

 private:
  static float value_of(std::uint64_t step) { return static_cast<float>(step % 1024); }
  void await(std::uint64_t step, EdgeId edge) { send(rendezvous_, Await{{{SessionId{1}, StepId{step}, edge}}}); }
  void call() {
    await(++step_, kBack);
    send(peer_, Outbound{put_of(step_, kThere, value_of(step_))});
  }

  const bool calls_;
  RendezvousActor rendezvous_;
  PeerActor peer_;
  std::uint64_t step_ = 0;
  std::uint64_t left_ = 0;
  bool wrong_ = false;
  std::promise<void> up_;
  std::promise<bool> done_;
};

caf::actor_system_config& configure(caf::actor_system_config& config) {
  config.set("scheduler.policy", caf::atom("sharing"));  // like a task's
  config.set("scheduler.max-threads", 2u);
  return config;
}

WireOptions options_of(const TaskName& self) {
  WireOptions options;
  options.shared_memory = true;  // like a task's
  options.self = self;
  options.cluster = options.token = "bench";
  options.incarnation = Incarnation{random_id()};
  return options;
}

}  // namespace

// One process: the wire and the actors of a task that a tensor passes through.
class Bounce::Side final : public WireHandler {
 public:
  explicit Side(const TaskName& self)
      : system_(configure(config_)),
        consumer_(system_.spawn<Consumer>(self == kCaller)),
        scheduler_(caf::actor_cast<SchedulerActor>(consumer_)),
        rendezvous_(spawn_actor<ActorKind::rendezvous, RendezvousActorImpl>(system_, registry_, "", scheduler_)),
        thread_(system_, ShortActors(scheduler_, rendezvous_, CollectiveActor())),
        wire(options_of(self), *this) {
    caf::anon_send(scheduler_, MeetAt{rendezvous_});
  }
  ~Side() override {
    wire.shutdown();
    caf::anon_send(peer_, Stop{});
    caf::anon_send(rendezvous_, Stop{});
    caf::anon_send_exit(consumer_, caf::exit_reason::user_shutdown);
  }

  void connected(PeerId id, const Hello& hello) override {
    PeerActorImpl::Links links;
    links.send = [this, id](const Frame& frame) { return wire.send(id, frame); };
    links.rendezvous = rendezvous_;
    peer_ = spawn_actor<ActorKind::peer, PeerActorImpl>(system_, registry_, "", hello.from, std::move(links));
    caf::anon_send(scheduler_, PeerUp{hello.from, peer_});
  }
  void frame(PeerId, Frame&& frame) override { thread_.send(peer_, FrameCame{std::move(frame)}); }
  void frames_end() override { thread_.run(); }
  void disconnected(PeerId, const TaskName&, const Error&) override {}
  void dial_failed(const TaskName&, const Error&) override {}

  Consumer& consumer() { return *static_cast<Consumer*>(caf::actor_cast<caf::abstract_actor*>(consumer_)); }
  void start(int count) { caf::anon_send(consumer_, static_cast<std::uint64_t>(count)); }

 private:
  caf::actor_system_config config_;
  ActorRegistry registry_;
  caf::actor_system system_;
  caf::actor consumer_;
  SchedulerActor scheduler_;
  RendezvousActor rendezvous_;
  PeerActor peer_;
  BorrowedThread thread_;

 public:
  Wire wire;  // last: its thread uses the other members
};

Bounce::Bounce() : child_({own_path(), "--child", kBounce}), side_(std::make_unique<Side>(kCaller)) {
  auto up = side_->consumer().up();
  side_->wire.dial(kAnswerer, "127.0.0.1", static_cast<std::uint16_t>(std::stoi(child_.read_line())),
                   std::chrono::seconds(10));
  if (up.wait_for(std::chrono::seconds(20)) != std::future_status::ready)
    fail(Code::unavailable, "the child process has not connected");
}
Bounce::~Bounce() = default;

void Bounce::run(int count) {
  auto done = side_->consumer().expect();
  side_->start(count);
  if (!done.get()) fail(Code::internal, "an answer has a wrong value");
}

void Bounce::serve() {
  Side side(kAnswerer);
  say(std::to_string(side.wire.listen()));
  std::string line;
  while (std::getline(std::cin, line)) continue;
}

}  // namespace troupe::bench
