// Data pipelines in Python: sources in memory, stages, and the elements of an epoch. Functions get and return lists of
// tensors; the package makes arrays of them.
#include <nanobind/stl/function.h>
#include <nanobind/stl/pair.h>

#include "apps/python/calls.hpp"
#include "apps/python/dtypes.hpp"
#include "apps/python/element_reader.hpp"
#include "apps/python/fork.hpp"
#include "apps/python/operands.hpp"
#include "apps/python/pipelines.hpp"
#include <troupe/actors/data/graph_function.hpp>
#include <troupe/actors/eager/function.hpp>
#include <troupe/actors/eager/function_trace.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/graph/data/composite.hpp>
#include <troupe/scheduler/data/cache_file.hpp>
#include <troupe/scheduler/data/pipeline_source.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;
using data::Element;
using data::ElementContext;
using released = nb::call_guard<nb::gil_scoped_release>;

// Tensors that a Python function has returned: copies, since it may use its arrays again.
Element element_of(nb::handle given) {
  Element out;
  for (const Tensor& tensor : nb::cast<std::vector<Tensor>>(given)) out.push_back(tensor.clone());
  return out;
}

data::MapFunction map_function(const nb::object& function) {
  return [held = HeldObject(function)](const Element& element, const ElementContext& context) {
    return with_python([&] { return element_of(held.get()(element, context.epoch, context.number)); });
  };
}

data::FilterFunction filter_function(const nb::object& function) {
  return [held = HeldObject(function)](const Element& element) {
    return with_python([&] { return nb::cast<bool>(held.get()(element)); });
  };
}

// A function of troupe's functions, which is called once, now, with tensors that stand for the components of an
// element, and returns the names of the new ones and their tensors.
data::Transformation traced(const std::string& name, const nb::object& function, std::optional<std::uint64_t> seed) {
  const auto build = [function, seed](const BatchSchema& elements) {
    std::vector<TracedArgument> arguments;
    for (const BatchComponent& c : elements) arguments.push_back({c.dtype, c.shape});
    data::ElementGraph out;
    std::vector<std::string> names;
    const FunctionTrace trace(eager_graph(), arguments, "", [&](const Outputs& components) {
      out.graph = traced_graph();
      return with_python([&] {
        const CallGraph of{&eager_graph()};
        const nb::object made = function(to_python(of, components));
        names = nb::cast<std::vector<std::string>>(made[0]);
        Outputs results;
        for (const nb::handle value : nb::cast<nb::list>(made[1])) results.push_back(operand(of, value));
        return results;
      });
    });
    for (const FunctionTrace::Capture& capture : trace.captures()) {
      if (capture.is_variable())
        invalid_argument(
            "it reads variable '{}', which is not the same in all tasks and epochs: read it before, and "
            "use its value",
            capture.value.source().name);
      out.known.emplace_back(capture.inside[0], capture.value.value());
    }
    for (int id = 0; id < out.graph->size() && !seed; ++id)
      if (const Node& node = out.graph->node(id); node.op->stateful && !node.op->has_effects)
        invalid_argument("node '{}' ({}) draws random numbers: draw them in map(), which knows the element's number",
                         node.name, node.op->name);
    out.components = trace.arguments();
    out.effects = trace.effects();
    for (std::size_t i = 0; i < names.size(); ++i) out.results.emplace_back(names[i], trace.results()[i]);
    return out;
  };
  return data::graph_function(
      name,
      [build](const BatchSchema& elements) {
        try {
          return build(elements);
        } catch (const Error& error) {
          throw Error(Code::invalid_argument, error.message()).within("the function cannot be traced");
        }
      },
      {.seed = seed.value_or(0)});
}

PyPipeline traced_filter(const PyPipeline& p, const std::string& name, const nb::object& function) {
  data::MapFunction keep;
  try {
    auto prepared = traced(name, function, std::nullopt).prepare(p.pipeline.schema());
    if (prepared.schema.size() != 1 || prepared.schema[0].dtype != DType::boolean ||
        !prepared.schema[0].shape.compatible_with(Shape{}))
      invalid_argument("the function returns {}, not one boolean", to_string(prepared.schema));
    keep = std::move(prepared.function);
  } catch (const Error& error) {
    throw error.within(fmt::format("stage 'filter {}'", name));
  }
  return PyPipeline(
      p.pipeline.filter(name, [keep](const Element& element) { return keep(element, {}).at(0).item<bool>(); }));
}

data::FlatMapFunction flat_map_function(const nb::object& function) {
  return [held = HeldObject(function)](const Element& element, const ElementContext& context) {
    return with_python([&] {
      std::vector<Element> out;
      for (nb::handle made : held.get()(element, context.epoch, context.number)) out.push_back(element_of(made));
      return out;
    });
  };
}

// `begin()` returns an iterator of elements, the same ones each time.
PyPipeline from_generator(const std::string& name, const Components& schema, const nb::object& begin) {
  return PyPipeline(data::generate(name, schema_of(schema), [held = HeldObject(begin)](std::uint64_t) {
    return with_python([&]() -> data::Generator {
      return [iterator = HeldObject(nb::iter(held.get()()))] {
        return with_python([&]() -> std::optional<Element> {
          const nb::object next = nb::steal(PyIter_Next(iterator.get().ptr()));
          if (next.is_valid()) return element_of(next);
          if (PyErr_Occurred()) throw nb::python_error();
          return std::nullopt;
        });
      };
    });
  }));
}

std::vector<data::Pipeline> unwrapped(const std::vector<const PyPipeline*>& pipelines) {
  std::vector<data::Pipeline> out;
  for (const PyPipeline* p : pipelines) out.push_back(p->pipeline);
  return out;
}

// (name, "tensor", "sparse" or "ragged", the place of its first component) of each value of an element.
std::vector<std::tuple<std::string, std::string, std::size_t>> composites(const PyPipeline& p) {
  std::vector<std::tuple<std::string, std::string, std::size_t>> out;
  for (const data::Composite& composite : data::composites_of(p.pipeline.schema()))
    out.emplace_back(composite.name,
                     composite.kind == data::Composite::Kind::sparse   ? "sparse"
                     : composite.kind == data::Composite::Kind::ragged ? "ragged"
                                                                       : "tensor",
                     composite.first);
  return out;
}

data::BucketOptions bucket_options(std::vector<std::int64_t> boundaries, std::vector<std::int64_t> sizes,
                                   std::vector<Tensor> padding, bool drop_rest) {
  return {.boundaries = std::move(boundaries),
          .sizes = std::move(sizes),
          .padding = std::move(padding),
          .drop_rest = drop_rest};
}

// The pipeline whose first elements tell what a function makes of them: order does not matter.
data::StageRef in_any_order(data::StageRef stage) {
  while (std::holds_alternative<data::ShuffleStage>(stage->kind)) stage = stage->inputs.at(0);
  return stage;
}

std::vector<Element> first_elements(const PyPipeline& pipeline, std::size_t count) {
  const nb::gil_scoped_release unlocked;
  const auto stream = open_stream(in_any_order(pipeline.pipeline.stage()));
  stream->start(0);
  std::vector<Element> out;
  while (out.size() < count) {
    auto element = stream->next();
    if (!element) break;
    out.push_back(std::move(*element));
  }
  return out;
}

// Threads of the reader may need the interpreter's lock to end.
class PyElements {
 public:
  PyElements(const PyPipeline& pipeline, std::uint64_t epoch, int threads) : threads_(threads) {
    if (threads_ > 0) check_not_forked();
    const nb::gil_scoped_release unlocked;
    reader_ = std::make_unique<ElementReader>(pipeline.pipeline.stage(), epoch, threads);
  }
  PyElements(PyElements&&) = delete;
  ~PyElements() {
    const nb::gil_scoped_release unlocked;
    if (is_forked()) (void)reader_.release();
    reader_.reset();
  }
  std::optional<Element> next() {
    if (threads_ > 0) check_not_forked();
    const nb::gil_scoped_release unlocked;
    return reader_->next([] {
      const nb::gil_scoped_acquire held;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    });
  }
  void close() {
    const nb::gil_scoped_release unlocked;
    if (!is_forked()) reader_->close();
  }

 private:
  const int threads_;
  std::unique_ptr<ElementReader> reader_;
};

void bind_sources(nb::module_& m) {
  m.def("pipeline_of_tensors", [](std::vector<std::pair<std::string, Tensor>> components) {
    return PyPipeline(data::tensors(std::move(components)));
  });
  m.def("pipeline_range", [](std::int64_t begin, std::int64_t end, std::int64_t step, const std::string& component) {
    return PyPipeline(data::range(begin, end, step, component));
  });
  m.def("pipeline_of_generator", &from_generator);
  m.def("zip_pipelines",
        [](const std::vector<const PyPipeline*>& all) { return PyPipeline(data::zip(unwrapped(all))); });
  m.def("sample_pipelines",
        [](const std::vector<const PyPipeline*>& all, std::vector<double> weights, std::uint64_t seed) {
          return PyPipeline(data::sample(unwrapped(all), std::move(weights), seed));
        });
}

void bind_stages(nb::class_<PyPipeline, PyBatchSource>& c) {
  using P = const PyPipeline&;
  c.def("_map",
        [](P p, const std::string& name, const Components& schema, const nb::object& function) {
          return PyPipeline(p.pipeline.map(name, schema_of(schema), map_function(function)));
        })
      .def("_transform",
           [](P p, const data::Transformation& transformation) { return PyPipeline(p.pipeline.map(transformation)); })
      .def("_map_traced", [](P p, const std::string& name, const nb::object& function,
                             std::uint64_t seed) { return PyPipeline(p.pipeline.map(traced(name, function, seed))); })
      .def("_filter_traced", &traced_filter)
      .def("_filter",
           [](P p, const std::string& name, const nb::object& function) {
             return PyPipeline(p.pipeline.filter(name, filter_function(function)));
           })
      .def("_flat_map",
           [](P p, const std::string& name, const Components& schema, const nb::object& function) {
             return PyPipeline(p.pipeline.flat_map(name, schema_of(schema), flat_map_function(function)));
           })
      .def("_interleave",
           [](P p, const std::string& name, const Components& schema, const nb::object& function, std::uint64_t cycle,
              std::uint64_t block) {
             const auto pipeline_of = [held = HeldObject(function)](const Element& element, const ElementContext&) {
               return with_python([&] { return nb::cast<const PyPipeline&>(held.get()(element)).pipeline; });
             };
             return PyPipeline(
                 p.pipeline.interleave(name, schema_of(schema), pipeline_of, {.cycle = cycle, .block = block}));
           })
      .def("_skip_damaged", [](P p) { return PyPipeline(p.pipeline.skip_damaged()); })
      .def("_take", [](P p, std::uint64_t count) { return PyPipeline(p.pipeline.take(count)); })
      .def("_skip", [](P p, std::uint64_t count) { return PyPipeline(p.pipeline.skip(count)); })
      .def("_shard", [](P p, std::uint64_t n, std::uint64_t index) { return PyPipeline(p.pipeline.shard(n, index)); })
      .def("_repeat", [](P p, std::uint64_t times) { return PyPipeline(p.pipeline.repeat(times)); })
      .def("_shuffle",
           [](P p, std::uint64_t seed, std::uint64_t buffer, bool each_epoch) {
             return PyPipeline(p.pipeline.shuffle(seed, {.buffer = buffer, .each_epoch = each_epoch}));
           })
      .def("_batch", [](P p, std::int64_t size,
                        bool drop_rest) { return PyPipeline(p.pipeline.batch(size, {.drop_rest = drop_rest})); })
      .def("_padded_batch",
           [](P p, std::int64_t size, std::vector<Tensor> padding, bool drop_rest) {
             return PyPipeline(p.pipeline.padded_batch(size, std::move(padding), {.drop_rest = drop_rest}));
           })
      .def("_sparse_batch",
           [](P p, std::int64_t size, bool drop_rest) {
             return PyPipeline(p.pipeline.sparse_batch(size, {.drop_rest = drop_rest}));
           })
      .def("_ragged_batch",
           [](P p, std::int64_t size, bool drop_rest) {
             return PyPipeline(p.pipeline.ragged_batch(size, {.drop_rest = drop_rest}));
           })
      .def("_bucketed_batch",
           [](P p, const std::string& component, std::vector<std::int64_t> boundaries, std::vector<std::int64_t> sizes,
              std::vector<Tensor> padding, bool drop_rest) {
             return PyPipeline(p.pipeline.bucketed_batch(
                 component, bucket_options(std::move(boundaries), std::move(sizes), std::move(padding), drop_rest)));
           })
      .def("_unbatch", [](P p) { return PyPipeline(p.pipeline.unbatch()); })
      .def("_window",
           [](P p, std::int64_t size, std::int64_t shift) { return PyPipeline(p.pipeline.window(size, shift)); })
      .def("_concatenate", [](P p, P after) { return PyPipeline(p.pipeline.concatenate(after.pipeline)); })
      .def("_cache", [](P p, std::uint64_t limit) { return PyPipeline(p.pipeline.cache(limit)); })
      .def(
          "_cache_file", [](P p, const std::string& path) { return PyPipeline(data::cache_file(p.pipeline, path)); },
          released())
      .def("_enumerate", [](P p, const std::string& component) { return PyPipeline(p.pipeline.enumerate(component)); });
}

}  // namespace

PyPipeline::PyPipeline(const data::Pipeline& of)
    : PyBatchSource{std::make_shared<const PipelineSource>(of)}, pipeline(of) {}

BatchSchema schema_of(const Components& components) {
  BatchSchema out;
  for (const auto& [name, dtype, dims] : components) out.push_back({name, dtype_named(dtype), shape_of_dims(dims)});
  return out;
}

Components components_of(const BatchSchema& schema) {
  Components out;
  for (const BatchComponent& c : schema)
    out.emplace_back(c.name, std::string(long_name(c.dtype)), dims_of_shape(c.shape));
  return out;
}

void bind_data(nb::module_& m) {
  nb::class_<PyBatchSource>(m, "BatchSource")
      .def_prop_ro("components", [](const PyBatchSource& s) { return components_of(s.source->schema()); })
      .def_prop_ro("examples", [](const PyBatchSource& s) { return s.source->examples(); });
  nb::class_<PyPipeline, PyBatchSource> pipeline(m, "Pipeline");
  pipeline.def(nb::init<const PyPipeline&>())
      .def("_elements", [](const PyPipeline& p) { return components_of(p.pipeline.schema()); })
      .def("_composites", &composites)
      .def("_size", [](const PyPipeline& p) { return p.pipeline.size(); })
      .def("_forward_because", [](const PyPipeline& p) { return p.pipeline.forward_because(); })
      .def("_first", &first_elements)
      .def("describe", [](const PyPipeline& p) { return p.pipeline.describe(); });
  bind_stages(pipeline);
  nb::class_<data::Transformation>(m, "Transformation").def_ro("name", &data::Transformation::name);
  nb::class_<PyElements>(m, "Elements", nb::is_weak_referenceable())
      .def(nb::init<const PyPipeline&, std::uint64_t, int>())
      .def("next", &PyElements::next)
      .def("close", &PyElements::close);
  bind_sources(m);
  bind_data_files(m);
}

}  // namespace troupe::python
