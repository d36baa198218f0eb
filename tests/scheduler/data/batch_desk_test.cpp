#include "troupe/scheduler/data/batch_desk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

#include <troupe/scheduler/data/data_places.hpp>
#include <troupe/scheduler/data/feed_requests.hpp>

namespace troupe {

void PrintTo(const BatchName& batch, std::ostream* out) {
  *out << (batch.evaluation ? "evaluation " : "") << batch.epoch << "/" << batch.step << "/" << batch.slot;
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

BatchName train(std::uint64_t step, std::uint32_t slot = 0, std::uint32_t epoch = 0) {
  return {.epoch = epoch, .step = step, .slot = slot};
}

std::shared_ptr<const MadeBatch> batch_of(std::int64_t floats) {
  return std::make_shared<const MadeBatch>(
      MadeBatch{.batch = {.components = {Tensor(DType::f32, Shape{floats})}, .examples = floats}});
}

std::vector<BatchName> begin_all(BatchDesk& desk) {
  std::vector<BatchName> out;
  while (const auto batch = desk.begin()) out.push_back(*batch);
  return out;
}

std::vector<std::uint64_t> consumers(const BatchDesk::Replies& replies) {
  std::vector<std::uint64_t> out;
  for (const auto& reply : replies) out.push_back(reply.to);
  return out;
}

TEST(BatchDesk, MakesABatchOnceForAllWhoWantIt) {
  BatchDesk desk({.slots = 2, .epochs = 1, .memory = 0});
  BatchDesk::Replies replies;
  desk.want(1, train(0), {}, replies);
  desk.want(2, train(0), {}, replies);
  EXPECT_THAT(begin_all(desk), ElementsAre(train(0)));
  desk.want(3, train(0), {}, replies);
  EXPECT_THAT(replies, IsEmpty());
  desk.made(train(0), batch_of(4), replies);
  EXPECT_THAT(consumers(replies), ElementsAre(1, 2, 3));
  for (const auto& reply : replies) EXPECT_EQ(reply.made->batch.examples, 4);
}

TEST(BatchDesk, KeepsABatchUntilItsStepIsComplete) {
  BatchDesk desk({.slots = 1, .epochs = 1});
  BatchDesk::Replies replies;
  desk.want(1, train(0), {}, replies);
  ASSERT_EQ(desk.begin(), train(0));
  desk.made(train(0), batch_of(4), replies);
  desk.want(2, train(0), {}, replies);  // another worker computes the slot again
  EXPECT_THAT(consumers(replies), ElementsAre(1, 2));
  desk.want(1, train(1), train(1), replies);  // step 0 is complete
  EXPECT_EQ(desk.figures().kept, 0U);
  EXPECT_EQ(desk.figures().kept_bytes, 0U);
}

TEST(BatchDesk, MakesBatchesOfItsShareAhead) {
  BatchDesk desk({.slots = 3, .shares = 2, .share = 1, .epochs = 1, .makers = 8});
  BatchDesk::Replies replies;
  desk.want(1, train(0, 1), {}, replies);
  std::vector<BatchName> made;
  for (int i = 0; i < 3; ++i) {
    const auto next = desk.begin();
    ASSERT_TRUE(next);
    made.push_back(*next);
    desk.made(*next, batch_of(1), replies);
  }
  EXPECT_THAT(made, ElementsAre(train(0, 1), train(1, 0), train(1, 2)));
  EXPECT_THAT(consumers(replies), ElementsAre(1));
  desk.want(1, train(1, 0), {}, replies);
  EXPECT_THAT(consumers(replies), ElementsAre(1, 1));
}

TEST(BatchDesk, MakesMoreAheadOnceSomebodyHadToWait) {
  BatchDesk desk({.slots = 1, .epochs = 1, .makers = 4});
  BatchDesk::Replies replies;
  const auto made_ahead = [&](std::uint64_t step) {
    desk.want(1, train(step), {}, replies);
    const std::vector<BatchName> begun = begin_all(desk);
    for (const BatchName& batch : begun) desk.made(batch, batch_of(1), replies);
    return begin_all(desk).size();
  };
  const std::size_t before = made_ahead(0);
  BatchDesk::Figures figures = desk.figures();
  EXPECT_EQ(figures.waited, 1U);
  EXPECT_EQ(figures.makers, 1U);
  EXPECT_EQ(before, 1U);
  desk.want(1, train(100), {}, replies);  // while a maker works
  figures = desk.figures();
  EXPECT_EQ(figures.makers, 2U);
  EXPECT_EQ(figures.ahead, 4U);
}

TEST(BatchDesk, StaysWithinItsMemory) {
  BatchDesk desk({.slots = 1, .epochs = 1, .makers = 1, .memory = 1000});
  BatchDesk::Replies replies;
  for (std::uint64_t step = 0; step < 50; ++step) {
    desk.want(1, train(step), {}, replies);
    while (const auto batch = desk.begin()) {
      desk.made(*batch, batch_of(50), replies);  // 200 bytes
      EXPECT_LE(desk.figures().kept_bytes, 1000U);
    }
  }
  EXPECT_EQ(replies.size(), 50U);
  desk.want(1, train(0), {}, replies);  // dropped: made again
  EXPECT_EQ(desk.begin(), train(0));
}

TEST(BatchDesk, MakesBatchesAheadWhenThoseThatWereSentFillItsMemory) {
  BatchDesk desk({.slots = 1, .epochs = 1, .makers = 1, .memory = 1000});
  BatchDesk::Replies replies;
  for (std::uint64_t step = 0; step < 10; ++step) desk.want(1, train(step), {}, replies);
  std::vector<BatchName> begun;
  while (const auto batch = desk.begin()) {
    begun.push_back(*batch);
    desk.made(*batch, batch_of(50), replies);  // 200 bytes
  }
  EXPECT_EQ(replies.size(), 10U);
  EXPECT_THAT(std::vector(begun.begin() + 10, begun.end()), ElementsAre(train(10), train(11)));
  EXPECT_EQ(desk.figures().kept_bytes, 1000U);
}

TEST(BatchDesk, KeepsTwoBatchesThatAreLargerThanItsMemory) {
  BatchDesk desk({.slots = 1, .epochs = 1, .makers = 1, .memory = 100});
  BatchDesk::Replies replies;
  for (std::uint64_t step = 0; step < 5; ++step) {
    desk.want(1, train(step), {}, replies);
    while (const auto batch = desk.begin()) desk.made(*batch, batch_of(50), replies);  // 200 bytes
    EXPECT_EQ(replies.size(), step + 1);
    EXPECT_EQ(desk.figures().kept_bytes, 400U);  // the next one, too
  }
  EXPECT_EQ(desk.figures().waited, 1U);
}

TEST(BatchDesk, BeginsBatchesOfAnOrderedSourceInTheirOrder) {
  BatchDesk desk({.ordered = true, .slots = 2, .epochs = 2, .memory = 0});
  BatchDesk::Replies replies;
  for (const BatchName& batch : {train(4), train(5), train(3, 1), train(5, 1)}) desk.want(1, batch, {}, replies);
  std::vector<BatchName> begun;
  while (const auto batch = desk.begin()) {
    begun.push_back(*batch);
    desk.made(*batch, batch_of(1), replies);
    if (begun.size() == 2) desk.want(1, train(2), {}, replies);  // goes back only when all later ones are begun
  }
  EXPECT_THAT(begun, ElementsAre(train(3, 1), train(4), train(5), train(5, 1), train(2)));
}

TEST(BatchDesk, TellsTheEndOfAnEpochAndGoesOnWithTheNext) {
  BatchDesk desk({.slots = 1, .epochs = 2, .makers = 1});
  BatchDesk::Replies replies;
  desk.want(1, train(7), {}, replies);
  desk.want(2, train(8), {}, replies);
  ASSERT_EQ(desk.begin(), train(7));
  desk.made(train(7), std::make_shared<const MadeBatch>(MadeBatch{.over = true}), replies);
  ASSERT_EQ(replies.size(), 2U);  // also the later one, unmade
  for (const auto& reply : replies) EXPECT_TRUE(reply.made->over);
  replies.clear();
  desk.want(3, train(9), {}, replies);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_TRUE(replies[0].made->over);
  EXPECT_EQ(desk.begin(), train(0, 0, 1));
}

TEST(BatchDesk, AnErrorIsToldAndNotKept) {
  BatchDesk desk({.slots = 1, .epochs = 1, .memory = 0});
  BatchDesk::Replies replies;
  desk.want(1, train(0), {}, replies);
  ASSERT_EQ(desk.begin(), train(0));
  desk.made(train(0), std::make_shared<const MadeBatch>(MadeBatch{.error = Error(Code::data_loss, "cut")}), replies);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].made->error.message(), "cut");
  desk.want(1, train(0), {}, replies);
  EXPECT_EQ(desk.begin(), train(0));
}

TEST(BatchDesk, AConsumerThatIsGoneWantsNothing) {
  BatchDesk desk({.slots = 1, .epochs = 1, .memory = 0});
  BatchDesk::Replies replies;
  desk.want(1, train(0), {}, replies);
  desk.want(1, train(1), {}, replies);
  ASSERT_EQ(desk.begin(), train(0));
  desk.forget(1);
  desk.made(train(0), batch_of(1), replies);
  EXPECT_THAT(replies, IsEmpty());
  EXPECT_EQ(desk.begin(), std::nullopt);
  EXPECT_EQ(desk.figures().kept_bytes, 0U);
}

TEST(DataPlaces, TheLatestFromWhichAStepCanBeReached) {
  DataPlaces places;
  EXPECT_TRUE(places.before(3, 9).position.empty());
  places.add({0, 64, {1}});
  places.add({0, 128, {2}});
  places.add({1, 0, {3}});
  places.add({1, 64, {}});                                            // none
  places.add({1, 65, std::vector<std::uint64_t>(kMaxPosition + 1)});  // too long to be kept
  EXPECT_EQ(places.before(0, 63), DataPlace());
  EXPECT_EQ(places.before(0, 64), (DataPlace{0, 64, {1}}));
  EXPECT_EQ(places.before(0, 200), (DataPlace{0, 128, {2}}));
  EXPECT_EQ(places.before(1, 100), (DataPlace{1, 0, {3}}));
}

// ---- A cluster with virtual messages -------------------------------------------------------------------------------
//
// Workers want the batches of two epochs, several at a time; input tasks come and go, workers begin again. All that is
// wanted must come, with its content, whatever the order of messages between links.

constexpr std::uint64_t kSteps = 9;
constexpr std::uint32_t kSlots = 3, kEpochs = 2;

std::int64_t content(const BatchName& batch) {
  return 1 + batch.epoch * 100 + static_cast<std::int64_t>(batch.step) * 10 + batch.slot;
}

class FeedWorld {
 public:
  FeedWorld(std::uint32_t seed, bool forgets) : random_(seed), forgets_(forgets) {
    inputs_.resize(below(3) + 1);
    workers_.resize(below(3) + 1);
    for (auto& worker : workers_) begin(worker);
  }

  // "": all has come.
  std::string run() {
    for (int i = 0; i < 6000; ++i) {
      if (const std::string wrong = act(); !wrong.empty()) return wrong;
      if (next_ == all_.size() && std::ranges::all_of(workers_, [](const Worker& w) { return w.wanted.empty(); }))
        return "";
    }
    return "a batch has not come";
  }

 private:
  struct Message {
    bool down = false;  // the link is lost
    BatchName batch, complete;
    std::shared_ptr<const MadeBatch> made;
  };
  struct Input {
    bool up = false;
    std::uint64_t life = 0;
    std::unique_ptr<BatchDesk> desk;
    std::deque<BatchName> making;
  };
  struct Worker {
    std::unique_ptr<FeedRequests> requests;
    std::set<BatchName> wanted;
    std::vector<std::deque<Message>> to, from;  // by input
  };

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  void begin(Worker& worker) {
    worker.requests = std::make_unique<FeedRequests>(kSlots, static_cast<std::uint32_t>(inputs_.size()));
    worker.to.assign(inputs_.size(), {});
    worker.from.assign(inputs_.size(), {});
    for (std::uint32_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].up) send(worker, [&](auto& out) { worker.requests->up(i, out); });
    for (const BatchName& batch : worker.wanted) send(worker, [&](auto& out) { worker.requests->want(batch, out); });
  }

  template <class F>
  void send(Worker& worker, F&& what) {
    FeedRequests::Requests out;
    what(out);
    for (const auto& request : out)
      worker.to[request.input].push_back({.batch = request.batch, .complete = complete()});
  }

  // All batches below have come to their workers.
  BatchName complete() const {
    BatchName first{.epoch = kEpochs};
    if (next_ < all_.size()) first = all_[next_];
    for (const Worker& worker : workers_)
      if (!worker.wanted.empty()) first = std::min(first, *worker.wanted.begin());
    first.slot = 0;
    return first;
  }

  std::string act() {
    const std::uint32_t w = below(static_cast<std::uint32_t>(workers_.size()));
    const std::uint32_t i = below(static_cast<std::uint32_t>(inputs_.size()));
    Worker& worker = workers_[w];
    Input& input = inputs_[i];
    switch (below(40)) {
      case 0:
        return input.up ? lose(i) : start(i), "";
      case 1:
        if (below(4) != 0) return "";
        for (Input& each : inputs_)
          if (each.up) each.desk->forget(w);
        begin(worker);
        return "";
      case 2:
        return input.up ? "" : (start(i), "");
      default:
        break;
    }
    switch (below(4)) {
      case 0:
        if (worker.wanted.size() < 2 && next_ < all_.size()) {
          const BatchName batch = all_[next_++];
          worker.wanted.insert(batch);
          send(worker, [&](auto& out) { worker.requests->want(batch, out); });
        }
        return "";
      case 1:
        if (input.up && !worker.to[i].empty()) {
          const Message message = worker.to[i].front();
          worker.to[i].pop_front();
          BatchDesk::Replies replies;
          input.desk->want(w, message.batch, message.complete, replies);
          return reply(i, replies);
        }
        return "";
      case 2:
        return make(input, i);
      default:
        return receive(worker, i);
    }
  }

  void start(std::uint32_t i) {
    Input& input = inputs_[i];
    input.up = true;
    input.making.clear();
    input.desk = std::make_unique<BatchDesk>(BatchDesk::Options{.ordered = below(2) == 0,
                                                                .slots = kSlots,
                                                                .shares = static_cast<std::uint32_t>(inputs_.size()),
                                                                .share = i,
                                                                .epochs = kEpochs,
                                                                .makers = below(3) + 1,
                                                                .memory = below(2) == 0 ? 100U : 100'000U});
    for (Worker& worker : workers_) send(worker, [&](auto& out) { worker.requests->up(i, out); });
  }

  void lose(std::uint32_t i) {
    inputs_[i].up = false;
    for (Worker& worker : workers_) {
      worker.to[i].clear();
      worker.from[i].clear();
      if (forgets_) continue;
      send(worker, [&](auto& out) { worker.requests->down(i, out); });
    }
  }

  std::string make(Input& input, std::uint32_t i) {
    if (!input.up) return "";
    while (const auto batch = input.desk->begin()) input.making.push_back(*batch);
    if (input.making.empty()) return "";
    const std::uint32_t which = below(static_cast<std::uint32_t>(input.making.size()));
    const BatchName batch = input.making[which];
    input.making.erase(input.making.begin() + which);
    BatchDesk::Replies replies;
    input.desk->made(
        batch,
        batch.step < kSteps ? batch_of(content(batch)) : std::make_shared<const MadeBatch>(MadeBatch{.over = true}),
        replies);
    return reply(i, replies);
  }

  std::string reply(std::uint32_t i, const BatchDesk::Replies& replies) {
    for (const auto& reply : replies) workers_[reply.to].from[i].push_back({.batch = reply.batch, .made = reply.made});
    return "";
  }

  std::string receive(Worker& worker, std::uint32_t i) {
    if (worker.from[i].empty()) return "";
    const Message message = worker.from[i].front();
    worker.from[i].pop_front();
    if (!worker.requests->came(message.batch)) return "";
    if (worker.wanted.erase(message.batch) == 0) return "a batch came that nobody wanted";
    const bool exists = message.batch.step < kSteps;
    if (message.made->over == exists) return "the end of the epoch is wrong";
    if (exists && message.made->batch.examples != content(message.batch)) return "a batch has another's content";
    return "";
  }

  std::mt19937 random_;
  const bool forgets_;
  std::vector<Input> inputs_;
  std::vector<Worker> workers_;
  const std::vector<BatchName> all_ = [] {
    std::vector<BatchName> out;
    for (std::uint32_t epoch = 0; epoch < kEpochs; ++epoch)
      for (std::uint64_t step = 0; step < kSteps + 2; ++step)
        for (std::uint32_t slot = 0; slot < kSlots; ++slot) out.push_back(train(step, slot, epoch));
    return out;
  }();
  std::size_t next_ = 0;
};

TEST(BatchDeskSimulation, AllThatIsWantedComesWhateverIsLost) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) EXPECT_EQ(FeedWorld(seed, false).run(), "") << seed;
}

TEST(BatchDeskSimulation, NoticesRequestsThatAreForgottenWithALostTask) {
  int noticed = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) noticed += FeedWorld(seed, true).run().empty() ? 0 : 1;
  EXPECT_GT(noticed, 10);
}

}  // namespace
}  // namespace troupe
