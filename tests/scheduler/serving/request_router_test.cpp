#include "troupe/scheduler/serving/request_router.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/long_runs.hpp"

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Nanoseconds kNever = RequestRouter::kNever;
const ServableId kOne{"m", 1}, kTwo{"m", 2};

class RequestRouting : public ::testing::Test {
 protected:
  RequestRouter::Actions up(RequestRouter::Replica replica, std::set<ServableId> ready, Nanoseconds now = 0) {
    RequestRouter::Actions out;
    router_.up(replica, std::move(ready), now, out);
    return out;
  }
  RequestRouter::Actions down(RequestRouter::Replica replica, Nanoseconds now = 0) {
    RequestRouter::Actions out;
    router_.down(replica, now, out);
    return out;
  }
  RequestRouter::Actions add(RequestRouter::Request request, const std::string& key = "", Nanoseconds deadline = kNever,
                             Nanoseconds now = 0) {
    RequestRouter::Actions out;
    router_.add(request, kOne, key, deadline, now, out);
    return out;
  }
  std::pair<bool, RequestRouter::Actions> answered(RequestRouter::Request request, RequestRouter::Replica replica,
                                                   Code code = Code::ok, std::int64_t retry = 0) {
    RequestRouter::Actions out;
    const bool first = router_.answered(request, replica, code, retry, 0, out);
    return {first, out};
  }
  RequestRouter::Actions expired(Nanoseconds now) {
    RequestRouter::Actions out;
    router_.expired(now, out);
    return out;
  }

  RequestRouter router_{{.attempts = 3, .patience = 10, .most_waiting = 2}};
};

TEST_F(RequestRouting, GoesToThoseWithTheFewest) {
  up(1, {kOne});
  up(2, {kOne});
  up(3, {kTwo});
  std::map<RequestRouter::Replica, int> got;
  for (RequestRouter::Request request = 0; request < 10; ++request) ++got[add(request).send.at(0).replica];
  EXPECT_EQ(got[1], 5);
  EXPECT_EQ(got[2], 5);
  for (RequestRouter::Request request = 0; request < 10; ++request) answered(request, 1);  // those that it has
  EXPECT_EQ(router_.under_way(1), 0u);
  for (RequestRouter::Request request = 20; request < 25; ++request) EXPECT_EQ(add(request).send.at(0).replica, 1u);
}

TEST_F(RequestRouting, KeysMeetAgainAndOnlyThoseOfALostReplicaMove) {
  for (const RequestRouter::Replica replica : {1, 2, 3}) up(replica, {kOne});
  std::map<std::string, RequestRouter::Replica> home;
  RequestRouter::Request request = 0;
  for (int key = 0; key < 300; ++key)
    home[std::to_string(key)] = add(request++, std::to_string(key)).send.at(0).replica;
  std::map<RequestRouter::Replica, int> shares;
  for (const auto& [key, replica] : home) ++shares[replica];
  for (const RequestRouter::Replica replica : {1, 2, 3}) EXPECT_GT(shares[replica], 70);
  down(2);
  for (const auto& [key, replica] : home) {
    const RequestRouter::Replica now = add(request++, key).send.at(0).replica;
    if (replica != 2)
      EXPECT_EQ(now, replica) << key;
    else
      EXPECT_NE(now, 2u) << key;
  }
}

TEST_F(RequestRouting, WhatALostReplicaHadIsSentToAnother) {
  up(1, {kOne});
  EXPECT_THAT(add(7).send, ElementsAre(RequestRouter::Send{7, 1}));
  up(2, {kOne});
  EXPECT_THAT(down(1).send, ElementsAre(RequestRouter::Send{7, 2}));
  EXPECT_FALSE(answered(7, 1).first);  // too late: another has it
  EXPECT_TRUE(answered(7, 2).first);
  EXPECT_FALSE(answered(7, 2).first);
  EXPECT_EQ(router_.requests(), 0u);
}

TEST_F(RequestRouting, AFullReplicaPassesARequestOn) {
  up(1, {kOne});
  up(2, {kOne});
  const RequestRouter::Replica first = add(7).send.at(0).replica, other = 3 - first;
  const auto [mine, actions] = answered(7, first, Code::unavailable, 50);
  EXPECT_FALSE(mine);
  EXPECT_THAT(actions.send, ElementsAre(RequestRouter::Send{7, other}));
  EXPECT_TRUE(answered(7, other, Code::unavailable, 20).first);  // nobody is left: its refusal is the answer
  EXPECT_EQ(router_.requests(), 0u);
  EXPECT_TRUE(add(8).fail.empty());
  EXPECT_TRUE(answered(8, router_.under_way(1) == 1 ? 1 : 2, Code::invalid_argument).first);  // the client's fault
}

TEST_F(RequestRouting, WaitsForAReplicaAndNotForever) {
  EXPECT_THAT(add(1).send, IsEmpty());
  EXPECT_EQ(router_.next_time(), 10);
  EXPECT_THAT(up(4, {kOne}, 5).send, ElementsAre(RequestRouter::Send{1, 4}));
  EXPECT_EQ(router_.next_time(), std::nullopt);
  EXPECT_THAT(down(4, 6).send, IsEmpty());
  EXPECT_EQ(router_.next_time(), 16);
  EXPECT_THAT(expired(15).fail, IsEmpty());
  const auto failed = expired(16).fail;
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].error.to_string(), "unavailable: no replica has m/1");
  EXPECT_GT(failed[0].retry_after_ms, 0);
  add(2);
  add(3);
  EXPECT_THAT(add(4).fail.at(0).error.message(), HasSubstr("2 requests wait"));
}

TEST_F(RequestRouting, ARequestThatKillsReplicasIsNotSentOnForever) {
  for (const RequestRouter::Replica replica : {1, 2, 3, 4}) up(replica, {kOne});
  RequestRouter::Actions actions = add(1);
  for (int i = 0; i < 2; ++i) actions = down(actions.send.at(0).replica);
  actions = down(actions.send.at(0).replica);
  EXPECT_THAT(actions.send, IsEmpty());
  EXPECT_THAT(actions.fail.at(0).error.message(), HasSubstr("3 replicas were lost"));
}

TEST_F(RequestRouting, DeadlinesAndCancellations) {
  up(1, {kOne});
  add(1, "", 20);
  EXPECT_EQ(router_.next_time(), 20);
  const auto late = expired(20).fail;
  EXPECT_EQ(late.at(0).error.code(), Code::deadline_exceeded);
  EXPECT_EQ(late.at(0).drops, 1u);
  add(2, "", 30);
  EXPECT_EQ(router_.cancel(2), 1u);
  EXPECT_EQ(router_.cancel(2), std::nullopt);
  EXPECT_EQ(router_.next_time(), std::nullopt);
  EXPECT_EQ(router_.under_way(1), 0u);
}

// Replicas come, go, refuse and answer at random, beside a model of what each has: each request is answered exactly
// once, by a replica that had it last, and nothing is kept.
TEST(RequestRoutingAtRandom, AnswersEachRequestOnce) {
  const int seeds = is_long_run() ? 1000 : 100;
  for (int seed = 0; seed < seeds; ++seed) {
    std::mt19937 draw(static_cast<unsigned>(seed));
    const auto one_in = [&](unsigned n) { return draw() % n == 0; };
    RequestRouter router({.attempts = 3, .patience = 50, .most_waiting = 8});
    std::map<RequestRouter::Replica, std::set<RequestRouter::Request>> has;  // those that are up
    std::set<RequestRouter::Request> open;
    RequestRouter::Request next = 0;
    Nanoseconds now = 0;
    const auto act = [&](const RequestRouter::Actions& actions) {
      for (const auto& send : actions.send) {
        ASSERT_TRUE(has.contains(send.replica)) << seed;
        for (const auto& [replica, requests] : has) ASSERT_FALSE(requests.contains(send.request)) << seed;
        has[send.replica].insert(send.request);
      }
      for (const auto& fail : actions.fail) {
        ASSERT_EQ(open.erase(fail.request), 1u) << seed;
        for (auto& [replica, requests] : has) requests.erase(fail.request);
      }
    };
    for (int step = 0; step < 400; ++step) {
      now += draw() % 5;
      RequestRouter::Actions actions;
      const auto replica = static_cast<RequestRouter::Replica>(draw() % 4);
      if (one_in(12)) {
        if (has.erase(replica) > 0)
          router.down(replica, now, actions);
        else {
          has[replica];
          router.up(replica, one_in(4) ? std::set<ServableId>{} : std::set<ServableId>{kOne}, now, actions);
        }
      } else if (one_in(2)) {
        open.insert(next);
        router.add(next++, kOne, one_in(3) ? "key" : "", one_in(4) ? now + draw() % 60 : kNever, now, actions);
      } else if (const auto at = has.find(replica); at != has.end() && !at->second.empty()) {
        const RequestRouter::Request request = *at->second.begin();
        at->second.erase(at->second.begin());
        if (one_in(8)) {
          ASSERT_EQ(router.cancel(request), replica) << seed;
          open.erase(request);
        } else if (router.answered(request, replica, one_in(5) ? Code::unavailable : Code::ok, 5, now, actions)) {
          ASSERT_EQ(open.erase(request), 1u) << seed;
        }
      } else {
        router.expired(now, actions);
      }
      act(actions);
      ASSERT_EQ(router.requests(), open.size()) << seed;
      for (const auto& [up, requests] : has) ASSERT_EQ(router.under_way(up), requests.size()) << seed;
    }
    while (router.next_time()) {
      RequestRouter::Actions actions;
      now = *router.next_time();
      router.expired(now, actions);
      act(actions);
    }
    for (const auto& [replica, requests] : std::map(has))
      for (const RequestRouter::Request request : std::set(requests)) {
        RequestRouter::Actions actions;
        ASSERT_TRUE(router.answered(request, replica, Code::ok, 0, now, actions)) << seed;
        open.erase(request);
      }
    ASSERT_THAT(open, IsEmpty()) << seed;
    ASSERT_EQ(router.waiting(), 0u) << seed;
  }
}

}  // namespace
}  // namespace troupe::testing
