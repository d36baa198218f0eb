#include "troupe/graph/builder/queue.hpp"

#include <utility>

#include <troupe/graph/component_shapes.hpp>

namespace troupe {
namespace {

void check_components(const char* call, const Outputs& components, const std::vector<DType>& dtypes) {
  if (components.size() != dtypes.size())
    invalid_argument("{}: {} tensors for {} components", call, components.size(), dtypes.size());
  for (std::size_t i = 0; i < components.size(); ++i)
    if (!components[i].valid() || components[i].dtype() != dtypes[i])
      invalid_argument("{}: component {} must be {}", call, i, troupe::name(dtypes[i]));
}

template <class T>
std::vector<T> with_first(T first, std::vector<T> others) {
  others.insert(others.begin(), std::move(first));
  return others;
}

}  // namespace

Queue::Queue(Graph& graph, Name op, std::int64_t capacity, std::vector<DType> dtypes, std::vector<Shape> shapes,
             Attributes more, ResourceOptions options, bool padded)
    : dtypes_(std::move(dtypes)), shapes_(std::move(shapes)), padded_(padded) {
  if (shapes_.empty()) shapes_.assign(dtypes_.size(), Shape::unknown_rank());
  if (shapes_.size() != dtypes_.size())
    invalid_argument("{}: {} shapes for {} components", op, shapes_.size(), dtypes_.size());
  if (dtypes_.empty()) invalid_argument("{}: its elements have no components", op);
  if (capacity < 1) invalid_argument("{}: a capacity of {} is below 1", op, capacity);
  more.set("capacity", capacity);
  more.set("dtypes", dtypes_);
  more.set("shapes", packed_shapes(shapes_));
  handle_ = add_resource(graph, std::move(op), std::move(more), std::move(options));
}

Output Queue::enqueue(const Outputs& components, Name name) const {
  check_components("enqueue", components, dtypes_);
  return add_resource_target("QueueEnqueue", handle_, components, {}, std::move(name));
}

Output Queue::enqueue_many(const Outputs& components, Name name) const {
  check_components("enqueue_many", components, dtypes_);
  return add_resource_target("QueueEnqueueMany", handle_, components, {}, std::move(name));
}

Outputs Queue::take(const char* op, Outputs inputs, Name name) const {
  Attributes attributes = {{"types", dtypes_}, {"shapes", packed_shapes(shapes_)}};
  if (padded_ && !inputs.empty()) attributes.set("padded", true);
  return add_resource_call(op, handle_, std::move(inputs), std::move(attributes), std::move(name));
}

Outputs Queue::dequeue(Name name) const { return take("QueueDequeue", {}, std::move(name)); }
Outputs Queue::dequeue_many(IntegersArg n, Name name) const {
  return take("QueueDequeueMany", {n.scalar_in(handle_)}, std::move(name));
}
Outputs Queue::dequeue_up_to(IntegersArg n, Name name) const {
  return take("QueueDequeueUpTo", {n.scalar_in(handle_)}, std::move(name));
}

Output Queue::close(bool cancel_pending_enqueues, Name name) const {
  return add_resource_target("QueueClose", handle_, {},
                             {{"operation", cancel_pending_enqueues ? "close_and_cancel" : "close"}}, std::move(name));
}
Output Queue::size(Name name) const { return add_resource_call("QueueSize", handle_, {}, {}, std::move(name))[0]; }
Output Queue::is_closed(Name name) const {
  return add_resource_call("QueueIsClosed", handle_, {}, {}, std::move(name))[0];
}

FifoQueue::FifoQueue(Graph& graph, std::int64_t capacity, std::vector<DType> dtypes, std::vector<Shape> shapes,
                     ResourceOptions options)
    : Queue(graph, "FIFOQueue", capacity, std::move(dtypes), std::move(shapes), {}, std::move(options)) {}

RandomShuffleQueue::RandomShuffleQueue(Graph& graph, std::int64_t capacity, std::vector<DType> dtypes,
                                       std::vector<Shape> shapes, ShuffleQueueOptions options)
    : Queue(graph, "RandomShuffleQueue", capacity, std::move(dtypes), std::move(shapes),
            {{"min_after_dequeue", options.min_after_dequeue}, {"seed", options.seed}},
            {.name = std::move(options.name), .device = std::move(options.device)}) {}

PaddingFifoQueue::PaddingFifoQueue(Graph& graph, std::int64_t capacity, std::vector<DType> dtypes,
                                   std::vector<Shape> shapes, ResourceOptions options)
    : Queue(graph, "PaddingFIFOQueue", capacity, std::move(dtypes), std::move(shapes), {}, std::move(options), true) {
  for (std::size_t i = 0; i < this->shapes().size(); ++i)
    if (!this->shapes()[i].has_rank())
      invalid_argument("PaddingFIFOQueue: the shape of component {} needs a rank: give its unknown sizes as such", i);
}

PriorityQueue::PriorityQueue(Graph& graph, std::int64_t capacity, std::vector<DType> dtypes, std::vector<Shape> shapes,
                             ResourceOptions options)
    : Queue(graph, "PriorityQueue", capacity, with_first(DType::i64, dtypes),
            with_first(Shape{}, shapes.empty() ? std::vector<Shape>(dtypes.size(), Shape::unknown_rank()) : shapes), {},
            std::move(options)) {}

}  // namespace troupe
