#include "troupe/scheduler/serving/servable_manager.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/error_of.hpp"

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Action = ServableManager::Action;
using Aspired = ServableManager::Aspired;
using Transition = ServableManager::Transition;

template <class F>
std::string said(F&& f) {
  return error_of(f).to_string();
}

Action load(std::int64_t version, const char* model = "digits") { return {Action::load, {model, version}}; }
Action unload(std::int64_t version, const char* model = "digits") { return {Action::unload, {model, version}}; }

struct Managed : ServableManager {
  using ServableManager::ServableManager;
  void want(std::vector<std::int64_t> versions, std::size_t bytes = 10, const char* model = "digits") {
    std::vector<Aspired> all;
    for (const std::int64_t version : versions) all.push_back({version, bytes});
    aspire(model, all, 0);
  }
  // Loads version 1 of 10 bytes.
  void serve_one() {
    want({1});
    EXPECT_THAT(due(0), ElementsAre(load(1)));
    loaded({"digits", 1}, 10, 0);
  }
  ServableState state(std::int64_t version, const char* model = "digits") const { return found(version, model).state; }
  std::string error(std::int64_t version, const char* model = "digits") const {
    return found(version, model).error.to_string();
  }
  Status found(std::int64_t version, const char* model) const {
    for (const Status& s : status(model))
      if (s.id.version == version) return s;
    ADD_FAILURE() << model << " has no version " << version;
    return {};
  }
};

TEST(ServableManager, ANewVersionIsReadyBeforeTheOldOneGoes) {
  Managed m{ServableManager::Options{}};
  m.serve_one();
  m.want({2});
  EXPECT_THAT(m.due(1), ElementsAre(load(2)));
  EXPECT_THAT(m.ready("digits"), ElementsAre(1));
  m.loaded({"digits", 2}, 10, 2);
  EXPECT_THAT(m.ready("digits"), ElementsAre(1, 2));
  EXPECT_THAT(m.due(2), IsEmpty()) << "requests may have version 1";
  EXPECT_THAT(m.ready("digits"), ElementsAre(2));
  EXPECT_EQ(m.state(1), ServableState::quiescing);
  EXPECT_TRUE(m.quiesced({"digits", 1}));
  EXPECT_THAT(m.due(3), ElementsAre(unload(1)));
  EXPECT_EQ(m.bytes(), 20u);
  m.unloaded({"digits", 1}, 4);
  EXPECT_EQ(m.state(1), ServableState::unloaded);
  EXPECT_EQ(m.bytes(), 10u);
  EXPECT_TRUE(m.settled());
}

TEST(ServableManager, PreservingResourcesTheOldVersionGoesFirst) {
  Managed m({.transition = Transition::preserve_resources});
  m.serve_one();
  m.want({2});
  EXPECT_THAT(m.due(1), IsEmpty());
  EXPECT_THAT(m.ready("digits"), IsEmpty());
  m.quiesced({"digits", 1});
  EXPECT_THAT(m.due(1), ElementsAre(unload(1)));
  EXPECT_THAT(m.due(1), IsEmpty());
  EXPECT_THAT(m.error(2), HasSubstr("unavailable: waits until versions that are no longer wanted are unloaded"));
  m.unloaded({"digits", 1}, 2);
  EXPECT_THAT(m.due(2), ElementsAre(load(2)));
}

TEST(ServableManager, AVersionThatFailsLeavesTheOldOneReady) {
  Managed m({.attempts = 3, .first_pause = 10, .longest_pause = 15});
  m.serve_one();
  m.want({2});
  const ServableId two{"digits", 2};
  EXPECT_THAT(m.due(0), ElementsAre(load(2)));
  m.failed(two, {Code::data_loss, "bad file"}, 5);
  EXPECT_EQ(m.next_attempt(), 15);
  EXPECT_FALSE(m.settled());
  EXPECT_THAT(m.due(14), IsEmpty());
  EXPECT_THAT(m.due(15), ElementsAre(load(2)));
  m.failed(two, {Code::data_loss, "bad file"}, 20);
  EXPECT_EQ(m.next_attempt(), 35) << "twice the first pause, at most the longest";
  EXPECT_THAT(m.due(35), ElementsAre(load(2)));
  m.failed(two, {Code::data_loss, "bad file"}, 40);
  EXPECT_EQ(m.state(2), ServableState::error);
  EXPECT_EQ(m.error(2), "data_loss: bad file");
  EXPECT_THAT(m.due(1000), IsEmpty());
  EXPECT_THAT(m.ready("digits"), ElementsAre(1));
  EXPECT_TRUE(m.settled());
  m.retry(two, 1000);
  EXPECT_THAT(m.due(1000), ElementsAre(load(2)));
  m.loaded(two, 10, 1001);
  EXPECT_THAT(m.due(1001), IsEmpty());
  EXPECT_THAT(m.ready("digits"), ElementsAre(2));
}

TEST(ServableManager, AVersionThatDoesNotFitWaitsAndSaysWhy) {
  Managed m({.memory = 15});
  m.serve_one();
  m.want({2});
  EXPECT_THAT(m.due(0), IsEmpty());
  EXPECT_EQ(m.state(2), ServableState::fresh);
  EXPECT_EQ(m.error(2), "resource_exhausted: needs 10 bytes; 10 of 15 are taken");
  EXPECT_THAT(m.ready("digits"), ElementsAre(1));
  m.want({2}, 5);
  EXPECT_THAT(m.due(0), ElementsAre(load(2)));
  EXPECT_EQ(m.found(2, "digits").error.to_string(), "resource_exhausted: needs 10 bytes; 10 of 15 are taken");
  m.loaded({"digits", 2}, 5, 0);
  EXPECT_TRUE(m.found(2, "digits").error.ok());
}

TEST(ServableManager, AVersionThatTakesMoreThanItSaidIsUnloadedAgain) {
  Managed m({.memory = 15});
  m.want({1});
  m.due(0);
  m.loaded({"digits", 1}, 16, 0);
  EXPECT_THAT(m.ready("digits"), IsEmpty());
  m.want({1});
  EXPECT_THAT(m.due(0), ElementsAre(unload(1))) << "though it is still wanted";
  m.unloaded({"digits", 1}, 0);
  EXPECT_EQ(m.state(1), ServableState::error);
  EXPECT_THAT(m.error(1), HasSubstr("took 16 bytes, more than its files told; 15 of 15 were free"));
}

TEST(ServableManager, WhatIsWantedAgainWhileRequestsEndStaysReady) {
  Managed m{ServableManager::Options{}};
  m.serve_one();
  m.want({});
  EXPECT_THAT(m.due(0), IsEmpty());
  EXPECT_EQ(m.state(1), ServableState::quiescing);
  m.want({1});
  EXPECT_EQ(m.state(1), ServableState::ready);
  EXPECT_FALSE(m.quiesced({"digits", 1})) << "the request ended too late";
  EXPECT_THAT(m.due(0), IsEmpty());
  m.want({});
  m.due(0);
  m.quiesced({"digits", 1});
  EXPECT_THAT(m.due(0), ElementsAre(unload(1)));
  m.want({1});
  m.unloaded({"digits", 1}, 0);
  EXPECT_THAT(m.due(0), ElementsAre(load(1)));
}

TEST(ServableManager, WhatIsNoLongerWantedWhileItLoadsIsNeverReady) {
  Managed m{ServableManager::Options{}};
  m.want({1});
  m.due(0);
  m.want({});
  m.loaded({"digits", 1}, 10, 0);
  EXPECT_THAT(m.ready("digits"), IsEmpty());
  EXPECT_THAT(m.due(0), ElementsAre(unload(1)));
  m.unloaded({"digits", 1}, 0);
  m.due(0);
  EXPECT_FALSE(m.has("digits"));
  m.want({1});
  m.due(0);
  m.want({});
  m.failed({"digits", 1}, {Code::internal, "gone"}, 0);
  EXPECT_THAT(m.due(0), IsEmpty());
}

TEST(ServableManager, ModelsWithoutAReadyVersionComeFirstThenNewVersions) {
  Managed m({.loads_at_once = 1});
  m.serve_one();
  m.want({1, 2, 3});
  m.want({7}, 10, "words");
  EXPECT_THAT(m.due(0), ElementsAre(load(7, "words")));
  EXPECT_THAT(m.due(0), IsEmpty());
  m.loaded({"words", 7}, 10, 0);
  EXPECT_THAT(m.due(0), ElementsAre(load(3)));
  m.failed({"digits", 3}, {Code::internal, ""}, 0);
  EXPECT_THAT(m.due(0), ElementsAre(load(2))) << "a version in a pause does not hold up others";
}

TEST(ServableManager, EndedVersionsAreRemembered) {
  Managed m{ServableManager::Options{}};
  for (std::int64_t v = 1; v <= 20; ++v) {
    m.want({v});
    while (true) {
      const auto actions = m.due(0);
      if (actions.empty()) {
        if (v == 1 || m.state(v - 1) == ServableState::unloaded) break;
        m.quiesced({"digits", v - 1});
        continue;
      }
      for (const Action& a : actions) a.kind == Action::load ? m.loaded(a.id, 10, 0) : m.unloaded(a.id, 0);
    }
  }
  const auto all = m.status("digits");
  ASSERT_EQ(all.size(), ServableManager::kMostEnded + 1);
  EXPECT_EQ(all.front().id.version, 12);
  EXPECT_EQ(all.back().state, ServableState::ready);
}

TEST(ServableManager, RefusesWhatMakesNoSense) {
  EXPECT_THAT(said([] { ServableManager({.attempts = 0}); }), HasSubstr("must be at least 1"));
  Managed m{ServableManager::Options{}};
  EXPECT_EQ(said([&] { m.want({3, 3}); }), "invalid_argument: model 'digits': version 3 is given twice");
  EXPECT_EQ(said([&] { m.want({-1}); }), "invalid_argument: model 'digits': version -1 is negative");
  EXPECT_FALSE(m.has("digits"));
  EXPECT_EQ(said([&] { m.loaded({"digits", 1}, 1, 0); }), "not_found: there is no servable digits/1");
  m.want({1});
  EXPECT_EQ(said([&] {
              m.loaded({"digits", 1}, 1, 0);
            }),
            "failed_precondition: servable digits/1 is New and cannot be loaded: it would have to be Loading");
  EXPECT_THAT(said([&] { m.retry({"digits", 1}, 0); }), HasSubstr("would have to be Error"));
}

// A world of sources, slow and failing loaders, and requests that hold versions; with a ledger of its own.
class World {
 public:
  explicit World(std::uint64_t seed)
      : random_(seed),
        options_{.transition = draw(2) ? Transition::preserve_availability : Transition::preserve_resources,
                 .memory = 60 + draw(100),
                 .loads_at_once = 1 + draw(3),
                 .attempts = 1 + static_cast<int>(draw(4)),
                 .first_pause = 5,
                 .longest_pause = 40},
        manager_(options_) {}

  // The first broken promise; "" if all were kept.
  std::string run() {
    for (int i = 0; i < 120 && broken_.empty(); ++i) {
      now_ += static_cast<Nanoseconds>(draw(8));
      event();
      act();
    }
    // Sources stay as they are, loads succeed, requests end.
    fails_ = false;
    for (int i = 0; i < 60 && broken_.empty(); ++i) {
      now_ += 10;
      while (!requests_.empty()) end_request(0);
      while (!under_way_.empty()) end_action(0);
      for (const auto& s : manager_.status())
        if (s.state == ServableState::error && s.error.code() == Code::internal) manager_.retry(s.id, now_);
      act();
    }
    if (broken_.empty()) check_settled();
    return broken_;
  }

 private:
  std::size_t draw(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  void broken(const std::string& how) {
    if (broken_.empty()) broken_ = how;
  }

  void event() {
    switch (draw(6)) {
      case 0: {
        const std::string model = draw(2) ? "a" : "b";
        std::vector<Aspired> versions;
        for (std::int64_t v = 1; v <= 6; ++v)
          if (draw(3) == 0) versions.push_back({v, 10 + 7 * static_cast<std::size_t>(v)});
        manager_.aspire(model, versions, now_);
        std::set<std::int64_t>& wanted = aspired_[model];
        wanted.clear();
        for (const Aspired& a : versions) wanted.insert(a.version);
        break;
      }
      case 1:
      case 2: {
        const std::string model = draw(2) ? "a" : "b";
        const auto ready = manager_.ready(model);
        if (!ready.empty()) requests_.push_back({model, ready[draw(ready.size())]});
        break;
      }
      case 3:
        if (!requests_.empty()) end_request(draw(requests_.size()));
        break;
      default:
        if (!under_way_.empty()) end_action(draw(under_way_.size()));
    }
  }

  void end_request(std::size_t i) {
    const ServableId id = requests_[i];
    requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(i));
    if (!in_memory_.contains(id)) broken(id.to_string() + " was unloaded while a request had it");
  }

  void end_action(std::size_t i) {
    const Action action = under_way_[i];
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i));
    if (action.kind == Action::unload) {
      in_memory_.erase(action.id);
      manager_.unloaded(action.id, now_);
    } else if (fails_ && draw(3) == 0) {
      in_memory_.erase(action.id);
      manager_.failed(action.id, {Code::internal, "drawn"}, now_);
    } else {
      manager_.loaded(action.id, in_memory_.at(action.id), now_);
    }
  }

  void act() {
    std::map<std::string, std::vector<std::int64_t>> before;
    for (const char* model : {"a", "b"}) before[model] = manager_.ready(model);
    for (int round = 0; round < 2; ++round) {
      for (const Action& action : manager_.due(now_)) begin(action);
      check_ready(before);
      for (const auto& s : manager_.status())
        if (s.state == ServableState::quiescing && std::ranges::find(requests_, s.id) == requests_.end())
          manager_.quiesced(s.id);
    }
    std::size_t used = 0;
    for (const auto& [id, bytes] : in_memory_) used += bytes;
    if (used > options_.memory) broken("more memory is used than there is");
    if (used != manager_.bytes()) broken("bytes() counts others than are loaded");
  }

  void begin(const Action& action) {
    if (action.kind == Action::load) {
      const auto loads = std::ranges::count(under_way_, Action::load, &Action::kind);
      if (static_cast<std::size_t>(loads) >= options_.loads_at_once) broken("too many loads at once");
      if (!aspired_[action.id.model].contains(action.id.version)) broken("loads what nobody wants");
      if (!in_memory_.emplace(action.id, 10 + 7 * static_cast<std::size_t>(action.id.version)).second)
        broken(action.id.to_string() + " is loaded twice");
    } else {
      if (std::ranges::find(requests_, action.id) != requests_.end())
        broken(action.id.to_string() + " is unloaded while a request has it");
    }
    under_way_.push_back(action);
  }

  void check_ready(const std::map<std::string, std::vector<std::int64_t>>& before) {
    for (const auto& [model, was] : before) {
      const auto is = manager_.ready(model);
      for (const std::int64_t v : was)
        if (aspired_[model].contains(v) && std::ranges::count(is, v) == 0)
          broken(model + " lost a ready version that is wanted");
      if (options_.transition == Transition::preserve_availability && !was.empty() && is.empty() &&
          !aspired_[model].empty())
        broken(model + " has no ready version left");
    }
  }

  void check_settled() {
    if (!manager_.settled()) broken("does not come to rest");
    std::size_t wanted = 0, most = 0;
    for (const auto& [model, versions] : aspired_)
      for (const std::int64_t v : versions) {
        wanted += 10 + 7 * static_cast<std::size_t>(v);
        most = std::max(most, 10 + 7 * static_cast<std::size_t>(v));
      }
    // Beside old versions of both models, which may be kept until new ones are ready.
    const bool all_fit = wanted + 2 * 52 <= options_.memory ||
                         (options_.transition == Transition::preserve_resources && wanted <= options_.memory);
    for (const auto& [model, versions] : aspired_) {
      const auto ready = manager_.ready(model);
      if (all_fit && std::set(ready.begin(), ready.end()) != versions) broken(model + " does not serve what is wanted");
      if (versions.empty() && manager_.has(model)) broken(model + " is not wanted, and there");
    }
    for (const auto& s : manager_.status())
      if (s.state == ServableState::fresh && s.error.code() != Code::resource_exhausted &&
          s.error.code() != Code::unavailable)
        broken(s.id.to_string() + " waits and does not say why");
  }

  std::mt19937_64 random_;
  ServableManager::Options options_;
  ServableManager manager_;
  Nanoseconds now_ = 0;
  bool fails_ = true;
  std::map<std::string, std::set<std::int64_t>> aspired_;
  std::map<ServableId, std::size_t> in_memory_;
  std::vector<Action> under_way_;
  std::vector<ServableId> requests_;
  std::string broken_;
};

TEST(ServableManager, KeepsItsPromisesWhateverSourcesLoadersAndRequestsDo) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) ASSERT_EQ(World(seed).run(), "") << "seed " << seed;
}

}  // namespace
}  // namespace troupe::testing
