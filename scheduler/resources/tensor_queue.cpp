#include "troupe/scheduler/resources/tensor_queue.hpp"

#include <algorithm>
#include <iterator>

#include <troupe/messages/philox.hpp>

namespace troupe {
namespace {

std::int64_t priority_of(const std::vector<Tensor>& element) { return element[0].item<std::int64_t>(); }

std::size_t bytes_of(const std::vector<Tensor>& element) {
  std::size_t bytes = 0;
  for (const Tensor& component : element) bytes += component.num_bytes();
  return bytes;
}

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

TensorQueue::TensorQueue(std::string name, std::string declaration, QueueRules rules)
    : WaitingResource(std::move(name), std::move(declaration)), rules_(std::move(rules)) {
  if (rules_.capacity < 1) invalid_argument("queue '{}': a capacity of {} is below 1", this->name(), rules_.capacity);
  if (rules_.min_after_dequeue < 0 || rules_.min_after_dequeue >= rules_.capacity)
    invalid_argument("queue '{}': min_after_dequeue is {}, but must be from 0 to below the capacity, {}", this->name(),
                     rules_.min_after_dequeue, rules_.capacity);
  if (rules_.dtypes.empty()) invalid_argument("queue '{}': its elements have no components", this->name());
  if (rules_.by_priority && (rules_.dtypes[0] != DType::i64 || !(rules_.shapes[0] == Shape{})))
    invalid_argument("queue '{}': its first component, the priority, must be i64[], not {}{}", this->name(),
                     troupe::name(rules_.dtypes[0]), rules_.shapes[0].to_string());
}

void TensorQueue::call(CallId id, ResourceCall call, CallAnswers& answers) {
  using enum ResourceOperation;
  try {
    switch (call.operation) {
      case enqueue:
        this->enqueue(id, std::move(call.values));
        break;
      case dequeue:
        consumers_.push_back({.call = id});
        break;
      case dequeue_many:
      case dequeue_up_to:
        consumers_.push_back({.call = id,
                              .wanted = number_of_call(call, 0, 0, "the number of elements"),
                              .up_to = call.operation == dequeue_up_to});
        break;
      case close:
      case close_and_cancel:
        this->close(call.operation == close_and_cancel, answers);
        answers.push_back({.call = id});
        break;
      case size:
        answers.push_back({.call = id, .values = {Tensor::scalar(static_cast<std::int32_t>(elements_.size()))}});
        break;
      case is_closed:
        answers.push_back({.call = id, .values = {Tensor::scalar(closed_)}});
        break;
      default:
        invalid_argument("a queue has no {}", troupe::name(call.operation));
    }
  } catch (const Error& error) {
    answers.push_back({.call = id, .error = error.within(fmt::format("queue '{}'", name()))});
  }
  settle(answers);
}

void TensorQueue::enqueue(CallId id, std::vector<Tensor> values) {
  if (closed_) throw Error(Code::cancelled, "it is closed: nothing can be enqueued any more");
  producers_.push_back({id, checked_elements(std::move(values))});
}

std::deque<TensorQueue::Element> TensorQueue::checked_elements(std::vector<Tensor> values) const {
  const std::size_t components = rules_.dtypes.size();
  if (values.size() % components != 0)
    invalid_argument("{} tensors are no elements of {}", values.size(), counted(components, "component"));
  std::deque<Element> elements;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t c = i % components;
    if (values[i].dtype() != rules_.dtypes[c] || !rules_.shapes[c].compatible_with(values[i].shape()))
      invalid_argument("component {} must be {}{}, not {}{}", c, troupe::name(rules_.dtypes[c]),
                       rules_.shapes[c].to_string(), troupe::name(values[i].dtype()), values[i].shape().to_string());
    if (c == 0) elements.emplace_back();
    elements.back().push_back(std::move(values[i]));
  }
  return elements;
}

void TensorQueue::close(bool cancel, CallAnswers& answers) {
  closed_ = true;
  if (!cancel) return;
  for (const Producer& producer : producers_)
    answers.push_back({.call = producer.call,
                       .error = Error(Code::cancelled, fmt::format("queue '{}' was closed, which cancels enqueues that "
                                                                   "wait",
                                                                   name()))});
  producers_.clear();
}

void TensorQueue::drop(std::span<const CallId> ids, CallAnswers& answers) {
  const auto dropped = [ids](CallId call) { return std::ranges::find(ids, call) != ids.end(); };
  std::erase_if(producers_, [&](const Producer& p) { return dropped(p.call); });
  // Only the oldest has taken something.
  if (!consumers_.empty() && dropped(consumers_.front().call)) put_back(std::move(consumers_.front().taken));
  std::erase_if(consumers_, [&](const Consumer& c) { return dropped(c.call); });
  settle(answers);
}

void TensorQueue::settle(CallAnswers& answers) {
  for (bool went_on = true; went_on;) {
    const bool produced = produce(answers);
    went_on = consume(answers) || produced;
  }
}

// Returns whether anything has changed, like consume().
bool TensorQueue::produce(CallAnswers& answers) {
  bool changed = false;
  while (!producers_.empty()) {
    Producer& first = producers_.front();
    while (!first.left.empty() && std::ssize(elements_) < rules_.capacity) {
      add(std::move(first.left.front()));
      first.left.pop_front();
      changed = true;
    }
    if (!first.left.empty()) break;
    answers.push_back({.call = first.call});
    producers_.pop_front();
    changed = true;
  }
  return changed;
}

bool TensorQueue::consume(CallAnswers& answers) {
  bool changed = false;
  while (!consumers_.empty()) {
    Consumer& first = consumers_.front();
    while (std::ssize(first.taken) < first.wanted && has_element()) {
      first.taken.push_back(take());
      changed = true;
    }
    const bool all = std::ssize(first.taken) == first.wanted;
    // Elements that producers still have come before the end.
    const bool ends = closed_ && producers_.empty() && elements_.empty();
    if (!all && !ends) break;
    if (all || (first.up_to && !first.taken.empty())) {
      CallAnswer answer{.call = first.call};
      for (Element& element : first.taken) std::ranges::move(element, std::back_inserter(answer.values));
      answers.push_back(std::move(answer));
      consumers_.pop_front();
    } else {
      const Consumer failed = std::move(first);
      consumers_.pop_front();
      answers.push_back(
          {.call = failed.call,
           .error = Error(Code::out_of_range, fmt::format("queue '{}' is closed and has {} left, of {} wanted", name(),
                                                          counted(failed.taken.size(), "element"), failed.wanted))});
      put_back(failed.taken);
    }
    changed = true;
  }
  return changed;
}

bool TensorQueue::has_element() const { return std::ssize(elements_) > (closed_ ? 0 : rules_.min_after_dequeue); }

void TensorQueue::add(Element element) {
  const auto at =
      rules_.by_priority ? std::ranges::upper_bound(elements_, priority_of(element), {}, priority_of) : elements_.end();
  elements_.insert(at, std::move(element));
}

TensorQueue::Element TensorQueue::take() {
  if (rules_.shuffled) {  // the last takes the place of the drawn one
    const PhiloxBlock block = PhiloxStream{.key = rules_.seed}.block(draws_++);
    const std::uint64_t bits = std::uint64_t{block[0]} << 32 | block[1];
    std::swap(elements_[bits % elements_.size()], elements_.back());
    Element drawn = std::move(elements_.back());
    elements_.pop_back();
    return drawn;
  }
  Element first = std::move(elements_.front());
  elements_.pop_front();
  return first;
}

void TensorQueue::put_back(std::vector<Element> taken) {
  while (!taken.empty()) {
    const auto at = rules_.by_priority ? std::ranges::lower_bound(elements_, priority_of(taken.back()), {}, priority_of)
                                       : elements_.begin();
    elements_.insert(at, std::move(taken.back()));
    taken.pop_back();
  }
}

std::string TensorQueue::describe() const {
  std::string text = fmt::format("{} of {} elements ({} bytes), {}", elements_.size(), rules_.capacity, num_bytes(),
                                 closed_ ? "closed" : "open");
  if (rules_.min_after_dequeue > 0) text += fmt::format(", {} must stay", rules_.min_after_dequeue);
  if (!consumers_.empty()) {
    text += fmt::format("; {} for elements", counted(consumers_.size(), "call"));
    text += fmt::format(", the oldest for {} more", consumers_.front().wanted - std::ssize(consumers_.front().taken));
  }
  if (!producers_.empty()) text += fmt::format("; {} for room", counted(producers_.size(), "call"));
  return text;
}

std::size_t TensorQueue::num_bytes() const {
  std::size_t bytes = 0;
  for (const Element& element : elements_) bytes += bytes_of(element);
  for (const Producer& producer : producers_)
    for (const Element& element : producer.left) bytes += bytes_of(element);
  for (const Consumer& consumer : consumers_)
    for (const Element& element : consumer.taken) bytes += bytes_of(element);
  return bytes;
}

}  // namespace troupe
