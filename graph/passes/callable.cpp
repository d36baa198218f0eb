#include "troupe/graph/passes/callable.hpp"

#include <troupe/graph/passes/prune.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/graph/verify.hpp>

namespace troupe {
namespace {

Endpoint parse_tensor(const Graph& graph, const std::string& name, std::string_view role) {
  try {
    const Endpoint e = graph.endpoint(name);
    if (graph.dtype(e) == DType::resource)
      invalid_argument("'{}' is a variable handle, not a tensor: use a node that reads or assigns it", name);
    return e;
  } catch (const Error& error) {
    throw error.within(role);
  }
}

void add_feed(Rewriter& rewriter, std::size_t index, Endpoint fed) {
  const Node& old = rewriter.from().node(fed.node);
  if (rewriter.has(fed)) invalid_argument("feed: '{}' is fed twice", output_name(rewriter.from(), fed));
  const Node& feed = rewriter.to().add({.op = "Feed",
                                        .name = rewriter.new_name(old.name + "/feed"),
                                        .attributes = {{"T", rewriter.from().dtype(fed)},
                                                       {"index", static_cast<std::int64_t>(index)},
                                                       {"shape", rewriter.from().shape(fed)}}});
  rewriter.replace(fed, {feed.id, 0});
  if (old.op->role == OpRole::placeholder) rewriter.replace_node(old, feed);
}

void require_placeholders_fed(const Graph& graph) {
  std::vector<std::string> missing;
  for (int id = 0; id < graph.size(); ++id)
    if (graph.node(id).op->role == OpRole::placeholder) missing.push_back(graph.node(id).name);
  if (missing.size() == 1) invalid_argument("Placeholder '{}' must be fed", missing.front());
  if (missing.empty()) return;
  std::string names;
  for (const std::string& name : missing) names += (names.empty() ? "'" : ", '") + name + "'";
  invalid_argument("Placeholders {} must be fed", names);
}

}  // namespace

std::unique_ptr<Graph> make_callable_graph(const Graph& graph, const Signature& signature) {
  if (signature.fetches.empty() && signature.targets.empty())
    invalid_argument("nothing to run: the call has neither fetches nor targets");
  Rewriter rewriter(graph);
  for (std::size_t i = 0; i < signature.feeds.size(); ++i)
    add_feed(rewriter, i, parse_tensor(graph, signature.feeds[i], "feed"));
  std::vector<Endpoint> fetches;
  for (const std::string& name : signature.fetches) fetches.push_back(parse_tensor(graph, name, "fetch"));
  std::vector<int> targets;
  for (const std::string& name : signature.targets) {
    const Node* target = graph.find(name);
    if (!target) fail(Code::not_found, "target: the graph has no node '{}'", name);
    targets.push_back(target->id);
  }

  for (int id : graph.topological_order()) {
    const Node& node = graph.node(id);
    if (node.op->is_client_side())
      invalid_argument("{} '{}': the graph must not have nodes of this op; each call adds its own", node.op->name,
                       node.name);
    const bool fed = node.op->role == OpRole::placeholder && rewriter.has({id, 0});
    if (!fed) rewriter.copy(node);
  }
  Graph& out = rewriter.to();
  for (std::size_t i = 0; i < fetches.size(); ++i) {
    const std::string name = rewriter.new_name(graph.node(fetches[i].node).name + "/fetch");
    out.add({.op = "Fetch",
             .name = name,
             .inputs = {rewriter.output(fetches[i])},
             .attributes = {{"index", static_cast<std::int64_t>(i)}}});
  }
  for (int id : targets) {
    const Node* target = out.find(graph.node(id).name);
    if (target) out.set_attribute(*target, std::string(kTargetAttribute), true);  // else: a fed Placeholder
  }
  auto callable = prune_callable(*rewriter.finish());
  require_placeholders_fed(*callable);
  return verified("make_callable_graph", std::move(callable));
}

}  // namespace troupe
