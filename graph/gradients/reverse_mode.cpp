#include "troupe/graph/gradients/reverse_mode.hpp"

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe {

void check_gradient_arguments(std::span<const Output> ys, std::span<const Output> xs, const GradientOptions& options) {
  if (ys.empty()) invalid_argument("gradients: ys is empty");
  const Graph* graph = ys.front().graph;
  // What is of eager mode may be in a graph within it, too.
  const auto together = [&](const Output& o) {
    return o.graph == graph || (o.graph->is_eager() && graph && graph->is_within(*o.graph)) ||
           (graph && graph->is_eager() && o.graph->is_within(*graph));
  };
  const auto same_graph = [&](std::span<const Output> outputs, std::string_view what) {
    for (const Output& o : outputs)
      if (!o.valid() || !together(o))
        invalid_argument("gradients: one of {} {}", what, o.valid() ? "belongs to another graph" : "is not a tensor");
  };
  same_graph(ys, "ys");
  same_graph(xs, "xs");
  same_graph(options.grad_ys, "grad_ys");
  same_graph(options.stop_gradients, "stop_gradients");
  for (const Output& y : ys)
    if (!is_floating(y.dtype()) && y.dtype() != DType::list)
      invalid_argument("gradients: y '{}' is {}, not floating", y.name(), name(y.dtype()));
  if (options.grad_ys.empty()) return;
  if (options.grad_ys.size() != ys.size())
    invalid_argument("gradients: {} grad_ys for {} ys", options.grad_ys.size(), ys.size());
  for (std::size_t i = 0; i < ys.size(); ++i) {
    const Output& gradient = options.grad_ys[i];
    if (gradient.dtype() != ys[i].dtype() || !gradient.shape().compatible_with(ys[i].shape()))
      invalid_argument("gradients: grad_ys[{}] is {}{}, but its y '{}' is {}{}", i, name(gradient.dtype()),
                       gradient.shape().to_string(), ys[i].name(), name(ys[i].dtype()), ys[i].shape().to_string());
  }
}

Gradient sum_of_gradients(const std::vector<Gradient>& parts, const Output& x) {
  if (parts.size() == 1) return parts.front();
  Outputs denses, indices, values;
  for (const Gradient& part : parts) {
    if (part.is_dense()) {
      denses.push_back(part.dense);
    } else {
      indices.push_back(part.indices);
      values.push_back(part.values);
    }
  }
  Gradient sparse;
  if (values.size() == 1) sparse = {.indices = indices[0], .values = values[0]};
  if (values.size() > 1) sparse = {.indices = concat(indices, 0), .values = concat(values, 0)};
  if (denses.empty()) return sparse;
  if (sparse) denses.push_back(dense(sparse, x));
  if (denses.size() == 1) return {.dense = denses.front()};
  return {.dense = x.dtype() == DType::list ? add_op("ListAdd", denses) : add_n(denses)};
}

}  // namespace troupe
