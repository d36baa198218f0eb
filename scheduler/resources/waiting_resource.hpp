// Resources whose calls may wait: queues and accumulators. Plain classes, driven by the scheduler of their task alone:
// a call is answered at once or later, exactly once, unless it is dropped (docs/design/waiting.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/devices/resource.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

enum class ResourceOperation : std::uint8_t {
  // Of queues.
  enqueue,        // values: the components of one element after those of another
  dequeue,        // -> an element
  dequeue_many,   // n -> n elements, as enqueued
  dequeue_up_to,  // n -> n elements, or at least one if the queue is closed
  close,
  close_and_cancel,
  size,
  is_closed,
  // Of accumulators.
  apply_gradient,   // the step of the gradient, its tensors
  take_gradient,    // how many at least -> the tensors of all gradients
  set_global_step,  // the step
  num_accumulated,
};
// "dequeue_many". Throws invalid_argument for another text.
ResourceOperation parse_operation(std::string_view text);
std::string_view name(ResourceOperation operation);

struct ResourceCall {
  ResourceOperation operation = ResourceOperation::size;
  std::vector<Tensor> values{};
};

using CallId = std::uint64_t;
struct CallAnswer {
  CallId call = 0;
  std::vector<Tensor> values{};
  Error error{};  // instead
};
using CallAnswers = std::vector<CallAnswer>;

class WaitingResource : public Resource {
 public:
  using Resource::Resource;
  // Adds the answers of all calls that can be answered now, perhaps also this one's. A call that is wrong has changed
  // nothing.
  virtual void call(CallId id, ResourceCall call, CallAnswers& answers) = 0;
  // These calls are not wanted any more: those that wait are never answered, and what they had taken is there again.
  // Adds the answers of others.
  virtual void drop(std::span<const CallId> ids, CallAnswers& answers) = 0;
  // For people: "3 of 5 elements, open; 2 dequeues wait".
  virtual std::string describe() const = 0;
};

// Checks for calls: the number in a scalar of i32 or i64, at least `low`.
std::int64_t number_of_call(const ResourceCall& call, std::size_t index, std::int64_t low, std::string_view what);

}  // namespace troupe
