// Runs loops: the body's plan once for each iteration, in one frame that is used again.
#include <algorithm>
#include <limits>

#include <troupe/messages/tensor_list.hpp>
#include <troupe/scheduler/run/node_context.hpp>

namespace troupe {
namespace {

bool read_bool(Device& device, const Tensor& tensor) {
  const Tensor value = device.read(tensor);
  if (!value.valid() || value.dtype() != DType::boolean || value.num_elements() != 1)
    invalid_argument("the condition must be one bool, not {}", value.to_string());
  return value.item<bool>();
}

// Row `index` of a scanned input: an item of a list, or a view of a tensor.
Tensor row_of(const Tensor& scanned, std::int64_t index) {
  if (scanned.dtype() == DType::list) {
    const auto items = list_items(scanned);
    if (index >= std::ssize(items)) fail(Code::out_of_range, "row {} of a list of {}", index, items.size());
    return items[static_cast<std::size_t>(index)];
  }
  const Tensor row = scanned.rows(index, index + 1);
  return row.reshaped(row.shape().without(0));
}

std::int64_t rows_of(const Tensor& scanned) {
  if (scanned.dtype() == DType::list) return std::ssize(list_items(scanned));
  if (scanned.shape().rank() < 1) invalid_argument("a scanned input is a scalar: it has no rows");
  return scanned.shape().dim(0);
}

class LoopRun {
 public:
  LoopRun(PlanFrame& frame, const PlanNode& node, NodeContext& context, const std::atomic<bool>& aborted,
          Device& device, Outbox& outbox)
      : loop_(frame.plan().loops[node.target]),
        body_(*loop_.body),
        frame_(frame),
        inner_(*frame.loop_frames[node.target]),
        context_(context),
        aborted_(aborted),
        device_(device),
        outbox_(outbox) {}

  void run() {
    take_inputs(device_.read(context_.input(0)).item<std::int64_t>());
    bool more = iterations_ > 0 && read_bool(device_, context_.input(1));
    for (; more && done_ < iterations_; ++done_) {
      if (aborted_.load(std::memory_order_relaxed)) throw Error(Code::cancelled, "the step was aborted");
      const std::int64_t index = loop_.reverse ? iterations_ - 1 - done_ : done_;
      inner_.iteration.store(index, std::memory_order_relaxed);
      begin_iteration(index);
      for (const Segment& segment : body_.segments) {
        Error error =
            (TraceSlice::current() ? run_in_order_traced : run_in_order)(inner_, segment, aborted_, device_, outbox_);
        if (error) throw error.within(fmt::format("iteration {}", index));
      }
      more = end_iteration();
    }
    inner_.clear();
    set_outputs();
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::uint32_t slot(std::size_t argument) const { return body_.argument_slots[argument]; }

  Tensor take(int input) {
    Tensor taken = context_.take_input(input);
    return taken.valid() ? std::move(taken) : context_.input(input);
  }

  void take_inputs(std::int64_t limit) {
    iterations_ = limit < 0 ? std::numeric_limits<std::int64_t>::max() : limit;
    int input = 2;
    for (std::uint32_t i = 0; i < loop_.carried; ++i) values_.push_back(take(input++));
    for (std::uint32_t i = 0; i < loop_.scanned; ++i) {
      scanned_.push_back(context_.input(input++));
      const std::int64_t rows = rows_of(scanned_.back());
      if (i > 0 && rows != rows_of(scanned_.front()) && limit < 0)
        invalid_argument("scanned inputs have {} and {} rows", rows_of(scanned_.front()), rows);
      iterations_ = std::min(iterations_, rows);
    }
    if (loop_.reverse && iterations_ == std::numeric_limits<std::int64_t>::max())
      invalid_argument("a loop in reverse needs a limit or a scanned input");
    for (std::size_t a = 1 + values_.size() + scanned_.size(); a < body_.argument_slots.size(); ++a, ++input) {
      if (body_.argument_variables[a] != Plan::kNoSlot)
        inner_.variables[body_.argument_variables[a]] = &context_.variable(input);
      else
        others_.emplace_back(slot(a), context_.input(input));
    }
    items_.resize(body_.results.size() - 1 - values_.size());
  }

  void begin_iteration(std::int64_t index) {
    RandomKey key = frame_.random;
    key.seed ^= 0x9e3779b97f4a7c15ull * (static_cast<std::uint64_t>(index) + 1);
    inner_.begin(key);
    if (body_.slot_is_read[slot(0)]) inner_.slots[slot(0)] = device_.upload(Tensor::scalar<std::int64_t>(index));
    std::size_t argument = 1;
    for (Tensor& value : values_) inner_.slots[slot(argument++)] = std::move(value);
    for (const Tensor& scanned : scanned_) {
      inner_.slots[slot(argument)] = row_of(scanned, index);
      ++argument;
    }
    for (const auto& [where, tensor] : others_) inner_.slots[where] = tensor;
  }

  // Takes the results out of the frame; returns the condition.
  bool end_iteration() {
    for (std::size_t r = 1; r < body_.results.size(); ++r) {
      const InputRef ref = body_.results[r];
      Tensor result = ref.kind == InputRef::Kind::constant ? body_.constants[ref.index]
                      : loop_.moved[r]                     ? std::move(inner_.slots[ref.index])
                                                           : inner_.slots[ref.index];
      if (r <= values_.size())
        values_[r - 1] = std::move(result);
      else
        items_[r - 1 - values_.size()].push_back(std::move(result));
    }
    const InputRef cond = body_.results[0];
    return read_bool(device_,
                     cond.kind == InputRef::Kind::constant ? body_.constants[cond.index] : inner_.slots[cond.index]);
  }

  void set_outputs() {
    context_.set_output(0, device_.upload(Tensor::scalar<std::int64_t>(done_)));
    int output = 1;
    for (Tensor& value : values_) context_.set_output(output++, std::move(value));
    for (std::vector<Tensor>& list : items_) {
      if (loop_.reverse) std::ranges::reverse(list);
      context_.set_output(output++, make_list(std::move(list)));
    }
  }

  const Plan::Loop& loop_;
  const Plan& body_;
  PlanFrame& frame_;
  PlanFrame& inner_;
  NodeContext& context_;
  const std::atomic<bool>& aborted_;
  Device& device_;
  Outbox& outbox_;
  std::int64_t iterations_ = 0;  // at most
  std::int64_t done_ = 0;
  std::vector<Tensor> values_, scanned_;
  std::vector<std::pair<std::uint32_t, Tensor>> others_;  // by slot
  std::vector<std::vector<Tensor>> items_;                // by list
};

}  // namespace

void run_loop(PlanFrame& frame, const PlanNode& node, NodeContext& context, const std::atomic<bool>& aborted,
              Device& device, Outbox& outbox) {
  LoopRun(frame, node, context, aborted, device, outbox).run();
}

}  // namespace troupe
