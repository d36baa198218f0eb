// Runs one kernel outside any graph: for kernel tests. Tensors and variables of tests are on the host; on another
// device a kernel works on copies, and what it makes comes back.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/kernel_target.hpp"
#include <troupe/devices/kernel.hpp>

namespace troupe::testing {

class DirectContext final : public KernelContext {
 public:
  DirectContext(Device& device, std::vector<Tensor> inputs, std::vector<Variable*> variables, std::size_t outputs,
                RandomKey key = {}, std::uint64_t hash = 0)
      : outputs(outputs),
        device_(device),
        inputs_(std::move(inputs)),
        variables_(std::move(variables)),
        key_(key),
        hash_(hash) {}

  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  const Tensor& input(int i) const override { return inputs_.at(static_cast<std::size_t>(i)); }
  Variable& variable(int i) override { return *variables_.at(static_cast<std::size_t>(i)); }
  void set_output(int i, Tensor&& value) override { outputs.at(static_cast<std::size_t>(i)) = std::move(value); }
  Tensor take_input(int i) override {
    Tensor& t = inputs_.at(static_cast<std::size_t>(i));
    return t.unique() && t.aligned() ? std::move(t) : Tensor();
  }
  Device& device() override { return device_; }
  RandomKey random_key() const override { return key_; }
  std::uint64_t node_hash() const override { return hash_; }

  std::vector<Tensor> outputs;

 private:
  Device& device_;
  std::vector<Tensor> inputs_;
  std::vector<Variable*> variables_;
  RandomKey key_;
  std::uint64_t hash_;
};

struct KernelCall {
  std::string op;
  DType dtype = DType::invalid;  // value of the op's kernel type attribute
  std::vector<Tensor> inputs;    // an invalid tensor where the input is a variable
  Attributes attributes;         // all of them, defaults too
  std::size_t outputs = 1;
  std::vector<Variable*> variables;  // same positions as inputs; may be shorter
  RandomKey key;
  std::uint64_t hash = 0;
  std::string name = "test";        // of the node
  std::vector<DType> output_types;  // if they are not all `dtype`
};

inline constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

// Elements of any numeric dtype as doubles.
std::vector<double> doubles(const Tensor& t);

// Throws what the kernel throws, or what it finds while it runs on the device.
std::vector<Tensor> run_kernel(const KernelRegistry& registry, Device& device, KernelCall call);

}  // namespace troupe::testing
