#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <functional>

#include "tests/error_of.hpp"
#include <troupe/actors/wire/authentication.hpp>

namespace troupe::wire {
namespace {

using testing::error_of;

const std::string kSecret = "4d0bfe6a1c9e83257fa0d46b92e8c173";
const TaskName kDialler{"worker", 1}, kListener{"ps", 0};
const std::string kAddress = "127.0.0.1:7701";

std::shared_ptr<const TokenKey> key_of(const std::string& token, const std::string& cluster = "demo") {
  return std::make_shared<const TokenKey>(token, cluster);
}

struct Ends {
  Authentication dialler = Authentication::dial(
      key_of(kSecret), {kDialler, Incarnation{5}, Authentication::Purpose::link, kAddress, ""}, kListener);
  Authentication listener =
      Authentication::listen(key_of(kSecret), {.task = kListener, .incarnation = Incarnation{6}, .address = kAddress});
};

// All that `from` has to send, taken from it.
std::string taken(Authentication& from) {
  const auto out = from.to_send();
  std::string bytes(out.begin(), out.end());
  from.sent(bytes.size());
  return bytes;
}

// Gives `to` the bytes, so many at once. Throws what it throws.
void give(Authentication& to, std::string_view bytes, std::size_t at_once = 1000) {
  while (!bytes.empty()) {
    const auto place = to.to_receive();
    ASSERT_FALSE(place.empty()) << bytes.size() << " bytes too many";
    const std::size_t n = std::min({place.size(), bytes.size(), at_once});
    std::copy_n(bytes.begin(), n, place.begin());
    to.received(n);
    bytes.remove_prefix(n);
  }
}

void run(Authentication& dialler, Authentication& listener, std::size_t at_once = 1000) {
  give(listener, taken(dialler), at_once);
  give(dialler, taken(listener), at_once);
  give(listener, taken(dialler), at_once);
}

TEST(Authentication, ProvesBothEndsToEachOther) {
  for (const std::size_t at_once : {1, 7, 1000}) {
    SCOPED_TRACE(::testing::Message() << at_once << " bytes at once");
    Ends ends;
    EXPECT_FALSE(ends.dialler.done() || ends.listener.done());
    run(ends.dialler, ends.listener, at_once);
    EXPECT_TRUE(ends.dialler.done() && ends.listener.done());
    EXPECT_EQ(ends.listener.peer(), (Authentication::Peer{kDialler, Incarnation{5}}));
    EXPECT_EQ(ends.dialler.peer(), (Authentication::Peer{kListener, Incarnation{6}}));
    EXPECT_EQ(ends.listener.purpose(), Authentication::Purpose::link);
  }
}

// Of the same bytes as the messages have, by another way of putting them together.
TEST(Authentication, AProofIsHmacSha256OfAllThatTheTwoHaveSaid) {
  Ends ends;
  const std::string opening = taken(ends.dialler);
  ASSERT_EQ(opening.size(), 184u);
  EXPECT_EQ(opening.substr(0, 16), std::string("TROUPE\1\1\5\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(opening.substr(48, 8), std::string("worker\0\0", 8));
  EXPECT_EQ(opening.substr(112, 8), std::string("\1\0\0\0ps\0\0", 8));
  give(ends.listener, opening);
  const std::string answer = taken(ends.listener);
  ASSERT_EQ(answer.size(), 80u);
  std::string text = std::string("troupe listener") + '\0' + opening + answer.substr(0, 48);
  text += std::string("\x0e\0\0\0", 4) + kAddress + std::string(4, '\0');
  unsigned char key[32], proof[32];
  unsigned size = 0;
  ASSERT_EQ(EVP_Digest(kSecret.data(), kSecret.size(), key, nullptr, EVP_sha256(), nullptr), 1);
  ASSERT_TRUE(HMAC(EVP_sha256(), key, sizeof key, reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                   proof, &size));
  EXPECT_EQ(answer.substr(48), std::string(reinterpret_cast<const char*>(proof), size));
}

// Neither learns anything that the other could use, whoever it is.
TEST(Authentication, NothingOfTheSecretIsSentToWhoDoesNotKnowIt) {
  Ends ends;
  Authentication impostor =
      Authentication::listen(key_of("another-token-of-the-launcher"), {kListener, Incarnation{6}, {}, kAddress, ""});
  give(impostor, taken(ends.dialler));
  const Error error = error_of([&] { give(ends.dialler, taken(impostor)); });
  EXPECT_EQ(error.code(), Code::unauthenticated);
  EXPECT_TRUE(ends.dialler.to_send().empty()) << "the dialler's proof must not leave";
  EXPECT_FALSE(ends.dialler.done());
}

TEST(Authentication, WhoDoesNotKnowTheTokenIsNotHeard) {
  for (const std::string& token : {std::string(), kSecret + "x", std::string("guess")}) {
    SCOPED_TRACE(::testing::Message() << "token '" << token << "'");
    Ends ends;
    Authentication stranger = Authentication::dial(
        key_of(token), {.task = kDialler, .incarnation = Incarnation{5}, .address = kAddress}, kListener);
    give(ends.listener, taken(stranger));
    static_cast<void>(taken(ends.listener));
    EXPECT_EQ(error_of([&] { give(ends.listener, std::string(32, '\0')); }).code(), Code::unauthenticated);
    EXPECT_FALSE(ends.listener.done());
  }
}

// The attack of somebody who has taken the port of a task that died: he passes on what the two say.
TEST(Authentication, ARelayOverAnotherPortFails) {
  Ends ends;
  Authentication elsewhere =
      Authentication::listen(key_of(kSecret), {kListener, Incarnation{6}, {}, "127.0.0.1:7702", ""});
  give(elsewhere, taken(ends.dialler));
  EXPECT_EQ(error_of([&] { give(ends.dialler, taken(elsewhere)); }).code(), Code::unauthenticated);
  EXPECT_TRUE(ends.dialler.to_send().empty());
}

TEST(Authentication, ARelayBetweenTwoConnectionsOfTlsFails) {
  Authentication dialler = Authentication::dial(
      key_of(kSecret), {kDialler, Incarnation{5}, Authentication::Purpose::link, kAddress, std::string(32, 'a')},
      kListener);
  Authentication listener =
      Authentication::listen(key_of(kSecret), {kListener, Incarnation{6}, {}, kAddress, std::string(32, 'b')});
  give(listener, taken(dialler));
  EXPECT_EQ(error_of([&] { give(dialler, taken(listener)); }).code(), Code::unauthenticated);
}

// What one connection has shown proves nothing over another: not to the same side, and not to the other.
TEST(Authentication, AProofIsGoodForOneConnectionInOneRole) {
  Ends ends;
  const std::string opening = taken(ends.dialler);
  give(ends.listener, opening);
  const std::string answer = taken(ends.listener);
  give(ends.dialler, answer);
  const std::string proof = taken(ends.dialler);
  Ends again;
  give(again.listener, opening);
  EXPECT_EQ(error_of([&] { give(again.listener, proof); }).code(), Code::unauthenticated) << "replayed to the listener";
  static_cast<void>(taken(again.dialler));
  EXPECT_EQ(error_of([&] { give(again.dialler, answer); }).code(), Code::unauthenticated) << "replayed to the dialler";
  Ends reflected;
  give(reflected.listener, opening);
  const std::string own = taken(reflected.listener);
  EXPECT_EQ(error_of([&] { give(reflected.listener, own.substr(48)); }).code(), Code::unauthenticated)
      << "its own proof";
}

// Every byte that is said is covered by a proof.
TEST(Authentication, NoByteCanBeChangedOnTheWay) {
  for (std::size_t i = 0;
       i < Authentication::kOpeningBytes + Authentication::kAnswerBytes + Authentication::kProofBytes; ++i) {
    Ends ends;
    const Error error = error_of([&] {
      std::size_t begin = 0;
      for (int turn = 0; turn < 3; ++turn) {
        std::string bytes = taken(turn == 1 ? ends.listener : ends.dialler);
        if (i >= begin && i < begin + bytes.size()) bytes[i - begin] = static_cast<char>(bytes[i - begin] ^ 1);
        begin += bytes.size();
        give(turn == 1 ? ends.dialler : ends.listener, bytes);
      }
    });
    EXPECT_FALSE(error.ok()) << i;
    EXPECT_FALSE(ends.dialler.done() && ends.listener.done()) << i;
  }
}

TEST(Authentication, OtherProtocolsAreNamedAtTheirFirstByte) {
  const auto refusal = [](const std::string& bytes) {
    Ends ends;
    return error_of([&] { give(ends.listener, bytes); });
  };
  for (const char* bytes : {"GET / HTTP/1.1\r\n\r\n", "\x01", "SSH-2.0"})
    EXPECT_EQ(refusal(bytes).message(), "the peer is not a Troupe task of this version") << bytes;
  EXPECT_EQ(refusal("\x16\x03\x01").code(), Code::unauthenticated);
  EXPECT_NE(refusal("\x16\x03\x01").message().find("the peer uses TLS, this task does not"), std::string::npos);
  EXPECT_NE(refusal("TROUPE\2").message().find("the peer uses authentication version 2, this task 1:"),
            std::string::npos);
  EXPECT_NE(refusal("TROUPE\1\7").message().find("unknown purpose 7 of a connection"), std::string::npos);
}

TEST(Authentication, WhatTheNamesAreIsBounded) {
  EXPECT_EQ(error_of([] {
              Authentication::dial(key_of(kSecret), {{std::string(65, 'j'), 0}, {}, {}, "", ""}, kListener);
            }).code(),
            Code::invalid_argument);
  for (const std::string& job : {std::string("a b"), std::string("a\n"), std::string()}) {
    Ends ends;
    Authentication odd =
        Authentication::dial(key_of(kSecret), {{job, 0}, {}, Authentication::Purpose::link, "", ""}, kListener);
    EXPECT_EQ(error_of([&] { give(ends.listener, taken(odd)); }).code(), Code::failed_precondition) << job;
  }
  for (const std::string& job : {std::string(64, 'j'), std::string("gr\xc3\xb6\xc3\x9f"
                                                                   "e")}) {
    Ends ends;
    Authentication good =
        Authentication::dial(key_of(kSecret), {{job, -1}, {}, Authentication::Purpose::link, kAddress, ""}, kListener);
    run(good, ends.listener);
    EXPECT_EQ(ends.listener.peer().task, (TaskName{job, -1})) << job;
  }
}

// ---- Tokens --------------------------------------------------------------------------------------------------------

TEST(Token, IsStrongIfItMayHave128RandomBits) {
  for (const char* strong : {"0123456789abcdef0123456789abcdef", "4D0BFE6A1C9E83257FA0D46B92E8C173AA"})
    EXPECT_TRUE(is_strong_token(strong)) << strong;
  for (const char* weak : {"", "secret", "my-super-secret-cluster-token-of-mine", "0123456789abcdef0123456789abcde",
                           "deadbeefdeadbeefdeadbeefdeadbeef", "My0Super1Secret2Cluster3Token4Of5Mine"})
    EXPECT_FALSE(is_strong_token(weak)) << weak;
}

TEST(Token, IsComparedWhole) {
  EXPECT_TRUE(equal_secrets("", ""));
  EXPECT_TRUE(equal_secrets("abc", "abc"));
  EXPECT_FALSE(equal_secrets("abc", "abd"));
  EXPECT_FALSE(equal_secrets("abc", "xbc"));
  EXPECT_FALSE(equal_secrets("abc", "abcd"));
  EXPECT_FALSE(equal_secrets("abc", ""));
}

// A thought-up token cannot be tried out by the million: its key costs scrypt, salted with the cluster's name.
TEST(Token, ThatIsWeakGoesThroughScrypt) {
  const TokenKey here("secret", "demo"), there("secret", "other");
  EXPECT_FALSE(std::ranges::equal(here.bytes(), there.bytes()));
  unsigned char key[32];
  ASSERT_EQ(EVP_PBE_scrypt("secret", 6, reinterpret_cast<const unsigned char*>("troupe demo"), 11, 16384, 8, 1,
                           64 << 20, key, sizeof key),
            1);
  EXPECT_TRUE(std::ranges::equal(here.bytes(), std::span(key)));
}

}  // namespace
}  // namespace troupe::wire
