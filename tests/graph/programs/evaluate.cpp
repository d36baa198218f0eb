#include "tests/graph/programs/evaluate.hpp"

#include <memory>

#include <troupe/devices/cpu/cpu_device.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/kernels/kernels.hpp>
#include <troupe/scheduler/run/single_kernel.hpp>

namespace troupe::testing {
namespace {

Device& cpu() {
  static const std::unique_ptr<Device> device =
      make_cpu_device({.name = DeviceName::parse("/job:test/task:0/device:CPU:0")});
  return *device;
}

class Evaluation {
 public:
  Evaluation(const Graph& graph, const Graph& whole, const Values& given, std::vector<Tensor> arguments)
      : graph_(graph), whole_(whole), given_(given), arguments_(std::move(arguments)) {}

  void run() {
    for (const int id : graph_.topological_order()) outputs_[id] = outputs_of(graph_.node(id));
  }
  const Tensor& value(Endpoint e) const { return outputs_.at(e.node).at(static_cast<std::size_t>(e.index)); }
  Values values() const {
    Values out;
    for (const auto& [id, tensors] : outputs_)
      for (int i = 0; i < static_cast<int>(tensors.size()); ++i) out[output_name(graph_, {id, i})] = value({id, i});
    for (const auto& [id, variable] : variables_)
      if (variable->initialized()) out[graph_.node(id).name] = variable->value();
    return out;
  }

 private:
  const Tensor& given(const Node& node) const {
    std::string name = node.name;
    auto it = given_.find(name);
    if (constexpr std::string_view kFeed = "/feed"; it == given_.end() && name.ends_with(kFeed))
      it = given_.find(name.substr(0, name.size() - kFeed.size()));
    if (it == given_.end()) invalid_argument("no value is given for {} '{}'", node.op->name, node.name);
    return it->second;
  }

  Variable& variable(int id) {
    const Node& node = graph_.node(id);
    auto& variable = variables_[id];
    if (!variable) {
      variable = std::make_unique<Variable>(node.name, node.attributes.dtype("T"), node.output_shapes[0]);
      if (const auto it = given_.find(node.name); it != given_.end()) variable->assign(it->second.clone());
    }
    return *variable;
  }

  std::vector<Tensor> branch(const Node& node, const std::vector<Tensor>& inputs) {
    const auto& name = node.attributes.get<FunctionName>(inputs[0].item<bool>() ? "then_branch" : "else_branch").value;
    const Function* function = graph_.function(name) ? graph_.function(name) : whole_.function(name);
    if (!function) fail(Code::not_found, "there is no function '{}'", name);
    Evaluation body(*function->body, whole_, given_, {inputs.begin() + 1, inputs.end()});
    body.run();
    std::vector<Tensor> results;
    for (const Endpoint& e : function->results) results.push_back(body.value(e));
    return results;
  }

  std::vector<Tensor> outputs_of(const Node& node) {
    const std::string& op = node.op->name;
    if (op == "Placeholder" || op == "Feed") return {given(node)};
    if (op == "Arg") return {arguments_.at(static_cast<std::size_t>(node.attributes.integer("index")))};
    if (op == "Const") return {node.attributes.tensor("value")};
    if (op == "Variable") return {Tensor()};
    if (op == "NoOp" || op == "Fetch") return {};
    std::vector<Tensor> inputs;
    std::vector<Variable*> variables;
    for (const Endpoint& e : node.inputs) {
      const bool handle = graph_.dtype(e) == DType::resource;
      inputs.push_back(handle ? Tensor() : value(e));
      variables.push_back(handle ? &variable(e.node) : nullptr);
    }
    if (op == "If") return branch(node, inputs);
    std::vector<DType> types;
    for (const Endpoint& e : node.inputs) types.push_back(graph_.dtype(e));
    const KernelFactory& make = cpu_kernels().get(op, "CPU", node.kernel_type());
    const Kernel kernel = make({node.name, node.attributes, types, node.output_types});
    return run_kernel(kernel, inputs, variables, node.output_types.size(), cpu());
  }

  const Graph& graph_;
  const Graph& whole_;
  const Values& given_;
  std::vector<Tensor> arguments_;
  std::map<int, std::vector<Tensor>> outputs_;
  std::map<int, std::unique_ptr<Variable>> variables_;
};

}  // namespace

const KernelRegistry& cpu_kernels() {
  static const KernelRegistry registry = [] {
    KernelRegistry r;
    register_all_kernels(r);
    return r;
  }();
  return registry;
}

Values evaluate(const Graph& graph, const Values& given) {
  Evaluation evaluation(graph, graph, given, {});
  evaluation.run();
  return evaluation.values();
}

std::vector<Tensor> evaluate_node(const Node& node, std::span<const Tensor> inputs) {
  if (!cpu_kernels().supports(node.op->name, "CPU", node.kernel_type())) return {};
  return run_single_kernel(node, inputs, cpu_kernels(), cpu());
}

}  // namespace troupe::testing
