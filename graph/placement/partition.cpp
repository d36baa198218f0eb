#include "troupe/graph/placement/partition.hpp"

#include <algorithm>
#include <set>

#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>
#include <troupe/messages/device_name.hpp>

namespace troupe {
namespace {

class Partitioner {
 public:
  explicit Partitioner(const Graph& graph) : graph_(graph), copies_(static_cast<std::size_t>(graph.size()), -1) {}

  Partitioned run() {
    for (int id : graph_.topological_order()) {
      const Node& node = graph_.node(id);
      if (!DeviceName::parse(node.device).complete())
        invalid_argument("{} '{}' is not placed: its device is '{}'", node.op->name, node.name, node.device);
      copy(node);
    }
    for (auto& [device, part] : result_.parts) add_functions(graph_, *part, *part);
    return std::move(result_);
  }

 private:
  Graph& part(const std::string& device) {
    auto& part = result_.parts[device];
    if (!part) part = std::make_unique<Graph>(graph_.ops());
    return *part;
  }

  void copy(const Node& node) {
    std::vector<Endpoint> inputs;
    for (const Endpoint& e : node.inputs) inputs.push_back(input(e, node));
    std::vector<int> controls;
    for (int c : node.controls)
      if (const int found = control(c, node.device); std::ranges::find(controls, found) == controls.end())
        controls.push_back(found);
    Graph& into = part(node.device);
    const Node& copied = into.add_copy(node, std::move(inputs), std::move(controls));
    into.set_colocation(copied, "");  // no longer needed; the other node may be in another part
    copies_[static_cast<std::size_t>(node.id)] = copied.id;
  }

  // The given tensor on the device of `node`.
  Endpoint input(Endpoint source, const Node& node) {
    const Node& producer = graph_.node(source.node);
    if (producer.device == node.device) return {copies_[static_cast<std::size_t>(source.node)], source.index};
    if (graph_.dtype(source) == DType::resource)
      invalid_argument("{} '{}' on {} uses variable '{}', which is on {}: they must share a device", node.op->name,
                       node.name, node.device, producer.name, producer.device);
    const auto key = std::pair(source, node.device);
    if (const auto it = arrived_.find(key); it != arrived_.end()) return {it->second, 0};
    Graph& from = part(producer.device);
    const Output tensor = from.output(from.node(copies_[static_cast<std::size_t>(source.node)]), source.index);
    const int recv = transfer(tensor, {}, output_name(graph_, source), graph_.shape(source), producer, node.device);
    arrived_.emplace(key, recv);
    after_.emplace(std::pair(source.node, node.device), recv);
    return {recv, 0};
  }

  // A node on `device` that runs after `source`.
  int control(int source, const std::string& device) {
    const Node& producer = graph_.node(source);
    const int copied = copies_[static_cast<std::size_t>(source)];
    if (producer.device == device) return copied;
    const auto key = std::pair(source, device);
    if (const auto it = after_.find(key); it != after_.end()) return it->second;
    Graph& from = part(producer.device);
    const Output before = from.output(from.node(copied));
    const int recv = transfer(signal(from, producer.device), {before}, "^" + producer.name, Shape{}, producer, device);
    after_.emplace(key, recv);
    return recv;
  }

  // The constant that control edges from this device send.
  Output signal(Graph& from, const std::string& device) {
    const auto it = signals_.find(device);
    if (it != signals_.end()) return from.output(from.node(it->second));
    const Node& constant = from.add({.op = "Const",
                                     .name = new_name("signal"),
                                     .attributes = {{"T", DType::i32}, {"value", Tensor::scalar(std::int32_t{0})}},
                                     .device = device});
    signals_.emplace(device, constant.id);
    return from.output(constant);
  }

  // Adds a Send to the producer's part and a Recv to the destination's; returns the Recv.
  int transfer(Output tensor, std::vector<Output> after, const std::string& name, const Shape& shape,
               const Node& producer, const std::string& to) {
    const auto edge = static_cast<std::int64_t>(result_.edges.size());
    result_.edges.push_back(
        {EdgeId{static_cast<std::uint32_t>(edge)}, producer.device, to, name, tensor.dtype(), shape});
    const DType dtype = tensor.dtype();
    tensor.graph->add({.op = "Send",
                       .name = new_name(fmt::format("{}/send_{}", producer.name, edge)),
                       .inputs = {tensor},
                       .attributes = {{"edge", edge}, {"to", to}},
                       .controls = std::move(after),
                       .device = producer.device});
    return part(to)
        .add({.op = "Recv",
              .name = new_name(fmt::format("{}/recv_{}", producer.name, edge)),
              .attributes = {{"T", dtype}, {"shape", shape}, {"edge", edge}, {"from", producer.device}},
              .device = to})
        .id;
  }

  // Unique in all parts: names added here are numbered by edge or device, so only the user's nodes can collide.
  std::string new_name(const std::string& base) const {
    std::string name = base;
    for (int i = 1; graph_.find(name); ++i) name = fmt::format("{}_{}", base, i);
    return name;
  }

  // Functions of the whole graph named by nodes of `user`, a part or a function body. Iterative.
  void add_functions(const Graph& whole, Graph& into, const Graph& user) {
    std::vector<const Graph*> pending = {&user};
    while (!pending.empty()) {
      const Graph& graph = *pending.back();
      pending.pop_back();
      for (int id = 0; id < graph.size(); ++id)
        for (const auto& [key, value] : graph.node(id).attributes.all()) {
          const auto* name = std::get_if<FunctionName>(&value);
          const Function* function = name ? whole.function(name->value) : nullptr;
          if (!function || into.function(name->value)) continue;
          into.add_function(*function);
          pending.push_back(function->body.get());
        }
    }
  }

  const Graph& graph_;
  Partitioned result_;
  std::vector<int> copies_;                                  // by node: its id in its part
  std::map<std::pair<Endpoint, std::string>, int> arrived_;  // (tensor, device) -> Recv
  std::map<std::pair<int, std::string>, int> after_;         // (node, device) -> a Recv that implies it has run
  std::map<std::string, int> signals_;
};

}  // namespace

Partitioned partition(const Graph& placed) {
  Partitioned out = Partitioner(placed).run();
  for (auto& [device, part] : out.parts) part = verified("partition", std::move(part));
  return out;
}

}  // namespace troupe
