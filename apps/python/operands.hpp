// Arguments of Python's functions as outputs of one graph.
#pragma once

#include <nanobind/nanobind.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "apps/python/bindings.hpp"
#include "apps/python/eager_mode.hpp"
#include <troupe/graph/builder/core.hpp>

namespace troupe::python {

// The graph of one call: that of its tensors, or eager mode. `keep` holds it, and is null in eager mode.
struct CallGraph {
  Graph* graph = nullptr;
  std::shared_ptr<Graph> keep{};

  // Of these arguments, which may be lists of tensors. Throws invalid_argument for tensors of two graphs.
  static CallGraph of(std::span<const nanobind::handle> arguments);
  bool is_eager() const { return !keep; }
};

// The type of Python's tensors, made by bind_tensors().
bool is_tensor(nanobind::handle value);
PyTensor& tensor_of(nanobind::handle value);  // of a value that is_tensor()
bool is_variable(nanobind::handle value);
nanobind::object to_python(PyTensor tensor);
nanobind::object to_python(const CallGraph& of, Output output);
nanobind::object to_python(const CallGraph& of, const Outputs& outputs);  // a tuple

// Whether it is a number of Python, which takes the dtype of the tensors it meets.
bool is_number(nanobind::handle value);
// A tensor of a number, or of what NumPy makes an array of. Without a dtype: Python's floats are f32, its integers i64,
// arrays keep theirs. Throws invalid_argument for values that no tensor can have.
Tensor data_of(nanobind::handle value, std::optional<DType> dtype = std::nullopt);
// A number as a scalar of this dtype. Throws invalid_argument if it cannot be one.
Tensor number_of(nanobind::handle value, DType dtype);

// A tensor, the value of a variable, or a constant; None is an invalid Output.
Output operand(const CallGraph& of, nanobind::handle value, std::optional<DType> dtype = std::nullopt);
Outputs operands(const CallGraph& of, std::span<const nanobind::handle> values);
// The same, all of the dtype that NumPy would compute in: numbers of Python take that of the tensors if it can hold
// their kind (NEP 50).
Outputs promoted(const CallGraph& of, std::span<const nanobind::handle> values);
DType promoted_type(DType a, DType b);
// Where NumPy computes in floating numbers: f64 for integers of 32 bits and more, f32 for 16 bits, f16 for 8 bits.
Output as_floating(Output x);

// From how many elements of inputs on an op runs without the interpreter's lock: to release and take it again costs
// about as much as a sum of 1,000 elements.
inline constexpr std::int64_t kReleaseFrom = 16 * 1024;
bool is_large(const Outputs& inputs);

// fn(outputs of the arguments), as Python's tensor or tuple of tensors. `fn` may run without the interpreter's lock.
template <class Fn>
auto call_released(const CallGraph& of, const Outputs& inputs, const Fn& fn) {
  if (!of.is_eager() || !is_large(inputs)) return fn(inputs);
  const ReleasedForOp released;
  return fn(inputs);
}
template <class Fn>
nanobind::object call(std::initializer_list<nanobind::handle> arguments, const Fn& fn) {
  const std::span<const nanobind::handle> all(arguments.begin(), arguments.size());
  const CallGraph of = CallGraph::of(all);
  return to_python(of, call_released(of, operands(of, all), fn));
}
template <class Fn>
nanobind::object call_promoted(std::initializer_list<nanobind::handle> arguments, const Fn& fn) {
  const std::span<const nanobind::handle> all(arguments.begin(), arguments.size());
  const CallGraph of = CallGraph::of(all);
  return to_python(of, call_released(of, promoted(of, all), fn));
}
// Of a list of tensors.
template <class Fn>
nanobind::object call_list(nanobind::handle list, const Fn& fn) {
  const auto all = nanobind::cast<std::vector<nanobind::object>>(list);
  const std::vector<nanobind::handle> handles(all.begin(), all.end());
  const CallGraph of = CallGraph::of(handles);
  return to_python(of, call_released(of, promoted(of, handles), fn));
}

}  // namespace troupe::python
