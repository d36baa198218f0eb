// Random interleavings of producers, consumers, steps that end, and a close, on a queue, against what must hold
// whatever the order: each call is answered once or dropped, no element is lost or doubled, the order of each producer
// is kept, and nobody waits who could go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <troupe/scheduler/resources/resource_calls.hpp>
#include <troupe/scheduler/resources/tensor_queue.hpp>

namespace troupe {
namespace {

using enum ResourceOperation;

constexpr std::int64_t kMostWanted = 5;

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed)
      : random_(seed),
        capacity_(1 + draw(4)),
        shuffled_(draw(4) == 0),
        by_priority_(!shuffled_ && draw(3) == 0),
        stay_(shuffled_ ? draw(capacity_) : 0),
        queue_("queue", "a queue",
               {.capacity = capacity_,
                .dtypes = {DType::i64},
                .shapes = {Shape{}},
                .shuffled = shuffled_,
                .min_after_dequeue = stay_,
                .seed = seed,
                .by_priority = by_priority_}) {}

  // Returns what was wrong, "" if nothing.
  std::string run() {
    const std::int64_t events = 20 + draw(40);
    for (std::int64_t i = 0; i < events && wrong_.empty(); ++i) {
      event();
      check();
    }
    finish();
    return wrong_;
  }

 private:
  struct Call {
    ResourceOperation operation;
    std::vector<std::int64_t> given{};  // elements of an enqueue
    std::int64_t wanted = 0;
  };

  std::int64_t draw(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }
  void wrong(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }

  void event() {
    switch (draw(10)) {
      case 0:
      case 1:
      case 2:
        return send(enqueue, numbers(1 + (draw(3) == 0 ? draw(5) : 0)));
      case 3:
      case 4:
        return send(dequeue, {}, 1);
      case 5:
        return send(dequeue_many, {}, draw(kMostWanted + 1));
      case 6:
        return send(dequeue_up_to, {}, 1 + draw(kMostWanted));
      case 7:
      case 8:
        return end_a_step();
      default:
        if (draw(6) == 0) close(draw(2) == 0);
    }
  }

  // Each element says its producer and its place there.
  std::vector<std::int64_t> numbers(std::int64_t count) {
    const std::int64_t producer = draw(3);
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < count; ++i) out.push_back(producer * 1'000'000 + next_[producer]++);
    return out;
  }

  void send(ResourceOperation operation, std::vector<std::int64_t> given, std::int64_t wanted = 0) {
    // Some steps have two calls.
    if (steps_ == 0 || draw(3) > 0) ++steps_;
    const RendezvousKey key{SessionId{1}, StepId{steps_}, EdgeId{++edges_}};
    if (ended_.contains(steps_)) return;  // the scheduler drops it
    ResourceCall call{operation, {}};
    for (const std::int64_t number : given) call.values.push_back(Tensor::scalar(number));
    if (operation == dequeue_many || operation == dequeue_up_to) call.values.push_back(Tensor::scalar(wanted));
    waiting_[key] = {operation, std::move(given), wanted};
    take(calls_.call(key, queue_, std::move(call)));
  }

  void close(bool cancel) {
    ++steps_;  // one that has not ended
    closed_ = true;
    cancelled_ = cancelled_ || cancel;
    send(cancel ? close_and_cancel : ResourceOperation::close, {});
  }

  void end_a_step() {
    if (waiting_.empty()) return;
    auto it = waiting_.begin();
    std::advance(it, draw(std::ssize(waiting_)));
    const StepId step = it->first.step;
    ended_.insert(step.value);
    std::erase_if(waiting_, [&](const auto& entry) {
      const Call& call = entry.second;
      if (entry.first.step != step) return false;
      // What had room is in the queue; the rest is not.
      if (call.operation == enqueue) partly_.insert(call.given.begin(), call.given.end());
      return true;
    });
    take(calls_.end_step(SessionId{1}, step));
  }

  void take(const ResourceCalls::Answers& answers) {
    for (const ResourceCalls::Answer& answer : answers) {
      const auto found = waiting_.find(answer.to);
      if (found == waiting_.end()) return wrong("an answer that nobody waits for");
      const Call call = found->second;
      waiting_.erase(found);
      answer_of(call, answer);
    }
  }

  void answer_of(const Call& call, const ResourceCalls::Answer& answer) {
    if (answer.error) {
      const bool right = call.operation == enqueue ? answer.error.code() == Code::cancelled && closed_
                                                   : answer.error.code() == Code::out_of_range && closed_;
      if (!right) wrong("an error without a reason: " + answer.error.message());
      if (call.operation == enqueue) partly_.insert(call.given.begin(), call.given.end());
      return;
    }
    if (call.operation == enqueue) in_.insert(call.given.begin(), call.given.end());
    if (call.operation != dequeue && call.operation != dequeue_many && call.operation != dequeue_up_to) return;
    const auto count = std::ssize(answer.values);
    const bool enough = count == call.wanted || (call.operation == dequeue_up_to && closed_ && count > 0);
    if (!enough) wrong("a dequeue has another number of elements");
    for (const Tensor& value : answer.values) {
      const auto number = value.item<std::int64_t>();
      if (!out_.insert(number).second) wrong("an element twice");
      if (shuffled_) continue;
      std::int64_t& last = last_.try_emplace(number / 1'000'000, -1).first->second;
      if (number <= last) wrong("the order of a producer is lost");
      last = number;
    }
  }

  // The oldest waiting calls cannot go on.
  void check() {
    bool consumers = false, producers = false;
    for (const auto& [key, call] : waiting_) (call.operation == enqueue ? producers : consumers) = true;
    const auto size = static_cast<std::int64_t>(queue_.size());
    if (consumers && size > (closed_ ? 0 : stay_)) wrong("a consumer waits although there are elements");
    if (consumers && closed_ && !producers) wrong("a consumer waits for a closed queue");
    if (producers && size < capacity_) wrong("a producer waits although there is room");
    if (producers && cancelled_) wrong("a producer waits although it was cancelled");
    // Beyond the capacity: what a dequeue had taken, at most one less than it wants.
    if (size > capacity_ + kMostWanted - 1) wrong("more elements than there is room for");
    if (queue_.calls_waiting() != waiting_.size()) wrong("another number of calls waits");
  }

  // Empties the queue and counts.
  void finish() {
    if (!wrong_.empty()) return;
    close(false);
    for (int i = 0; i < 1000 && !(queue_.size() == 0 && waiting_.empty()) && wrong_.empty(); ++i) {
      send(dequeue, {}, 1);
      check();
    }
    if (!waiting_.empty()) wrong("calls are stuck");
    for (const std::int64_t number : in_)
      if (!out_.contains(number)) wrong("an element is lost");
    for (const std::int64_t number : out_)
      if (!in_.contains(number) && !partly_.contains(number)) wrong("an element that nobody has enqueued");
  }

  std::mt19937_64 random_;
  const std::int64_t capacity_;
  const bool shuffled_, by_priority_;  // of the latter, elements are their priorities
  const std::int64_t stay_;
  TensorQueue queue_;
  ResourceCalls calls_;
  std::map<RendezvousKey, Call> waiting_;
  std::set<std::uint64_t> ended_;
  std::map<std::int64_t, std::int64_t> next_, last_;
  std::set<std::int64_t> in_, partly_, out_;  // elements: enqueued; of enqueues that failed or ended; dequeued
  std::uint64_t steps_ = 0;
  std::uint32_t edges_ = 0;
  bool closed_ = false, cancelled_ = false;
  std::string wrong_;
};

TEST(QueueSimulation, NothingIsStuckLostOrDoubledInTenThousandInterleavings) {
  for (std::uint64_t seed = 1; seed <= 10'000; ++seed) ASSERT_EQ(Simulation(seed).run(), "") << "seed " << seed;
}

}  // namespace
}  // namespace troupe
