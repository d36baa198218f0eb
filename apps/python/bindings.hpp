// Shared by the sources of the Python module: graphs and tensors as Python holds them, and who binds what.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/graph.hpp>
#include <troupe/scheduler/data/batch_source.hpp>

namespace troupe {
class LossFunction;
}  // namespace troupe

namespace troupe::python {

// A graph that Python's values hold together: outputs keep it alive.
struct PyGraph {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
};
// A tensor of Python: a value of eager mode (eager_mode.hpp), or an output of a graph.
class PyTensor {
 public:
  PyTensor(std::shared_ptr<Graph> keep, Output output) : graph(std::move(keep)), output_(std::move(output)) {
    if (output_.graph && !output_.eager) life_ = output_.graph->life();
  }
  // Throws failed_precondition if it belongs to a graph that has ended: a program may keep tensors of a layer's call(),
  // of a body of a loop, of a function that is traced.
  const Output& output() const {
    if (has_ended()) fail_ended();
    return output_;
  }
  bool has_ended() const { return output_.graph && !output_.eager && life_.expired(); }

  std::shared_ptr<Graph> graph;  // null in eager mode

 private:
  [[noreturn]] static void fail_ended();

  Output output_;
  std::weak_ptr<const void> life_;
};
struct PyVariable {
  VariableRef variable;  // of eager mode
  bool trainable = true;
};
// A data set of any kind, to which a model is fit: class BatchSource.
struct PyBatchSource {
  std::shared_ptr<const BatchSource> source;
};

void bind_cluster(nanobind::module_& m);              // tasks of clusters
void bind_control(nanobind::module_& m);              // branches, loops, custom gradients
void bind_data(nanobind::module_& m);                 // pipelines
void bind_dtypes(nanobind::module_& m);               // class DType
void bind_eager_mode(nanobind::module_& m);           // seed, threads
void bind_errors(nanobind::module_& m);               // exceptions by code
void bind_files(nanobind::module_& m);                // of tensors
void bind_fft_functions(nanobind::module_& m);        // Fourier transforms
void bind_functions(nanobind::module_& m);            // functions that are traced
void bind_keras(nanobind::module_& m);                // layers, models and their data, as module keras
void bind_linalg_functions(nanobind::module_& m);     // of matrices
void bind_array_functions(nanobind::module_& m);      // shapes, indices, order
void bind_math_functions(nanobind::module_& m);       // elementwise, reductions, products, random numbers
void bind_nn_functions(nanobind::module_& m);         // of neural networks
void bind_image_functions(nanobind::module_& m);      // of images: regions, windows, blocks
void bind_quantized_functions(nanobind::module_& m);  // of integers for real numbers
void bind_sequence_functions(nanobind::module_& m);   // signals, recurrent layers
void bind_text_functions(nanobind::module_& m);       // strings, tables, embeddings
void bind_measures(nanobind::module_& m);             // losses and metrics
void bind_onnx(nanobind::module_& m);                 // models for onnx.backend
void bind_optimizers(nanobind::module_& m);           // optimizers of eager mode
void bind_resources(nanobind::module_& m);            // queues, accumulators, hash tables
void bind_saved_model(nanobind::module_& m);          // models of all formats
void bind_sessions(nanobind::module_& m);             // class Session
void bind_sparse_functions(nanobind::module_& m);     // of sparse tensors
void bind_tapes(nanobind::module_& m);                // gradients in eager mode
void bind_tensors(nanobind::module_& m);              // classes Tensor and Variable

// A loss by its name and options. Throws invalid_argument for others.
LossFunction loss_function(const std::string& kind, const nanobind::dict& options);

}  // namespace troupe::python
