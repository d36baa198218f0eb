// Wires in other processes and networks: a peer that is stopped and continued, a slow link between two network
// namespaces.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstdlib>
#include <future>
#include <thread>

#include "tests/actors/wire/wire_testing.hpp"
#include "tests/processes/child.hpp"

namespace troupe::wire {
namespace {

// Task B in a process of its own, which answers each Put with a TakeToken and ends with its standard input.
class OtherProcess {
 public:
  explicit OtherProcess(const WireOptions& options) {
    int port[2], life[2];
    EXPECT_EQ(::pipe2(port, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(life, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(life[1]);
      serve(options, port[1], life[0]);
      ::_exit(0);
    }
    ::close(port[1]);
    ::close(life[0]);
    life_ = Fd(life[1]);
    EXPECT_EQ(::read(port[0], &port_, sizeof port_), static_cast<ssize_t>(sizeof port_));
    ::close(port[0]);
  }
  ~OtherProcess() {
    ::kill(pid_, SIGCONT);
    life_.reset();
    ::waitpid(pid_, nullptr, 0);
  }
  void signal(int number) const {
    if (number == SIGSTOP) return testing::stop_process(pid_);
    ::kill(pid_, number);
  }
  std::uint16_t port() const { return port_; }

 private:
  struct Answering final : Recorder {
    void frame(PeerId peer, Frame&& frame) override {
      if (const auto* put = std::get_if<Put>(&frame))
        (void)wire->send(peer, TakeToken{put->key.edge.value, put->tensor.num_bytes()});
    }
    Wire* wire = nullptr;
  };

  static void serve(const WireOptions& options, int port, int life) {
    Answering at_b;
    Wire b(options, at_b);
    at_b.wire = &b;
    const std::uint16_t number = b.listen();
    (void)!::write(port, &number, sizeof number);
    char end;
    (void)!::read(life, &end, 1);
  }

  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
  Fd life_;
};

// It was away for longer than it lets others be silent, and bulk has filled its socket meanwhile.
TEST(WireProcess, AReceiverThatWasStoppedGoesOnWhereItWas) {
  const auto impatient = [](WireOptions& options, std::chrono::milliseconds patience) {
    options.heartbeat_every = 10ms;
    options.suspect_after = patience;
    options.connection.window = 4 * kMaxChunk;
  };
  WireOptions of_b = options_of(kB);
  impatient(of_b, 1s);
  of_b.down_after = 2s;
  const OtherProcess other(of_b);
  WireOptions of_a = options_of(kA);
  impatient(of_a, 3s);
  of_a.down_after = 1h;
  Recorder at_a;
  Wire a(of_a, at_a);
  a.dial(kB, "127.0.0.1", other.port(), 20s);
  ASSERT_TRUE(at_a.wait_connected());
  const auto counters = a.counters(at_a.peers[0]);
  other.signal(SIGSTOP);
  const Tensor tensor = pattern(3 << 20);
  constexpr std::uint32_t kPuts = 10;
  for (std::uint32_t i = 0; i < kPuts; ++i) ASSERT_TRUE(a.send(kB, put_of(tensor, i)).ok()) << i;
  ASSERT_TRUE(at_a.wait([&] { return !at_a.suspects.empty(); }));  // it has been silent for long enough
  EXPECT_LE(counters->bytes_sent, of_a.connection.window + (64 << 10));
  EXPECT_GE(counters->bytes_waiting, (kPuts - 2) * tensor.num_bytes());
  EXPECT_TRUE(at_a.frames.empty());
  other.signal(SIGCONT);
  ASSERT_TRUE(at_a.wait_frames(kPuts)) << (at_a.ended.empty() ? "" : at_a.ended[0].reason.to_string());
  for (std::uint32_t i = 0; i < kPuts; ++i) {
    EXPECT_EQ(std::get<TakeToken>(at_a.frames[i]).worker, i);
    EXPECT_EQ(std::get<TakeToken>(at_a.frames[i]).request, tensor.num_bytes()) << i;
  }
  EXPECT_TRUE(at_a.ended.empty());
  a.shutdown();
}

bool run(const std::string& command) { return std::system((command + " 2>/dev/null").c_str()) == 0; }

// A thread in a network namespace of its own, with one address on it; the namespace goes with the thread.
class Island {
 public:
  Island() : thread_([this] { work(); }) {
    allowed_ = in([this] {
      id_ = static_cast<int>(::syscall(SYS_gettid));
      return ::unshare(CLONE_NEWNET) == 0;
    });
  }
  ~Island() {
    in([this] { return ending_ = true; });
    thread_.join();
  }
  bool allowed() const { return allowed_; }
  int id() const { return id_; }
  // On the thread.
  bool in(std::function<bool()> work) {
    std::packaged_task<bool()> job(std::move(work));
    auto done = job.get_future();
    {
      const std::lock_guard lock(mutex_);
      jobs_ = std::move(job);
    }
    changed_.notify_one();
    return done.get();
  }

 private:
  void work() {
    while (!ending_) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return jobs_.valid(); });
      auto job = std::exchange(jobs_, {});
      lock.unlock();
      job();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::packaged_task<bool()> jobs_;
  bool ending_ = false;
  bool allowed_ = false;
  int id_ = 0;
  std::thread thread_;
};

TEST(WireProcess, ASlowLinkBetweenTwoNetworksDelaysBulkAndNotControl) {
  Island here, there;
  if (!here.allowed() || !there.allowed()) GTEST_SKIP() << "network namespaces are not permitted here";
  const auto configure = [](const std::string& device, const std::string& address) {
    return run("ip addr add " + address + "/24 dev " + device) && run("ip link set " + device + " up") &&
           run("tc qdisc add dev " + device + " root tbf rate 200mbit burst 64kb latency 20ms");
  };
  const bool linked = here.in([&] {
    return run("ip link add va type veth peer name vb netns " + std::to_string(there.id())) &&
           configure("va", "10.77.0.1");
  }) && there.in([&] { return configure("vb", "10.77.0.2"); });
  if (!linked) GTEST_SKIP() << "links between network namespaces cannot be made here (ip, tc)";
  Recorder at_a, at_b;
  std::optional<Wire> a, b;
  std::uint16_t port = 0;
  // A wire's sockets are of the network of the threads that make them: the caller's, and the wire's own.
  there.in([&] {
    WireOptions options = options_of(kB);
    options.listen_host = "10.77.0.2";
    port = b.emplace(options, at_b).listen();
    return true;
  });
  here.in([&] {
    a.emplace(options_of(kA), at_a).dial(kB, "10.77.0.2", port, 20s);
    return true;
  });
  ASSERT_TRUE(at_a.wait_connected());
  const Tensor tensor = pattern(8 << 20);
  ASSERT_TRUE(a->send(kB, put_of(tensor)).ok());
  ASSERT_TRUE(a->send(kB, StepAbort{SessionId{1}, StepId{2}, Error(Code::aborted, "x")}).ok());
  ASSERT_TRUE(at_b.wait_frames(2));
  EXPECT_TRUE(std::holds_alternative<StepAbort>(at_b.frames[0]));
  EXPECT_TRUE(bitwise_equal(std::get<Put>(at_b.frames[1]).tensor, tensor));
  a->shutdown();
  b->shutdown();
}

}  // namespace
}  // namespace troupe::wire
