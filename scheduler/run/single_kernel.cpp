#include "troupe/scheduler/run/single_kernel.hpp"

#include <troupe/scheduler/plan/plan.hpp>

namespace troupe {
namespace {

class SingleContext final : public KernelContext {
 public:
  SingleContext(const KernelOperands& operands, Device& device) : operands_(operands), device_(device) {}
  int num_inputs() const override { return static_cast<int>(operands_.inputs.size()); }
  const Tensor& input(int index) const override {
    const Tensor* const tensor = operands_.inputs[static_cast<std::size_t>(index)];
    if (!tensor) invalid_argument("input {} is a variable; a tensor was expected: read it first", index);
    return *tensor;
  }
  Variable& variable(int index) override {
    const auto i = static_cast<std::size_t>(index);
    if (i >= operands_.variables.size() || !operands_.variables[i])
      invalid_argument("input {} of the kernel is not a variable", index);
    return *operands_.variables[i];
  }
  using KernelContext::set_output;
  void set_output(int index, Tensor&& value) override {
    operands_.outputs[static_cast<std::size_t>(index)] = std::move(value);
  }
  Tensor take_input(int) override { return {}; }
  Device& device() override { return device_; }
  RandomKey random_key() const override { return operands_.random; }
  std::uint64_t node_hash() const override { return operands_.node_hash; }

 private:
  const KernelOperands& operands_;
  Device& device_;
};

}  // namespace

void run_kernel(const Kernel& kernel, const KernelOperands& operands, Device& device) {
  SingleContext context(operands, device);
  kernel(context);
}

std::vector<Tensor> run_kernel(const Kernel& kernel, std::span<const Tensor> inputs,
                               std::span<Variable* const> variables, std::size_t outputs, Device& device,
                               std::uint64_t node_hash) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : inputs) pointers.push_back(&tensor);
  std::vector<Tensor> made(outputs);
  run_kernel(kernel, {.inputs = pointers, .variables = variables, .outputs = made, .node_hash = node_hash}, device);
  return made;
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
