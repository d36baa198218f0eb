// Runs kernels of the CPU on a simulated device, whose memory is the host's but not called so.
#pragma once

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <troupe/devices/device.hpp>
#include <troupe/devices/kernel.hpp>

namespace troupe::testing {

// Memory of the device, seen from the host.
class View final : public Buffer {
 public:
  explicit View(BufferRef memory) : Buffer(memory->data(), memory->size(), MemorySpace{}), memory(std::move(memory)) {}
  const BufferRef memory;
};

inline std::size_t offset_of(const Tensor& t) {
  return static_cast<std::size_t>(t.raw() - static_cast<const std::byte*>(t.buffer()->data()));
}

inline Tensor to_host_view(const Tensor& t) {
  if (!t.valid() || t.space().on_host()) return t;
  return Tensor(t.dtype(), t.shape(), BufferRef(new View(t.buffer())), offset_of(t));
}

inline Tensor to_device(const Tensor& t, Device& device) {
  if (!t.valid() || t.dtype() == DType::string) return t;
  if (const auto* view = dynamic_cast<const View*>(t.buffer().get()))
    return Tensor(t.dtype(), t.shape(), view->memory, offset_of(t));
  return device.upload(t);
}

class ViewAllocator final : public Allocator {
 public:
  explicit ViewAllocator(Allocator& memory) : memory_(memory) {}
  BufferRef allocate(std::size_t bytes, DType dtype, const Shape& shape) override {
    return BufferRef(new View(memory_.allocate(bytes, dtype, shape)));
  }
  AllocatorStats stats() const override { return memory_.stats(); }
  MemorySpace space() const override { return {}; }

 private:
  Allocator& memory_;
};

// The device as a kernel of the CPU sees it.
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

// What a kernel of the CPU is given in place of the context of the device.
class HostContext final : public KernelContext {
 public:
  explicit HostContext(KernelContext& inner)
      : inner_(inner),
        memory_(inner.allocator()),
        device_(inner.device()),
        inputs_(static_cast<std::size_t>(inner.num_inputs())),
        variables_(inputs_.size()) {}

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
  void set_output(int index, Tensor&& value) override { inner_.set_output(index, to_device(value, inner_.device())); }
  Tensor take_input(int index) override {
    Tensor& seen = inputs_[static_cast<std::size_t>(index)];
    seen = Tensor();  // a view is a user of the memory
    Tensor taken = inner_.take_input(index);
    if (!taken.valid()) seen = to_host_view(inner_.input(index));
    return to_host_view(taken);
  }
  Device& device() override { return device_; }
  RandomKey random_key() const override { return inner_.random_key(); }
  std::int64_t random_slot() const override { return inner_.random_slot(); }
  std::uint64_t node_hash() const override { return inner_.node_hash(); }
  Allocator& allocator() override { return memory_; }

  // The kernel has run: variables have what it gave them.
  void write_back() {
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      if (!variables_[i] || !variables_[i]->initialized()) continue;
      const bool was_there = inner_.variable(static_cast<int>(i)).initialized();
      if (variables_[i]->changes() == (was_there ? 1u : 0u)) continue;
      inner_.variable(static_cast<int>(i)).assign(to_device(variables_[i]->value(), inner_.device()));
    }
  }

 private:
  KernelContext& inner_;
  ViewAllocator memory_;
  HostDevice device_;
  mutable std::vector<Tensor> inputs_;
  std::vector<std::unique_ptr<Variable>> variables_;
  std::vector<Tensor> others_;
};

}  // namespace troupe::testing
