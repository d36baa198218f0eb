// Queues of elements, each some tensors, between steps: of one session, or of all that share a container
// (SessionOptions::container). The rules are TensorFlow's.
//
//   FifoQueue queue(graph, 10, {DType::f32}, {Shape{2}});
//   Output put = queue.enqueue({x});           // a target: runs when there is room
//   Output next = queue.dequeue()[0];          // arrives when there is an element
//   session.run_targets({put});
//
// An op that cannot go on waits without a thread, in the order of arrival; the step's deadline, Session::cancel and
// close() end it. A step that ends while it waits has taken nothing out, but elements of an enqueue_many that had room
// are in the queue. What a step has been given is its own, also if it fails later. In eager mode ops wait where they
// are called.
#pragma once

#include <vector>

#include <troupe/graph/builder/resource.hpp>

namespace troupe {

class Queue {
 public:
  // One element: a tensor for each component. Throws invalid_argument for another number or dtype; a step for another
  // shape. Cancelled once the queue is closed. Returns a target.
  Output enqueue(const Outputs& components, Name name = {}) const;
  // Each row of dimension 0 is an element; all components have as many.
  Output enqueue_many(const Outputs& components, Name name = {}) const;
  // The components of the next element. Out of range once the queue is closed and empty.
  Outputs dequeue(Name name = {}) const;
  // n elements as rows [n, ...component]; may be more than the capacity. Components need one shape, but those of a
  // PaddingFifoQueue. Out of range, and nothing is taken, if the queue is closed with fewer.
  Outputs dequeue_many(IntegersArg n, Name name = {}) const;
  // The same, but of a queue that is closed what is left, unless that is nothing.
  Outputs dequeue_up_to(IntegersArg n, Name name = {}) const;
  // Nothing can be enqueued any more; enqueues that wait go on, or fail as cancelled. A target.
  Output close(bool cancel_pending_enqueues = false, Name name = {}) const;
  Output size(Name name = {}) const;       // elements: i32 scalar
  Output is_closed(Name name = {}) const;  // bool scalar

  const Output& handle() const { return handle_; }
  const std::vector<DType>& dtypes() const { return dtypes_; }
  const std::vector<Shape>& shapes() const { return shapes_; }

 protected:
  Queue(Graph& graph, Name op, std::int64_t capacity, std::vector<DType> dtypes, std::vector<Shape> shapes,
        Attributes more, ResourceOptions options, bool padded = false);

 private:
  Outputs take(const char* op, Outputs inputs, Name name) const;

  Output handle_;
  std::vector<DType> dtypes_;
  std::vector<Shape> shapes_;
  bool padded_ = false;
};

// First in, first out. `shapes`: of the components, as far as known; none: nothing is known.
class FifoQueue : public Queue {
 public:
  FifoQueue(Graph& graph, std::int64_t capacity, std::vector<DType> dtypes, std::vector<Shape> shapes = {},
            ResourceOptions options = {});
};

struct ShuffleQueueOptions {
  std::int64_t min_after_dequeue = 0;  // elements that stay while the queue is open: what is drawn from
  std::int64_t seed = 0;               // the order follows from it, and from what was there
  Name name{};
  std::string device{};
};

// Each element leaves as likely as any other.
class RandomShuffleQueue : public Queue {
 public:
  RandomShuffleQueue(Graph& graph, std::int64_t capacity, std::vector<DType> dtypes, std::vector<Shape> shapes = {},
                     ShuffleQueueOptions options = {});
};

// First in, first out. Elements whose sizes differ where `shapes`, which all have a rank, leaves them open are padded
// with zeros, or empty strings, to the largest of those that are dequeued together.
class PaddingFifoQueue : public Queue {
 public:
  PaddingFifoQueue(Graph& graph, std::int64_t capacity, std::vector<DType> dtypes, std::vector<Shape> shapes,
                   ResourceOptions options = {});
};

// The element with the lowest priority first; of equal ones in order of arrival. The priority, an i64 scalar, is
// component 0 of what is enqueued and dequeued; `dtypes` and `shapes` are those of the others.
class PriorityQueue : public Queue {
 public:
  PriorityQueue(Graph& graph, std::int64_t capacity, std::vector<DType> dtypes, std::vector<Shape> shapes = {},
                ResourceOptions options = {});
};

}  // namespace troupe
