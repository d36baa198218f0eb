// The wire over TLS: who is let in, who is not and what both sides are told.
#include <thread>

#include "tests/actors/wire/certificates.hpp"
#include "tests/actors/wire/loose_tls_peer.hpp"
#include "tests/actors/wire/wire_testing.hpp"
#include "tests/error_of.hpp"
#include "tests/temporary_directory.hpp"
#include <troupe/actors/wire/tls.hpp>

namespace troupe::wire {
namespace {

using ::troupe::testing::Authority;
using ::troupe::testing::content_of;
using ::troupe::testing::error_of;
using ::troupe::testing::TemporaryDirectory;

std::shared_ptr<const TlsContext> context_of(const TlsFiles& files) { return std::make_shared<TlsContext>(files); }

// Task B listens with a certificate of the cluster's CA; A dials it, or somebody else does.
class TlsTest : public ::testing::Test {
 protected:
  void listen(const std::function<void(WireOptions&)>& change = {}) {
    WireOptions options = options_of(kB);
    options.tls = context_of(good_);
    if (change) change(options);
    b_.emplace(options, at_b_);
    port_ = b_->listen();
  }
  void dial(const std::function<void(WireOptions&)>& change = {}) {
    WireOptions options = options_of(kA);
    options.tls = context_of(ca_.issue("a"));
    if (change) change(options);
    a_.emplace(options, at_a_);
    a_->dial(kB, "127.0.0.1", port_, 20s);
  }
  // Both sides have sent the other away; what they say of it.
  void expect_refused(const std::string& a_says, const std::string& b_says) {
    ASSERT_TRUE(at_a_.wait([&] { return !at_a_.failed.empty() || !at_a_.peers.empty(); }));
    ASSERT_TRUE(at_b_.wait([&] { return !at_b_.strangers.empty(); }));
    ASSERT_EQ(at_a_.failed.size(), 1u);
    EXPECT_NE(at_a_.failed[0].reason.message().find(a_says), std::string::npos) << at_a_.failed[0].reason.to_string();
    EXPECT_EQ(at_a_.failed[0].reason.code(), Code::unauthenticated);
    expect_nobody_came(b_says);
  }
  void expect_nobody_came(const std::string& b_says) {
    ASSERT_TRUE(at_b_.wait([&] { return !at_b_.strangers.empty(); }));
    EXPECT_NE(at_b_.strangers[0].message().find(b_says), std::string::npos) << at_b_.strangers[0].to_string();
    EXPECT_EQ(at_b_.strangers[0].code(), Code::unauthenticated);
    EXPECT_TRUE(at_b_.peers.empty());
    EXPECT_TRUE(at_b_.frames.empty());
  }

  TemporaryDirectory directory_;
  Authority ca_{directory_.file(""), "cluster-ca"};
  TlsFiles good_ = ca_.issue("b");
  Recorder at_a_, at_b_;
  std::optional<Wire> a_, b_;
  std::uint16_t port_ = 0;
};

TEST_F(TlsTest, TensorsOfAllSizesArriveBitEqualInBothDirections) {
  listen();
  dial();
  ASSERT_TRUE(at_a_.wait_connected());
  ASSERT_TRUE(at_b_.wait_connected());
  std::vector<Tensor> sent;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{16000}, std::size_t{16384},
                                 kSmallPayload + 1, kMaxChunk, kMaxChunk + 1, std::size_t{20} << 20})
    sent.push_back(pattern(size, static_cast<unsigned>(size)));
  for (std::size_t i = 0; i < sent.size(); ++i) {
    ASSERT_TRUE(a_->send(kB, put_of(sent[i], static_cast<std::uint32_t>(i))).ok()) << i;
    ASSERT_TRUE(b_->send(kA, put_of(sent[i], static_cast<std::uint32_t>(i))).ok()) << i;
  }
  for (Recorder* at : {&at_a_, &at_b_}) {
    ASSERT_TRUE(at->wait_frames(sent.size())) << (at == &at_a_ ? "at a" : "at b");
    for (const Frame& frame : at->frames) {
      const Put& put = std::get<Put>(frame);
      EXPECT_TRUE(bitwise_equal(put.tensor, sent[put.key.edge.value])) << put.key.edge.value;
    }
  }
  a_->shutdown();
  ASSERT_TRUE(at_b_.wait_ended());
  EXPECT_TRUE(at_b_.ended[0].reason.ok()) << at_b_.ended[0].reason.to_string();
}

TEST_F(TlsTest, ManyThreadsMaySendWhileFramesCome) {
  constexpr std::uint32_t kThreads = 3, kFrames = 500;
  listen();
  dial();
  ASSERT_TRUE(at_a_.wait_connected());
  ASSERT_TRUE(at_b_.wait_connected());
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (std::uint32_t i = 0; i < kFrames; ++i) {
        EXPECT_TRUE(a_->send(kB, Staged{t, i, 0, 0}).ok()) << t << ", frame " << i;
        EXPECT_TRUE(b_->send(kA, Staged{t, i, 0, 0}).ok()) << t << ", frame " << i;
        if (i % 100 == 0) {
          EXPECT_TRUE(a_->send(kB, put_of(pattern(70000 + i), t, i)).ok()) << t << ", frame " << i;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(at_a_.wait_frames(kThreads * kFrames));
  ASSERT_TRUE(at_b_.wait_frames(kThreads * (kFrames + kFrames / 100)));
  std::vector<std::uint64_t> next(kThreads, 0);
  for (const Frame& frame : at_b_.frames)
    if (const auto* staged = std::get_if<Staged>(&frame)) {
      ASSERT_EQ(staged->step, next[staged->shard]++) << "shard " << staged->shard;
    } else {
      ASSERT_TRUE(bitwise_equal(std::get<Put>(frame).tensor, pattern(70000 + std::get<Put>(frame).key.step.value)))
          << std::get<Put>(frame).key.step.value;
    }
}

TEST_F(TlsTest, AReceiverThatStopsBoundsWhatIsInFlight) {
  const auto small = [](WireOptions& options) { options.connection.window = 2 * kMaxChunk; };
  listen(small);
  dial(small);
  ASSERT_TRUE(at_a_.wait_connected());
  ASSERT_TRUE(at_b_.wait_connected());
  b_->hold_credit(at_b_.peers[0], true);
  const Tensor big = pattern(3 << 20);
  ASSERT_TRUE(a_->send(kB, put_of(big)).ok());
  ASSERT_TRUE(a_->send(kB, TakeToken{}).ok());
  ASSERT_TRUE(at_b_.wait_frames(1));
  EXPECT_TRUE(std::holds_alternative<TakeToken>(at_b_.frames[0]));
  b_->hold_credit(at_b_.peers[0], false);
  ASSERT_TRUE(at_b_.wait_frames(2));
  EXPECT_TRUE(bitwise_equal(std::get<Put>(at_b_.frames[1]).tensor, big));
}

TEST_F(TlsTest, ACertificateOfAnotherCaIsRefusedByBothSides) {
  Authority other{directory_.file(""), "other-ca"};
  const TlsFiles stranger = other.issue("stranger");
  listen();
  dial([&](WireOptions& options) { options.tls = context_of(stranger); });
  expect_refused("the peer's certificate was rejected: ", "the peer rejected this task's certificate");
  EXPECT_NE(at_a_.failed[0].reason.message().find(other.ca_file()), std::string::npos);
}

TEST_F(TlsTest, WhoeverTrustsAllButShowsNoGoodCertificateIsNotHeard) {
  Authority other{directory_.file(""), "other-ca"};
  const TlsFiles expired = ca_.issue("expired", {.from_days = -3, .to_days = -1});
  const TlsFiles stranger = other.issue("stranger");
  const struct {
    const TlsFiles* files;
    int version;
    const char* said;
  } cases[] = {
      {nullptr, TLS1_3_VERSION, "the peer sent no certificate"},
      {&expired, TLS1_3_VERSION, "the peer's certificate was rejected: certificate has expired"},
      {&stranger, TLS1_3_VERSION, "the peer's certificate was rejected: unable to get local issuer certificate"},
      {&good_, TLS1_2_VERSION, "the peer does not support TLS 1.3"}};
  for (const auto& c : cases) {
    at_b_.strangers.clear();
    listen();
    LooseTlsPeer(port_, c.files, c.version).insist(opening_of(kA, kB));
    expect_nobody_came(c.said);
    b_.reset();
  }
  listen();
  EXPECT_TRUE(LooseTlsPeer(port_, &good_).is_answered());  // the same words are heard
}

TEST_F(TlsTest, SeveralCasMayBeTrusted) {
  const Authority other{directory_.file(""), "other-ca"};
  listen();
  dial([&](WireOptions& options) {
    TlsFiles files = ca_.issue("mine");
    files.ca = directory_.write("both.pem", content_of(other.ca_file()) + content_of(ca_.ca_file()));
    options.tls = context_of(files);
  });
  EXPECT_TRUE(at_a_.wait_connected());
}

TEST_F(TlsTest, APlainPeerIsNotHeardAndBothSidesSayWhy) {
  listen();
  dial([](WireOptions& options) { options.tls = nullptr; });
  expect_refused("the peer uses TLS, this task does not: pass --tls-cert", "the peer does not use TLS");
}

TEST_F(TlsTest, APlainTaskRefusesAPeerThatSpeaksTls) {
  listen([](WireOptions& options) { options.tls = nullptr; });
  dial();
  expect_refused("the peer does not use TLS", "the peer uses TLS, this task does not");
}

// Its first bytes, those of CAF, come while the handshake begins: OpenSSL must not see them, before or after.
TEST_F(TlsTest, WhoDoesNotSpeakTlsIsNamedWheneverItsBytesCome) {
  const auto context = context_of(good_);
  for (const bool dialed : {true, false})
    for (int i = 0; i < 50; ++i) {
      SCOPED_TRACE(::testing::Message() << (dialed ? "dialed, " : "accepted, ") << i);
      int ends[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      const auto channel = context->channel(Fd(ends[0]), dialed);
      Fd other(ends[1]);
      std::thread speaker([&] { (void)!::write(other.get(), "\1\0\0\0\0\0\0\0", 8); });
      Error error;
      while (!error) error = error_of([&] { (void)channel->set_up(); });
      speaker.join();
      ASSERT_EQ(error.code(), Code::unauthenticated);
      ASSERT_NE(error.message().find("the peer does not use TLS"), std::string::npos) << error.to_string();
    }
}

TEST_F(TlsTest, TheTokenCountsBesideTheCertificate) {
  listen();
  dial([](WireOptions& options) { options.token = "guess"; });
  expect_refused("wrong token", "wrong token");
}

TEST_F(TlsTest, StrangersThatSayNothingAreFew) {
  listen([](WireOptions& options) {
    options.max_strangers = 2;
    options.handshake_timeout = 1h;
  });
  {
    RawPeer first(port_), second(port_), third(port_);
    EXPECT_TRUE(first.at_end());
    ASSERT_TRUE(at_b_.wait([&] { return at_b_.strangers.size() == 1; }));
    EXPECT_EQ(at_b_.strangers[0].code(), Code::resource_exhausted);
  }
  ASSERT_TRUE(at_b_.wait([&] { return at_b_.strangers.size() == 3; }));  // they have left
  dial();
  EXPECT_TRUE(at_a_.wait_connected());
}

TEST_F(TlsTest, StrangersThatSayNothingAreSentAway) {
  listen([](WireOptions& options) { options.handshake_timeout = 50ms; });
  for (std::size_t strangers = 1; strangers <= 2; ++strangers) {
    SCOPED_TRACE(::testing::Message() << strangers << " strangers");
    RawPeer silent(port_);
    EXPECT_TRUE(silent.at_end());
    ASSERT_TRUE(at_b_.wait([&] { return at_b_.strangers.size() == strangers; }));
    EXPECT_EQ(at_b_.strangers.back().code(), Code::deadline_exceeded);
    EXPECT_EQ(at_b_.strangers.back().message(), "TLS handshake timeout");
  }
}

// ---- Files ---------------------------------------------------------------------------------------------------------

class TlsFilesTest : public ::testing::Test {
 protected:
  void expect(const TlsFiles& files, Code code, const std::vector<std::string>& said) {
    const Error error = error_of([&] { TlsContext context(files); });
    EXPECT_EQ(error.code(), code) << error.to_string();
    for (const std::string& text : said) EXPECT_NE(error.message().find(text), std::string::npos) << error.to_string();
  }
  TemporaryDirectory directory_;
  Authority ca_{directory_.file(""), "ca"};
  TlsFiles good_ = ca_.issue("good");
};

TEST_F(TlsFilesTest, GoodOnesAreTaken) { expect(good_, Code::ok, {}); }

TEST_F(TlsFilesTest, AFileThatIsNotThereIsNamed) {
  for (std::string TlsFiles::*which : {&TlsFiles::certificate, &TlsFiles::key, &TlsFiles::ca}) {
    TlsFiles files = good_;
    files.*which = directory_.file("none.pem");
    expect(files, Code::not_found, {directory_.file("none.pem"), "No such file"});
    files.*which = "";
    expect(files, Code::invalid_argument, {"a certificate, a key and a CA"});
  }
}

TEST_F(TlsFilesTest, AFileOfSomethingElseIsNamed) {
  const std::string text = directory_.write("text", "no certificate");
  for (std::string TlsFiles::*which : {&TlsFiles::certificate, &TlsFiles::key, &TlsFiles::ca}) {
    TlsFiles files = good_;
    files.*which = text;
    expect(files, Code::invalid_argument, {text, "PEM"});
  }
}

TEST_F(TlsFilesTest, TheKeyOfAnotherCertificateIsRefused) {
  TlsFiles files = good_;
  files.key = ca_.issue("other").key;
  expect(files, Code::failed_precondition, {files.key, "does not match the certificate", files.certificate});
}

TEST_F(TlsFilesTest, AKeyThatEverybodyMayReadIsRefused) {
  const TlsFiles files = ca_.issue("open", {.readable_key = true});
  expect(files, Code::permission_denied, {files.key, "chmod 600"});
}

TEST_F(TlsFilesTest, ACertificateThatPeersWouldRefuseIsRefusedAtOnce) {
  const TlsFiles expired = ca_.issue("expired", {.from_days = -3, .to_days = -1});
  expect(expired, Code::failed_precondition, {expired.certificate, "expired on 2"});
  const TlsFiles future = ca_.issue("future", {.from_days = 1, .to_days = 2});
  expect(future, Code::failed_precondition, {future.certificate, "not yet valid"});
  TlsFiles strange = good_;
  strange.ca = Authority(directory_.file(""), "other-ca").ca_file();
  expect(strange, Code::failed_precondition,
         {strange.certificate, strange.ca, "unable to get local issuer certificate"});
}

}  // namespace
}  // namespace troupe::wire
