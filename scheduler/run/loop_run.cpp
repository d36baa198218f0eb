#include "troupe/scheduler/run/loop_run.hpp"

#include <algorithm>
#include <limits>

#include <troupe/messages/tensor_list.hpp>

namespace troupe {
namespace {

bool is_true(const Tensor& value) {
  if (!value.valid() || value.dtype() != DType::boolean || value.num_elements() != 1)
    invalid_argument("the condition must be one bool, not {}", value.to_string());
  return value.item<bool>();
}

bool read_bool(Device& device, const Tensor& tensor) {
  return tensor.space().on_host() ? is_true(tensor) : is_true(device.read(tensor));
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

Tensor take(NodeContext& context, int input) {
  Tensor taken = context.take_input(input);
  return taken.valid() ? std::move(taken) : context.input(input);
}

}  // namespace

LoopRun::LoopRun(const Plan::Loop& loop)
    : loop_(loop), plan_(*loop.body), inner_(plan_, std::vector<Variable*>(plan_.variables.size())) {}

void LoopRun::clear() {
  inner_.clear();
  state_ = State::idle;
  scanned_.clear();
  next_.clear();
  items_.clear();
}

bool LoopRun::run(PlanFrame& frame, NodeContext& context, const Surroundings& around) {
  try {
    if (state_ == State::idle) begin(context, around.device);
    if (!go_on(frame, around)) return false;
    set_outputs(context, around.device);
  } catch (...) {
    clear();
    throw;
  }
  clear();
  return true;
}

// Iterates until the end, at least once; returns false for a pause.
bool LoopRun::go_on(const PlanFrame& frame, const Surroundings& around) {
  const auto nodes = static_cast<std::uint32_t>(plan_.nodes.size());
  for (bool first = true; more_ && done_ < iterations_; first = false) {
    if (around.aborted.load(std::memory_order_relaxed)) throw Error(Code::cancelled, "the step was aborted");
    if (state_ == State::between) {
      if (around.pauses && !first && around.pauses->wanted()) return false;
      begin_iteration(frame.random, around.device);
      state_ = State::in_iteration;
    }
    if (Error error = run_in_order(inner_, 0, nodes, around)) throw error.within(fmt::format("iteration {}", index_));
    if (inner_.paused()) return false;
    state_ = State::between;
    more_ = end_iteration(around.device);
    ++done_;
  }
  return true;
}

void LoopRun::begin(NodeContext& context, Device& device) {
  done_ = 0;
  take_inputs(context, device.read(context.input(0)).item<std::int64_t>());
  more_ = iterations_ > 0 && read_bool(device, context.input(1));
  state_ = State::between;
}

void LoopRun::take_inputs(NodeContext& context, std::int64_t limit) {
  iterations_ = limit < 0 ? std::numeric_limits<std::int64_t>::max() : limit;
  int input = 2;
  for (std::uint32_t i = 0; i < loop_.carried; ++i) inner_.slots[slot(1 + i)] = take(context, input++);
  for (std::uint32_t i = 0; i < loop_.scanned; ++i) {
    scanned_.push_back(context.input(input++));
    const std::int64_t rows = rows_of(scanned_.back());
    if (i > 0 && rows != rows_of(scanned_.front()) && limit < 0)
      invalid_argument("scanned inputs have {} and {} rows", rows_of(scanned_.front()), rows);
    iterations_ = std::min(iterations_, rows);
  }
  if (loop_.reverse && iterations_ == std::numeric_limits<std::int64_t>::max())
    invalid_argument("a loop in reverse needs a limit or a scanned input");
  // Tensors around the loop stay in their slots (Plan::kept_arguments).
  for (std::size_t a = 1 + loop_.carried + loop_.scanned; a < plan_.argument_slots.size(); ++a, ++input) {
    if (plan_.argument_variables[a] != Plan::kNoSlot)
      inner_.variables[plan_.argument_variables[a]] = &context.variable(input);
    else
      inner_.slots[slot(a)] = context.input(input);
  }
  next_.resize(loop_.carried);
  items_.resize(plan_.results.size() - 1 - loop_.carried);
}

void LoopRun::begin_iteration(RandomKey random, Device& device) {
  index_ = loop_.reverse ? iterations_ - 1 - done_ : done_;
  inner_.iteration.store(index_, std::memory_order_relaxed);
  random.seed ^= 0x9e3779b97f4a7c15ull * (static_cast<std::uint64_t>(index_) + 1);
  inner_.begin(random);
  if (plan_.slot_is_read[slot(0)]) inner_.slots[slot(0)] = index_tensor(device);
  std::size_t argument = 1 + loop_.carried;
  for (const Tensor& scanned : scanned_) inner_.slots[slot(argument++)] = row_of(scanned, index_);
}

Tensor LoopRun::index_tensor(Device& device) {
  if (!device.attributes().synchronous) return device.upload(Tensor::scalar<std::int64_t>(index_));
  Tensor out = device.allocator().tensor(DType::i64, Shape{});
  *out.mutable_data<std::int64_t>() = index_;
  return out;
}

Tensor LoopRun::take_result(std::size_t result) {
  const InputRef ref = plan_.results[result];
  if (ref.kind == InputRef::Kind::constant) return plan_.constants[ref.index];
  if (!loop_.moved[result]) return inner_.slots[ref.index];
  Tensor out = std::move(inner_.slots[ref.index]);
  let_go_of_block(result, out);
  return out;
}

// The next iteration may overwrite a value in place as its last holder: the block that the plan has for the result is
// not held beside it.
void LoopRun::let_go_of_block(std::size_t result, const Tensor& taken) {
  const std::uint32_t block = plan_.memory.block_of[plan_.results[result].index];
  if (block == MemoryPlan::kNone) return;
  if (BufferRef& held = inner_.blocks[block]; held && held.get() == taken.buffer().get()) held = BufferRef();
}

// Takes the results out of the frame; returns the condition.
bool LoopRun::end_iteration(Device& device) {
  for (std::size_t r = 1 + loop_.carried; r < plan_.results.size(); ++r)
    items_[r - 1 - loop_.carried].push_back(take_result(r));
  // Values that are made by nodes go straight to the slots of their arguments; others may still be read there.
  for (std::size_t r = 1; r <= loop_.carried; ++r)
    if (!loop_.made[r]) next_[r - 1] = take_result(r);
  const InputRef cond = plan_.results[0];
  const bool more =
      read_bool(device, cond.kind == InputRef::Kind::constant ? plan_.constants[cond.index] : inner_.slots[cond.index]);
  for (std::size_t r = 1; r <= loop_.carried; ++r) {
    Tensor& value = inner_.slots[slot(r)];
    if (!loop_.made[r]) {
      value = std::move(next_[r - 1]);
      continue;
    }
    value = std::move(inner_.slots[plan_.results[r].index]);
    let_go_of_block(r, value);
  }
  if (loop_.made[0]) inner_.slots[cond.index].reset();  // frees its block
  return more;
}

void LoopRun::set_outputs(NodeContext& context, Device& device) {
  context.set_output(0, device.upload(Tensor::scalar<std::int64_t>(done_)));
  int output = 1;
  for (std::uint32_t i = 0; i < loop_.carried; ++i) context.set_output(output++, std::move(inner_.slots[slot(1 + i)]));
  for (std::vector<Tensor>& list : items_) {
    if (loop_.reverse) std::ranges::reverse(list);
    context.set_output(output++, make_list(std::move(list)));
  }
}

}  // namespace troupe
