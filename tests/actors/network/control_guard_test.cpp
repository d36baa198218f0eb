#include <gtest/gtest.h>

#include <vector>

#include "tests/error_of.hpp"
#include <troupe/actors/network/control_guard.hpp>

namespace troupe {
namespace {

using testing::error_of;

std::string big_endian(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
  return out;
}

struct Header {
  int operation = 2, flags = 0;
  std::uint64_t payload = 0, data = 0, source = 7, destination = 8;
  std::string bytes() const {
    return big_endian(static_cast<std::uint64_t>(operation), 1) + std::string(2, '\0') +
           big_endian(static_cast<std::uint64_t>(flags), 1) + big_endian(payload, 4) + big_endian(data, 8) +
           big_endian(source, 8) + big_endian(destination, 8);
  }
};

// The ids of nodes, as CAF writes them: their kind, process and host.
const std::string kOwn = std::string("kindkind") + std::string(24, 'o');
const std::string kPeer = std::string("kindkind") + std::string(24, 'p');
const std::string kThird = std::string("kindkind") + std::string(24, 't');

std::string text(const std::string& s) { return static_cast<char>(s.size()) + s; }
std::string message(const std::string& types, const std::string& values) {
  return std::string(3, '\0') + text("@<>" + types) + values;
}
std::string error_value(const std::string& context) {
  return "\1" + big_endian(5, 8) + std::string(2, '\0') + text(context);
}

// A guard of the side that was called, whose caller has introduced itself.
ControlGuard met() {
  ControlGuard guard(kOwn, false);
  EXPECT_EQ(guard.check_header(Header{.operation = 1, .payload = 32, .source = 0, .destination = 0}.bytes()), 32u);
  guard.check_payload(kPeer);
  EXPECT_EQ(guard.peer(), kPeer);
  return guard;
}

void give(ControlGuard& guard, Header header, const std::string& payload) {
  header.payload = payload.size();
  if (guard.check_header(header.bytes()) > 0) guard.check_payload(payload);
}
Code code_of(Header header, const std::string& payload) {
  ControlGuard guard = met();
  return error_of([&] { give(guard, header, payload); }).code();
}

TEST(ControlGuard, OnlyWhatWasAskedIsAnsweredAndOnce) {
  constexpr std::uint64_t kAnswer = 0x8000000000000000;
  ControlGuard guard = met();
  const std::string reply = message("+troupe::Reply", std::string("\0", 1) + text("") + text(""));
  const auto answers = [&](std::uint64_t actor, std::uint64_t request) {
    return error_of([&] { give(guard, {.data = kAnswer | request, .destination = actor}, reply); }).ok();
  };
  EXPECT_FALSE(answers(5, 9));
  Header asks{.payload = 3, .data = 9, .source = 5};
  guard.sends(Header{.operation = 6}.bytes() + asks.bytes() + "abc" + Header{.payload = 2, .source = 6}.bytes() + "ab");
  EXPECT_FALSE(answers(6, 9));
  EXPECT_FALSE(answers(5, 8));
  EXPECT_TRUE(answers(5, 9));
  EXPECT_FALSE(answers(5, 9));
}

TEST(ControlGuard, WhatNodesSayPasses) {
  for (const auto& [types, values] : std::vector<std::pair<std::string, std::string>>{
           {"+troupe::HelloRequest+@strong_actor_ptr", text("welcome") + big_endian(9, 8) + kPeer},
           {"+troupe::RegisterGraphRequest", text("graph")},
           {"+troupe::CloseSessionRequest", big_endian(3, 8)},
           {"+troupe::ResetContainerRequest", text("container")},
           {"+troupe::Reply", std::string("\5") + text("why") + text("")},
           {"+@error", error_value("@<>")},
           {"+@error", error_value("@<>")},
           {"+@error", error_value("@<>+@str") + text("more")}})
    EXPECT_EQ(code_of({}, message(types, values)), Code::ok) << types;
  EXPECT_EQ(code_of({.operation = 4}, kPeer + kOwn), Code::ok);
  EXPECT_EQ(code_of({.operation = 5}, kPeer + kOwn + error_value("@<>")), Code::ok);
  EXPECT_EQ(code_of({.operation = 6}, ""), Code::ok);
  EXPECT_EQ(code_of({.operation = 1, .flags = 2}, kPeer), Code::ok);
  ControlGuard dialled(kOwn, true);
  give(dialled, {.operation = 0}, kPeer + "\1" + text("caf") + big_endian(4, 8) + "\2" + text("a") + text("b"));
  EXPECT_EQ(dialled.peer(), kPeer);
}

// What has ended processes, and what could.
TEST(ControlGuard, NothingElseDoes) {
  const std::string hello = message("+troupe::RegisterGraphRequest", text("graph"));
  const std::vector<std::pair<Header, std::string>> cases = {
      {{.operation = 1}, ""},                    // a handshake without payload
      {{.operation = 0}, kPeer},                 // of a server, to one that was called
      {{.operation = 1}, kPeer},                 // again
      {{.operation = 1, .flags = 2}, kThird},    // for another
      {{.operation = 3}, kPeer + kOwn + hello},  // to be passed on
      {{.operation = 7}, ""},                    // nothing
      {{.data = 0x3000000000000000}, hello},     // of a stream
      {{.data = 0x2000000000000000}, hello},
      {{}, ""},
      {{}, hello.substr(0, hello.size() - 1)},
      {{}, hello + "x"},
      {{}, "\1" + hello.substr(1)},    // forwarded
      {{}, message("+@message", "")},  // nested
      {{}, message("+troupe::RegisterGraphRequest+@message", "")},
      {{}, message("+@error", error_value("@<>+@message"))},
      {{}, message("+@error", error_value("@<>+@error"))},
      {{}, message("+@exit", "")},
      {{}, message("+@atom+@strong_actor_ptr", "")},
      {{}, message("", "")},
      {{}, message("+troupe::RegisterGraphRequest", "\xff\xff\xff\xff\x0f")},      // 4 GiB
      {{}, message("+troupe::RegisterGraphRequest", "\xff\xff\xff\xff\xff\xff")},  // a size without end
      {{}, message("+troupe::HelloRequest+@strong_actor_ptr", text("") + big_endian(9, 8) + kThird)},
      {{}, message("+troupe::HelloRequest+@strong_actor_ptr", text("") + big_endian(9, 8) + kOwn)},
      {{.operation = 4}, kThird + kOwn},
      {{.operation = 4}, kPeer + kThird},
      {{.operation = 5}, kPeer + kThird + std::string(1, '\0')},
      {{.operation = 6}, "x"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i)
    EXPECT_EQ(code_of(cases[i].first, cases[i].second), Code::invalid_argument) << i;
  ControlGuard guard = met();
  EXPECT_EQ(error_of([&] { guard.check_header(Header{.payload = 1ull << 31}.bytes()); }).code(),
            Code::invalid_argument);
}

TEST(ControlGuard, NobodyIsHeardBeforeItHasIntroducedItself) {
  for (const Header& header : {Header{.payload = 8}, Header{.operation = 4, .payload = 64}, Header{.operation = 6}}) {
    ControlGuard guard(kOwn, false);
    EXPECT_EQ(error_of([&] { guard.check_header(header.bytes()); }).code(), Code::invalid_argument)
        << "operation " << header.operation << ", payload " << header.payload;
  }
  ControlGuard called(kOwn, false), dialled(kOwn, true);
  EXPECT_EQ(error_of([&] { give(called, {.operation = 1}, kOwn); }).code(), Code::invalid_argument) << "itself";
  EXPECT_EQ(error_of([&] { give(dialled, {.operation = 1}, kPeer); }).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace troupe
