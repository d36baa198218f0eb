// Branches, loops and functions with a gradient of their own, whose bodies are functions of Python.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "apps/python/callbacks.hpp"
#include <troupe/graph/builder/control.hpp>
#include <troupe/graph/builder/functions.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// The graph of a call with these lists of arguments, and these as its outputs.
struct ControlCall {
  explicit ControlCall(const std::vector<nb::handle>& lists) : of(CallGraph::of(lists)) {}
  Outputs in(nb::handle list) const { return outputs_in(of.keep, *of.graph, list); }
  // A body that adds nodes to the graph of its arguments.
  LoopBody body(nb::object function) const {
    return [fn = PyFunction(std::move(function)), keep = of.keep, outer = of.graph](const Outputs& xs) {
      Graph& graph = keep ? graph_for(xs.empty() ? Outputs{{outer}} : xs) : *outer;
      return fn.outputs(keep, graph, xs);
    };
  }
  nb::object result(const Outputs& outputs) const { return to_python(of, outputs); }

  const CallGraph of;
};

Output condition(const Outputs& found, const char* function) {
  if (found.size() != 1) invalid_argument("{}: the condition returns {} values, not one", function, found.size());
  return found[0];
}

nb::object py_cond(nb::handle pred, nb::object then_fn, nb::object else_fn, nb::handle operands) {
  const ControlCall call({pred, operands});
  const auto branch = [&](nb::object function) -> BranchFn {
    return [fn = PyFunction(std::move(function)), keep = call.of.keep](Graph& graph, const Outputs& xs) {
      return fn.outputs(keep, graph, xs);
    };
  };
  return call.result(if_else(operand(call.of, pred, DType::boolean), call.in(operands), branch(std::move(then_fn)),
                             branch(std::move(else_fn))));
}

nb::object py_switch(nb::handle index, const std::vector<nb::object>& branches, nb::handle operands) {
  const ControlCall call({index, operands});
  std::vector<BranchFn> all;
  for (const nb::object& function : branches)
    all.emplace_back([fn = PyFunction(function), keep = call.of.keep](Graph& graph, const Outputs& xs) {
      return fn.outputs(keep, graph, xs);
    });
  return call.result(switch_case(operand(call.of, index), call.in(operands), all));
}

nb::object py_while(nb::object cond, nb::object body, nb::handle values, std::int64_t limit, bool recompute) {
  const ControlCall call({values});
  const LoopBody test = call.body(std::move(cond));
  LoopOptions options;
  options.recompute = recompute;
  options.limit = constant<std::int64_t>(*call.of.graph, limit);
  return call.result(while_loop([&](const Outputs& xs) { return condition(test(xs), "while_loop"); },
                                call.body(std::move(body)), call.in(values), std::move(options)));
}

// step(state..., rows...) -> [state, ys].
nb::object py_scan(nb::object step, nb::handle init, nb::handle xs, bool reverse, bool recompute) {
  const ControlCall call({init, xs});
  const PyFunction fn(std::move(step));
  const ScanStep one = [&](const Outputs& state, const Outputs& rows) {
    const nb::gil_scoped_acquire held;
    Outputs given = state;
    given.insert(given.end(), rows.begin(), rows.end());
    Graph& graph = call.of.keep ? graph_for(given) : *call.of.graph;
    const auto made = nb::cast<std::vector<nb::object>>(fn(call.of.keep, given));
    return Scanned{outputs_in(call.of.keep, graph, made.at(0)), outputs_in(call.of.keep, graph, made.at(1))};
  };
  const Scanned found = scan(one, call.in(init), call.in(xs), {.reverse = reverse, .recompute = recompute});
  return nb::make_tuple(call.result(found.state), call.result(found.ys));
}

// fn(xs...) -> [ys, grad], where grad(dys...) gives the gradients of the xs.
nb::object py_custom_gradient(nb::object function, nb::handle xs) {
  const ControlCall call({xs});
  const auto grad = std::make_shared<std::unique_ptr<PyFunction>>();
  const std::shared_ptr<Graph> keep = call.of.keep;
  Graph* const graph = call.of.graph;
  CustomGradient custom;
  custom.forward = [&](const Outputs& given) {
    const nb::gil_scoped_acquire held;
    const nb::object made = PyFunction(function)(keep, given);
    if (!nb::isinstance<nb::sequence>(made) || nb::len(made) != 2)
      invalid_argument("custom_gradient: the function must return its result and the function of gradients, a pair");
    *grad = std::make_unique<PyFunction>(made[1]);
    return outputs_in(keep, keep ? graph_for(given) : *graph, made[0]);
  };
  custom.backward = [grad, keep, graph](const Outputs&, const Outputs&, const Outputs& dys) {
    return (*grad)->outputs(keep, keep ? graph_for(dys) : *graph, dys);
  };
  return call.result(custom_gradient(custom, call.in(xs)));
}

}  // namespace

void bind_control(nb::module_& m) {
  m.def("cond", &py_cond, "pred"_a, "true_fn"_a, "false_fn"_a, "operands"_a);
  m.def("switch_case", &py_switch, "index"_a, "branches"_a, "operands"_a);
  m.def("while_loop", &py_while, "cond"_a, "body"_a, "loop_vars"_a, "maximum_iterations"_a, "recompute"_a);
  m.def("scan", &py_scan, "step"_a, "init"_a, "xs"_a, "reverse"_a, "recompute"_a);
  m.def("custom_gradient", &py_custom_gradient, "function"_a, "xs"_a);
}

}  // namespace troupe::python
