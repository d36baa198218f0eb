#include "troupe/graph/placement/placement.hpp"

#include <algorithm>
#include <numeric>

#include <troupe/graph/loaded_ops.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

class Groups {
 public:
  explicit Groups(int size) : parent_(static_cast<std::size_t>(size)) { std::iota(parent_.begin(), parent_.end(), 0); }
  int find(int id) {
    int& parent = parent_[static_cast<std::size_t>(id)];
    while (parent != parent_[static_cast<std::size_t>(parent)]) parent = parent_[static_cast<std::size_t>(parent)];
    return parent;
  }
  // The lower id leads, so groups are identified by their first node.
  void join(int a, int b) {
    a = find(a);
    b = find(b);
    parent_[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
  }

 private:
  std::vector<int> parent_;
};

class Placer {
 public:
  Placer(const Graph& graph, std::span<const DeviceInfo> devices, const PlacementOptions& options)
      : graph_(graph), options_(options), placed_(graph.clone()), groups_(graph.size()) {
    for (const DeviceInfo& d : devices) (d.name.task_name() == options.client ? preferred_ : others_).push_back(&d);
    if (preferred_.empty())
      invalid_argument("task {} of the session has no device; available: {}", options.client.to_string(),
                       names(others_));
    std::ranges::stable_sort(preferred_, std::ranges::less(), [](const DeviceInfo* d) { return d->type == "CPU"; });
    client_cpu_ = DeviceName::of(options.client, "CPU", 0);
    all_ = preferred_;
    all_.insert(all_.end(), others_.begin(), others_.end());
  }

  std::unique_ptr<Graph> run() {
    form_groups();
    std::map<int, std::vector<int>> members;
    for (int id = 0; id < graph_.size(); ++id) members[groups_.find(id)].push_back(id);
    for (const auto& [first, ids] : members) place_group(ids);
    follow_inputs(members);
    follow_consumers(members);
    bring_client_side_together();
    return std::move(placed_);
  }

 private:
  using Devices = std::vector<const DeviceInfo*>;

  static std::string names(const Devices& devices) {
    std::string text;
    for (const DeviceInfo* d : devices) text += (text.empty() ? "" : ", ") + d->name.to_string();
    return text.empty() ? "none" : text;
  }
  static std::string request(const Node& node) {
    return fmt::format("'{}' ({})", node.name, node.device.empty() ? "any device" : node.device);
  }

  void form_groups() {
    for (int id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (node.op->is_client_side()) continue;
      if (!node.colocate_with.empty()) {
        const Node* other = graph_.find(node.colocate_with);
        if (!other)
          fail(Code::not_found, "{} '{}': cannot be colocated with '{}', which is not in the graph", node.op->name,
               node.name, node.colocate_with);
        if (!other->op->is_client_side()) groups_.join(id, other->id);
      }
      for (const Endpoint& e : node.inputs)
        if (graph_.dtype(e) == DType::resource) groups_.join(id, e.node);
    }
  }

  // The combined request of all members.
  DeviceName merged_request(const std::vector<int>& ids) const {
    DeviceName merged;
    for (int id : ids) {
      const DeviceName own = DeviceName::parse(graph_.node(id).device);
      const auto both = merged.merged(own);
      if (!both) {
        const auto other =
            std::ranges::find_if(ids, [&](int i) { return !DeviceName::parse(graph_.node(i).device).merged(own); });
        invalid_argument("cannot colocate {} with {}", request(graph_.node(*other)), request(graph_.node(id)));
      }
      merged = *both;
    }
    return merged;
  }

  // A library of ops may be loaded after the device was described; on other tasks it is checked when they receive their
  // part of the graph.
  static bool has_kernel(const DeviceInfo& device, const std::string& kernel) {
    return device.kernels.contains(kernel) || has_loaded_kernel(device.type, kernel);
  }
  // Whether the device has the kernel and, for If, those of both branches.
  static bool supports(const DeviceInfo& device, const Graph& graph, const Node& node, int depth = 0) {
    const std::string kernel = kernel_name(node);
    // A kernel for any dtype is listed by the name of its op alone.
    if (!kernel.empty() && !has_kernel(device, kernel) && !has_kernel(device, node.op->name)) return false;
    for (const auto& [key, value] : node.attributes.all()) {
      const auto* name = std::get_if<FunctionName>(&value);
      const Function* function = name ? graph.function(name->value) : nullptr;
      if (!function) continue;
      if (depth > 16) invalid_argument("{} '{}': functions are nested too deeply", node.op->name, node.name);
      const Graph& body = *function->body;
      for (int id = 0; id < body.size(); ++id)
        if (!supports(device, body, body.node(id), depth + 1)) return false;
    }
    return true;
  }
  bool supports(const DeviceInfo& device, const std::vector<int>& ids) const {
    return std::ranges::all_of(ids, [&](int id) { return supports(device, graph_, graph_.node(id)); });
  }

  const DeviceInfo* choose(const DeviceName& wanted, const std::vector<int>& ids) const {
    const auto fits = [&](const DeviceInfo* d) { return wanted.matches(d->name) && supports(*d, ids); };
    const auto found = std::ranges::find_if(all_, fits);
    return found == all_.end() ? nullptr : *found;
  }

  // Otherwise a misspelt type would be a missing device, which soft placement replaces by another.
  bool is_known_type(const DeviceName& wanted) const {
    return !wanted.type || wanted.type == "CPU" || wanted.type == "GPU" ||
           std::ranges::find(all_, *wanted.type, [](const DeviceInfo* d) { return d->type; }) != all_.end();
  }

  void place_group(const std::vector<int>& ids) {
    if (graph_.node(ids.front()).op->is_client_side()) {
      assign(ids.front(), client_cpu_);
      return;
    }
    const DeviceName wanted = merged_request(ids);
    const DeviceInfo* device = choose(wanted, ids);
    if (!device && options_.soft && is_known_type(wanted)) {
      DeviceName relaxed = wanted.or_else(DeviceName{options_.client.job, options_.client.index, {}, {}});
      relaxed.type.reset();
      relaxed.index.reset();
      device = choose(relaxed, ids);
    }
    if (!device) refuse(wanted, ids);
    for (int id : ids) assign(id, device->name);
  }

  [[noreturn]] void refuse(const DeviceName& wanted, const std::vector<int>& ids) const {
    const std::string request = wanted.to_string();
    const Node& first = graph_.node(ids.front());
    Devices matching;
    std::ranges::copy_if(all_, std::back_inserter(matching),
                         [&](const DeviceInfo* d) { return wanted.matches(d->name); });
    if (matching.empty())
      invalid_argument("{} '{}': there is no device {}; available: {}", first.op->name, first.name, request,
                       names(all_));
    // The most likely reason: the first member that a matching device cannot run.
    for (int id : ids)
      if (!supports(*matching.front(), graph_, graph_.node(id)))
        invalid_argument("{} '{}': {} has no kernel {}{}", graph_.node(id).op->name, graph_.node(id).name,
                         names(matching),
                         kernel_name(graph_.node(id)).empty() ? "for a branch" : kernel_name(graph_.node(id)),
                         ids.size() > 1 ? fmt::format(" (it shares its device with '{}')", other_member(ids, id)) : "");
    invalid_argument("{} '{}': none of {} can run all the nodes that must share its device", first.op->name, first.name,
                     names(matching));
  }
  const std::string& other_member(const std::vector<int>& ids, int id) const {
    return graph_.node(ids.front() == id ? ids.back() : ids.front()).name;
  }

  void assign(int id, const DeviceName& device) { placed_->set_device(placed_->node(id), device.to_string()); }

  bool is_free(const Node& node, const std::map<int, std::vector<int>>& members) const {
    const auto group = members.find(node.id);
    return node.device.empty() && group != members.end() && group->second.size() == 1 && !node.op->is_client_side();
  }
  // Moves a node without a request, if that device can run it.
  void move(const Node& node, const std::string& device) {
    const auto found = std::ranges::find(all_, device, [](const DeviceInfo* d) { return d->name.to_string(); });
    if (found != all_.end() && supports(**found, graph_, node)) placed_->set_device(placed_->node(node.id), device);
  }

  void follow_inputs(const std::map<int, std::vector<int>>& members) {
    for (int id : graph_.topological_order()) {
      const Node& node = graph_.node(id);
      // Feeds continue to the device that wants them: a Feed does not keep its Identity on the client.
      if (node.op->forwards && is_free(node, members) && !graph_.node(node.inputs[0].node).op->is_client_side())
        move(node, placed_->node(node.inputs[0].node).device);
    }
  }

  // Without inputs, or random, of a constant shape.
  bool is_source(const Node& node) const {
    const auto constant = [&](Endpoint input) { return graph_.node(input.node).op->role == OpRole::constant; };
    return node.inputs.empty() ||
           (node.op->stateful && node.op->has_kernel() && std::ranges::all_of(node.inputs, constant));
  }

  void follow_consumers(const std::map<int, std::vector<int>>& members) {
    const auto consumers = data_consumers(graph_);
    std::vector<int> consumers_first = graph_.topological_order();
    std::ranges::reverse(consumers_first);
    for (const int id : consumers_first) {
      const Node& node = graph_.node(id);
      const auto& users = consumers[static_cast<std::size_t>(id)];
      if (!is_source(node) || users.empty() || !is_free(node, members)) continue;
      const std::string& device = placed_->node(users.front()).device;
      if (std::ranges::all_of(users, [&](int user) { return placed_->node(user).device == device; }))
        move(node, device);
    }
  }

  // If only one device is used, feeds go straight to it and fetches come straight from it: the graph is one partition
  // then.
  void bring_client_side_together() {
    std::string only;
    for (int id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (node.op->is_client_side()) {
        if (is_of_strings(node)) return;
        continue;
      }
      const std::string& device = placed_->node(id).device;
      if (only.empty()) only = device;
      if (device != only) return;
    }
    const auto device =
        std::ranges::find_if(preferred_, [&](const DeviceInfo* d) { return d->name.to_string() == only; });
    if (device == preferred_.end()) return;
    for (int id = 0; id < graph_.size(); ++id)
      if (graph_.node(id).op->is_client_side()) assign(id, (*device)->name);
  }
  // For a client-side node: strings stay on the CPU.
  bool is_of_strings(const Node& node) const {
    return (node.op->role == OpRole::feed ? node.output_types[0] : graph_.dtype(node.inputs[0])) == DType::string;
  }

  const Graph& graph_;
  const PlacementOptions& options_;
  std::unique_ptr<Graph> placed_;
  Groups groups_;
  Devices preferred_;  // of the client's task
  Devices others_;
  Devices all_;
  DeviceName client_cpu_;
};

}  // namespace

std::string kernel_name(const Node& node) {
  if (!node.op->has_kernel()) return "";
  const DType dtype = node.kernel_type();
  return dtype == DType::invalid ? node.op->name : fmt::format("{}:{}", node.op->name, name(dtype));
}

std::vector<std::string> default_devices(std::span<const DeviceInfo> devices, const TaskName& task) {
  std::vector<std::string> cpus, others;
  for (const DeviceInfo& d : devices)
    if (d.name.task_name() == task) (d.type == "CPU" ? cpus : others).push_back(d.name.to_string());
  return others.empty() ? cpus : others;
}

std::unique_ptr<Graph> place(const Graph& graph, std::span<const DeviceInfo> devices, const PlacementOptions& options) {
  auto placed = Placer(graph, devices, options).run();
  if (passes_are_verified()) verify_placed(*placed);
  return verified("place", graph, std::move(placed));
}

std::string placement_report(const Graph& placed) {
  std::map<std::string, std::vector<const Node*>> by_device;
  for (int id = 0; id < placed.size(); ++id) by_device[placed.node(id).device].push_back(&placed.node(id));
  std::string text;
  for (const auto& [device, nodes] : by_device) {
    text += fmt::format("{}: {} nodes\n", device.empty() ? "not placed" : device, nodes.size());
    for (const Node* node : nodes) text += fmt::format("  {} '{}'\n", node->op->name, node->name);
  }
  return text;
}

}  // namespace troupe
