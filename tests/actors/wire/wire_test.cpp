// Two and more Wires in one process, over loopback.
#include <deque>
#include <thread>

#include "tests/actors/wire/wire_testing.hpp"
#include <troupe/actors/wire/cork.hpp>
#include <troupe/actors/wire/wire.hpp>

namespace troupe::wire {
namespace {

// Two tasks, a connection dialed by A.
struct Pair {
  explicit Pair(bool shared_memory, const std::function<void(WireOptions&)>& change = {}) {
    WireOptions of_a = options_of(kA);
    WireOptions of_b = options_of(kB);
    of_a.shared_memory = of_b.shared_memory = shared_memory;
    if (change) {
      change(of_a);
      change(of_b);
    }
    a.emplace(of_a, at_a);
    b.emplace(of_b, at_b);
    a->dial(kB, "127.0.0.1", b->listen(), 20s);
    EXPECT_TRUE(at_a.wait_connected());
    EXPECT_TRUE(at_b.wait_connected());
  }

  Recorder at_a, at_b;
  std::optional<Wire> a, b;
};

class WireOver : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Wire, WireOver, ::testing::Values(false, true),
                         [](const auto& way) { return way.param ? "SharedMemory" : "Tcp"; });

TEST_P(WireOver, AHandshakeConnectsBothSides) {
  Pair pair(GetParam());
  EXPECT_EQ(pair.at_a.hellos.at(0).from, kB);
  EXPECT_EQ(pair.at_a.hellos.at(0).to, kA);
  EXPECT_EQ(pair.at_b.hellos.at(0).from, kA);
  ASSERT_TRUE(pair.a->send(kB, TakeToken{3}).ok());
  ASSERT_TRUE(pair.b->send(kA, Barrier{4}).ok());
  ASSERT_TRUE(pair.at_b.wait_frames(1));
  ASSERT_TRUE(pair.at_a.wait_frames(1));
  EXPECT_EQ(std::get<TakeToken>(pair.at_b.frames[0]).worker, 3u);
  EXPECT_EQ(std::get<Barrier>(pair.at_a.frames[0]).worker, 4u);
}

TEST_P(WireOver, TensorsOfAllSizesArriveBitEqualAndAligned) {
  Pair pair(GetParam());
  const std::size_t head = encode(put_of(pattern(1))).head.size();
  std::vector<Tensor> sent;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, kSmallPayload, kSmallPayload + 1, kMaxChunk - head - 1, kMaxChunk - head,
        kMaxChunk - head + 1, kMaxChunk - 1, kMaxChunk, kMaxChunk + 1, 2 * kMaxChunk - head, std::size_t{20} << 20})
    sent.push_back(pattern(size, static_cast<unsigned>(size)));
  sent.push_back(Tensor::vector<std::string>({"", std::string(300000, 'x'), "end"}));
  sent.push_back(pattern(100000).rows(3, 99999));
  for (std::size_t i = 0; i < sent.size(); ++i)
    ASSERT_TRUE(pair.a->send(kB, put_of(sent[i], static_cast<std::uint32_t>(i))).ok()) << i;
  ASSERT_TRUE(pair.at_b.wait_frames(sent.size()));
  for (const Frame& frame : pair.at_b.frames) {
    const Put& put = std::get<Put>(frame);
    EXPECT_TRUE(bitwise_equal(put.tensor, sent[put.key.edge.value])) << put.key.edge.value;
    if (put.tensor.dtype() != DType::string) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(put.tensor.raw()) % kBufferAlignment, 0u) << put.key.edge.value;
    }
  }
}

TEST_P(WireOver, ACorkHoldsFramesAndLetsThemGoInOrder) {
  Pair pair(GetParam(), [](WireOptions& options) {  // a heartbeat takes along what waits
    options.heartbeat_every = 20s;
    options.suspect_after = options.down_after = 40s;
  });
  const auto counters = pair.a->counters(pair.at_a.peers.at(0));
  ASSERT_TRUE(pair.a->send(kB, Barrier{0}).ok());
  // Until the wire's thread has nothing to do any more, which would take along what waits.
  for (std::uint32_t i = 1; i <= 2; ++i) {
    SCOPED_TRACE(::testing::Message() << "barrier " << i);
    ASSERT_TRUE(pair.at_b.wait_frames(i));
    ASSERT_TRUE(pair.b->send(kA, Barrier{1}).ok());
    ASSERT_TRUE(pair.at_a.wait_frames(i));
    if (i == 1) {
      ASSERT_TRUE(pair.a->send(kB, Barrier{0}).ok());
    }
  }
  const std::uint64_t before = counters->frames_sent.load();
  {
    const Cork cork;
    {
      const Cork inner;
      for (std::uint32_t i = 1; i <= 600; ++i) ASSERT_TRUE(pair.a->send(kB, Barrier{i}).ok()) << i;
    }
    ASSERT_TRUE(pair.b->send(kA, Barrier{1}).ok());
    EXPECT_EQ(counters->frames_sent.load(), before);
  }
  ASSERT_TRUE(pair.at_b.wait_frames(602));
  ASSERT_TRUE(pair.at_a.wait_frames(3));
  for (std::uint32_t i = 0; i <= 600; ++i) EXPECT_EQ(std::get<Barrier>(pair.at_b.frames[i + 1]).worker, i);
}

TEST_P(WireOver, ACorkDoesNotHoldBulk) {
  Pair pair(GetParam());
  const Cork cork;
  ASSERT_TRUE(pair.a->send(kB, put_of(pattern(kSmallPayload + 1))).ok());
  ASSERT_TRUE(pair.at_b.wait_frames(1));
}

TEST(Wire, ANotYetListeningPeerIsReachedWhenItListens) {
  std::uint16_t port = 0;
  {
    Recorder nobody;
    Wire first(options_of(kB), nobody);
    port = first.listen();
  }
  Recorder at_a, at_b;
  Wire a(options_of(kA), at_a);
  a.dial(kB, "127.0.0.1", port, 20s);
  WireOptions of_b = options_of(kB);
  of_b.listen_port = port;
  Wire b(of_b, at_b);
  b.listen();
  EXPECT_TRUE(at_a.wait_connected());
}

TEST_P(WireOver, ControlOvertakesBulkThatWaitsForCredit) {
  Pair pair(GetParam(), [](WireOptions& options) { options.connection.window = 512 << 10; });
  pair.b->hold_credit(pair.at_b.peers[0], true);
  const Tensor big = pattern(3 << 20);
  ASSERT_TRUE(pair.a->send(kB, put_of(big)).ok());
  ASSERT_TRUE(pair.a->send(kB, StepAbort{SessionId{1}, StepId{2}, Error(Code::aborted, "x")}).ok());
  ASSERT_TRUE(pair.at_b.wait_frames(1));
  EXPECT_TRUE(std::holds_alternative<StepAbort>(pair.at_b.frames[0]));
  pair.b->hold_credit(pair.at_b.peers[0], false);
  ASSERT_TRUE(pair.at_b.wait_frames(2));
  EXPECT_TRUE(bitwise_equal(std::get<Put>(pair.at_b.frames[1]).tensor, big));
}

// A consumer that takes a frame out of its queue only when the sender can send no more.
TEST_P(WireOver, WhatWaitsToBeTakenStaysWithinTheWindow) {
  constexpr std::size_t kSize = 1 << 20, kCount = 40, kWindow = 4 * kSize;
  Pair pair(GetParam(), [](WireOptions& options) { options.connection.window = kWindow; });
  std::mutex mutex;
  std::deque<LocalHandle> untaken;
  std::size_t came = 0, peak = 0;
  pair.at_b.on_frame = [&](const Frame&) {
    const std::lock_guard lock(mutex);
    untaken.push_back(pair.b->defer_credit(pair.at_b.peers[0], kSize));
    peak = std::max(peak, untaken.size());
    ++came;
  };
  const auto counters = pair.a->counters(pair.at_a.peers.at(0));
  const Tensor gradient = pattern(kSize);
  for (std::uint32_t i = 0; i < kCount; ++i)
    ASSERT_TRUE(pair.a->send(kB, Push{0, i, 0, 0, 0, 0, gradient, {}}).ok()) << i;
  for (std::size_t taken = 0; taken < kCount; ++taken) {
    LocalHandle next;
    while (!next) {
      const bool stalled = counters->stalled;
      const std::lock_guard lock(mutex);
      if (untaken.empty() || (!stalled && came < kCount)) continue;
      next = std::move(untaken.front());
      untaken.pop_front();
    }
  }
  ASSERT_TRUE(pair.at_b.wait_frames(kCount));
  EXPECT_LE(peak * kSize, kWindow + kSize);
  EXPECT_GE(peak, 2u);
}

TEST_P(WireOver, ATensorLargerThanTheWindowComesAndTheNextWhenItIsTaken) {
  Pair pair(GetParam(), [](WireOptions& options) { options.connection.window = 512 << 10; });
  std::mutex mutex;
  std::deque<LocalHandle> untaken;
  pair.at_b.on_frame = [&](const Frame& frame) {
    const std::lock_guard lock(mutex);
    untaken.push_back(pair.b->defer_credit(pair.at_b.peers[0], std::get<Push>(frame).gradient.num_bytes()));
  };
  for (std::uint32_t i = 0; i < 3; ++i)
    ASSERT_TRUE(pair.a->send(kB, Push{0, i, 0, 0, 0, 0, pattern(5 << 20), {}}).ok()) << i;
  for (std::size_t count = 1; count <= 3; ++count) {
    SCOPED_TRACE(::testing::Message() << "frame " << count);
    ASSERT_TRUE(pair.at_b.wait_frames(count));
    EXPECT_EQ(pair.at_b.frames.size(), count);
    const std::lock_guard lock(mutex);
    ASSERT_EQ(untaken.size(), 1u);
    untaken.clear();
  }
}

TEST_P(WireOver, FramesOfOneEdgeKeepTheirOrderWhateverTheirSize) {
  Pair pair(GetParam(), [](WireOptions& options) { options.connection.window = 512 << 10; });
  for (std::uint64_t step = 0; step < 200; ++step) {
    const std::size_t size = step % 3 == 0 ? 200000 : step % 3 == 1 ? 10 : 60000;
    ASSERT_TRUE(pair.a->send(kB, put_of(pattern(size), 1, step)).ok()) << "step " << step;
    ASSERT_TRUE(pair.a->send(kB, Push{2, step, 0, 0, 3, 0, pattern(size), {}}).ok()) << "step " << step;
  }
  ASSERT_TRUE(pair.at_b.wait_frames(400));
  std::uint64_t next_put = 0;
  std::uint64_t next_push = 0;
  for (const Frame& frame : pair.at_b.frames) {
    if (const auto* put = std::get_if<Put>(&frame)) {
      ASSERT_EQ(put->key.step.value, next_put++);
    } else {
      ASSERT_EQ(std::get<Push>(frame).step, next_push++);
    }
  }
}

TEST_P(WireOver, ManyThreadsMaySendAtOnce) {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kFrames = 2000;
  Pair pair(GetParam());
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (std::uint32_t i = 0; i < kFrames; ++i) {
        const bool both = i % 100 == 0;
        if (both) {
          EXPECT_TRUE(pair.a->send(kB, put_of(pattern(70000 + i), 100 + t, i)).ok()) << t << ", frame " << i;
        }
        EXPECT_TRUE(pair.a->send(kB, Staged{t, i, 0, 0}).ok()) << t << ", frame " << i;
      }
    });
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(pair.at_b.wait_frames(kThreads * (kFrames + kFrames / 100)));
  std::vector<std::uint64_t> next(kThreads, 0);
  for (const Frame& frame : pair.at_b.frames)
    if (const auto* staged = std::get_if<Staged>(&frame)) {
      ASSERT_EQ(staged->step, next[staged->shard]++) << "shard " << staged->shard;
    } else {
      const Put& put = std::get<Put>(frame);
      ASSERT_TRUE(bitwise_equal(put.tensor, pattern(70000 + put.key.step.value))) << put.key.step.value;
    }
}

TEST(Wire, WhenBothDialAtOnceOneConnectionStays) {
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    Recorder at_a, at_b;
    Wire a(options_of(kA), at_a);
    Wire b(options_of(kB), at_b);
    const std::uint16_t port_a = a.listen();
    const std::uint16_t port_b = b.listen();
    a.dial(kB, "127.0.0.1", port_b, 20s);
    b.dial(kA, "127.0.0.1", port_a, 20s);
    ASSERT_TRUE(at_a.wait_connected());
    ASSERT_TRUE(at_b.wait_connected());
    ASSERT_TRUE(a.send(kB, TakeToken{1}).ok());
    ASSERT_TRUE(b.send(kA, TakeToken{2}).ok());
    ASSERT_TRUE(at_a.wait_frames(1));
    ASSERT_TRUE(at_b.wait_frames(1));
    a.shutdown();
    ASSERT_TRUE(at_b.wait_ended());
    b.shutdown();
    EXPECT_EQ(at_a.peers.size(), 1u);
    EXPECT_EQ(at_b.peers.size(), 1u);
    EXPECT_EQ(at_a.failed.size() + at_b.failed.size(), 0u);
  }
}

TEST_P(WireOver, CloseTellsThePeerTheReason) {
  Pair pair(GetParam());
  pair.a->close(pair.at_a.peers[0], Error(Code::aborted, "the session ended"));
  ASSERT_TRUE(pair.at_a.wait_ended());
  ASSERT_TRUE(pair.at_b.wait_ended());
  EXPECT_EQ(pair.at_a.ended[0].reason.message(), "the session ended");
  EXPECT_EQ(pair.at_b.ended[0].name, kA);
  EXPECT_EQ(pair.at_b.ended[0].reason.code(), Code::aborted);
  EXPECT_EQ(pair.at_b.ended[0].reason.message(), "/job:ps/task:0 closed the connection: the session ended");
  EXPECT_EQ(pair.a->send(kB, TakeToken{}).code(), Code::unavailable);
  // The same processes may meet again.
  pair.a->dial(kB, "127.0.0.1", pair.b->listen(), 20s);
  EXPECT_TRUE(pair.at_a.wait_connected(2));
}

TEST_P(WireOver, ShutdownSendsWhatIsQueuedAndJoins) {
  Pair pair(GetParam(), [](WireOptions& options) { options.close_timeout = 20s; });
  const Tensor big = pattern(20 << 20);
  for (std::uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(pair.a->send(kB, put_of(big, i)).ok()) << i;
  pair.a->shutdown();
  ASSERT_TRUE(pair.at_b.wait_ended());
  EXPECT_TRUE(pair.at_b.ended[0].reason.ok()) << pair.at_b.ended[0].reason.to_string();
  EXPECT_EQ(pair.at_b.frames.size(), 5u);
  ASSERT_EQ(pair.at_a.ended.size(), 1u);
  EXPECT_TRUE(pair.at_a.ended[0].reason.ok());
  EXPECT_EQ(pair.a->send(kB, TakeToken{}).code(), Code::unavailable);
  pair.a->shutdown();
}

TEST_P(WireOver, ShutdownEndsThoughThePeerTakesNothing) {
  Pair pair(GetParam(), [](WireOptions& options) {
    options.connection.window = 512 << 10;
    options.close_timeout = 100ms;
  });
  pair.b->hold_credit(pair.at_b.peers[0], true);
  ASSERT_TRUE(pair.a->send(kB, put_of(pattern(4 << 20))).ok());
  pair.a->shutdown();
  ASSERT_TRUE(pair.at_b.wait_ended());
  EXPECT_EQ(pair.at_b.ended[0].reason.code(), Code::unavailable);
}

TEST(Wire, ShutdownFailsTheDialsThatAreUnderWay) {
  Recorder at_a;
  std::optional<Wire> a(std::in_place, options_of(kA), at_a);
  a->dial(kB, "127.0.0.1", 1, 20s);
  a->shutdown();
  ASSERT_EQ(at_a.failed.size(), 1u);
  EXPECT_EQ(at_a.failed[0].reason.code(), Code::cancelled);
}

TEST_P(WireOver, CountersTellWhatHasPassed) {
  Pair pair(GetParam());
  const auto counters = pair.a->counters(pair.at_a.peers[0]);
  ASSERT_TRUE(counters);
  ASSERT_TRUE(pair.a->send(kB, put_of(pattern(1 << 20))).ok());
  ASSERT_TRUE(pair.b->send(kA, TakeToken{}).ok());
  ASSERT_TRUE(pair.at_b.wait_frames(1));
  ASSERT_TRUE(pair.at_a.wait_frames(1));
  pair.a->shutdown();
  EXPECT_GE(counters->frames_queued, 1u);
  EXPECT_GT(counters->bytes_sent, 1u << 20);
  EXPECT_GE(counters->frames_received, 2u);  // Hello, TakeToken
  EXPECT_EQ(counters->bytes_waiting, 0u);
  EXPECT_FALSE(pair.a->counters(pair.at_a.peers[0]));
}

TEST_P(WireOver, FramesThatCannotBeSentAreRefusedAtOnce) {
  Pair pair(GetParam(), [](WireOptions& options) { options.connection.limits.max_tensor_bytes = 1000; });
  EXPECT_EQ(pair.a->send(kB, put_of(pattern(1001))).code(), Code::resource_exhausted);
  const Error unknown = pair.a->send(TaskName{"ps", 9}, TakeToken{});
  EXPECT_EQ(unknown.code(), Code::unavailable);
  EXPECT_NE(unknown.message().find("/job:ps/task:9"), std::string::npos);
  EXPECT_TRUE(pair.a->send(kB, put_of(pattern(1000))).ok());
  EXPECT_TRUE(pair.at_b.wait_frames(1));
}

TEST(Wire, SenselessOptionsAreRefused) {
  Recorder recorder;
  const auto with = [&](const std::function<void(WireOptions&)>& change) {
    WireOptions options = options_of(kA);
    change(options);
    Wire wire(options, recorder);
  };
  EXPECT_THROW(with([](WireOptions& o) { o.self.job.clear(); }), Error);
  EXPECT_THROW(with([](WireOptions& o) { o.connection.window = kMaxChunk; }), Error);
  EXPECT_THROW(with([](WireOptions& o) { o.connection.chunk_bytes = kMaxChunk + 1; }), Error);
  EXPECT_THROW(with([](WireOptions& o) { o.heartbeat_every = o.suspect_after; }), Error);
  EXPECT_NO_THROW(with([](WireOptions&) {}));
}

TEST(Wire, AWireThatDoesNotShareMemoryMeetsOneThatDoes) {
  for (const bool dialer_shares : {false, true}) {
    SCOPED_TRACE(dialer_shares ? "the dialer shares memory" : "the listener shares memory");
    Recorder at_a, at_b;
    WireOptions of_a = options_of(kA), of_b = options_of(kB);
    of_a.shared_memory = dialer_shares;
    of_b.shared_memory = !dialer_shares;
    Wire a(of_a, at_a), b(of_b, at_b);
    a.dial(kB, "127.0.0.1", b.listen(), 20s);
    ASSERT_TRUE(at_a.wait_connected() && at_b.wait_connected());
    ASSERT_TRUE(a.send(kB, put_of(pattern(3 << 20))).ok());
    ASSERT_TRUE(b.send(kA, Barrier{4}).ok());
    EXPECT_TRUE(at_b.wait_frames(1) && at_a.wait_frames(1));
  }
}

// The place of memory in a Hello is a word of the peer's, as is the answer.
TEST(Wire, MemoryThatCannotBeFoundIsDoneWithout) {
  Recorder at_a;
  WireOptions options = options_of(kA);
  options.shared_memory = true;
  Wire a(options, at_a);
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  a.dial(kB, "127.0.0.1", ntohs(address.sin_port), 20s);
  RawPeer peer(Fd(::accept(listener, nullptr, nullptr)));
  const Fd closed(listener);
  peer.address = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  ASSERT_TRUE(peer.prove_called({kB, Incarnation{5}}));
  EXPECT_EQ(peer.next<Hello>()->memory, kSharesMemory);
  Hello answer = hello_of(kB, kA);
  answer.memory = "1 2 3";
  peer.send(whole_chunk(answer));
  const auto used = peer.next<SharedMemoryAnswer>();
  ASSERT_TRUE(used);
  EXPECT_FALSE(used->used);
  ASSERT_TRUE(at_a.wait_connected());
  peer.send(whole_chunk(TakeToken{3}));
  EXPECT_TRUE(at_a.wait_frames(1));
  peer.send(whole_chunk(SharedMemoryAnswer{true}));
  const auto goodbye = peer.next<Goodbye>();
  ASSERT_TRUE(goodbye);
  EXPECT_EQ(goodbye->reason.code(), Code::failed_precondition);
}

}  // namespace
}  // namespace troupe::wire
