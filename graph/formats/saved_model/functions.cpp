#include "troupe/graph/formats/saved_model/functions.hpp"

#include <charconv>
#include <set>

#include "messages/proto/tensorflow.pb.h"
#include <troupe/messages/error.hpp>

namespace troupe {

TfEndpoint parse_tensorflow_input(std::string_view input) {
  TfEndpoint out;
  const std::size_t first = input.find(':');
  out.node = input.substr(0, first);
  if (first == input.npos) return out;
  std::string_view rest = input.substr(first + 1);
  if (const std::size_t second = rest.find(':'); second != rest.npos) {
    out.result = rest.substr(0, second);
    rest.remove_prefix(second + 1);
  }
  const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), out.index);
  if (code == std::errc() && end == rest.data() + rest.size() && out.index >= 0) return out;
  if (!out.result.empty()) fail(Code::data_loss, "'{}' is no input of a node", input);
  out.result = rest;  // "a:b" is the first of b
  out.index = 0;
  return out;
}

TfFunction::TfFunction(const tensorflow::FunctionDef& def) : def_(&def) {
  const auto& signature = def.signature();
  for (int i = 0; i < signature.input_arg_size(); ++i)
    if (!arguments_.emplace(signature.input_arg(i).name(), i).second)
      fail(Code::data_loss, "two arguments are named '{}'", signature.input_arg(i).name());
  for (const tensorflow::NodeDef& node : def.node_def())
    if (arguments_.contains(node.name()) || !by_name_.emplace(node.name(), &node).second)
      fail(Code::data_loss, "two nodes or arguments are named '{}'", node.name());
  for (const auto& argument : signature.output_arg()) {
    const auto found = def.ret().find(argument.name());
    if (found == def.ret().end()) fail(Code::data_loss, "there is no result '{}'", argument.name());
    results_.push_back(found->second);
  }
  sort();
}

int TfFunction::num_arguments() const { return def_->signature().input_arg_size(); }

int TfFunction::argument(std::string_view name) const {
  const auto found = arguments_.find(name);
  return found == arguments_.end() ? -1 : found->second;
}

const tensorflow::NodeDef* TfFunction::find(std::string_view node) const {
  if (arguments_.contains(node)) return nullptr;
  const auto found = by_name_.find(node);
  if (found == by_name_.end()) fail(Code::data_loss, "there is no node '{}'", node);
  return found->second;
}

// Depth first, without recursion: chains may be long.
void TfFunction::sort() {
  std::set<const tensorflow::NodeDef*> done, open;
  struct Visit {
    const tensorflow::NodeDef* node;
    int next = 0;
  };
  for (const std::string& result : results_) {
    std::vector<Visit> path;
    const auto enter = [&](std::string_view input) {
      const tensorflow::NodeDef* node = find(parse_tensorflow_input(input).node);
      if (!node || done.contains(node)) return;
      if (!open.insert(node).second) fail(Code::data_loss, "node '{}' reads its own result", node->name());
      path.push_back({node});
    };
    enter(result);
    while (!path.empty()) {
      Visit& visit = path.back();
      if (visit.next < visit.node->input_size()) {
        const std::string& input = visit.node->input(visit.next++);
        if (!is_control_input(input)) enter(input);
        continue;
      }
      done.insert(visit.node);
      open.erase(visit.node);
      nodes_.push_back(visit.node);
      path.pop_back();
    }
  }
}

int TfFunction::passed_on(int result) const {
  std::string_view input = results_.at(static_cast<std::size_t>(result));
  while (true) {
    const std::string_view name = parse_tensorflow_input(input).node;
    const tensorflow::NodeDef* node = find(name);
    if (!node) return argument(name);
    if (node->op() != "Identity" || node->input_size() == 0 || is_control_input(node->input(0))) return -1;
    input = node->input(0);
  }
}

}  // namespace troupe
