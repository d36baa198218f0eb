// A toy training problem for the protocol tests: gradients and updates that mix in everything they depend on,
// so that any gradient lost, repeated, reordered, or computed on the wrong values shows in the final bits.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <troupe/scheduler/data/permutation.hpp>
#include <troupe/scheduler/training/commit_log.hpp>
#include <troupe/scheduler/training/epoch_control.hpp>
#include <troupe/scheduler/training/shard_state.hpp>

namespace troupe::testing {

using Values = std::vector<Tensor>;  // of all slices, by id

struct ToyModel {
  DType dtype = DType::f32;  // or i64
  std::uint32_t slices = 4;  // slice 3 (of 4 or more) has sparse gradients
  // Gradients depend on the values, updates on the step: only then the order matters.
  bool coupled = true;
  // i64, not coupled, fewer than 31 examples, all values 0 at first: the first element of a gradient is the sum of
  // 4^example, so that values show how often each example went into them (counts_of); the second is free for a tag.
  bool digits = false;
  std::uint32_t phases = 1;  // slice i is trained in phase i % phases
  std::uint64_t seed = 1;

  static bool is_sparse(std::uint32_t slice);
  std::vector<SliceSpec> specs() const;
  Values initial() const;
  // `examples` are numbers of training examples.
  PushedGradient gradient(const Values& values, std::uint32_t slice, const std::vector<std::uint32_t>& examples) const;
  double loss_sum(const Values& values, const std::vector<std::uint32_t>& examples) const;
  std::uint64_t correct(const Values& values, const std::vector<std::uint32_t>& examples) const;
  // What a token reports: "loss" (its sum, the number of examples) and "correct"; in later phases "loss_1", ...
  NamedSums sums(const Values& values, const std::vector<std::uint32_t>& examples, std::uint32_t phase) const;
  void apply(Tensor& value, const Update& update) const;
};

// The row numbers with which a worker pulls a slice: all, in an order that `pull` decides; none for slices that are
// pulled whole. And the slice from its rows in that order.
Tensor rows_to_pull(std::uint32_t slice, std::uint64_t pull);
Tensor from_rows(const Tensor& rows, const Tensor& values);

// How often each example went into a value, up to 3 times, with model.digits; all slices with at least two elements
// must have had tagged() gradients. `tags`: their sum.
std::vector<int> counts_of(const Tensor& value, std::uint64_t examples, std::int64_t& tags);
PushedGradient tagged(PushedGradient gradient, std::int64_t tag);

// How the examples are dealt out: a slot's batches are full, the rest of an epoch is left out.
struct ToyData {
  std::uint64_t train = 1;       // examples
  std::uint64_t test = 0;        // 0: no evaluation
  std::uint64_t batch = 1;       // per slot
  std::uint64_t test_batch = 1;  // the last may be smaller
  std::uint32_t slots = 1;       // per turn, with backups

  std::uint64_t steps() const { return train / (batch * slots); }
  std::uint64_t test_batches() const { return (test + test_batch - 1) / test_batch; }
};

// The examples of a token; none: the data is over.
std::vector<std::uint32_t> examples_of(const ToyModel& model, const Token& token, const ToyData& data);

struct OracleOptions {
  std::uint32_t epochs = 1;
  std::uint32_t backups = 0;           // of the data's slots
  EpochControl control{};              // null: none
  const CommitLog* commits = nullptr;  // which slots the turns used; null: the first
};

struct OracleResult {
  Values values;
  Values final_values;                // those kept, if any are better than the last
  std::vector<NamedSums> training;    // of the epochs
  std::vector<NamedSums> evaluation;  // of the epochs
};

// Training as one loop: sum over the slots in order, divide, apply.
OracleResult train_in_a_loop(const ToyModel& model, const ToyData& data, const OracleOptions& options);

// The slices of one shard.
class ToyStore final : public ShardStore {
 public:
  ToyStore(const ToyModel& model, const std::vector<SliceSpec>& slices);
  Tensor value(std::uint32_t slice) override { return values_.at(slice); }
  void apply(std::uint32_t slice, const Update& update) override;
  void keep_as_final(std::uint32_t slice) override { kept_[slice] = values_.at(slice); }
  Tensor final_value(std::uint32_t slice) override { return kept_.contains(slice) ? kept_.at(slice) : value(slice); }
  std::map<std::uint32_t, Tensor> kept_;
  void set(std::uint32_t slice, const Tensor& value) { values_.at(slice) = value; }
  int applications = 0;

 private:
  ToyModel model_;
  std::map<std::uint32_t, Tensor> values_;
};

}  // namespace troupe::testing
