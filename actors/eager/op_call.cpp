#include "troupe/actors/eager/op_call.hpp"

#include <fmt/format.h>

#include <array>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include <troupe/actors/eager/values.hpp>
#include <troupe/devices/device.hpp>
#include <troupe/messages/local.hpp>
#include <troupe/scheduler/run/single_kernel.hpp>

namespace troupe {
namespace {

// "MatMul(f32[2,3], f32[4,5])".
std::string text_of(const NodeSpec& call) {
  std::string text = call.op + "(";
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    text += fmt::format("{}{}{}", i == 0 ? "" : ", ", name(call.inputs[i].dtype()), call.inputs[i].shape().to_string());
  return text + ")";
}

// The device whose op this thread is running: ops that its kernel calls on the same device run within it.
thread_local constinit const Device* device_of_thread = nullptr;

// The op's call on the stream of its device. Its thread waits for it: all is on that thread's stack.
struct Call final : AllocationSource {
  Call(const PreparedOp& prepared, const NodeSpec& of, const KernelOperands& with)
      : op(prepared), spec(of), operands(with) {}

  void run() {
    const AllocationScope scope(*this);
    const Device* const outer = std::exchange(device_of_thread, &op.device());
    try {
      run_kernel(op.kernel(), operands, op.device());
    } catch (...) {
      error = std::current_exception();
    }
    device_of_thread = outer;
  }
  AllocationLabel allocating() const override { return {spec.op, spec.name}; }

  const PreparedOp& op;
  const NodeSpec& spec;
  const KernelOperands& operands;
  std::exception_ptr error{};
};

class LentCall final : public LocalWork {
 public:
  void run() override { call->run(); }
  Call* call = nullptr;
};

class QueuedCall final : public LocalWork {
 public:
  struct Done {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    bool ran = false;
  };
  QueuedCall(Call& call, std::shared_ptr<Done> done) : call_(call), done_(std::move(done)) {}
  // Dropped by a device that ends, or after it has run.
  ~QueuedCall() override {
    const std::lock_guard lock(done_->mutex);
    done_->done = true;
    done_->changed.notify_all();
  }
  void run() override {
    call_.run();
    done_->ran = true;
  }

 private:
  Call& call_;
  const std::shared_ptr<Done> done_;
};

// False: the device has ended.
bool run_on_stream(Call& call, const AroundWaits& around_waits) {
  Device& device = call.op.device();
  if (device_of_thread == &device) {
    call.run();
    return true;
  }
  Stream& stream = device.compute();
  if (stream.lend()) {
    static thread_local const std::shared_ptr<LentCall> lent = std::make_shared<LentCall>();
    lent->call = &call;
    stream.run_lent(lent);
    return true;
  }
  const auto done = std::make_shared<QueuedCall::Done>();
  stream.enqueue(std::make_shared<QueuedCall>(call, done));
  const auto wait = [&] {
    std::unique_lock lock(done->mutex);
    done->changed.wait(lock, [&] { return done->done; });
  };
  around_waits ? around_waits(wait) : wait();
  return done->ran;
}

[[noreturn]] void rethrow(const Call& call) {
  // The shape function names the input whose value the kernel has refused.
  call.op.check(call.spec);
  try {
    std::rethrow_exception(call.error);
  } catch (...) {
    throw current_error().within(
        fmt::format("{} on {}", text_of(call.spec), call.op.device().attributes().name.to_string()));
  }
}

// Elements on the stack, for the few that most ops have.
template <class T>
class Few {
 public:
  explicit Few(std::size_t count) : count_(count) {
    if (count > here_.size()) more_.resize(count);
  }
  std::span<T> all() { return count_ > here_.size() ? std::span<T>(more_) : std::span<T>(here_).first(count_); }

 private:
  std::size_t count_;
  std::array<T, 4> here_{};
  std::vector<T> more_;
};

}  // namespace

std::vector<Output> run_op(Graph& graph, const PreparedOp& op, const NodeSpec& spec, const RandomKey& random,
                           const AroundWaits& around_waits) {
  const std::shared_ptr<const Node> node = op.node_for(spec);
  Few<const Tensor*> inputs(spec.inputs.size());
  Few<Variable*> variables(spec.inputs.size());
  Few<Tensor> outputs(node->output_types.size());
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    const EagerValue& value = *spec.inputs[i].eager;
    if (value.dtype() == DType::resource)
      variables.all()[i] = &static_cast<const EagerVariable&>(value).variable();
    else
      inputs.all()[i] = &value.value();
  }
  const KernelOperands operands{
      .inputs = inputs.all(), .variables = variables.all(), .outputs = outputs.all(), .random = random};
  Call call(op, spec, operands);
  if (!run_on_stream(call, around_waits)) fail(Code::cancelled, "{}: the device has ended", spec.op);
  if (call.error) rethrow(call);
  std::vector<Output> out;
  out.reserve(outputs.all().size());
  for (Tensor& tensor : outputs.all()) {
    if (!tensor.valid()) fail(Code::internal, "{}: the kernel has not made output {}", spec.op, out.size());
    out.push_back({&graph, -1, static_cast<int>(out.size()), EagerPtr(new EagerTensor(std::move(tensor), node))});
  }
  return out;
}

}  // namespace troupe
