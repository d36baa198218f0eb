// Queues of elements, each some tensors: in the order of their arrival, shuffled, or by priority. The rules are
// TensorFlow's (FIFOQueue, RandomShuffleQueue, PriorityQueue); docs/design/waiting.md has the table of states.
//
// Of the calls that wait to put elements in only the oldest does, one element after the other; likewise of those that
// take elements out. Nothing is lost: what a call had taken when it is dropped, or fails, is in the queue again, at the
// front if there is an order.
#pragma once

#include <deque>
#include <memory>

#include <troupe/scheduler/resources/waiting_resource.hpp>

namespace troupe {

struct QueueRules {
  std::int64_t capacity = 0;  // in elements; at least 1
  std::vector<DType> dtypes{};
  std::vector<Shape> shapes{};  // of the components, as far as known
  // Shuffled: elements leave in an order that follows from the seed, and, while the queue is open, only as long as
  // min_after_dequeue stay.
  bool shuffled = false;
  std::int64_t min_after_dequeue = 0;
  std::uint64_t seed = 0;
  // The first component, an i64 scalar, is the priority: the lowest leaves first, equal ones in order of arrival.
  bool by_priority = false;
};

class TensorQueue final : public WaitingResource {
 public:
  TensorQueue(std::string name, std::string declaration, QueueRules rules);
  void call(CallId id, ResourceCall call, CallAnswers& answers) override;
  void drop(std::span<const CallId> ids, CallAnswers& answers) override;
  std::string describe() const override;
  std::size_t num_bytes() const override;

  std::size_t size() const { return elements_.size(); }
  bool is_closed() const { return closed_; }
  std::size_t calls_waiting() const { return producers_.size() + consumers_.size(); }

 private:
  using Element = std::vector<Tensor>;
  struct Producer {
    CallId call = 0;
    std::deque<Element> left{};
  };
  struct Consumer {
    CallId call = 0;
    std::int64_t wanted = 1;
    bool up_to = false;
    std::vector<Element> taken{};
  };

  void enqueue(CallId id, std::vector<Tensor> values);
  std::deque<Element> checked_elements(std::vector<Tensor> values) const;
  void close(bool cancel, CallAnswers& answers);
  // Goes on with all calls that can.
  void settle(CallAnswers& answers);
  bool produce(CallAnswers& answers);
  bool consume(CallAnswers& answers);
  bool has_element() const;  // for a consumer
  void add(Element element);
  Element take();
  void put_back(std::vector<Element> taken);

  const QueueRules rules_;
  std::deque<Element> elements_;
  std::deque<Producer> producers_;  // oldest first
  std::deque<Consumer> consumers_;
  bool closed_ = false;
  std::uint64_t draws_ = 0;
};

}  // namespace troupe
