// Resources: queues, conditional accumulators and hash tables. Ops with an attribute "operation" call a queue or an
// accumulator, and may wait: a pass makes them a request, and an answer that arrives (graph/passes/resource_calls.hpp).
#include <troupe/graph/component_shapes.hpp>
#include <troupe/graph/ops/families.hpp>
#include <troupe/graph/ops/shapes.hpp>

namespace troupe {
namespace {

// `kind`: what is made (scheduler/resources/make_resource.cpp).
Op handle_op(std::string name, std::string kind) {
  return Op(std::move(name))
      .output("handle", DType::resource)
      .attr("kind", std::move(kind))
      .shape(shapes::scalar())
      .role(OpRole::variable);
}

Op queue_op(std::string name, std::string kind) {
  return handle_op(std::move(name), std::move(kind))
      .attr("dtypes", AttrType::dtypes)
      .attr("shapes", AttrType::integers)
      .attr("capacity", AttrType::integer);
}

Op accumulator_op(std::string name, std::string kind) {
  return handle_op(std::move(name), std::move(kind)).attr("dtype", DType::f32).attr("shape", Shape::unknown_rank());
}

// `results`: the op that makes the outputs of what the answer has.
Op call_op(std::string name, const char* operation, const char* results = "CallResults") {
  return Op(std::move(name))
      .input("handle", DType::resource)
      .attr("operation", std::string(operation))
      .attr("results", std::string(results))
      .stateful()
      .no_gradient();
}

// Elements leave with the shapes of the components; several in rows.
void element_shapes(ShapeContext& c) {
  const std::vector<Shape> shapes =
      unpacked_shapes(c.attributes().integers("shapes"), static_cast<std::size_t>(c.num_outputs()));
  const bool rows = c.attributes().boolean("rows");
  for (int i = 0; i < c.num_outputs(); ++i) {
    const Shape& shape = shapes[static_cast<std::size_t>(i)];
    c.set_output(i, rows && shape.has_rank() ? Shape{kUnknown}.concatenated(shape) : shape);
  }
}
void many_shapes(ShapeContext& c) {
  shapes::with_rank(c.input(1), 0, "n");
  element_shapes(c);
}

void many_rows(ShapeContext& c) {
  std::int64_t rows = kUnknown;
  for (int i = 1; i < c.num_inputs(); ++i)
    if (const Shape& shape = shapes::at_least_rank(c.input(i), 1, "a component"); shape.has_rank())
      rows = shapes::merge_dim(rows, shape[0], "the numbers of elements");
}

Op dequeue_op(std::string name, const char* operation) {
  return call_op(std::move(name), operation).output_types("components", "types").attr("shapes", AttrType::integers);
}

// `padded`: elements of several shapes become rows of one, with zeros, or empty strings, behind them.
Op rows_op(std::string name, const char* operation) {
  return dequeue_op(std::move(name), operation)
      .input("n", DType::i64)
      .attr("rows", true)
      .attr("padded", false)
      .shape(many_shapes);
}

void sparse_gradient(ShapeContext& c) {
  const Shape indices = shapes::with_rank(c.input(2), 1, "indices");
  const Shape& values = shapes::at_least_rank(c.input(3), 1, "values");
  if (values.has_rank()) shapes::merge_dim(indices[0], values[0], "the numbers of indices and of rows of 'values'");
}

void sparse_average(ShapeContext& c) {
  c.set_output(0, Shape{kUnknown});
  const Shape& shape = c.attributes().shape("shape");
  if (!shape.has_rank() || shape.rank() < 1) return;
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[0] = kUnknown;
  c.set_output(1, Shape(dims));
}

Op table_op(std::string name) { return Op(std::move(name)).input("handle", DType::resource).stateful().no_gradient(); }

void found_shape(ShapeContext& c) {
  const Shape& value = c.attributes().shape("value_shape");
  if (c.input(1).has_rank()) c.set_output(0, c.input(1).concatenated(value));
}

void entries_shape(ShapeContext& c) {
  c.set_output(0, Shape{kUnknown});
  c.set_output(1, Shape{kUnknown}.concatenated(c.attributes().shape("value_shape")));
}

void register_queues(OpRegistry& ops) {
  ops.add(queue_op("FIFOQueue", "queue"));
  ops.add(queue_op("RandomShuffleQueue", "shuffled queue")
              .attr("min_after_dequeue", std::int64_t{0})
              .attr("seed", std::int64_t{0}));
  ops.add(queue_op("PriorityQueue", "priority queue"));  // component 0, i64 []: the lowest leaves first
  ops.add(queue_op("PaddingFIFOQueue", "queue"));
  ops.add(call_op("QueueEnqueue", "enqueue").input_types("components", "Tcomponents").attr("rows", false));
  // Each row of dimension 0 is an element.
  ops.add(call_op("QueueEnqueueMany", "enqueue")
              .input_types("components", "Tcomponents")
              .attr("rows", true)
              .shape(many_rows));
  ops.add(dequeue_op("QueueDequeue", "dequeue").attr("rows", false).shape(element_shapes));
  ops.add(rows_op("QueueDequeueMany", "dequeue_many"));
  ops.add(rows_op("QueueDequeueUpTo", "dequeue_up_to"));
  ops.add(call_op("QueueClose", "close"));  // operation "close_and_cancel": enqueues that wait fail
  ops.add(call_op("QueueSize", "size").output("size", DType::i32).shape(shapes::scalar()));
  ops.add(call_op("QueueIsClosed", "is_closed").output("is_closed", DType::boolean).shape(shapes::scalar()));
}

void register_accumulators(OpRegistry& ops) {
  ops.add(accumulator_op("ConditionalAccumulator", "accumulator"));
  ops.add(accumulator_op("SparseConditionalAccumulator", "sparse accumulator"));
  ops.add(call_op("AccumulatorApplyGradient", "apply_gradient")
              .input("local_step", DType::i64)
              .input("gradient", "T")
              .type("T", kFloatTypes));
  ops.add(call_op("AccumulatorTakeGradient", "take_gradient", "MeanOfGradients")
              .input("num_required", DType::i64)
              .output("average", "T")
              .type("T", kFloatTypes)
              .attr("shape", Shape::unknown_rank())
              .attr("reduction", "mean")
              .shape(shapes::from_attribute()));
  ops.add(call_op("SparseAccumulatorApplyGradient", "apply_gradient")
              .input("local_step", DType::i64)
              .input("indices", DType::i64)
              .input("values", "T")
              .type("T", kFloatTypes)
              .shape(sparse_gradient));
  ops.add(call_op("SparseAccumulatorTakeGradient", "take_gradient", "MeanOfSparseGradients")
              .input("num_required", DType::i64)
              .output("indices", DType::i64)
              .output("values", "T")
              .type("T", kFloatTypes)
              .attr("shape", Shape::unknown_rank())
              .attr("reduction", "mean")
              .shape(sparse_average));
  ops.add(call_op("AccumulatorSetGlobalStep", "set_global_step").input("step", DType::i64));
  ops.add(call_op("AccumulatorNumAccumulated", "num_accumulated").output("count", DType::i32).shape(shapes::scalar()));
}

// What a pass makes of calls. The request leaves for the resource, whose answer arrives.
void register_call_parts(OpRegistry& ops) {
  ops.add(Op("CallValues")  // one list; with `rows` row after row, of each component in turn
              .input_types("values", "Tvalues")
              .output("list", DType::list)
              .attr("rows", false)
              .shape(shapes::scalar())
              .no_gradient());
  ops.add(Op("CallRequest")
              .input("handle", DType::resource)
              .input("values", DType::list)
              .attr("operation", AttrType::string)
              .attr("edge", AttrType::integer)
              .role(OpRole::send)
              .stateful());
  ops.add(Op("CallAnswer")
              .output("values", DType::list)
              .attr("edge", AttrType::integer)
              .attr("from", AttrType::string)
              .shape(shapes::scalar())
              .role(OpRole::receive));
  ops.add(Op("CallResults")  // the reverse of CallValues
              .input("list", DType::list)
              .output_types("values", "types")
              .attr("shapes", AttrType::integers)
              .attr("rows", false)
              .attr("padded", false)
              .shape(element_shapes)
              .no_gradient());
  ops.add(Op("MeanOfGradients")
              .input("list", DType::list)
              .output("average", "T")
              .type("T", kFloatTypes)
              .attr("shape", Shape::unknown_rank())
              .attr("reduction", "mean")
              .shape(shapes::from_attribute())
              .no_gradient());
  ops.add(Op("MeanOfSparseGradients")
              .input("list", DType::list)
              .output("indices", DType::i64)
              .output("values", "T")
              .type("T", kFloatTypes)
              .attr("shape", Shape::unknown_rank())
              .attr("reduction", "mean")
              .shape(sparse_average)
              .no_gradient());
}

void register_tables(OpRegistry& ops) {
  ops.add(handle_op("MutableHashTable", "table")
              .attr("key_dtype", DType::i64)
              .attr("value_dtype", DType::f32)
              .attr("value_shape", Shape{}));
  ops.add(table_op("HashTableInsert").input("keys", "K").input("values", "V").type("K").type("V").kernel_type(""));
  ops.add(table_op("HashTableRemove").input("keys", "K").type("K").kernel_type(""));
  ops.add(table_op("HashTableFind")
              .input("keys", "K")
              .input("default", "V")
              .output("values", "V")
              .type("K")
              .type("V")
              .attr("value_shape", AttrType::shape)
              .kernel_type("")
              .shape(found_shape)
              .reads_only());
  ops.add(table_op("HashTableExport")
              .output("keys", "K")
              .output("values", "V")
              .type("K")
              .type("V")
              .attr("value_shape", AttrType::shape)
              .kernel_type("")
              .shape(entries_shape)
              .reads_only());
  ops.add(table_op("HashTableImport").input("keys", "K").input("values", "V").type("K").type("V").kernel_type(""));
  ops.add(table_op("HashTableSize").output("size", DType::i64).shape(shapes::scalar()).reads_only());
}

}  // namespace

void register_resource_ops(OpRegistry& ops) {
  register_queues(ops);
  register_accumulators(ops);
  register_call_parts(ops);
  register_tables(ops);
}

}  // namespace troupe
