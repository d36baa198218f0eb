// Elements by index: gathers, scatters, and rows dealt out by their partition.
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/gradients.hpp>
#include <troupe/graph/ops/shapes.hpp>
#include <troupe/graph/ops/values.hpp>

namespace troupe {
namespace {

// ---- Shapes

// Of a gather: table[:axis] + indices[batch_dims:] + table[axis + 1:].
Shape gathered_shape(ShapeContext& c, const Shape& table, const Shape& indices) {
  const std::int64_t given = c.attributes().integer("axis"), batch = c.attributes().integer("batch_dims");
  shapes::at_least_rank(table, 1, "table");
  if (!table.has_rank()) return table;
  const int axis = shapes::axis(given, table.rank());
  if (!indices.has_rank()) return indices;
  const std::int64_t dims = batch < 0 ? batch + indices.rank() : batch;
  if (dims < 0 || dims > axis || dims > indices.rank())
    invalid_argument("attribute 'batch_dims' is {}, but the axis of {} is {} and the indices are {}", batch,
                     table.to_string(), axis, indices.to_string());
  const int shared = static_cast<int>(dims);
  const Shape leading =
      shapes::merge(table.sub(0, shared), "batch dimensions of table", indices.sub(0, shared), "indices");
  return leading.concatenated(table.sub(shared, axis))
      .concatenated(indices.sub(shared, indices.rank()))
      .concatenated(table.sub(axis + 1, table.rank()));
}

void gather_shape(ShapeContext& c) { c.set_output(0, gathered_shape(c, c.input(0), c.input(1))); }
void gather_grad_shape(ShapeContext& c) {
  shapes::merge(c.input(0), "dy", gathered_shape(c, c.input(2), c.input(1)), "the gathered slices");
  c.set_output(0, c.input(2));
}

// Of slices x[indices[..., :]].
Shape slices_shape(ShapeContext& c, const Shape& x, const Shape& indices) {
  const std::int64_t batch =
      c.attributes().has("batch_dims") ? shapes::bounded(c.attributes(), "batch_dims", 0, kMaxRank) : 0;
  shapes::at_least_rank(indices, static_cast<int>(batch) + 1, "indices");
  shapes::at_least_rank(x, static_cast<int>(batch), "x");
  if (!x.has_rank() || !indices.has_rank() || indices[-1] == kUnknown) return Shape::unknown_rank();
  const int last = indices.rank() - 1, shared = static_cast<int>(batch);
  if (indices[-1] > x.rank() - batch)
    invalid_argument("indices {} name {} dimensions of {} after {} batch dimensions", indices.to_string(), indices[-1],
                     x.to_string(), batch);
  const Shape leading = shapes::merge(x.sub(0, shared), "batch dimensions of x", indices.sub(0, shared), "indices");
  return leading.concatenated(indices.sub(shared, last))
      .concatenated(x.sub(shared + static_cast<int>(indices[-1]), x.rank()));
}

void gather_nd_shape(ShapeContext& c) { c.set_output(0, slices_shape(c, c.input(0), c.input(1))); }
void scatter_nd_shape(ShapeContext& c) {
  shapes::merge(c.input(2), "updates", slices_shape(c, c.input(0), c.input(1)), "the slices");
  c.set_output(0, c.input(0));
}

void check_elements(ShapeContext& c, const Shape& x, const Shape& indices) {
  shapes::at_least_rank(x, 1, "x");
  shapes::at_least_rank(indices, 1, "indices");
  if (!x.has_rank() || !indices.has_rank()) return;
  if (x.rank() != indices.rank())
    invalid_argument("indices {} must have as many dimensions as {}", indices.to_string(), x.to_string());
  const int axis = shapes::axis(c.attributes().integer("axis"), x.rank());
  for (int d = 0; d < x.rank(); ++d)
    if (d != axis && x[d] != kUnknown && indices[d] > x[d])
      invalid_argument("indices {} do not fit {} in dimension {}", indices.to_string(), x.to_string(), d);
}

void gather_elements_shape(ShapeContext& c) {
  check_elements(c, c.input(0), c.input(1));
  c.set_output(0, c.input(1));
}
void scatter_elements_shape(ShapeContext& c) {
  check_elements(c, c.input(0), c.input(1));
  shapes::merge(c.input(1), "indices", c.input(2), "updates");
  c.set_output(0, c.input(0));
}

void scatter_add_rows_shape(ShapeContext& c) {
  const Shape indices = shapes::with_rank(c.input(0), 1, "indices");
  const Shape& values = shapes::at_least_rank(c.input(1), 1, "values");
  const Shape& like = shapes::at_least_rank(c.input(2), 1, "like");
  if (values.has_rank()) {
    shapes::merge_dim(indices[0], values[0], "the numbers of indices and of rows of 'values'");
    if (like.has_rank()) shapes::merge(values.without(0), "a row of values", like.without(0), "a row of like");
  }
  c.set_output(0, like);
}

// ---- Gradients

Output plain_indices(GradientContext& c) {
  const Output indices = reshape(cast(c.input(1), DType::i64), Shape{kUnknown});
  if (!c.attributes().boolean("from_end")) return indices;
  const Output dims = shape_of(c.input(0));
  const Output rows = gather(dims, constant<std::int64_t>(c.graph(), 0));
  const Output negative = less(indices, scalar_like(indices, 0));
  return select(negative, indices + rows, indices);
}

// Of rows: sparse, a list of the gathered ones.
void gather_gradient(GradientContext& c) {
  const Attributes& a = c.attributes();
  const Output table = c.input(0);
  const Output g = c.grad();
  if (a.integer("axis") != 0 || a.integer("batch_dims") != 0) {
    c.set(0, add_op("GatherGrad", {g, c.input(1), table},
                    {{"axis", a.integer("axis")},
                     {"batch_dims", a.integer("batch_dims")},
                     {"from_end", a.boolean("from_end")}}));
    return;
  }
  const Output indices = plain_indices(c);
  const Shape row = table.shape().has_rank() ? table.shape().without(0) : Shape::unknown_rank();
  if (row.fully_known() && row.has_rank() && row.num_elements() != 0) {
    c.set_sparse(0, indices, reshape(g, Shape{kUnknown}.concatenated(row)));
    return;
  }
  const Output row_shape = slice(shape_of(table), {1}, {-1});
  const Output shape = concat({reshape(element_count(indices), Shape{1}), row_shape}, 0);
  c.set_sparse(0, indices, reshape(g, shape));
}
void gather_grad_gradient(GradientContext& c) {
  const Attributes& a = c.attributes();
  c.set(0,
        gather(c.grad(), c.input(1),
               {.axis = a.integer("axis"), .batch_dims = a.integer("batch_dims"), .from_end = a.boolean("from_end")}));
}
void scatter_add_rows_gradient(GradientContext& c) { c.set(1, gather(c.grad(), c.input(0))); }

void gather_nd_gradient(GradientContext& c) {
  const Output zeros = zeros_like(c.input(0));
  c.set(0, tensor_scatter(zeros, c.input(1), c.grad(),
                          {.batch_dims = c.attributes().integer("batch_dims"), .reduction = "add"}));
}
void gather_elements_gradient(GradientContext& c) {
  const Output zeros = zeros_like(c.input(0));
  c.set(0, scatter_elements(zeros, c.input(1), c.grad(), {.axis = c.attributes().integer("axis"), .reduction = "add"}));
}

// A scatter's own pair of functions: what it does to other data, and the elements at its indices.
struct ScatterPair {
  std::function<Output(Output data, Output updates, const char* reduction)> scatter;
  std::function<Output(Output x)> gather;
};

// Elements and updates that equal the extremum share its gradient evenly.
void scatter_extremum_gradient(GradientContext& c, const ScatterPair& pair) {
  const Output y = c.output(0);
  const Output kept = cast(equal(c.input(0), y), y.dtype());
  const Output best = pair.gather(y);
  const Output won = cast(equal(c.input(2), best), y.dtype());
  const Output ties = pair.scatter(kept, won, "add");
  const Output share = c.grad() / ties;
  c.set(0, kept * share);
  const Output shares = pair.gather(share);
  c.set(2, won * shares);
}

void scatter_gradient(GradientContext& c, const ScatterPair& pair) {
  const std::string& reduction = c.attributes().string("reduction");
  const Output g = c.grad();
  if (reduction == "max" || reduction == "min") return scatter_extremum_gradient(c, pair);
  if (reduction == "none") {
    const Output zeros = zeros_like(c.input(2));
    c.set(0, pair.scatter(g, zeros, "none"));
    c.set(2, pair.gather(g));
  } else if (reduction == "mul") {
    c.set(0, pair.scatter(g, c.input(2), "mul"));
    const Output products = pair.gather(g * c.output(0));
    c.set(2, products / c.input(2));
  } else {
    c.set(0, g);
    const Output updates = pair.gather(g);
    c.set(2, reduction == "sub" ? neg(updates) : updates);
  }
}

void scatter_nd_gradient(GradientContext& c) {
  const std::int64_t batch = c.attributes().integer("batch_dims");
  const Output indices = c.input(1);
  scatter_gradient(c, {.scatter =
                           [=](Output data, Output updates, const char* reduction) {
                             return tensor_scatter(data, indices, updates,
                                                   {.batch_dims = batch, .reduction = reduction});
                           },
                       .gather = [=](Output x) { return gather_nd(x, indices, {.batch_dims = batch}); }});
}
void scatter_elements_gradient(GradientContext& c) {
  const std::int64_t axis = c.attributes().integer("axis");
  const Output indices = c.input(1);
  scatter_gradient(c, {.scatter =
                           [=](Output data, Output updates, const char* reduction) {
                             return scatter_elements(data, indices, updates, {.axis = axis, .reduction = reduction});
                           },
                       .gather = [=](Output x) { return gather_elements(x, indices, axis); }});
}

// ---- Ops

Op index_op(std::string name, std::vector<DType> types = {}) {
  return Op(std::move(name)).type("T", std::move(types)).type("Tindices", kIndexTypes);
}

void register_gathers(OpRegistry& ops) {
  ops.add(index_op("Gather")
              .input("table", "T")
              .input("indices", "Tindices")
              .output("rows", "T")
              .attr("axis", std::int64_t{0})
              .attr("batch_dims", std::int64_t{0})
              .attr("from_end", false)
              .shape(gather_shape)
              .value(values::gather)
              .gradient(gather_gradient));
  ops.add(index_op("GatherGrad", kRealTypes)
              .input("dy", "T")
              .input("indices", "Tindices")
              .input_shape("like", "T")
              .output("dx", "T")
              .attr("axis", AttrType::integer)
              .attr("batch_dims", std::int64_t{0})
              .attr("from_end", false)
              .shape(gather_grad_shape)
              .gradient(gather_grad_gradient));
  ops.add(index_op("GatherND")
              .input("x", "T")
              .input("indices", "Tindices")
              .output("y", "T")
              .attr("batch_dims", std::int64_t{0})
              .shape(gather_nd_shape)
              .gradient(gather_nd_gradient));
  ops.add(index_op("GatherElements")
              .input("x", "T")
              .input("indices", "Tindices")
              .output("y", "T")
              .attr("axis", AttrType::integer)
              .shape(gather_elements_shape)
              .gradient(gather_elements_gradient));
}

void register_scatters(OpRegistry& ops) {
  ops.add(Op("ScatterAddRows")
              .input("indices", DType::i64)
              .input("values", "T")
              .input("like", "T")
              .output("y", "T")
              .type("T", kRealTypes)
              .shape(scatter_add_rows_shape)
              .gradient(scatter_add_rows_gradient));
  ops.add(index_op("ScatterND")
              .input("data", "T")
              .input("indices", "Tindices")
              .input("updates", "T")
              .output("y", "T")
              .attr("batch_dims", std::int64_t{0})
              .attr("reduction", std::string("none"))
              .shape(scatter_nd_shape)
              .gradient(scatter_nd_gradient));
  ops.add(index_op("ScatterElements")
              .input("data", "T")
              .input("indices", "Tindices")
              .input("updates", "T")
              .output("y", "T")
              .attr("axis", AttrType::integer)
              .attr("reduction", std::string("none"))
              .shape(scatter_elements_shape)
              .gradient(scatter_elements_gradient));
  ops.add(index_op("ScatterVariable")
              .input("handle", DType::resource)
              .input("indices", "Tindices")
              .input("updates", "T")
              .output("value", "T")
              .attr("reduction", std::string("none"))
              .shape(scatter_nd_shape)
              .stateful());
}

}  // namespace

void register_index_ops(OpRegistry& ops) {
  register_gathers(ops);
  register_scatters(ops);
}

}  // namespace troupe
