// Functions of Python that C++ calls and keeps, with or without the interpreter's lock.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "apps/python/calls.hpp"
#include "apps/python/operands.hpp"

namespace troupe::python {

class PyFunction {
 public:
  explicit PyFunction(nanobind::object function) : function_(std::move(function)) {}
  // Calls it with tensors; returns what it returns. Throws nb::python_error.
  // `keep`: of the graph that the tensors are of; null in eager mode.
  nanobind::object operator()(const std::shared_ptr<Graph>& keep, const Outputs& arguments) const;
  // Of its results, a tensor or a sequence of them. None is an invalid Output.
  Outputs outputs(const std::shared_ptr<Graph>& keep, Graph& graph, const Outputs& arguments) const;

 private:
  HeldObject function_;
};

// A tensor, a number, an array; or a list or tuple of these.
Outputs outputs_in(const std::shared_ptr<Graph>& keep, Graph& graph, nanobind::handle results);

}  // namespace troupe::python
