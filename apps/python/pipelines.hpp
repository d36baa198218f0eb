// Data pipelines as Python holds them, for the sources of the module that make them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "apps/python/bindings.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/graph/data/pipeline.hpp>

namespace troupe::python {

// A pipeline, which is also the batches that a model is fit to.
struct PyPipeline : PyBatchSource {
  explicit PyPipeline(const data::Pipeline& of);
  data::Pipeline pipeline;
};

// (name, dtype, shape) of each component.
using Components = std::vector<std::tuple<std::string, std::string, Dims>>;
BatchSchema schema_of(const Components& components);
Components components_of(const BatchSchema& schema);

// Of a class whose stages `bind_data` binds.
void bind_data_files(nanobind::module_& m);

}  // namespace troupe::python
