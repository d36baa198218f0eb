// Evaluates a graph node by node with the registered kernels, without sessions, plans or actors: for tests.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/run_kernel.hpp"
#include <troupe/graph/graph.hpp>
#include <troupe/messages/tensor_list.hpp>

namespace troupe::testing {

using Feeds = std::map<Endpoint, Tensor>;

// Keeps variables from one call to the next.
class GraphEvaluator {
 public:
  explicit GraphEvaluator(int threads = 1) : device_(test_device(threads)) {}

  // The values of `fetches`. Only what they need (by data or control edges) runs, in topological order.
  std::vector<Tensor> run(const Graph& graph, const Feeds& feeds, const std::vector<Endpoint>& fetches) {
    std::map<Endpoint, Tensor> values = feeds;
    const std::vector<bool> wanted = ancestors(graph, feeds, fetches);
    for (int id : graph.topological_order())
      if (wanted[static_cast<std::size_t>(id)]) run_node(graph, graph.node(id), values);
    std::vector<Tensor> out;
    for (const Endpoint& e : fetches) out.push_back(values[e]);
    return out;
  }
  Tensor run(Output fetch, const Feeds& feeds = {}) {
    return run(*fetch.graph, feeds, {{fetch.node, fetch.index}}).front();
  }

  RandomKey random_key;

 private:
  static std::vector<bool> ancestors(const Graph& graph, const Feeds& feeds, const std::vector<Endpoint>& fetches) {
    std::vector<bool> wanted(static_cast<std::size_t>(graph.size()), false);
    std::vector<int> pending;
    const auto want = [&](int id) {
      if (!wanted[static_cast<std::size_t>(id)]) pending.push_back(id);
      wanted[static_cast<std::size_t>(id)] = true;
    };
    const auto want_value = [&](Endpoint e) {
      if (!feeds.contains(e)) want(e.node);
    };
    for (const Endpoint& e : fetches) want_value(e);
    while (!pending.empty()) {
      const Node& node = graph.node(pending.back());
      pending.pop_back();
      for (const Endpoint& e : node.inputs) want_value(e);
      for (int c : node.controls) want(c);
    }
    return wanted;
  }

  void run_node(const Graph& graph, const Node& node, std::map<Endpoint, Tensor>& values) {
    const std::string& op = node.op->name;
    if (op == "Const") {
      values[{node.id, 0}] = node.attributes.tensor("value");
    } else if (op == "Variable") {
      variables_.try_emplace(node.name, node.name, node.attributes.dtype("T"), node.attributes.shape("shape"));
    } else if (op == "If") {
      run_if(graph, node, values);
    } else if (op == "Loop") {
      run_loop(graph, node, values);
    } else if (op == "Placeholder" || op == "Arg") {
      fail(Code::invalid_argument, "{} '{}' was not fed", op, node.name);
    } else {
      run_kernel_of(graph, node, values);
    }
  }

  void run_if(const Graph& graph, const Node& node, std::map<Endpoint, Tensor>& values) {
    const bool cond = values.at(node.inputs[0]).item<bool>();
    const auto& name = node.attributes.get<FunctionName>(cond ? "then_branch" : "else_branch").value;
    const Function* branch = graph.function(name);
    if (!branch) fail(Code::not_found, "there is no function '{}'", name);
    Feeds arguments;
    for (std::size_t i = 0; i < branch->arguments.size(); ++i)
      arguments[branch->arguments[i]] = values.at(node.inputs[i + 1]);
    const std::vector<Tensor> results = run(*branch->body, arguments, branch->results);
    for (std::size_t i = 0; i < results.size(); ++i) values[{node.id, static_cast<int>(i)}] = results[i];
  }

  void run_loop(const Graph& graph, const Node& node, std::map<Endpoint, Tensor>& values) {
    const Function* body = graph.function(node.attributes.get<FunctionName>("body").value);
    if (!body) fail(Code::not_found, "Loop '{}' has no body", node.name);
    std::vector<Tensor> inputs;
    for (const Endpoint& e : node.inputs) inputs.push_back(values.at(e));
    const auto carried = static_cast<std::size_t>(node.attributes.integer("carried")),
               scanned = static_cast<std::size_t>(node.attributes.integer("scanned"));
    std::int64_t most = inputs[0].item<std::int64_t>() < 0 ? 1'000'000 : inputs[0].item<std::int64_t>();
    for (std::size_t i = 2 + carried; i < 2 + carried + scanned; ++i)
      most = std::min(most,
                      inputs[i].dtype() == DType::list ? std::ssize(list_items(inputs[i])) : inputs[i].shape().dim(0));
    const bool reverse = node.attributes.boolean("reverse");
    std::vector<std::vector<Tensor>> lists(body->results.size() - 1 - carried);
    std::int64_t done = 0;
    const RandomKey key = random_key;
    for (bool more = inputs[1].item<bool>(); more && done < most; ++done) {
      const std::int64_t index = reverse ? most - 1 - done : done;
      random_key.seed = key.seed ^ (0x9e3779b97f4a7c15ull * (static_cast<std::uint64_t>(index) + 1));
      Feeds arguments{{body->arguments[0], Tensor::scalar(index)}};
      for (std::size_t i = 2; i < inputs.size(); ++i) {
        Tensor value = inputs[i];
        if (i >= 2 + carried && i < 2 + carried + scanned) {
          const auto at = static_cast<std::size_t>(index);
          value = value.dtype() == DType::list
                      ? list_items(value)[at]
                      : value.rows(index, index + 1).reshaped(value.shape().without(0)).clone();
        }
        arguments[body->arguments[i - 1]] = value;
      }
      const std::vector<Tensor> results = run(*body->body, arguments, body->results);
      more = results[0].item<bool>();
      for (std::size_t i = 0; i < carried; ++i) inputs[2 + i] = results[1 + i];
      for (std::size_t l = 0; l < lists.size(); ++l) lists[l].push_back(results[1 + carried + l]);
    }
    random_key = key;
    values[{node.id, 0}] = Tensor::scalar(done);
    for (std::size_t i = 0; i < carried; ++i) values[{node.id, static_cast<int>(i) + 1}] = inputs[2 + i];
    for (std::size_t l = 0; l < lists.size(); ++l) {
      if (reverse) std::ranges::reverse(lists[l]);
      values[{node.id, static_cast<int>(carried + l) + 1}] = make_list(lists[l]);
    }
  }

  void run_kernel_of(const Graph& graph, const Node& node, std::map<Endpoint, Tensor>& values) {
    KernelCall call{.op = node.op->name,
                    .dtype = node.kernel_type(),
                    .attributes = node.attributes,
                    .outputs = node.output_types.size(),
                    .key = random_key,
                    .hash = std::hash<std::string>{}(node.name),
                    .name = node.name,
                    .output_types = node.output_types};
    for (const Endpoint& e : node.inputs) {
      const bool handle = graph.dtype(e) == DType::resource;
      call.inputs.push_back(handle ? Tensor() : values.at(e));
      call.variables.push_back(handle ? &variables_.at(graph.node(e.node).name) : nullptr);
    }
    const std::vector<Tensor> outputs = run_kernel(registry_, *device_, std::move(call));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      check_output(node, i, outputs[i]);
      values[{node.id, static_cast<int>(i)}] = outputs[i];
    }
  }

  // A kernel keeps what the shape function promised.
  static void check_output(const Node& node, std::size_t i, const Tensor& value) {
    if (value.dtype() != node.output_types[i] || !node.output_shapes[i].compatible_with(value.shape()))
      fail(Code::internal, "{} '{}': output {} is {}{}, but {}{} was inferred", node.op->name, node.name, i,
           name(value.dtype()), value.shape().to_string(), name(node.output_types[i]),
           node.output_shapes[i].to_string());
  }

  std::shared_ptr<Device> device_;
  KernelRegistry registry_ = all_kernels();
  std::map<std::string, Variable> variables_;
};

}  // namespace troupe::testing
