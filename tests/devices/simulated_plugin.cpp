// A library of GPUs that are none: simulated ones, whose kernels are those of the CPU. Each kernel waits until the stream has got to it, and works on
// the memory of the GPU as the host's; copies are as asynchronous as a GPU's. So all of the runtime can be tested with devices that are not the
// host, and results must have the bits of the CPU.
#include <condition_variable>

#include "devices/cuda/cuda_device.hpp"
#include "tests/devices/simulated_cuda.hpp"

namespace troupe::testing {
namespace {

constexpr int kDevices = 2;

// Memory of the GPU, seen from the host.
class View final : public Buffer {
 public:
  explicit View(BufferRef memory) : Buffer(memory->data(), memory->size(), MemorySpace{}), memory(std::move(memory)) {}
  const BufferRef memory;
};

std::size_t offset_of(const Tensor& t) { return static_cast<std::size_t>(t.raw() - static_cast<const std::byte*>(t.buffer()->data())); }

Tensor to_host_view(const Tensor& t) {
  if (!t.valid() || t.space().on_host()) return t;
  return Tensor(t.dtype(), t.shape(), BufferRef(new View(t.buffer())), offset_of(t));
}

Tensor to_device(const Tensor& t, Device& device) {
  if (!t.valid() || t.dtype() == DType::string) return t;
  if (const auto* view = dynamic_cast<const View*>(t.buffer().get())) return Tensor(t.dtype(), t.shape(), view->memory, offset_of(t));
  return device.upload(t);
}

class ViewAllocator final : public Allocator {
 public:
  explicit ViewAllocator(Allocator& memory) : memory_(memory) {}
  BufferRef allocate(std::size_t bytes, DType dtype, const Shape& shape) override { return BufferRef(new View(memory_.allocate(bytes, dtype, shape))); }
  AllocatorStats stats() const override { return memory_.stats(); }
  MemorySpace space() const override { return {}; }

 private:
  Allocator& memory_;
};

// The GPU as a kernel of the CPU sees it.
class HostDevice final : public Device {
 public:
  explicit HostDevice(Device& inner) : inner_(inner), memory_(inner.allocator()) {}
  const DeviceAttributes& attributes() const override { return inner_.attributes(); }
  Allocator& allocator() override { return memory_; }
  Stream& compute() override { return inner_.compute(); }
  Parallelism& parallelism() override { return inner_.parallelism(); }
  void copy_to_host(Tensor source, CopyDone done) override { done(std::move(source), {}); }
  void copy_in(Tensor source, CopyDone done) override { done(std::move(source), {}); }
  void shutdown() override {}

 private:
  Device& inner_;
  ViewAllocator memory_;
};

// What a kernel of the CPU is given in place of the context of the GPU.
class HostContext final : public KernelContext {
 public:
  explicit HostContext(KernelContext& inner) : inner_(inner), memory_(inner.allocator()), device_(inner.device()), inputs_(static_cast<std::size_t>(inner.num_inputs())), variables_(inputs_.size()) {}

  int num_inputs() const override { return inner_.num_inputs(); }
  const Tensor& input(int index) const override {
    Tensor& seen = inputs_[static_cast<std::size_t>(index)];
    if (!seen.valid()) seen = to_host_view(inner_.input(index));
    return seen;
  }
  Variable& variable(int index) override {
    auto& seen = variables_[static_cast<std::size_t>(index)];
    if (seen) return *seen;
    Variable& real = inner_.variable(index);
    seen = std::make_unique<Variable>(real.name(), real.dtype(), real.shape());
    if (real.initialized()) {
      const Tensor& value = real.value();
      Tensor view = to_host_view(value);
      if (value.buffer()->references() > 2) others_.push_back(view);  // somebody reads it: not to be written in place
      seen->assign(std::move(view));
    }
    return *seen;
  }
  void set_output(int index, Tensor value) override { inner_.set_output(index, to_device(value, inner_.device())); }
  Tensor take_input(int index) override {
    inputs_[static_cast<std::size_t>(index)] = Tensor();
    return to_host_view(inner_.take_input(index));
  }
  Device& device() override { return device_; }
  RandomKey random_key() const override { return inner_.random_key(); }
  std::uint64_t node_hash() const override { return inner_.node_hash(); }
  Allocator& allocator() override { return memory_; }

  // The kernel has run: variables have what it gave them.
  void write_back() {
    for (std::size_t i = 0; i < variables_.size(); ++i)
      if (variables_[i] && variables_[i]->initialized()) inner_.variable(static_cast<int>(i)).assign(to_device(variables_[i]->value(), inner_.device()));
  }

 private:
  KernelContext& inner_;
  ViewAllocator memory_;
  HostDevice device_;
  mutable std::vector<Tensor> inputs_;
  std::vector<std::unique_ptr<Variable>> variables_;
  std::vector<Tensor> others_;
};

void await_stream(Device& device) {
  struct Reached {
    std::mutex mutex;
    std::condition_variable wake;
    bool there = false;
  };
  const auto reached = std::make_shared<Reached>();
  device.compute().record()->on_reached([reached] {
    const std::lock_guard lock(reached->mutex);
    reached->there = true;
    reached->wake.notify_all();
  });
  std::unique_lock lock(reached->mutex);
  reached->wake.wait(lock, [&] { return reached->there; });
}

KernelFactory on_simulated_gpu(KernelFactory make) {
  return [make = std::move(make)](const KernelInit& init) -> Kernel {
    return [kernel = make(init)](KernelContext& context) {
      await_stream(context.device());
      if (const Error lost = context.device().failure()) throw lost;
      HostContext host(context);
      kernel(host);
      host.write_back();
    };
  };
}

class SimulatedPlugin final : public DevicePlugin {
 public:
  explicit SimulatedPlugin(AllocationLabelSource label) : label_(label) {}
  std::string type() const override { return "GPU"; }
  int count() const override { return kDevices; }
  std::string description() const override { return "simulated GPUs"; }
  std::unique_ptr<Device> make(int ordinal, const AcceleratorOptions& options) override { return make_cuda_device(driver_, ordinal, options, label_); }
  void register_kernels(KernelRegistry& registry) override {
    for (const std::string& kernel : registry.list("CPU")) {
      const std::string op = kernel.substr(0, kernel.find(':'));
      const DType dtype = op == kernel ? DType::invalid : parse_dtype(kernel.substr(op.size() + 1)).value();
      std::vector<DType> dtypes;
      if (dtype != DType::invalid) dtypes.push_back(dtype);
      registry.add({op, "GPU", dtypes, on_simulated_gpu(*registry.find(op, "CPU", dtype))});
      registry.set_reuse(op, "GPU", registry.reuse(op, "CPU"));
    }
  }

 private:
  AllocationLabelSource label_;
  std::shared_ptr<SimulatedCuda> driver_ = std::make_shared<SimulatedCuda>(kDevices);
};

}  // namespace
}  // namespace troupe::testing

extern "C" __attribute__((visibility("default"))) const char* troupe_plugin_abi() {
  static const std::string abi = troupe::plugin_abi();
  return abi.c_str();
}
extern "C" __attribute__((visibility("default"))) troupe::DevicePlugin* troupe_plugin(troupe::AllocationLabelSource label) {
  return new troupe::testing::SimulatedPlugin(label);
}
