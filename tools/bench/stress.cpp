// The wire under stress: the sender's memory while the receiver is stopped, and the delay of heartbeats while tensors
// stream.
#include "tools/bench/stress.hpp"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <future>
#include <iostream>
#include <mutex>
#include <thread>

#include "tools/bench/cases.hpp"
#include "tools/bench/children.hpp"
#include "tools/bench/process_memory.hpp"
#include "tools/bench/remote_task.hpp"
#include <troupe/actors/session/session.hpp>
#include <troupe/actors/wire/wire.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe::bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kBeat{10};

// A client queues tensors for a stopped task, which then resumes and must receive all of them.
class StoppedReceiver {
 public:
  StoppedReceiver(std::size_t tensors, std::size_t bytes) : remote_(kServe, seconds(60)) {
    const Output x = placeholder(graph_, DType::f32, Shape{kUnknown}, "x");
    const auto there = graph_.on_device(RemoteTask::kName);
    const Output count = element_count(x);
    session_ = std::make_unique<Session>(remote_.client(), graph_);
    callable_ = session_->callable({x}, {count});
    const auto elements = static_cast<std::int64_t>(bytes / sizeof(float));
    for (std::size_t i = 0; i < tensors; ++i) queue_.push_back(Tensor::zeros(DType::f32, Shape{elements}));
    callable_({queue_[0]});
  }

  // Peak growth of the process in MiB, excluding the tensors.
  double growth(milliseconds stopped) const {
    ::kill(remote_.pid(), SIGSTOP);
    siginfo_t news;  // it may keep running for a while after kill()
    if (waitid(P_PID, static_cast<id_t>(remote_.pid()), &news, WSTOPPED) != 0)
      fail(Code::unavailable, "the receiver did not stop: {}", std::strerror(errno));
    forget_peak();
    const double before = resident_kib("VmRSS:");
    std::vector<std::future<StepResult>> results;
    for (const Tensor& tensor : queue_) {
      auto promise = std::make_shared<std::promise<StepResult>>();
      results.push_back(promise->get_future());
      callable_.start({tensor}, {}, [promise](StepResult result) { promise->set_value(std::move(result)); });
    }
    std::this_thread::sleep_for(stopped);
    const double most = std::max(0.0, resident_kib("VmHWM:") - before);
    const bool early =
        std::ranges::any_of(results, [](auto& f) { return f.wait_for(seconds(0)) == std::future_status::ready; });
    ::kill(remote_.pid(), SIGCONT);
    if (early) fail(Code::internal, "a step ended although its task is stopped");
    for (std::size_t i = 0; i < results.size(); ++i) {
      const StepResult result = results[i].get();
      if (result.error) throw result.error;
      if (result.fetches[0].item<std::int64_t>() != queue_[i].num_elements())
        fail(Code::internal, "elements are missing");
    }
    return most / 1024;
  }

 private:
  RemoteTask remote_;
  Graph graph_;
  std::vector<Tensor> queue_;
  std::unique_ptr<Session> session_;
  Callable callable_;
};

WireOptions beating(TaskName self, std::uint64_t incarnation) {
  WireOptions options;
  options.shared_memory = true;  // like a task's
  options.self = std::move(self);
  options.cluster = options.token = "bench";
  options.incarnation = Incarnation{incarnation};
  options.heartbeat_every = kBeat;
  return options;
}

const TaskName kSender{"worker", 1}, kListener{"worker", 0};

// Times heartbeats.
class BeatListener final : public WireHandler {
 public:
  void connected(PeerId, const Hello&) override {}
  void frame(PeerId, Frame&&) override {}
  void disconnected(PeerId, const TaskName&, const Error&) override {}
  void dial_failed(const TaskName&, const Error&) override {}
  void heartbeat(PeerId) override {
    const auto now = Clock::now();
    const std::lock_guard lock(mutex_);
    // A beat after a long silence counts once for each missed beat.
    if (last_ != Clock::time_point())
      for (auto due = last_ + kBeat; due == last_ + kBeat || due < now; due += kBeat)
        late_.push_back(std::chrono::duration<double, std::milli>(now - due).count());
    last_ = now;
  }
  double percentile_99() {
    const std::lock_guard lock(mutex_);
    if (late_.empty()) fail(Code::unavailable, "no heartbeat was received");
    std::ranges::sort(late_);
    const double late = late_[late_.size() * 99 / 100];
    late_.clear();
    return std::max(0.0, late);
  }

 private:
  std::mutex mutex_;
  Clock::time_point last_;
  std::vector<double> late_;
};

// Streams tensors at full speed, with heartbeats in between.
class Stream final : public WireHandler {
 public:
  Stream() : child_({own_path(), "--child", kBeats}), wire_(beating(kSender, 2), *this) {
    wire_.dial(kListener, "127.0.0.1", static_cast<std::uint16_t>(std::stoi(child_.read_line())), seconds(10));
    peer_ = connected_.get_future().get();
  }
  double late(std::chrono::duration<double> time) {
    const auto counters = wire_.counters(peer_);
    if (!counters) fail(Code::unavailable, "the connection has ended");
    const auto until = Clock::now() + time;
    const std::uint64_t before = counters->bytes_sent;
    while (Clock::now() < until) {
      if (counters->bytes_waiting > 8 * tensor_.num_bytes()) {
        std::this_thread::sleep_for(milliseconds(1));
        continue;
      }
      if (const Error error = wire_.send(peer_, Put{{SessionId{1}, StepId{1}, EdgeId{1}}, 0, tensor_, {}})) throw error;
    }
    if (counters->bytes_sent - before < tensor_.num_bytes()) fail(Code::internal, "nothing was streamed");
    child_.write_line("");
    return std::stod(child_.read_line());
  }

  void connected(PeerId peer, const Hello&) override { connected_.set_value(peer); }
  void frame(PeerId, Frame&&) override {}
  void disconnected(PeerId, const TaskName&, const Error&) override {}
  void dial_failed(const TaskName&, const Error& reason) override {
    connected_.set_exception(std::make_exception_ptr(reason));
  }

 private:
  Child child_;
  const Tensor tensor_ = Tensor::zeros(DType::f32, Shape{1 << 20});
  std::promise<PeerId> connected_;
  PeerId peer_;
  Wire wire_;
};

}  // namespace

void listen_to_beats() {
  BeatListener listener;
  Wire wire(beating(kListener, 1), listener);
  say(std::to_string(wire.listen()));
  std::string line;
  while (std::getline(std::cin, line)) say(std::to_string(listener.percentile_99()));
}

void add_stress_cases(std::vector<Case>& cases) {
  cases.push_back({.bench = "stress",
                   .name = "stopped-receiver",
                   .unit = "MiB",
                   .measures = "1 GiB is queued for a task that is stopped for 10 s: growth of the sender's memory, "
                               "excluding the tensors",
                   .value_target = 64,
                   .prepare = [](const Settings& settings) -> Contest {
                     auto receiver = std::make_shared<StoppedReceiver>(16, settings.quick ? 1 << 20 : 64 << 20);
                     return {.troupe = [=] { return receiver->growth(milliseconds(settings.quick ? 50 : 10000)); },
                             .peers = {},
                             .rounds = 1};
                   }});
  cases.push_back({.bench = "stress",
                   .name = "heartbeat",
                   .unit = "ms late",
                   .measures = "heartbeats every 10 ms while tensors of 4 MiB stream the same way for 30 s: how late "
                               "they arrive, 99th percentile",
                   .value_target = 20,
                   .prepare = [](const Settings& settings) -> Contest {
                     auto stream = std::make_shared<Stream>();
                     const std::chrono::duration<double> time(settings.quick ? 0.1 : 30.0);
                     return {.troupe = [=] { return stream->late(time); }, .peers = {}, .rounds = 1};
                   }});
}

}  // namespace troupe::bench
