#include "troupe/actors/eager/eager.hpp"

#include <atomic>
#include <optional>
#include <utility>

#include <troupe/actors/cluster/local_devices.hpp>
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/eager/op_call.hpp>
#include <troupe/actors/eager/prepared_ops.hpp>
#include <troupe/actors/eager/values.hpp>
#include <troupe/graph/op_runner.hpp>
#include <troupe/messages/device_name.hpp>

namespace troupe {

class Eager::Impl final : public OpRunner {
 public:
  Impl(std::unique_ptr<Task> own, Task* given, EagerOptions options)
      : own_task_(std::move(own)),
        task(given ? *given : *own_task_),
        options_(std::move(options)),
        seed_(options_.seed),
        default_device_(options_.device.empty() ? task.device(0) : device_named(options_.device)),
        ops_(task.ops(), task.kernels()),
        constant_(source_of_constants()),
        graph(*this, task.ops()) {}

  std::vector<Output> run(Graph& of, const NodeSpec& op) override {
    check_inputs(op);
    Device& device = device_of(of, op);
    const std::shared_ptr<const PreparedOp> prepared = ops_.find(op, device);
    if (!prepared) return run_other(of, op, device);
    RandomKey random;
    if (prepared->stateful()) random = {.seed = seed_.load(), .step = draws_.fetch_add(1)};
    std::vector<Output> outputs = run_op(of, *prepared, op, random, options_.around_waits);
    ops_run.fetch_add(1, std::memory_order_relaxed);
    return outputs;
  }

  Output hold(Graph& of, Tensor value) override {
    return {&of, -1, 0, EagerPtr(new EagerTensor(std::move(value), constant_))};
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
                         !op.inputs[i].valid()          ? "is not a tensor"
                         : op.inputs[i].graph == &graph ? "has no value: it is only a target"
                         : op.inputs[i].graph->is_eager()
                             ? "belongs to another Eager"
                             : "belongs to a graph: it has no value before a session runs it");
  }

  Device& device_of(const Graph& of, const NodeSpec& op) const {
    const std::string& wanted = op.device.empty() ? of.current_device() : op.device;
    return wanted.empty() ? default_device_ : device_named(wanted);
  }

  Device& device_named(const std::string& wanted) const {
    const DeviceName name = DeviceName::parse(wanted);
    for (const std::shared_ptr<Device>& device : task.local_devices().devices())
      if (name.or_else(device->attributes().name) == device->attributes().name) {
        if (!device->attributes().synchronous)
          fail(Code::unimplemented, "eager ops run on CPUs only, not on {}: build a graph for it, and run a Session",
               device->attributes().name.to_string());
        return *device;
      }
    fail(Code::not_found, "task {} has no device {}", task.name().to_string(), wanted);
  }

  std::vector<Output> run_other(Graph& of, const NodeSpec& op, Device& device) {
    const OpDef& def = task.ops().get(op.op);
    if (def.role == OpRole::constant) return {hold(of, op.attributes.tensor("value"))};
    if (def.role != OpRole::variable)
      fail(Code::unimplemented, "{}: this op has no meaning in eager mode, where nothing is fed, fetched or sent",
           op.op);
    auto node = std::make_unique<Node>();
    node->op = &def;
    node->name = of.current_scope() + op.name;
    node->attributes = op.attributes;
    node->device = device.attributes().name.to_string();
    node->output_types = {DType::resource};
    node->output_shapes = {op.attributes.shape("shape")};
    return {{&of, -1, 0, EagerPtr(new EagerVariable(std::move(node)))}};
  }

  const std::unique_ptr<Task> own_task_;

 public:
  Task& task;

 private:
  const EagerOptions options_;
  std::atomic<std::uint64_t> seed_, draws_{0};
  Device& default_device_;
  PreparedOps ops_;
  const std::shared_ptr<const Node> constant_;  // the source of all of them

 public:
  Graph graph;
  std::atomic<std::uint64_t> ops_run{0};
};

Eager::Eager(EagerOptions options)
    : impl_(std::make_unique<Impl>(std::make_unique<Task>(), nullptr, std::move(options))) {}
Eager::Eager(Task& task, EagerOptions options) : impl_(std::make_unique<Impl>(nullptr, &task, std::move(options))) {}
Eager::~Eager() = default;
Graph& Eager::graph() { return impl_->graph; }
Task& Eager::task() { return impl_->task; }
void Eager::set_seed(std::uint64_t seed) { impl_->set_seed(seed); }
std::uint64_t Eager::ops_run() const { return impl_->ops_run.load(); }

}  // namespace troupe
