// What a Wire does with strangers, liars, and peers that die.
#include <sys/resource.h>

#include <algorithm>
#include <deque>
#include <thread>

#include "tests/actors/wire/wire_testing.hpp"

namespace troupe::wire {
namespace {

const TaskName kC{"worker", 2};

// Task B listens; A is a good peer of it, to see that it still works.
struct Listening {
  explicit Listening(const std::function<void(WireOptions&)>& change = {}) {
    WireOptions of_b = options_of(kB);
    if (change) change(of_b);
    b.emplace(of_b, at_b);
    port = b->listen();
  }
  std::unique_ptr<RawPeer> friendly(const TaskName& from, std::uint64_t incarnation = 5) {
    const std::size_t before = at_b.peers.size();
    auto peer = std::make_unique<RawPeer>(port);
    peer->greet(hello_of(from, kB, incarnation));
    EXPECT_TRUE(peer->next<Hello>());
    EXPECT_TRUE(at_b.wait_connected(before + 1));
    return peer;
  }
  // The Goodbye that `bytes` are answered with, by a connection that has said a good Hello.
  Error answer_to(std::string_view bytes) {
    const auto peer = friendly(kC);
    peer->send(bytes);
    const auto goodbye = peer->next<Goodbye>();
    EXPECT_TRUE(at_b.wait_ended());
    return goodbye ? goodbye->reason : Error(Code::unknown, "no Goodbye");
  }
  // A good peer still gets its frames through.
  void expect_alive() {
    Recorder at_a;
    Wire a(options_of(kA), at_a);
    a.dial(kB, "127.0.0.1", port, 20s);
    ASSERT_TRUE(at_a.wait_connected());
    const std::size_t before = at_b.frames.size();
    ASSERT_TRUE(a.send(kB, put_of(pattern(100000))).ok());
    EXPECT_TRUE(at_b.wait_frames(before + 1));
  }

  Recorder at_b;
  std::optional<Wire> b;
  std::uint16_t port = 0;
};

// How a dial of A ends whose options were changed.
Error refusal(const std::function<void(WireOptions&)>& change, const TaskName& called = kB) {
  Listening listening;
  Recorder at_a;
  WireOptions of_a = options_of(kA);
  change(of_a);
  Wire a(of_a, at_a);
  a.dial(called, "127.0.0.1", listening.port, 20s);
  EXPECT_TRUE(at_a.wait([&] { return !at_a.failed.empty() || !at_a.peers.empty(); }));
  EXPECT_TRUE(at_a.peers.empty());
  EXPECT_TRUE(listening.at_b.wait([&] { return !listening.at_b.strangers.empty(); }));
  EXPECT_TRUE(listening.at_b.peers.empty());
  return at_a.failed.empty() ? Error() : at_a.failed[0].reason;
}

TEST(WireFault, AWrongTokenIsUnauthenticated) {
  for (const std::string& token : {std::string(), kToken + "x", std::string(kToken.size(), '?')}) {
    const Error error = refusal([&](WireOptions& options) { options.token = token; });
    EXPECT_EQ(error.code(), Code::unauthenticated) << "token '" << token << "'";
    EXPECT_NE(error.message().find("wrong token"), std::string::npos) << error.message();
  }
}

TEST(WireFault, WrongNamesAreRefused) {
  EXPECT_EQ(refusal([](WireOptions& options) { options.cluster = "other"; }).code(), Code::failed_precondition);
  EXPECT_EQ(refusal([](WireOptions& options) { options.self = kB; }, kB).code(), Code::failed_precondition);
  const Error error = refusal([](WireOptions&) {}, kC);
  EXPECT_EQ(error.code(), Code::failed_precondition);
  EXPECT_NE(error.message().find("call for /job:worker/task:2, but this is /job:worker/task:1"), std::string::npos)
      << error.message();
}

TEST(WireFault, AnotherProtocolVersionIsRefused) {
  Listening listening;
  RawPeer peer(listening.port);
  Hello hello = hello_of(kC, kB);
  hello.protocol = kProtocolVersion + 1;
  peer.greet(hello);
  const auto goodbye = peer.next<Goodbye>();
  ASSERT_TRUE(goodbye);
  EXPECT_EQ(goodbye->reason.code(), Code::failed_precondition);
  EXPECT_NE(goodbye->reason.message().find("protocol version"), std::string::npos);
  EXPECT_TRUE(listening.at_b.peers.empty());
}

// Whoever cannot prove that it knows the token is told nothing.
TEST(WireFault, AStrangerIsLeftWithoutAWord) {
  std::string other_version = opening_of(kC, kB), nobody = other_version;
  ++other_version[6];
  std::fill_n(nobody.begin() + 48, 64, '\0');
  const std::vector<std::string> greetings = {
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      std::string(100000, '\0'),
      std::string(100000, '\xff'),
      std::string("\1") + std::string(31, '\0'),  // a handshake of CAF
      whole_chunk(hello_of(kC, kB)),
      whole_chunk(put_of(pattern(10)), FrameClass::small),
      other_version,
      nobody,
  };
  Listening listening;
  for (std::size_t i = 0; i < greetings.size(); ++i) {
    RawPeer peer(listening.port);
    peer.send(greetings[i]);
    EXPECT_FALSE(peer.hears_anything()) << i;
    ASSERT_TRUE(listening.at_b.wait([&] { return listening.at_b.strangers.size() == i + 1; })) << i;
    EXPECT_EQ(listening.at_b.strangers[i].code(), Code::failed_precondition) << i;
  }
  EXPECT_TRUE(listening.at_b.peers.empty());
  EXPECT_TRUE(listening.at_b.frames.empty());
  listening.expect_alive();
}

TEST(WireFault, OnlyAHelloIsParsedBeforeTheHandshake) {
  const std::string big_hello = [] {
    Hello hello = hello_of(kC, kB);
    hello.cluster.assign(ChunkReader::kMaxGreeting, 'x');
    return whole_chunk(hello);
  }();
  const std::vector<std::string> greetings = {
      std::string(100000, '\0'),
      std::string(100000, '\xff'),
      whole_chunk(TakeToken{1}),
      whole_chunk(put_of(pattern(10)), FrameClass::small),
      whole_chunk(Hello{}),
      whole_chunk(hello_of(kA, kB)),     // another name,
      whole_chunk(hello_of(kC, kB, 6)),  // or process, than has proved who it is
      big_hello,
      chunk(FrameClass::control, 3, std::string(100, 'x')),
  };
  Listening listening;
  for (std::size_t i = 0; i < greetings.size(); ++i) {
    RawPeer peer(listening.port);
    ASSERT_TRUE(peer.prove({kC, Incarnation{5}}, kB)) << i;
    peer.send(greetings[i]);
    const auto goodbye = peer.next<Goodbye>();
    ASSERT_TRUE(goodbye) << i;
    EXPECT_FALSE(goodbye->reason.ok()) << i;
    EXPECT_TRUE(peer.at_end()) << i;
    ASSERT_TRUE(listening.at_b.wait([&] { return listening.at_b.strangers.size() == i + 1; })) << i;
  }
  EXPECT_TRUE(listening.at_b.peers.empty());
  EXPECT_TRUE(listening.at_b.frames.empty());
  listening.expect_alive();
}

TEST(WireFault, ASilentStrangerIsSentAway) {
  Listening listening([](WireOptions& options) { options.handshake_timeout = 50ms; });
  RawPeer peer(listening.port);
  EXPECT_TRUE(peer.at_end());
  ASSERT_TRUE(listening.at_b.wait([&] { return !listening.at_b.strangers.empty(); }));
  EXPECT_EQ(listening.at_b.strangers[0].code(), Code::deadline_exceeded);
}

TEST(WireFault, TheOldestStrangerGoesWhenThereAreTooMany) {
  Listening listening([](WireOptions& options) { options.max_strangers = 2; });
  RawPeer first(listening.port), second(listening.port), third(listening.port);
  EXPECT_TRUE(first.at_end());
  ASSERT_TRUE(listening.at_b.wait([&] { return !listening.at_b.strangers.empty(); }));
  EXPECT_EQ(listening.at_b.strangers[0].code(), Code::resource_exhausted);
  second.greet(hello_of(kC, kB));
  EXPECT_TRUE(second.next<Hello>());
}

TEST(WireFault, StrangersThatWereSentAwayGoFirst) {
  Listening listening([](WireOptions& options) {
    options.max_strangers = 2;
    options.close_timeout = 20s;
  });
  RawPeer waits(listening.port), refused(listening.port);
  ASSERT_TRUE(refused.prove({kC, Incarnation{5}}, kB));
  refused.send(whole_chunk(Hello{}));
  ASSERT_TRUE(refused.next<Goodbye>());  // and it stays
  RawPeer third(listening.port);
  EXPECT_TRUE(refused.at_end());
  waits.greet(hello_of(kC, kB));
  EXPECT_TRUE(waits.next<Hello>());
}

TEST(WireFault, StrangersThatHaveProvedWhoTheyAreGoLast) {
  Listening listening([](WireOptions& options) { options.max_strangers = 2; });
  RawPeer member(listening.port);
  ASSERT_TRUE(member.prove({kC, Incarnation{5}}, kB));
  for (std::size_t i = 0; i < 5; ++i) {
    RawPeer idle(listening.port), next(listening.port);
    EXPECT_TRUE(idle.at_end()) << i;
  }
  member.send(whole_chunk(hello_of(kC, kB)));
  EXPECT_TRUE(member.next<Hello>());
}

// However many come, and go on coming, a member gets in.
TEST(WireFault, AMemberGetsInDuringAFlood) {
  Listening listening([](WireOptions& options) { options.max_strangers = 16; });
  std::atomic<bool> over{false};
  std::thread flood([&] {
    std::deque<RawPeer> idle;
    while (!over) {
      idle.emplace_back(listening.port);
      if (idle.size() > 32) idle.pop_front();
    }
  });
  listening.expect_alive();
  over = true;
  flood.join();
}

TEST(WireFault, PeersBeyondTheLimitAreTurnedAwayAndToldWhy) {
  Listening listening([](WireOptions& options) { options.max_connections = 1; });
  const auto first = listening.friendly(kC);
  Recorder at_a;
  Wire a(options_of(kA), at_a);
  a.dial(kB, "127.0.0.1", listening.port, 20s);
  ASSERT_TRUE(at_a.wait([&] { return !at_a.failed.empty(); }));
  EXPECT_EQ(at_a.failed[0].reason.code(), Code::resource_exhausted);
  EXPECT_NE(
      at_a.failed[0].reason.message().find("/job:worker/task:1 is at its limit of 1 connections (--max-connections)"),
      std::string::npos)
      << at_a.failed[0].reason.message();
  first->close();
  ASSERT_TRUE(listening.at_b.wait_ended());
  a.dial(kB, "127.0.0.1", listening.port, 20s);
  EXPECT_TRUE(at_a.wait_connected());
}

TEST(WireFault, AcceptingGoesOnWhenDescriptorsAreFreeAgain) {
  Listening listening;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  RawPeer peer;  // has its own descriptor before they run out
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(Fd(::dup(0)).get());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  peer.connect(listening.port);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  peer.greet(hello_of(kC, kB));
  EXPECT_TRUE(peer.next<Hello>());
}

TEST(WireFault, BadFramesCloseTheirConnectionWithAReasonAndNothingElse) {
  Tensor over = pattern(10);
  std::string unknown_kind = encode_to_string(TakeToken{});
  unknown_kind[4] = 99;
  struct Case {
    std::string what;
    std::string bytes;
    Code code;
  };
  const std::string put = encode_to_string(put_of(over));
  const std::vector<Case> cases = {
      {"unknown kind", chunk(FrameClass::control, 3, unknown_kind), Code::data_loss},
      {"unknown class", chunk(static_cast<FrameClass>(3), 3, put), Code::data_loss},
      {"unknown flags", chunk(FrameClass::small, 7, put), Code::data_loss},
      {"empty chunk", chunk(FrameClass::small, 1, ""), Code::data_loss},
      {"long chunk", chunk(FrameClass::small, 1, std::string(kMaxChunk + 1, 'x')), Code::data_loss},
      {"continues nothing", chunk(FrameClass::small, kLastChunk, put), Code::data_loss},
      {"begins twice",
       chunk(FrameClass::small, kFirstChunk, put.substr(0, 9)) + whole_chunk(put_of(over), FrameClass::small),
       Code::data_loss},
      {"ends early", chunk(FrameClass::small, 3, put.substr(0, put.size() - 1)), Code::data_loss},
      {"ends late", chunk(FrameClass::small, 3, put + "x"), Code::data_loss},
      {"second hello", whole_chunk(hello_of(kC, kB)), Code::failed_precondition},
      {"absurd credit", whole_chunk(Credit{~0ull}), Code::failed_precondition},
  };
  for (const Case& c : cases) {
    Listening listening;
    const Error reason = listening.answer_to(c.bytes);
    EXPECT_EQ(reason.code(), c.code) << c.what << ": " << reason.to_string();
    EXPECT_EQ(listening.at_b.ended.at(0).name, kC) << c.what;
    EXPECT_TRUE(listening.at_b.frames.empty()) << c.what;
  }
  Listening listening;
  (void)listening.answer_to(cases[0].bytes);
  listening.expect_alive();
}

TEST(WireFault, MoreBulkThanCreditIsRefused) {
  Listening listening([](WireOptions& options) { options.connection.window = 2 * kMaxChunk; });
  listening.b->hold_credit(PeerId{}, true);  // of nobody: does nothing
  const auto peer = listening.friendly(kC);
  listening.b->hold_credit(listening.at_b.peers.at(0), true);
  const std::string bytes = encode_to_string(put_of(pattern(4 * kMaxChunk)));
  peer->send(chunk(FrameClass::bulk, kFirstChunk, bytes.substr(0, kMaxChunk)));
  peer->send(chunk(FrameClass::bulk, 0, bytes.substr(kMaxChunk, kMaxChunk)));
  peer->send(chunk(FrameClass::bulk, 0, "x"));
  const auto goodbye = peer->next<Goodbye>();
  ASSERT_TRUE(goodbye);
  EXPECT_EQ(goodbye->reason.code(), Code::resource_exhausted);
}

TEST(WireFault, APeerThatDiesInTheMiddleOfAChunkIsReported) {
  Listening listening;
  const auto peer = listening.friendly(kC);
  const std::string bytes = encode_to_string(put_of(pattern(100000)));
  peer->send(whole_chunk(put_of(pattern(100000)), FrameClass::bulk).substr(0, 50000));
  peer->close();
  ASSERT_TRUE(listening.at_b.wait_ended());
  EXPECT_EQ(listening.at_b.ended[0].name, kC);
  EXPECT_EQ(listening.at_b.ended[0].reason.code(), Code::unavailable);
  EXPECT_TRUE(listening.at_b.frames.empty());
  listening.expect_alive();
}

void lose_patience(WireOptions& options, std::chrono::milliseconds down_after) {
  options.heartbeat_every = 10ms;
  options.suspect_after = 50ms;
  options.down_after = down_after;
  options.close_timeout = 50ms;
}
// A busy machine may keep those who talk from it for a while.
void lose_patience_late(WireOptions& options) { lose_patience(options, 2s); }

TEST(WireFault, APeerWithoutSignOfLifeIsDown) {
  Listening listening(lose_patience_late);
  const auto peer = listening.friendly(kC);
  ASSERT_TRUE(listening.at_b.wait_ended());
  EXPECT_EQ(listening.at_b.ended[0].reason.code(), Code::unavailable);
  EXPECT_EQ(listening.at_b.ended[0].reason.message(), "nothing received from /job:worker/task:2 for 2.0 s");
  EXPECT_EQ(listening.at_b.suspects, std::vector<TaskName>{kC});
}

TEST(WireFault, APeerThatTalksAndNeverReadsIsDown) {
  Listening listening(lose_patience_late);
  const auto peer = listening.friendly(kC);
  const int little = 64 << 10;
  ASSERT_EQ(::setsockopt(peer->fd(), SOL_SOCKET, SO_RCVBUF, &little, sizeof little), 0);
  for (std::uint32_t i = 0; i < 100; ++i)  // more than the buffers of both sockets take
    ASSERT_TRUE(listening.b->send(kC, put_of(pattern(kSmallPayload), i)).ok()) << i;
  std::thread talking([&] {
    while (peer->send(whole_chunk(Heartbeat{1}))) {
    }
  });
  EXPECT_TRUE(listening.at_b.wait_ended());
  listening.b->shutdown();
  talking.join();
  EXPECT_EQ(listening.at_b.ended.at(0).reason.code(), Code::unavailable);
  EXPECT_EQ(listening.at_b.ended.at(0).reason.message(), "/job:worker/task:2 has not read its queued data for 2.0 s");
}

TEST(WireFault, APeerThatTalksAndNeverReadsSharedMemoryIsDown) {
  Listening listening([](WireOptions& options) {
    lose_patience_late(options);
    options.shared_memory = true;
  });
  RawPeer peer(listening.port);
  Hello hello = hello_of(kC, kB);
  hello.memory = kSharesMemory;
  peer.greet(hello);
  const auto answer = peer.next<Hello>();
  ASSERT_TRUE(answer);
  SharedMemory memory = SharedMemory::open(answer->memory);
  peer.send(whole_chunk(SharedMemoryAnswer{true}));
  const auto channel = shared_memory_channel(Fd(::dup(peer.fd())), std::move(memory));
  ASSERT_TRUE(listening.at_b.wait_connected());
  for (std::uint32_t i = 0; i < 100; ++i)  // more than the memory takes
    ASSERT_TRUE(listening.b->send(kC, put_of(pattern(kSmallPayload), i)).ok()) << i;
  std::atomic<bool> ended{false};
  std::thread talking([&] {
    std::string bytes = whole_chunk(Heartbeat{1});
    for (std::size_t at = 0; !ended; std::this_thread::yield()) {  // a frame that does not fit goes on later
      iovec piece{bytes.data() + at, bytes.size() - at};
      if (const ssize_t n = channel->write({&piece, 1}); n > 0) at = (at + static_cast<std::size_t>(n)) % bytes.size();
    }
  });
  EXPECT_TRUE(listening.at_b.wait_ended());
  ended = true;
  talking.join();
  EXPECT_EQ(listening.at_b.ended.at(0).reason.message(), "/job:worker/task:2 has not read its queued data for 2.0 s");
}

TEST(WireFault, APeerWhoseChunkTricklesIsDown) {
  Listening listening([](WireOptions& options) { lose_patience(options, 200ms); });
  const auto peer = listening.friendly(kC);
  const PeerId id = listening.at_b.peers.at(0);
  const auto counters = listening.b->counters(id);
  const std::string bytes =
      chunk(FrameClass::bulk, kFirstChunk, encode_to_string(put_of(pattern(kMaxChunk))).substr(0, kMaxChunk));
  std::uint64_t come = counters->bytes_received;
  std::size_t sent = 0;
  const auto enough = Clock::now() + 20s;
  for (; sent < bytes.size() && listening.b->counters(id) && Clock::now() < enough; ++come) {
    peer->send(bytes.substr(sent++, 1));
    while (counters->bytes_received == come && listening.b->counters(id)) std::this_thread::yield();
  }
  EXPECT_FALSE(listening.b->counters(id));
  ASSERT_TRUE(listening.at_b.wait_ended());
  EXPECT_EQ(listening.at_b.ended[0].reason.message(), "nothing received from /job:worker/task:2 for 0.2 s");
}

TEST(WireFault, HeartbeatsKeepAPeerAliveAndShowItsProgress) {
  std::atomic<std::uint64_t> progress = 0;
  const auto fast = [&](WireOptions& options) {
    options.heartbeat_every = 10ms;
    options.suspect_after = options.down_after = 1h;
    options.progress = [&] { return progress.load(); };
  };
  Listening listening(fast);
  const auto peer = listening.friendly(kC);
  progress = 2;
  for (int i = 0; i < 5; ++i) {
    SCOPED_TRACE(::testing::Message() << "heartbeat " << i);
    const auto heartbeat = peer->next<Heartbeat>();
    ASSERT_TRUE(heartbeat);
    EXPECT_LE(heartbeat->progress, 2u);
    if (i == 4) {
      EXPECT_EQ(heartbeat->progress, 2u);
    }
  }
  const auto counters = listening.b->counters(listening.at_b.peers.at(0));
  const std::int64_t opened = counters->progress_at;
  EXPECT_GT(opened, 0);
  peer->send(whole_chunk(Heartbeat{0}) + whole_chunk(TakeToken{}));
  ASSERT_TRUE(listening.at_b.wait_frames(1));
  EXPECT_EQ(counters->progress_at, opened);
  peer->send(whole_chunk(Heartbeat{77}) + whole_chunk(TakeToken{}));
  ASSERT_TRUE(listening.at_b.wait_frames(2));
  EXPECT_EQ(counters->peer_progress, 77u);
  EXPECT_GT(counters->progress_at, opened);
}

TEST(WireFault, ASecondProcessOfATaskIsRefusedUntilTheFirstIsGone) {
  Listening listening;
  const auto first = listening.friendly(kC, 1);
  {
    RawPeer second(listening.port);
    second.greet(hello_of(kC, kB, 2));
    const auto goodbye = second.next<Goodbye>();
    ASSERT_TRUE(goodbye);
    EXPECT_EQ(goodbye->reason.code(), Code::already_exists);
  }
  first->close();
  ASSERT_TRUE(listening.at_b.wait_ended());
  listening.friendly(kC, 2).reset();
  ASSERT_TRUE(listening.at_b.wait_ended(2));
  RawPeer zombie(listening.port);
  zombie.greet(hello_of(kC, kB, 1));
  const auto goodbye = zombie.next<Goodbye>();
  ASSERT_TRUE(goodbye);
  EXPECT_EQ(goodbye->reason.code(), Code::failed_precondition);
  const auto living = listening.friendly(kC, 2);
}

TEST(WireFault, AHandlerThatThrowsClosesTheConnection) {
  Listening listening;
  listening.at_b.on_frame = [](const Frame&) { fail(Code::not_found, "no such graph"); };
  const Error reason = listening.answer_to(whole_chunk(TakeToken{}));
  EXPECT_EQ(reason.code(), Code::not_found);
  EXPECT_EQ(listening.at_b.ended.at(0).reason.message(), "no such graph");
}

TEST(WireFault, APortInUseIsAnErrorThatNamesIt) {
  Listening listening;
  Recorder at_a;
  WireOptions options = options_of(kA);
  options.listen_port = listening.port;
  Wire a(options, at_a);
  try {
    a.listen();
    FAIL() << "two tasks listen on one port";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable);
    EXPECT_NE(error.message().find(fmt::format("127.0.0.1:{}", listening.port)), std::string::npos);
  }
}

TEST(WireFault, NobodyAtTheAddressIsAnErrorThatNamesIt) {
  std::uint16_t port = 0;
  {
    Listening listening;
    port = listening.port;
  }
  Recorder::Ended end;
  EXPECT_TRUE(::troupe::testing::holds_with_more_time(100ms, [&](std::chrono::milliseconds limit) {
    Recorder at_a;
    Wire a(options_of(kA), at_a);
    a.dial(kB, "127.0.0.1", port, limit);
    EXPECT_TRUE(at_a.wait([&] { return !at_a.failed.empty(); }));
    end = at_a.failed.at(0);
    EXPECT_EQ(end.name, kB);
    EXPECT_EQ(end.reason.code(), Code::deadline_exceeded);
    return end.reason.message() ==
           fmt::format("cannot reach /job:worker/task:1 at 127.0.0.1:{} within {:.1f} s: Connection refused", port,
                       std::chrono::duration<double>(limit).count());
  })) << end.reason.message();
}

TEST(WireFault, AnAddressThatNeverAnswersIsAnErrorThatNamesIt) {
  const Fd listener = listen_on(resolve("127.0.0.1", 0));  // accepts nobody; the kernel completes the connection
  Recorder at_a;
  Wire a(options_of(kA), at_a);
  a.dial(kB, "127.0.0.1", port_of(listener), 100ms);
  ASSERT_TRUE(at_a.wait([&] { return !at_a.failed.empty(); }));
  EXPECT_EQ(at_a.failed[0].reason.code(), Code::deadline_exceeded);
  EXPECT_NE(at_a.failed[0].reason.message().find("no answer"), std::string::npos);
}

TEST(WireFault, AHostThatCannotBeResolvedIsAnError) {
  Recorder at_a;
  Wire a(options_of(kA), at_a);
  EXPECT_THROW(a.dial(kB, "no such host", 1, 100ms), Error);
}

}  // namespace
}  // namespace troupe::wire
