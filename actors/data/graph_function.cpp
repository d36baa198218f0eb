#include "troupe/actors/data/graph_function.hpp"

#include <algorithm>
#include <memory>

#include <troupe/devices/caching_allocator.hpp>
#include <troupe/devices/kernel.hpp>
#include <troupe/graph/builder/core.hpp>
#include <troupe/kernels/kernels.hpp>
#include <troupe/messages/philox.hpp>
#include <troupe/scheduler/plan/plan.hpp>

namespace troupe::data {
namespace {

// Runs all parts on the calling thread.
class CallersThread final : public Parallelism {
 public:
  int threads() const override { return 1; }
  void parallel_for(std::int64_t total, std::int64_t grain, Range fn) override {
    for (std::int64_t begin = 0; begin < total; begin += grain) fn(begin, std::min(total, begin + grain));
  }
  void run(DynamicWork& work) override {
    while (!work.finished() && work.run_some()) {
    }
  }
  void wake() override {}
};

// The CPU for kernels that run on whatever thread calls them.
class FunctionDevice final : public Device {
 public:
  const DeviceAttributes& attributes() const override { return attributes_; }
  Allocator& allocator() override { return allocator_; }
  Stream& compute() override { fail(Code::internal, "functions of pipelines have no stream"); }
  Parallelism& parallelism() override { return callers_; }
  void copy_to_host(Tensor source, CopyDone done) override { done(std::move(source), Error()); }
  void copy_in(Tensor source, CopyDone done) override { done(std::move(source), Error()); }
  void shutdown() override {}

 private:
  DeviceAttributes attributes_{DeviceName(), "CPU", 0, true};
  CachingAllocator allocator_;
  CallersThread callers_;
};

class NodeContext final : public KernelContext {
 public:
  NodeContext(std::span<const Tensor> inputs, std::size_t outputs, Device& device, const RandomKey& key,
              std::uint64_t hash)
      : outputs(outputs), inputs_(inputs), device_(device), key_(key), hash_(hash) {}
  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  const Tensor& input(int index) const override { return inputs_[static_cast<std::size_t>(index)]; }
  Variable& variable(int) override { fail(Code::internal, "functions of pipelines have no variables"); }
  void set_output(int index, Tensor&& value) override { outputs[static_cast<std::size_t>(index)] = std::move(value); }
  Tensor take_input(int) override { return {}; }
  Device& device() override { return device_; }
  RandomKey random_key() const override { return key_; }
  std::uint64_t node_hash() const override { return hash_; }

  std::vector<Tensor> outputs;

 private:
  std::span<const Tensor> inputs_;
  Device& device_;
  const RandomKey key_;
  const std::uint64_t hash_;
};

// The nodes behind the results, in an order to run them. Their values lie in slots: a node's outputs one after the
// other.
class CompiledFunction {
 public:
  CompiledFunction(const ElementGraph& function, GraphFunctionOptions options)
      : graph_(function.graph), options_(options) {
    register_all_kernels(kernels_);
    slots_.assign(static_cast<std::size_t>(graph_->size()), kNoSlot);
    for (const Output& component : function.components) fed_.push_back(add_slot(component, {}));
    for (const auto& [placeholder, value] : function.known) add_slot(placeholder, value);
    const NamedResults& results = function.results;
    const std::vector<bool> needed = behind(results, function.effects);
    for (const int id : graph_->topological_order())
      if (needed[static_cast<std::size_t>(id)] && slots_[static_cast<std::size_t>(id)] == kNoSlot)
        add(graph_->node(id));
    for (const auto& [name, result] : results) results_.push_back(slot({result.node, result.index}));
  }

  Element operator()(const Element& element, const ElementContext& context) const {
    std::vector<Tensor> values = constants_;
    for (std::size_t i = 0; i < fed_.size(); ++i)
      values[fed_[i]] = options_.as_batch ? element[i].reshaped(Shape{1}.concatenated(element[i].shape())) : element[i];
    const RandomKey key{.seed = options_.seed, .step = mix64(mix64(context.epoch) ^ context.number)};
    for (const Step& step : steps_) run(step, key, values);
    Element out;
    for (const std::size_t slot : results_) {
      const Tensor& value = values[slot];
      if (options_.as_batch && (value.shape().rank() == 0 || value.shape()[0] != 1))
        fail(Code::data_loss, "result {} is {}, expected one row", out.size(), value.shape().to_string());
      out.push_back(options_.as_batch ? value.reshaped(value.shape().sub(1, value.shape().rank())) : value);
    }
    return out;
  }

 private:
  static constexpr std::size_t kNoSlot = ~std::size_t{0};
  struct Step {
    const Node* node = nullptr;
    Kernel kernel{};
    std::uint64_t hash = 0;
    std::vector<std::size_t> inputs{};
    std::size_t first = 0;  // slot of output 0
  };

  std::size_t slot(Endpoint e) const {
    return slots_[static_cast<std::size_t>(e.node)] + static_cast<std::size_t>(e.index);
  }

  std::size_t add_slot(const Output& placeholder, Tensor value) {
    slots_[static_cast<std::size_t>(placeholder.node)] = constants_.size();
    constants_.push_back(std::move(value));
    return constants_.size() - 1;
  }

  std::vector<bool> behind(const NamedResults& results, const Outputs& effects) const {
    std::vector<bool> needed(static_cast<std::size_t>(graph_->size()));
    std::vector<int> open;
    for (const auto& [name, result] : results) open.push_back(result.node);
    for (const Output& effect : effects) open.push_back(effect.node);
    while (!open.empty()) {
      const int id = open.back();
      open.pop_back();
      if (needed[static_cast<std::size_t>(id)]) continue;
      needed[static_cast<std::size_t>(id)] = true;
      for (const Endpoint& input : graph_->node(id).inputs) open.push_back(input.node);
      for (const int control : graph_->node(id).controls) open.push_back(control);
    }
    return needed;
  }

  void add(const Node& node) {
    const auto refuse = [&](std::string_view why) {
      invalid_argument("node '{}' ({}) cannot be in a function of a pipeline: {}", node.name, node.op->name, why);
    };
    slots_[static_cast<std::size_t>(node.id)] = constants_.size();
    if (node.op->role == OpRole::constant) return constants_.push_back(node.attributes.tensor("value"));
    if (node.op->role == OpRole::variable) refuse("it has no variables");
    if (node.op->is_control_flow()) refuse("it has no control flow");
    if (!node.op->has_kernel() || !kernels_.supports(node.op->name, "CPU", node.kernel_type()))
      refuse("there is no kernel for the CPU");
    Step step{.node = &node, .hash = original_name_hash(node), .first = constants_.size()};
    std::vector<DType> types;
    std::vector<const Tensor*> known;
    bool constant = node.op->is_pure() && node.controls.empty();
    for (const Endpoint& input : node.inputs) {
      step.inputs.push_back(slot(input));
      types.push_back(graph_->dtype(input));
      known.push_back(constants_[slot(input)].valid() ? &constants_[slot(input)] : nullptr);
      constant = constant && known.back();
    }
    step.kernel = kernels_.get(node.op->name, "CPU",
                               node.kernel_type())({node.name, node.attributes, types, node.output_types, known});
    constants_.resize(constants_.size() + node.output_types.size());
    // What depends on constants alone is computed now.
    if (constant)
      run(step, {}, constants_);
    else
      steps_.push_back(std::move(step));
  }

  void run(const Step& step, const RandomKey& key, std::vector<Tensor>& values) const {
    std::vector<Tensor> inputs;
    for (const std::size_t input : step.inputs) inputs.push_back(values[input]);
    NodeContext context(inputs, step.node->output_types.size(), device_, key, step.hash);
    try {
      step.kernel(context);
    } catch (...) {
      throw current_error().within(fmt::format("node '{}' ({})", step.node->name, step.node->op->name));
    }
    for (std::size_t i = 0; i < context.outputs.size(); ++i) values[step.first + i] = std::move(context.outputs[i]);
  }

  const std::shared_ptr<const Graph> graph_;
  const GraphFunctionOptions options_;
  KernelRegistry kernels_;
  mutable FunctionDevice device_;   // thread-safe, as it has no stream
  std::vector<std::size_t> slots_;  // of nodes
  std::vector<Tensor> constants_;   // by slot; invalid: another value for each element
  std::vector<std::size_t> fed_, results_;
  std::vector<Step> steps_;
};

BatchSchema schema_of(const NamedResults& results, bool as_batch) {
  BatchSchema out;
  for (const auto& [name, result] : results) {
    if (!result.valid()) invalid_argument("result '{}' is no tensor", name);
    Shape shape = result.shape();
    if (as_batch && shape.has_rank()) {
      if (shape.rank() == 0 || (shape.dim(0) >= 0 && shape.dim(0) != 1))
        invalid_argument("result '{}' is {}, expected one row", name, shape.to_string());
      shape = shape.sub(1, shape.rank());
    }
    out.push_back({name, result.dtype(), shape});
  }
  check_schema(out);
  return out;
}

}  // namespace

Output GraphFunctionContext::operator[](std::string_view component) const {
  if (const auto found = components.find(component); found != components.end()) return found->second;
  fail(Code::not_found, "there is no component '{}': the elements are {}", component, to_string(schema));
}

Transformation graph_function(const std::string& name, GraphFunction function, GraphFunctionOptions options) {
  const auto build = [function = std::move(function), options](const BatchSchema& elements) {
    const auto graph = std::make_shared<Graph>();
    ElementGraph out{.graph = graph};
    std::map<std::string, Output, std::less<>> components;
    for (const BatchComponent& c : elements) {
      out.components.push_back(placeholder(*graph, c.dtype, options.as_batch ? c.batch_shape(1) : c.shape));
      components.emplace(c.name, out.components.back());
    }
    VariablePool pool;
    GraphFunctionContext context{*graph, elements, components, pool};
    out.results = function(context);
    return out;
  };
  return graph_function(name, std::function<ElementGraph(const BatchSchema&)>(build), options);
}

Transformation graph_function(const std::string& name, std::function<ElementGraph(const BatchSchema&)> build,
                              GraphFunctionOptions options) {
  return {.name = name, .prepare = [build = std::move(build), options](const BatchSchema& elements) {
            const ElementGraph function = build(elements);
            BatchSchema schema = schema_of(function.results, options.as_batch);
            const auto compiled = std::make_shared<const CompiledFunction>(function, options);
            return Transformation::Prepared{.schema = std::move(schema),
                                            .function = [compiled](const Element& element, const ElementContext& c) {
                                              return (*compiled)(element, c);
                                            }};
          }};
}

}  // namespace troupe::data
