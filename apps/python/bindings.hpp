// Shared by the sources of the Python module: graphs and outputs as Python holds them, and who binds what.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include <troupe/graph/graph.hpp>
#include <troupe/scheduler/data/batch_source.hpp>

namespace troupe::python {

// A graph that Python's values hold together: outputs keep it alive.
struct PyGraph {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
};
struct PyOutput {
  std::shared_ptr<Graph> graph;
  Output output;
};
// What a model is fit to: data sets of any kind, as class BatchSource.
struct PyBatchSource {
  std::shared_ptr<const BatchSource> source;
};

void bind_cluster(nanobind::module_& m);      // tasks of clusters
void bind_data(nanobind::module_& m);         // pipelines
void bind_files(nanobind::module_& m);        // of tensors
void bind_measures(nanobind::module_& m);     // losses and metrics
void bind_onnx(nanobind::module_& m);         // models for onnx.backend
void bind_saved_model(nanobind::module_& m);  // models of all formats

}  // namespace troupe::python
