#include "troupe/scheduler/run/single_kernel.hpp"

#include <troupe/scheduler/plan/plan.hpp>

namespace troupe {
namespace {

class SingleContext final : public KernelContext {
 public:
  SingleContext(std::span<const Tensor> inputs, std::span<Variable* const> variables, std::size_t outputs,
                Device& device, std::uint64_t hash)
      : outputs(outputs), inputs_(inputs), variables_(variables), device_(device), hash_(hash) {}
  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  const Tensor& input(int index) const override { return inputs_[static_cast<std::size_t>(index)]; }
  Variable& variable(int index) override {
    const auto i = static_cast<std::size_t>(index);
    if (i >= variables_.size() || !variables_[i]) invalid_argument("input {} of the kernel is not a variable", index);
    return *variables_[i];
  }
  void set_output(int index, Tensor&& value) override { outputs[static_cast<std::size_t>(index)] = std::move(value); }
  Tensor take_input(int) override { return {}; }
  Device& device() override { return device_; }
  RandomKey random_key() const override { return {}; }
  std::uint64_t node_hash() const override { return hash_; }

  std::vector<Tensor> outputs;

 private:
  std::span<const Tensor> inputs_;
  std::span<Variable* const> variables_;
  Device& device_;
  std::uint64_t hash_;
};

}  // namespace

std::vector<Tensor> run_kernel(const Kernel& kernel, std::span<const Tensor> inputs,
                               std::span<Variable* const> variables, std::size_t outputs, Device& device,
                               std::uint64_t node_hash) {
  SingleContext context(inputs, variables, outputs, device, node_hash);
  kernel(context);
  return std::move(context.outputs);
}

std::vector<Tensor> run_single_kernel(const Node& node, std::span<const Tensor> inputs, const KernelRegistry& kernels,
                                      Device& device) {
  std::vector<DType> types;
  for (const Tensor& t : inputs) types.push_back(t.dtype());
  const KernelFactory& make = kernels.get(node.op->name, device.attributes().type, node.kernel_type());
  const Kernel kernel = make({node.name, node.attributes, types, node.output_types});
  return run_kernel(kernel, inputs, {}, node.output_types.size(), device, original_name_hash(node));
}

}  // namespace troupe
