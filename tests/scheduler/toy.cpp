#include "tests/scheduler/toy.hpp"

#include <stdexcept>

#include <troupe/scheduler/plan/cost.hpp>

namespace troupe::testing {
namespace {

using Numbers = std::vector<std::int64_t>;

// Wraps around instead of overflowing.
std::int64_t compute(const std::string& op, std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  if (op == "Add") return static_cast<std::int64_t>(x + y);
  if (op == "Sub") return static_cast<std::int64_t>(x - y);
  if (op == "Mul") return static_cast<std::int64_t>(x * y);
  if (op == "Neg") return static_cast<std::int64_t>(0 - x);
  return static_cast<std::int64_t>(x * x);  // Square
}

void elementwise(const std::string& op, KernelContext& c, ToyHooks& hooks) {
  const bool binary = c.num_inputs() == 2;
  // Taking comes last: an input must not be read after it was taken, so its values are kept here.
  const auto a = c.input(0).values<std::int64_t>();
  const auto b = binary ? c.input(1).values<std::int64_t>() : a;
  const DType dtype = c.input(0).dtype();
  const Shape shape = c.input(0).shape();
  Tensor out = c.take_input(0);
  if (!out.valid() && binary && c.input(1).shape() == shape) out = c.take_input(1);
  if (out.valid())
    ++hooks.in_place;
  else
    out = c.allocate(dtype, shape);
  const auto to = out.mutable_values<std::int64_t>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = compute(op, a[i], b[i]);
  c.set_output(0, std::move(out));
}

Kernel make(const std::string& op, ToyHooks& hooks) {
  if (op == "NoOp") return [](KernelContext&) {};
  if (op == "Identity") return [](KernelContext& c) { c.set_output(0, c.input(0)); };
  if (op == "ReadVariable") return [](KernelContext& c) { c.set_output(0, c.variable(0).value()); };
  if (op == "AssignVariable")
    return [](KernelContext& c) {
      c.variable(0).assign(c.input(1));
      c.set_output(0, c.variable(0).value());
    };
  if (op == "AssignAddVariable")
    return [](KernelContext& c) {
      Tensor& value = c.variable(0).writable(c.allocator());
      for (std::int64_t i = 0; i < value.num_elements(); ++i)
        value.mutable_values<std::int64_t>()[static_cast<std::size_t>(i)] +=
            c.input(1).values<std::int64_t>()[static_cast<std::size_t>(i)];
      c.set_output(0, value);
    };
  if (op == "Split")  // two views of one buffer
    return [](KernelContext& c) {
      const Tensor whole = c.input(0);
      const std::int64_t half = whole.shape()[0] / 2;
      c.set_output(0, whole.rows(0, half));
      c.set_output(1, whole.rows(half, 2 * half));
    };
  if (op == "Concat")
    return [](KernelContext& c) { c.set_output(0, toy_evaluate("Concat", {c.input(0), c.input(1)})[0]); };
  if (op == "Abs")
    return [](KernelContext& c) {
      for (std::int64_t x : c.input(0).values<std::int64_t>())
        if (x < 0) invalid_argument("{} is negative", x);
      c.set_output(0, c.input(0));
    };
  if (op == "Sign") return [](KernelContext&) { throw std::runtime_error("odd failure"); };
  if (op == "Square")
    return [&hooks](KernelContext& c) {
      if (hooks.on_square) hooks.on_square();
      elementwise("Square", c, hooks);
    };
  return [op, &hooks](KernelContext& c) { elementwise(op, c, hooks); };
}

}  // namespace

KernelRegistry toy_kernels(ToyHooks& hooks) {
  KernelRegistry registry;
  for (const std::string op : {"Add", "Sub", "Mul", "Neg", "Square", "Abs", "Sign", "Identity", "Split", "Concat",
                               "NoOp", "ReadVariable", "AssignVariable", "AssignAddVariable"})
    registry.add({op, "CPU", {}, [op, &hooks](const KernelInit& init) -> Kernel {
                    return [name = std::string(init.node_name), kernel = make(op, hooks), &hooks](KernelContext& c) {
                      {
                        std::lock_guard lock(hooks.mutex);
                        hooks.ran.push_back(name);
                      }
                      kernel(c);
                    };
                  }});
  registry.set_reuse("Identity", "CPU", Reuse::view);
  for (const char* op : {"Add", "Sub", "Mul", "Neg", "Square"}) registry.set_reuse(op, "CPU", Reuse::in_place);
  return registry;
}

void make_costly(Graph& g) {
  for (int id = 0; id < g.size(); ++id)
    g.set_attribute(g.node(id), std::string(kCostAttribute), std::int64_t{1'000'000});
}

std::vector<Tensor> toy_evaluate(const std::string& op, const std::vector<Tensor>& inputs) {
  const Numbers a = inputs.empty() ? Numbers() : numbers(inputs[0]);
  const auto tensor = [](const Numbers& values) {
    return Tensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(values.size())},
                                    std::span<const std::int64_t>(values));
  };
  if (op == "Identity") return {tensor(a)};
  if (op == "Split") {
    const auto half = a.begin() + static_cast<std::ptrdiff_t>(a.size() / 2);
    return {tensor(Numbers(a.begin(), half)), tensor(Numbers(half, a.end()))};
  }
  if (op == "Concat") {
    Numbers out = a;
    for (std::int64_t x : numbers(inputs[1])) out.push_back(x);
    return {tensor(out)};
  }
  if (op == "Add" || op == "Sub" || op == "Mul" || op == "Neg" || op == "Square") {
    const Numbers b = numbers(inputs.back());
    Numbers out;
    for (std::size_t i = 0; i < a.size(); ++i) out.push_back(compute(op, a[i], b[i]));
    return {tensor(out)};
  }
  invalid_argument("toy_evaluate: {}", op);
}

Tensor i64(std::initializer_list<std::int64_t> values) { return Tensor::vector<std::int64_t>(values); }

std::vector<std::int64_t> numbers(const Tensor& tensor) {
  const auto values = tensor.values<std::int64_t>();
  return {values.begin(), values.end()};
}

Output node(Graph& g, const std::string& op, std::vector<Output> inputs, const std::string& name,
            Attributes attributes) {
  return g.output(g.add({.op = op, .name = name, .inputs = std::move(inputs), .attributes = std::move(attributes)}));
}
Output constant_node(Graph& g, Tensor value, const std::string& name) {
  const DType dtype = value.dtype();
  return node(g, "Const", {}, name, {{"T", dtype}, {"value", std::move(value)}});
}
Output feed(Graph& g, std::int64_t index, Shape shape, const std::string& name) {
  return node(g, "Feed", {}, name, {{"T", DType::i64}, {"index", index}, {"shape", shape}});
}
Output recv(Graph& g, std::int64_t edge, Shape shape, const std::string& name) {
  return node(g, "Recv", {}, name,
              {{"T", DType::i64}, {"edge", edge}, {"shape", shape}, {"from", std::string("/device:CPU:9")}});
}
Output pull(Graph& g, std::int64_t slice, Shape shape, const std::string& name) {
  return node(g, "Pull", {}, name, {{"T", DType::i64}, {"slice", slice}, {"shard", std::int64_t{0}}, {"shape", shape}});
}
Output variable_node(Graph& g, const std::string& name, Shape shape) {
  return node(g, "Variable", {}, name, {{"T", DType::i64}, {"shape", shape}});
}
void send(Graph& g, Output x, std::int64_t edge, const std::string& name) {
  g.add({.op = "Send",
         .name = name,
         .inputs = {x},
         .attributes = {{"edge", edge}, {"to", std::string("/device:CPU:9")}}});
}
void push(Graph& g, Output x, std::int64_t slice, const std::string& name) {
  g.add({.op = "Push", .name = name, .inputs = {x}, .attributes = {{"slice", slice}, {"shard", std::int64_t{0}}}});
}
void fetch(Graph& g, Output x, std::int64_t index, const std::string& name) {
  g.add({.op = "Fetch", .name = name, .inputs = {x}, .attributes = {{"index", index}}});
}

ToyTask::ToyTask(const Graph& graph, int threads)
    : ToyTask(graph, make_cpu_device({.name = DeviceName::parse("/job:test/task:0/device:CPU:0"), .threads = threads}),
              toy_kernels) {}

ToyTask::ToyTask(const Graph& graph, std::unique_ptr<Device> on, KernelRegistry (*make_kernels)(ToyHooks&))
    : kernels(make_kernels(hooks)), device(std::move(on)) {
  const std::string& type = device->attributes().type;
  std::shared_ptr<const Plan> plan = build_plan(graph, kernels, type, fmt::format("/device:{}:0", type),
                                                [this](const Tensor& constant) { return device->upload(constant); });
  std::vector<Variable*> variables;
  for (const VariableDecl& decl : plan->variables) variables.push_back(&store.get(decl));
  partition = std::make_shared<RegisteredPartition>(std::move(plan), std::move(variables));
}

Variable& ToyTask::variable(const std::string& name) {
  for (const VariableDecl& decl : plan().variables)
    if (decl.name == name) return store.get(decl);
  fail(Code::not_found, "no variable '{}'", name);
}

void ToyTask::take(std::uint64_t step, StepTable::Progress progress) {
  for (ReadySegment& segment : progress.ready) ready.push_back(std::move(segment));
  if (progress.ended) ended[step] = true;
}

void ToyTask::start(std::uint64_t step, const std::vector<Tensor>& feeds) {
  out[step] = std::make_unique<Recorder>(plan());
  take(step, table.start(key(step), {partition}, RandomKey{7, step, 0}, feeds));
  run_ready();
}

void ToyTask::arrive(std::uint64_t step, const std::string& arrival, Tensor tensor) {
  for (std::uint32_t a = 0; a < plan().arrivals.size(); ++a)
    if (plan().arrivals[a].name == arrival) take(step, table.arrived(key(step), 0, a, tensor));
  tensor = Tensor();
  run_ready();
}

void ToyTask::run_ready() {
  while (!ready.empty()) {
    const auto at = ready.begin() + static_cast<std::ptrdiff_t>(choose(ready.size()));
    const ReadySegment segment = std::move(*at);
    ready.erase(at);
    const std::uint64_t step = segment.step.step.value;
    const Error error = run_segment(*segment.frame, segment.segment, *device, *out.at(step));
    take(step, table.segment_done(segment.step, segment.partition, segment.segment, error));
  }
}

std::map<std::uint32_t, Tensor> ToyTask::finish(std::uint64_t step) {
  std::map<std::uint32_t, Tensor> fetches;
  for (auto& [index, tensor] : table.finish(key(step)).fetches) fetches[index] = std::move(tensor);
  return fetches;
}

}  // namespace troupe::testing
