// A plug-in with devices of a type of its own, "TPU": two, which compute at once and whose memory the host cannot read.
// They have few kernels, for dense layers; everything else of a model runs on the CPU. Some kernels are its own, the
// products are the CPU's, so that results have the bits of the CPU.
#include <stdlib.h>

#include <algorithm>
#include <cstring>

#include "tests/devices/host_context.hpp"
#include <troupe/devices/caching_allocator.hpp>
#include <troupe/devices/cpu/cpu_device.hpp>
#include <troupe/devices/plugin.hpp>

namespace troupe::testing {
namespace {

constexpr int kTpus = 2;

class TpuMemory final : public MemorySource {
 public:
  explicit TpuMemory(int ordinal) : ordinal_(ordinal) {}
  void* allocate(std::size_t bytes) override { return std::aligned_alloc(kBufferAlignment, bytes); }
  void free(void* data, std::size_t) noexcept override { std::free(data); }
  // Of no kind that the host can read.
  MemorySpace space() const override { return {MemorySpace::Kind::cuda, ordinal_}; }
  std::size_t largest_kept() const override { return std::size_t{1} << 30; }

 private:
  const int ordinal_;
};

class Tpu final : public Device {
 public:
  Tpu(int ordinal, const AcceleratorOptions& options, AllocationLabelSource label)
      : attributes_{options.name, "TPU", std::uint64_t{1} << 30, false},
        memory_(options.memory_limit, std::make_shared<TpuMemory>(ordinal), label),
        threads_(make_cpu_device({.name = options.name})) {}
  ~Tpu() override { shutdown(); }

  const DeviceAttributes& attributes() const override { return attributes_; }
  Allocator& allocator() override { return memory_; }
  Stream& compute() override { return threads_->compute(); }
  Parallelism& parallelism() override { return threads_->parallelism(); }
  void copy_to_host(Tensor source, CopyDone done) override { done(copied(source, host_), Error()); }
  void copy_in(Tensor source, CopyDone done) override { done(copied(source, memory_), Error()); }
  Tensor upload(const Tensor& source) override { return copied(source, memory_); }
  Tensor read(const Tensor& source) override { return copied(source, host_); }
  void shutdown() override { threads_->shutdown(); }

 private:
  static Tensor copied(const Tensor& source, Allocator& memory) {
    if (!source.valid() || source.dtype() == DType::string) return source;
    Tensor copy = memory.tensor(source.dtype(), source.shape());
    if (source.num_bytes() > 0) std::memcpy(copy.mutable_raw(), source.raw(), source.num_bytes());
    return copy;
  }

  const DeviceAttributes attributes_;
  CachingAllocator memory_, host_;
  const std::unique_ptr<Device> threads_;
};

// A kernel that is written for the host's memory, on the TPU's.
KernelFactory on_tpu(KernelFactory make) {
  return [make = std::move(make)](const KernelInit& init) -> Kernel {
    return [kernel = make(init)](KernelContext& context) {
      HostContext host(context);
      kernel(host);
      host.write_back();
    };
  };
}

Kernel make_tpu_relu(const KernelInit&) {
  return [](KernelContext& context) {
    const Tensor x = context.input(0);
    Tensor y = context.take_or_allocate(0, x.dtype(), x.shape());
    std::ranges::transform(x.values<float>(), y.mutable_data<float>(), [](float v) { return v < 0 ? 0.f : v; });
    context.set_output(0, std::move(y));
  };
}

Kernel make_tpu_relu_grad(const KernelInit&) {
  return [](KernelContext& context) {
    const Tensor &dy = context.input(0), &y = context.input(1);
    Tensor dx = context.allocate(y.dtype(), y.shape());
    std::ranges::transform(dy.values<float>(), y.values<float>(), dx.mutable_data<float>(),
                           [](float d, float v) { return v > 0 ? d : 0.f; });
    context.set_output(0, std::move(dx));
  };
}

Kernel make_tpu_bias_add(const KernelInit&) {
  return [](KernelContext& context) {
    const Tensor &x = context.input(0), &bias = context.input(1);
    Tensor y = context.allocate(x.dtype(), x.shape());
    const auto width = static_cast<std::size_t>(bias.num_elements());
    for (std::size_t i = 0; i < static_cast<std::size_t>(x.num_elements()); ++i)
      y.mutable_data<float>()[i] = x.data<float>()[i] + bias.data<float>()[i % width];
    context.set_output(0, std::move(y));
  };
}

class TpuPlugin final : public DevicePlugin {
 public:
  explicit TpuPlugin(AllocationLabelSource label) : label_(label) {}
  std::string type() const override { return "TPU"; }
  int count() const override { return kTpus; }
  std::string description() const override { return "simulated TPUs"; }
  std::unique_ptr<Device> make(int ordinal, const AcceleratorOptions& options) override {
    return std::make_unique<Tpu>(ordinal, options, label_);
  }
  void register_kernels(KernelRegistry& registry) override {
    for (const char* op : {"MatMul", "BiasAddGrad", "SparseSoftmaxCrossEntropy"})
      registry.add({op, "TPU", {DType::f32}, on_tpu(*registry.find(op, "CPU", DType::f32))});
    registry.add({"Relu", "TPU", {DType::f32}, on_tpu(make_tpu_relu)});
    registry.add({"ReluGrad", "TPU", {DType::f32}, on_tpu(make_tpu_relu_grad)});
    registry.add({"BiasAdd", "TPU", {DType::f32}, on_tpu(make_tpu_bias_add)});
  }

 private:
  const AllocationLabelSource label_;
};

}  // namespace
}  // namespace troupe::testing

extern "C" __attribute__((visibility("default"))) const char* troupe_plugin_abi() {
  static const std::string abi = troupe::plugin_abi();
  return abi.c_str();
}
extern "C" __attribute__((visibility("default"))) troupe::DevicePlugin* troupe_plugin(
    troupe::AllocationLabelSource label) {
  return new troupe::testing::TpuPlugin(label);
}
