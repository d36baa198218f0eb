#include "troupe/actors/eager/op_call.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <troupe/actors/eager/values.hpp>
#include <troupe/devices/device.hpp>
#include <troupe/devices/program_call.hpp>
#include <troupe/messages/local.hpp>
#include <troupe/scheduler/run/single_kernel.hpp>

namespace troupe {
namespace {

// Elements on the stack, for as many as most ops have.
template <class T, std::size_t most>
class Few {
 public:
  explicit Few(std::size_t count) : count_(count) {
    if (count > here_.size()) more_.resize(count);
  }
  std::span<T> all() { return count_ > here_.size() ? std::span<T>(more_) : std::span<T>(here_).first(count_); }

 private:
  std::size_t count_;
  std::array<T, most> here_{};
  std::vector<T> more_;
};

// A call on the thread that has the stream of its device. Never throws: errors are noted.
class Call final : public AllocationSource {
 public:
  Call(const PreparedOp& op, const NodeSpec& spec, const RandomKey& random, std::size_t outputs)
      : op_(op), spec_(spec), random_(random), outputs_(outputs) {}

  void run() {
    const AllocationScope scope(*this);
    const std::size_t count = spec_.inputs.size();
    try {
      Few<const Tensor*, 4> inputs(count);
      Few<Variable*, 4> variables(count);
      std::vector<Tensor> on_device(op_.on_host() ? 0 : count);
      for (std::size_t i = 0; i < count; ++i) {
        const EagerPtr& value = spec_.inputs[i].eager;
        if (value->dtype() == DType::resource)
          variables.all()[i] = &static_cast<const EagerVariable&>(*value).variable();
        else if (op_.on_host())
          inputs.all()[i] = &known(tensor_of(value));
        else
          inputs.all()[i] = &(on_device[i] = brought_in(tensor_of(value)));
      }
      inputs_there_ = true;
      run_kernel(op_.kernel(),
                 {.inputs = inputs.all(), .variables = variables.all(), .outputs = outputs_.all(), .random = random_},
                 op_.device());
      for (const Tensor& output : outputs_.all())
        if (!output.valid()) fail(Code::internal, "the kernel has not made an output");
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  std::span<Tensor> outputs() { return outputs_.all(); }
  bool failed() const { return error_ != nullptr; }
  // Whether it has failed because an input has, whose error it has then.
  bool lacks_input() const { return error_ && !inputs_there_; }
  // The error as users see it.
  std::exception_ptr error() const {
    if (lacks_input()) return error_;
    try {
      op_.check(spec_);  // the shape function names the input whose value the kernel has refused
      std::rethrow_exception(error_);
    } catch (...) {
      const Error found = current_error();
      const std::string text = text_of(spec_);
      if (found.message().starts_with(text)) return std::make_exception_ptr(found);
      return std::make_exception_ptr(
          found.within(fmt::format("{} on {}", text, op_.device().attributes().name.to_string())));
    }
  }

  AllocationLabel allocating() const override { return {spec_.op, spec_.name}; }

 private:
  // Of an op before this one on the same device, or of another device, which was brought to the host before.
  static const Tensor& known(const EagerTensor& value) {
    const OpResults* const results = value.results();
    if (!results) return static_cast<const HostTensor&>(value).tensor();
    if (const std::exception_ptr error = results->error()) std::rethrow_exception(error);
    return value.value();
  }
  Tensor brought_in(const EagerTensor& value) const {
    OpResults* const results = value.results();
    if (results && &results->device() == &op_.device()) {
      if (const std::exception_ptr error = results->error()) std::rethrow_exception(error);
      return results->on_device(static_cast<const ComputedTensor&>(value).output());
    }
    const Tensor& host = known(value);
    return host.dtype() == DType::string ? host : op_.device().upload(host);
  }

  const PreparedOp& op_;
  const NodeSpec& spec_;
  const RandomKey random_;
  Few<Tensor, 1> outputs_;
  bool inputs_there_ = false;
  std::exception_ptr error_{};
};

class LentCall final : public LocalWork {
 public:
  explicit LentCall(Call& call) : call_(call) {}
  void run() override { call_.run(); }

 private:
  Call& call_;
};

class QueuedCall final : public LocalWork {
 public:
  QueuedCall(std::shared_ptr<const PreparedOp> op, NodeSpec spec, const RandomKey& random,
             std::shared_ptr<OpResults> results, std::size_t outputs, OutstandingOps& outstanding)
      : op_(std::move(op)),
        spec_(std::move(spec)),
        random_(random),
        results_(std::move(results)),
        outputs_(outputs),
        outstanding_(outstanding) {}
  // Dropped by a device that ends, or after it has run.
  ~QueuedCall() override {
    if (!ran_) {
      results_->fail(std::make_exception_ptr(Error(Code::cancelled, spec_.op + ": the device has ended")));
      outstanding_.end(nullptr);
    }
  }
  void run() override {
    ran_ = true;
    Call call(*op_, spec_, random_, outputs_);
    call.run();
    if (call.failed())
      results_->fail(call.error());
    else
      results_->set({std::make_move_iterator(call.outputs().begin()), std::make_move_iterator(call.outputs().end())});
    if (!call.failed() && !op_->on_host()) return finish_when_reached();
    if (!call.failed()) results_->finish(nullptr);
    spec_.inputs.clear();
    outstanding_.end(call.failed() && !call.lacks_input() ? results_ : nullptr);
  }

 private:
  // A GPU finds faults in data while it works: then results are wrong, and those made of them.
  void finish_when_reached() {
    std::vector<EagerPtr> inputs;
    for (const Output& x : spec_.inputs)
      if (x.dtype() != DType::resource && tensor_of(x.eager).results()) inputs.push_back(x.eager);
    std::string text = text_of(spec_);
    spec_.inputs.clear();
    const std::shared_ptr<Event> event = op_->device().compute().record();
    event->on_reached([results = results_, &outstanding = outstanding_, inputs = std::move(inputs), event = event.get(),
                       text = std::move(text), device = &op_->device()]() mutable {
      std::exception_ptr fault;
      for (const EagerPtr& x : inputs)
        if (!fault) fault = tensor_of(x).results()->error();
      const Error own = fault ? Error() : event->error();
      if (own)
        fault =
            std::make_exception_ptr(own.within(fmt::format("{} on {}", text, device->attributes().name.to_string())));
      results->finish(fault);
      inputs.clear();
      outstanding.end(own ? results : nullptr);
    });
  }

  const std::shared_ptr<const PreparedOp> op_;
  NodeSpec spec_;
  const RandomKey random_;
  const std::shared_ptr<OpResults> results_;
  const std::size_t outputs_;
  OutstandingOps& outstanding_;
  bool ran_ = false;
};

// A thread that has just begun, or done its work, is about to sleep, and then lends its place.
bool lend(Stream& stream, const OutstandingOps& outstanding) {
  if (stream.lend()) return true;
  if (outstanding.any()) return false;
  constexpr std::chrono::microseconds kSpins{5}, kPatience{100};
  const auto since = std::chrono::steady_clock::now();
  for (;;) {
    const auto waited = std::chrono::steady_clock::now() - since;
    if (waited >= kPatience) return false;
    if (waited >= kSpins) std::this_thread::yield();
    if (stream.lend()) return true;
  }
}

// The caller has the stream, or is within an op of it.
bool runs_here(const PreparedOp& op, Call& call, const OutstandingOps& outstanding) {
  if (!op.on_host()) return false;
  Device& device = op.device();
  if (ProgramCall::is_of(device)) {
    call.run();
    return true;
  }
  if (!lend(device.compute(), outstanding)) return false;
  LentCall lent(call);
  device.compute().run_lent(LocalHandle(LocalHandle(), &lent));  // a handle that counts nothing
  return true;
}

std::vector<Output> run_later(Graph& graph, const std::shared_ptr<const PreparedOp>& op, const NodeSpec& spec,
                              const RandomKey& random, const std::shared_ptr<const InferredCall>& inferred,
                              OutstandingOps& outstanding) {
  const Node& node = inferred->node;
  const std::size_t count = node.output_types.size();
  auto results = std::make_shared<OpResults>(op->device(), count, outstanding.around_waits());
  const bool many = !outstanding.begin();
  const bool known = op->knows_shapes(*inferred, spec);
  op->device().compute().enqueue(std::make_shared<QueuedCall>(
      op, NodeSpec{.op = spec.op, .name = spec.name, .inputs = spec.inputs}, random, results, count, outstanding));
  if (many) outstanding.wait_for_all();  // then the next op may run on this thread again
  if (!known) results->wait();
  std::vector<Output> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back({&graph, -1, static_cast<int>(i),
                   EagerPtr(new ComputedTensor(node.output_types[i],
                                               known ? node.output_shapes[i] : results->on_device(i).shape(),
                                               InferredCall::node_of(inferred), results, i))});
  return out;
}

}  // namespace

std::vector<Output> run_op(Graph& graph, const std::shared_ptr<const PreparedOp>& op, const NodeSpec& spec,
                           const RandomKey& random, OutstandingOps& outstanding) {
  Device& device = op->device();
  for (const Output& x : spec.inputs) {
    if (x.eager->dtype() == DType::resource) continue;
    const OpResults* const results = tensor_of(x.eager).results();
    if (results && &results->device() != &device) x.value();  // waits for the other device
  }
  std::shared_ptr<const InferredCall> inferred = op->infer(spec);
  Call call(*op, spec, random, inferred->node.output_types.size());
  if (!runs_here(*op, call, outstanding)) return run_later(graph, op, spec, random, inferred, outstanding);
  if (call.lacks_input())
    for (const Output& x : spec.inputs)
      if (x.dtype() != DType::resource) x.value();
  if (call.failed()) std::rethrow_exception(call.error());
  const std::span<Tensor> made = call.outputs();
  std::vector<Output> out;
  out.reserve(made.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    const bool last = i + 1 == made.size();
    std::shared_ptr<const Node> source = InferredCall::node_of(last ? std::move(inferred) : inferred);
    out.push_back({&graph, -1, static_cast<int>(i), EagerPtr(new HostTensor(std::move(made[i]), std::move(source)))});
  }
  return out;
}

}  // namespace troupe
