#include "troupe/actors/eager/eager.hpp"

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include <troupe/actors/cluster/local_devices.hpp>
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/eager/function_trace.hpp>
#include <troupe/actors/eager/op_call.hpp>
#include <troupe/actors/eager/prepared_ops.hpp>
#include <troupe/actors/eager/resource_steps.hpp>
#include <troupe/actors/eager/values.hpp>
#include <troupe/devices/program_call.hpp>
#include <troupe/graph/op_runner.hpp>
#include <troupe/graph/passes/resource_calls.hpp>
#include <troupe/messages/device_name.hpp>
#include <troupe/scheduler/resources/make_resource.hpp>

namespace troupe {

class Eager::Impl final : public OpRunner {
 public:
  Impl(std::unique_ptr<Task> own, Task* given, EagerOptions options)
      : own_task_(std::move(own)),
        task(given ? *given : *own_task_),
        options_(std::move(options)),
        seed_(options_.seed),
        default_device_(options_.device.empty() ? task.device(0) : device_named(options_.device)),
        ops_(task.ops(), task.kernels(), task.device(0)),
        constant_(source_of_constants()),
        graph(*this, task.ops()) {}

  std::vector<Output> run(Graph& of, const NodeSpec& op) override {
    if (FunctionTrace* trace = FunctionTrace::receiving(of)) return trace->add(op);
    check_inputs(op);
    Device& device = device_of(of, op);
    const std::shared_ptr<const PreparedOp> prepared = ops_.find(op, device);
    if (!prepared) return run_other(of, op, device);
    RandomKey random;
    if (prepared->stateful()) random = next_random_key();
    std::vector<Output> outputs = run_op(of, prepared, op, random, outstanding_);
    ops_run.fetch_add(1, std::memory_order_relaxed);
    return outputs;
  }

  Output hold(Graph& of, Tensor value) override {
    if (FunctionTrace* trace = FunctionTrace::receiving(of)) return trace->add_constant(std::move(value));
    return {&of, -1, 0, EagerPtr(new HostTensor(std::move(value), constant_))};
  }

  RandomKey next_random_key() { return {.seed = seed_.load(), .step = draws_.fetch_add(1)}; }
  const std::string& default_device() const { return default_device_name_; }
  const EagerOptions& options() const { return options_; }

  // Ends with the ops that still run: they use what it has.
  ~Impl() override {
    for (const std::weak_ptr<ResourceSteps>& held : resource_steps_)
      if (const auto steps = held.lock()) steps->end();
    try {
      outstanding_.wait();
    } catch (...) {
      // Nobody asks any more.
    }
  }

  void wait() {
    outstanding_.wait();
    for (const std::shared_ptr<Device>& device : task.local_devices().devices()) {
      if (const Error error = device->failure()) throw error;
    }
  }

  void set_seed(std::uint64_t seed) {
    seed_ = seed;
    draws_ = 0;
  }

 private:
  std::shared_ptr<const Node> source_of_constants() const {
    auto node = std::make_shared<Node>();
    for (const std::string& name : task.ops().names())
      if (const OpDef& op = task.ops().get(name); op.role == OpRole::constant) node->op = &op;
    return node;
  }

  void check_inputs(const NodeSpec& op) const {
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (op.inputs[i].graph != &graph || !op.inputs[i].eager)
        invalid_argument("{}: input {} {}", op.op, i,
                         !op.inputs[i].valid()            ? "is not a tensor"
                         : op.inputs[i].graph == &graph   ? "has no value: it is only a target"
                         : op.inputs[i].graph->is_eager() ? "belongs to another Eager"
                         : op.inputs[i].graph->around()
                             ? "belongs to a function that was traced: it has no value outside of it"
                             : "belongs to a graph: it has no value before a session runs it");
  }

  Device& device_of(const Graph& of, const NodeSpec& op) const {
    const std::string& wanted = op.device.empty() ? of.current_device() : op.device;
    return wanted.empty() ? default_device_ : device_named(wanted);
  }

  Device& device_named(const std::string& wanted) const {
    const DeviceName name = DeviceName::parse(wanted);
    for (const std::shared_ptr<Device>& device : task.local_devices().devices())
      if (name.or_else(device->attributes().name) == device->attributes().name) return *device;
    fail(Code::not_found, "task {} has no device {}", task.name().to_string(), wanted);
  }

  std::vector<Output> run_other(Graph& of, const NodeSpec& op, Device& device) {
    const OpDef& def = task.ops().get(op.op);
    if (def.role == OpRole::constant) return {hold(of, op.attributes.tensor("value"))};
    if (calls_resource(def)) return run_call(op);
    if (def.role != OpRole::variable)
      fail(Code::unimplemented, "{}: this op has no meaning in eager mode, where nothing is fed, fetched or sent",
           op.op);
    auto node = std::make_shared<Node>();
    node->op = &def;
    node->name = of.current_scope() + op.name;
    node->attributes = op.attributes;
    node->device = device.attributes().name.to_string();
    node->output_types = {DType::resource};
    if (!op.attributes.has("T")) {
      node->output_shapes = {Shape{}};
      return {{&of, -1, 0, hold_resource(node, make_resource(node->name, op.op, with_defaults(def, op.attributes)))}};
    }
    node->output_shapes = {op.attributes.shape("shape")};
    auto variable = std::make_shared<Variable>(node->name, op.attributes.dtype("T"), node->output_shapes[0]);
    return {{&of, -1, 0, EagerPtr(new EagerVariable(std::move(node), std::move(variable)))}};
  }

  static Attributes with_defaults(const OpDef& def, Attributes attributes) {
    for (const AttrDef& attr : def.attrs)
      if (attr.default_value && !attributes.has(attr.name)) attributes.set(attr.name, *attr.default_value);
    return attributes;
  }

  std::vector<Output> run_call(const NodeSpec& op) {
    if (ProgramCall::any())
      fail(Code::unimplemented, "{}: a function that a kernel calls cannot wait: call it outside", op.op);
    const auto* resource = dynamic_cast<const EagerResource*>(op.inputs.at(0).eager.get());
    if (!resource) invalid_argument("{}: input 0 is no queue or accumulator", op.op);
    return resource->steps()->run(op);
  }

  EagerPtr hold_resource(const std::shared_ptr<const Node>& node, const std::shared_ptr<Variable>& resource) {
    if (!dynamic_cast<const WaitingResource*>(static_cast<const Resource*>(resource.get())))
      return EagerPtr(new EagerVariable(node, resource));
    auto held = std::make_unique<EagerResource>(*self, node, resource);
    const std::lock_guard lock(resources_mutex_);
    std::erase_if(resource_steps_, [](const auto& steps) { return steps.expired(); });
    resource_steps_.push_back(held->steps());
    return EagerPtr(held.release());
  }

  const std::unique_ptr<Task> own_task_;

 public:
  Task& task;

 private:
  const EagerOptions options_;
  std::atomic<std::uint64_t> seed_, draws_{0};
  Device& default_device_;
  const std::string default_device_name_ = default_device_.attributes().name.to_string();
  PreparedOps ops_;
  OutstandingOps outstanding_{options_.around_waits};
  const std::shared_ptr<const Node> constant_;  // the source of all of them

 public:
  Graph graph;
  std::atomic<std::uint64_t> ops_run{0};
  Eager* self = nullptr;

 private:
  std::mutex resources_mutex_;
  std::vector<std::weak_ptr<ResourceSteps>> resource_steps_;  // of queues and accumulators
};

Eager::Eager(EagerOptions options)
    : impl_(std::make_unique<Impl>(std::make_unique<Task>(), nullptr, std::move(options))) {
  impl_->self = this;
}
Eager::Eager(Task& task, EagerOptions options) : impl_(std::make_unique<Impl>(nullptr, &task, std::move(options))) {
  impl_->self = this;
}
Eager::~Eager() = default;
Graph& Eager::graph() { return impl_->graph; }
Task& Eager::task() { return impl_->task; }
const EagerOptions& Eager::options() const { return impl_->options(); }
RandomKey Eager::next_random_key() { return impl_->next_random_key(); }
const std::string& Eager::default_device() const { return impl_->default_device(); }
void Eager::wait() { impl_->wait(); }
void Eager::set_seed(std::uint64_t seed) { impl_->set_seed(seed); }
std::uint64_t Eager::ops_run() const { return impl_->ops_run.load(); }

}  // namespace troupe
