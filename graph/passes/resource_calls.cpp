#include "troupe/graph/passes/resource_calls.hpp"

#include <algorithm>

#include <troupe/graph/component_shapes.hpp>
#include <troupe/graph/rewrite.hpp>

namespace troupe {
namespace {

class CallExpander {
 public:
  explicit CallExpander(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  std::unique_ptr<Graph> run() {
    for (const auto& [name, function] : graph_.functions()) refuse_calls(*function.body);
    for (const int id : graph_.topological_order()) {
      const Node& node = graph_.node(id);
      if (calls_resource(*node.op))
        expand(node);
      else
        rewriter_.copy(node);
    }
    return rewriter_.finish();
  }

 private:
  static void refuse_calls(const Graph& body) {
    for (int id = 0; id < body.size(); ++id)
      if (const Node& node = body.node(id); calls_resource(*node.op))
        fail(Code::unimplemented, "{} '{}': the body of a loop or branch cannot wait: call it outside", node.op->name,
             node.name);
  }

  void expand(const Node& call) {
    Graph& to = rewriter_.to();
    const Node& resource = graph_.node(call.inputs[0].node);
    const auto add = [&](const char* what, NodeSpec spec) -> const Node& {
      spec.name = rewriter_.new_name(call.name + what);
      spec.device = call.device;
      spec.colocate_with = resource.name;
      return to.add(std::move(spec));
    };
    std::vector<Output> values, before;
    for (std::size_t i = 1; i < call.inputs.size(); ++i) values.push_back(rewriter_.output(call.inputs[i]));
    for (const int id : rewriter_.mapped_controls(call)) before.push_back({&to, id, 0});
    const bool in_rows = call.output_types.empty() && call.attributes.has("rows") && call.attributes.boolean("rows");
    const Node& list =
        add("/values", {.op = "CallValues", .inputs = std::move(values), .attributes = {{"rows", in_rows}}});
    const std::int64_t edge = kFirstCallEdge + call.id;
    const Node& request =
        add("/request", {.op = "CallRequest",
                         .inputs = {rewriter_.output(call.inputs[0]), to.output(list)},
                         .attributes = {{"operation", call.attributes.string("operation")}, {"edge", edge}},
                         .controls = std::move(before)});
    const std::string from = fmt::format("{} '{}'", resource.op->name, resource.name);
    const Node& answer =
        add("/answer",
            {.op = "CallAnswer", .attributes = {{"edge", edge}, {"from", from}}, .controls = {to.output(request)}});
    NodeSpec results{
        .op = call.attributes.string("results"), .inputs = {to.output(answer)}, .attributes = result_attributes(call)};
    const Node& made = to.node(rewriter_.add_like(call, std::move(results)).node);
    to.set_colocation(made, resource.name);
    for (int i = 0; i < static_cast<int>(call.output_types.size()); ++i) {
      to.refine_shape(made, i, call.output_shapes[static_cast<std::size_t>(i)]);
      rewriter_.replace({call.id, i}, {made.id, i});
    }
    rewriter_.replace_node(call, made);
  }

  // Those of the call that its results have as well.
  Attributes result_attributes(const Node& call) const {
    Attributes out;
    const OpDef& results = graph_.ops().get(call.attributes.string("results"));
    for (const AttrDef& attr : results.attrs)
      if (const auto own = call.attributes.all().find(attr.name);
          own != call.attributes.all().end() && !call.output_types.empty())
        out.set(attr.name, own->second);
    if (!results.find_attr("types") || out.has("types")) return out;
    out.set("types", call.output_types);
    out.set("shapes", packed_shapes(call.output_shapes));
    return out;
  }

  const Graph& graph_;
  Rewriter rewriter_;
};

}  // namespace

bool calls_resource(const OpDef& op) {
  return op.has_kernel() && !op.inputs.empty() && op.inputs[0].fixed == DType::resource && op.find_attr("operation");
}

bool has_resource_calls(const Graph& graph) {
  const auto calls = [](const Graph& in) {
    for (int id = 0; id < in.size(); ++id)
      if (calls_resource(*in.node(id).op)) return true;
    return false;
  };
  return calls(graph) ||
         std::ranges::any_of(graph.functions(), [&](const auto& entry) { return calls(*entry.second.body); });
}

std::unique_ptr<Graph> expand_resource_calls(const Graph& graph) { return CallExpander(graph).run(); }

}  // namespace troupe
