#include "apps/python/callbacks.hpp"

namespace troupe::python {

namespace nb = nanobind;

nb::object PyFunction::operator()(const std::shared_ptr<Graph>& keep, const Outputs& arguments) const {
  nb::list given;
  for (const Output& argument : arguments) given.append(to_python({keep, argument}));
  return function_.get()(*given);
}

Outputs PyFunction::outputs(const std::shared_ptr<Graph>& keep, Graph& graph, const Outputs& arguments) const {
  const nb::gil_scoped_acquire held;
  return outputs_in(keep, graph, (*this)(keep, arguments));
}

Outputs outputs_in(const std::shared_ptr<Graph>& keep, Graph& graph, nb::handle results) {
  std::vector<nb::handle> all;
  if (PyTuple_Check(results.ptr()) || PyList_Check(results.ptr())) {
    for (const nb::handle item : nb::borrow<nb::sequence>(results)) all.push_back(item);
  } else {
    all.push_back(results);
  }
  return operands({&graph, keep}, all);
}

}  // namespace troupe::python
