// The values of a shard's slices with their optimizer slots, and the kernels that update them.
#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>

#include <troupe/devices/kernel.hpp>
#include <troupe/graph/passes/shard_variables.hpp>
#include <troupe/scheduler/training/shard_state.hpp>

namespace troupe {

// Readers hold handles: while anyone holds the old value, an update writes to other memory (copy on write). So a pull
// never sees half an update and never makes the shard wait.
class ParameterStore final : public ShardStore {
 public:
  // Kernels are those of `device`'s type. Both outlive the store.
  ParameterStore(Device& device, const KernelRegistry& kernels) : device_(device), kernels_(kernels) {}

  // `slots`: initial values of the rule's slot variables, sharded like the slice. `skipped`: updates skipped so far.
  // Throws unimplemented if the device has no kernel for the rule.
  void add(std::uint32_t slice, const std::string& name, const UpdateRule& rule, Tensor value,
           std::vector<Tensor> slots, std::int64_t skipped = 0);

  Tensor value(std::uint32_t slice) override;
  Tensor slot(std::uint32_t slice, int index) {
    return entries_.at(slice).variables.at(static_cast<std::size_t>(index) + 1)->value();
  }
  std::int64_t skipped(std::uint32_t slice) const { return entries_.at(slice).skipped; }
  void apply(std::uint32_t slice, const Update& update) override;
  // Number of calls of apply(). Any thread.
  std::uint64_t applied() const { return applied_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    std::vector<std::unique_ptr<Variable>> variables;  // the value, then the slots
    UpdateRule rule;
    Kernel kernel;
    std::int64_t skipped = 0;  // updates skipped (UpdateRule::guarded)
  };
  Device& device_;
  const KernelRegistry& kernels_;
  std::unordered_map<std::uint32_t, Entry> entries_;
  std::vector<Tensor> inputs_;  // of the kernel of the current update
  std::vector<Variable*> variables_;
  std::atomic<std::uint64_t> applied_{0};
};

}  // namespace troupe
