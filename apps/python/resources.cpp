// Queues, conditional accumulators and hash tables: of a graph, or of eager mode.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <utility>

#include "apps/python/arguments.hpp"
#include "apps/python/dtypes.hpp"
#include "apps/python/fork.hpp"
#include <troupe/graph/builder/accumulator.hpp>
#include <troupe/graph/builder/hash_table.hpp>
#include <troupe/graph/builder/queue.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// The graph of a resource: the one given, or eager mode for None.
CallGraph graph_of(nb::handle graph) {
  if (graph.is_none()) return {&eager_graph(), nullptr};
  const PyGraph& held = nb::cast<const PyGraph&>(graph);
  return {held.graph.get(), held.graph};
}

// Dimensions that are not known are -1; a shape that is None has any rank.
Shape shape_of(nb::handle value, const char* function) {
  return value.is_none() ? Shape::unknown_rank() : shape_from(value, function);
}

std::vector<DType> dtypes_of(const std::vector<nb::object>& given) {
  std::vector<DType> out;
  for (const nb::object& dtype : given) out.push_back(dtype_from(dtype));
  return out;
}

std::vector<Shape> shapes_of(const std::vector<nb::object>& given) {
  std::vector<Shape> out;
  for (const nb::object& shape : given) out.push_back(shape_of(shape, "a queue"));
  return out;
}

// The steps of a resource of eager mode end with it: not with the interpreter's lock, which they may need to let go of
// arrays.
template <class R>
void let_go(const R* resource) {
  if (is_forked()) return;
  std::optional<ReleasedForOp> released;
  if (PyGILState_Check()) released.emplace();
  delete resource;
}

// A resource, and the graph that its ops are added to. In eager mode they run without the interpreter's lock: they may
// wait.
template <class R>
struct Held {
  Held(CallGraph graph, R made) : of(std::move(graph)), shared(new R(std::move(made)), &let_go<R>) {}

  CallGraph of;
  std::shared_ptr<const R> shared;
  const R& resource = *shared;

  template <class Fn>
  auto released(const Fn& fn) const {
    if (!of.is_eager()) return fn();
    const ReleasedForOp released;
    return fn();
  }
  template <class Fn>
  nb::object target(const Fn& fn) const {
    Output made = released(fn);
    if (of.is_eager()) return nb::none();
    return to_python(PyTensor{of.keep, std::move(made)});
  }
  template <class Fn>
  nb::object outputs(const Fn& fn) const {
    return to_python(of, released(fn));
  }
};

using PyQueue = Held<Queue>;
using PyAccumulator = Held<ConditionalAccumulator>;
using PySparseAccumulator = Held<SparseConditionalAccumulator>;
using PyHashTable = Held<MutableHashTable>;

PyQueue fifo_queue(nb::handle graph, std::int64_t capacity, const std::vector<nb::object>& dtypes,
                   const std::vector<nb::object>& shapes, const std::string& name, const std::string& device) {
  const CallGraph of = graph_of(graph);
  return {of, FifoQueue(*of.graph, capacity, dtypes_of(dtypes), shapes_of(shapes), {.name = name, .device = device})};
}

PyQueue shuffle_queue(nb::handle graph, std::int64_t capacity, std::int64_t min_after_dequeue,
                      const std::vector<nb::object>& dtypes, const std::vector<nb::object>& shapes, std::int64_t seed,
                      const std::string& name, const std::string& device) {
  const CallGraph of = graph_of(graph);
  ShuffleQueueOptions options{.min_after_dequeue = min_after_dequeue, .seed = seed, .name = name, .device = device};
  return {of, RandomShuffleQueue(*of.graph, capacity, dtypes_of(dtypes), shapes_of(shapes), std::move(options))};
}

PyQueue padding_queue(nb::handle graph, std::int64_t capacity, const std::vector<nb::object>& dtypes,
                      const std::vector<nb::object>& shapes, const std::string& name, const std::string& device) {
  const CallGraph of = graph_of(graph);
  return {of, PaddingFifoQueue(*of.graph, capacity, dtypes_of(dtypes), shapes_of(shapes),
                               {.name = name, .device = device})};
}

PyQueue priority_queue(nb::handle graph, std::int64_t capacity, const std::vector<nb::object>& dtypes,
                       const std::vector<nb::object>& shapes, const std::string& name, const std::string& device) {
  const CallGraph of = graph_of(graph);
  return {of,
          PriorityQueue(*of.graph, capacity, dtypes_of(dtypes), shapes_of(shapes), {.name = name, .device = device})};
}

nb::object enqueue(const PyQueue& queue, const std::vector<nb::object>& components, bool many,
                   const std::string& name) {
  const std::vector<DType>& dtypes = queue.resource.dtypes();
  Outputs given;
  for (std::size_t i = 0; i < components.size(); ++i)
    given.push_back(i < dtypes.size() ? operand(queue.of, components[i], dtypes[i]) : operand(queue.of, components[i]));
  return queue.target(
      [&] { return many ? queue.resource.enqueue_many(given, name) : queue.resource.enqueue(given, name); });
}

// n: None for one element without a dimension of rows.
nb::object dequeue(const PyQueue& queue, nb::handle n, bool up_to, const std::string& name) {
  const Output number = n.is_none() ? Output() : operand(queue.of, n, DType::i64);
  return queue.outputs([&] {
    if (!number.valid()) return queue.resource.dequeue(name);
    return up_to ? queue.resource.dequeue_up_to(number, name) : queue.resource.dequeue_many(number, name);
  });
}

void bind_queues(nb::module_& m) {
  nb::class_<PyQueue>(m, "Queue")
      .def("enqueue", &enqueue, "components"_a, "many"_a, "name"_a)
      .def("dequeue", &dequeue, "n"_a.none(), "up_to"_a, "name"_a)
      .def("close", [](const PyQueue& q, bool cancel) { return q.target([&] { return q.resource.close(cancel); }); })
      .def("size", [](const PyQueue& q) { return q.outputs([&] { return q.resource.size(); }); })
      .def("is_closed", [](const PyQueue& q) { return q.outputs([&] { return q.resource.is_closed(); }); });
  m.def("fifo_queue", &fifo_queue, "graph"_a.none(), "capacity"_a, "dtypes"_a, "shapes"_a, "name"_a, "device"_a);
  m.def("padding_queue", &padding_queue, "graph"_a.none(), "capacity"_a, "dtypes"_a, "shapes"_a, "name"_a, "device"_a);
  m.def("priority_queue", &priority_queue, "graph"_a.none(), "capacity"_a, "dtypes"_a, "shapes"_a, "name"_a,
        "device"_a);
  m.def("random_shuffle_queue", &shuffle_queue, "graph"_a.none(), "capacity"_a, "min_after_dequeue"_a, "dtypes"_a,
        "shapes"_a, "seed"_a, "name"_a, "device"_a);
}

template <class R>
Held<R> accumulator(nb::handle graph, nb::handle dtype, nb::handle shape, const std::string& reduction,
                    const std::string& name, const std::string& device) {
  const CallGraph of = graph_of(graph);
  return {of, R(*of.graph, dtype_from(dtype), shape_of(shape, "an accumulator"),
                {.reduction = reduction, .name = name, .device = device})};
}

template <class R>
auto bind_accumulator(nb::module_& m, const char* name, const char* maker) {
  using H = Held<R>;
  m.def(maker, &accumulator<R>, "graph"_a.none(), "dtype"_a, "shape"_a.none(), "reduction"_a, "name"_a, "device"_a);
  return nb::class_<H>(m, name)
      .def("set_global_step",
           [](const H& a, nb::handle step) {
             const Output number = operand(a.of, step, DType::i64);
             return a.target([&] { return a.resource.set_global_step(number); });
           })
      .def("num_accumulated", [](const H& a) { return a.outputs([&] { return a.resource.num_accumulated(); }); });
}

void bind_accumulators(nb::module_& m) {
  bind_accumulator<ConditionalAccumulator>(m, "ConditionalAccumulator", "conditional_accumulator")
      .def("apply_grad",
           [](const PyAccumulator& a, nb::handle gradient, nb::handle step) {
             const Output given = operand(a.of, gradient), number = operand(a.of, step, DType::i64);
             return a.target([&] { return a.resource.apply_grad(given, number); });
           })
      .def("take_grad", [](const PyAccumulator& a, nb::handle required) {
        const Output number = operand(a.of, required, DType::i64);
        return a.outputs([&] { return a.resource.take_grad(number); });
      });
  bind_accumulator<SparseConditionalAccumulator>(m, "SparseConditionalAccumulator", "sparse_conditional_accumulator")
      .def("apply_grad",
           [](const PySparseAccumulator& a, nb::handle indices, nb::handle values, nb::handle step) {
             const Output rows = operand(a.of, indices, DType::i64), given = operand(a.of, values);
             const Output number = operand(a.of, step, DType::i64);
             return a.target([&] { return a.resource.apply_grad(rows, given, number); });
           })
      .def("take_grad", [](const PySparseAccumulator& a, nb::handle required) {
        const Output number = operand(a.of, required, DType::i64);
        return a.outputs([&] {
          const auto rows = a.resource.take_grad(number);
          return Outputs{rows.indices, rows.values};
        });
      });
}

PyHashTable hash_table(nb::handle graph, nb::handle key_dtype, nb::handle value_dtype, nb::handle value_shape,
                       const std::string& name, const std::string& device) {
  const CallGraph of = graph_of(graph);
  return {of, MutableHashTable(*of.graph, dtype_from(key_dtype), dtype_from(value_dtype),
                               shape_of(value_shape, "MutableHashTable"), {.name = name, .device = device})};
}

void bind_hash_tables(nb::module_& m) {
  using H = PyHashTable;
  m.def("mutable_hash_table", &hash_table, "graph"_a.none(), "key_dtype"_a, "value_dtype"_a, "value_shape"_a, "name"_a,
        "device"_a);
  nb::class_<H>(m, "MutableHashTable")
      .def("insert",
           [](const H& t, nb::handle keys, nb::handle values, bool alone) {
             const Output k = operand(t.of, keys), v = operand(t.of, values, t.resource.value_dtype());
             return t.target([&] { return alone ? t.resource.import_entries(k, v) : t.resource.insert(k, v); });
           })
      .def("remove",
           [](const H& t, nb::handle keys) {
             const Output k = operand(t.of, keys);
             return t.target([&] { return t.resource.remove(k); });
           })
      .def("lookup",
           [](const H& t, nb::handle keys, nb::handle otherwise) {
             const Output k = operand(t.of, keys), v = operand(t.of, otherwise, t.resource.value_dtype());
             return t.outputs([&] { return t.resource.lookup(k, v); });
           })
      .def("export",
           [](const H& t) {
             return t.outputs([&] {
               const auto entries = t.resource.export_entries();
               return Outputs{entries.keys, entries.values};
             });
           })
      .def("size", [](const H& t) { return t.outputs([&] { return t.resource.size(); }); });
}

}  // namespace

void bind_resources(nb::module_& m) {
  bind_queues(m);
  bind_accumulators(m);
  bind_hash_tables(m);
}

}  // namespace troupe::python
