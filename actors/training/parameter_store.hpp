// The values of a shard's slices with their optimizer slots, and the kernels that update them.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <troupe/actors/training/row_draws.hpp>
#include <troupe/actors/training/row_places.hpp>
#include <troupe/devices/kernel.hpp>
#include <troupe/graph/passes/shard_variables.hpp>
#include <troupe/scheduler/training/shard_state.hpp>

namespace troupe {

// Those rows of a slice on demand (VariableOptions) that have been updated.
struct UpdatedRows {
  Tensor numbers;  // i64 [n], in the slice
  Tensor value;    // [n, ...]
  std::vector<Tensor> slots;
};

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

  // A slice on demand, of rows row_begin, row_begin + stride, ... of its variable. `draws`: first values of the
  // variable and of the rule's slots, `rows` of the slice so far.
  void add_on_demand(const Slice& slice, const UpdateRule& rule, std::vector<RowDraws> draws, UpdatedRows rows = {},
                     std::int64_t skipped = 0);

  // Of a slice on demand: the numbers of the rows that have been updated.
  Tensor value(std::uint32_t slice) override;
  Tensor rows(std::uint32_t slice, const Tensor& rows) override;
  UpdatedRows updated_rows(std::uint32_t slice) const;
  Tensor slot(std::uint32_t slice, int index) {
    return entries_.at(slice).variables.at(static_cast<std::size_t>(index) + 1)->value();
  }
  std::int64_t skipped(std::uint32_t slice) const { return entries_.at(slice).skipped; }
  // Throws unimplemented for a slice on demand.
  void keep_as_final(std::uint32_t slice) override;
  Tensor final_value(std::uint32_t slice) override { return has_kept(slice) ? entries_.at(slice).kept : value(slice); }
  bool has_kept(std::uint32_t slice) const { return entries_.at(slice).kept.valid(); }
  void set_kept(std::uint32_t slice, Tensor value) { entries_.at(slice).kept = std::move(value); }
  void apply(std::uint32_t slice, const Update& update) override;
  // Number of calls of apply(). Any thread.
  std::uint64_t applied() const { return applied_.load(std::memory_order_relaxed); }

 private:
  struct OnDemand {
    std::vector<RowDraws> draws;  // of the value and the slots
    std::int64_t row_begin = 0, stride = 1, rows = 0;
    RowPlaces places;
  };
  struct Entry {
    std::string name;
    // The value, then the slots. Of a slice on demand: rows by place, and room for more, in memory reserved for all.
    std::vector<std::unique_ptr<Variable>> variables;
    std::optional<OnDemand> on_demand;
    UpdateRule rule;
    Kernel kernel;
    Kernel constrain;          // null: there is no constraint
    Tensor kept;               // invalid: none
    std::int64_t skipped = 0;  // updates skipped (UpdateRule::guarded)
  };
  void finish(Entry& entry) const;
  void make_room(Entry& entry, std::int64_t rows) const;
  Tensor places_of(Entry& entry, const Tensor& rows) const;
  void constrain(const Entry& entry);

  Device& device_;
  const KernelRegistry& kernels_;
  std::unordered_map<std::uint32_t, Entry> entries_;
  std::vector<Tensor> inputs_;  // of the kernel of the current update
  std::vector<Variable*> variables_;
  std::atomic<std::uint64_t> applied_{0};
};

}  // namespace troupe
