// Layers: functions with weights, and models composed of them.
//
//   Sequential model({layers::flatten(), layers::dense(128, Activation::relu), layers::dense(10)});
//   VariablePool variables;
//   std::vector<RunningAverage> averages;
//   LayerContext training{.graph = graph, .training = true, .variables = variables, .averages = &averages};
//   Output logits = model.apply(training, images);  // images: [?,28,28,1]
//
// A layer has no state: its weights are variables in the pool. The first application of a model creates them, with
// shapes derived from its input; later applications with the same pool (a tower, an evaluation) share them. An invalid
// layer throws invalid_argument naming it.
//
// Mixed precision: dense and conv2d may compute in bf16 or f16 (`compute`) while weights keep the dtype of the model's
// input (master weights). Inputs and weights are cast on entry, so gradients reach the weights, and the optimizer, in
// that dtype. Layers without products run in their input's dtype (normalisations: their data; parameters and statistics
// are f32), except softmax and dropout, whose kernels support only f32 and f64: they cast back to the weights' dtype.
// So does a model's result. f16 needs loss scaling (graph/optimizers/loss_scaling.hpp) to keep gradients below 6e-8
// from vanishing; bf16 does not.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/graph/builder/nn.hpp>
#include <troupe/graph/builder/padding.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/graph/optimizers/running_average.hpp>

namespace troupe {

// A weight to initialize. fan_in: inputs that each output depends on; fan_out: outputs that depend on each input.
struct WeightSpec {
  DType dtype = DType::f32;
  Shape shape{};
  double fan_in = 1;
  double fan_out = 1;
  bool trainable = true;
};
using Initializer = std::function<Output(Graph&, const WeightSpec&)>;

namespace initializers {
Initializer zeros();
Initializer ones();
// Uniform in [-l, l) with l = sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010). Values depend on the session's seed,
// this seed and the variable's name.
Initializer glorot_uniform(std::int64_t seed = 0);
// Normal with standard deviation sqrt(2 / fan_in), truncated at two of them (He et al. 2015): for relu.
Initializer he_normal(std::int64_t seed = 0);
}  // namespace initializers

// The variables of a model in one graph, by name ("dense/kernel") without the scope in which they were
// created.
class VariablePool {
 public:
  // The variable with this name; the first call creates it, under the last part of the name in the graph's current
  // scope. Throws invalid_argument if it exists with another dtype or shape, or in another graph.
  VariableRef get(Graph& graph, const std::string& name, const WeightSpec& spec, const Initializer& initializer);
  // In order of creation.
  const std::vector<VariableRef>& all() const { return variables_; }
  // Those trained by gradients.
  const std::vector<VariableRef>& trainable() const { return trainable_; }

 private:
  std::vector<VariableRef> variables_;
  std::vector<VariableRef> trainable_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

// The context in which layers are applied.
struct LayerContext {
  Graph& graph;
  bool training = false;  // dropout drops; batch_norm uses the statistics of the batch
  VariablePool& variables;
  // Collects the running averages of layers that train with batch statistics, with the values to follow; must not be
  // null for those layers.
  std::vector<RunningAverage>* averages = nullptr;
  // The name of the layer being applied, set by Sequential; before, a prefix for its variables.
  std::string layer = {};
  // Dtypes of products and of weights. invalid: that of the layer's input. Set by Sequential.
  DType compute = DType::invalid;
  DType weights = DType::invalid;

  // The dtype a layer computes in, if it requests `own` (invalid: no request).
  DType compute_type(Output x, DType own = DType::invalid) const;
  DType weight_type(Output x) const { return weights != DType::invalid ? weights : x.dtype(); }

  VariableRef weight(const std::string& name, const WeightSpec& spec, const Initializer& initializer) {
    return variables.get(graph, layer.empty() ? name : layer + "/" + name, spec, initializer);
  }
};

class Layer {
 public:
  virtual ~Layer() = default;
  virtual Output apply(LayerContext& context, Output x) const = 0;
  virtual std::string kind() const = 0;  // "dense": names are made of it
};
using LayerPtr = std::shared_ptr<const Layer>;

// Throws invalid_argument, naming `what`, for a dtype that products cannot be computed in. Accepts DType::invalid, "the
// input's".
void require_compute_type(const char* what, DType compute);

enum class Activation { none, relu, leaky_relu, sigmoid, tanh, softplus, softmax };
std::string to_string(Activation activation);
Output activate(Output x, Activation activation);

// Each function throws invalid_argument for options that no input fits.
namespace layers {

// [n, ...] -> [n, product of the others], which must be known.
LayerPtr flatten();

struct DenseOptions {
  bool use_bias = true;  // initialized to zeros
  Initializer kernel_initializer = initializers::glorot_uniform();
  DType compute = DType::invalid;  // bf16, f16, ...; invalid: the model's
};
// [n, in] -> [n, units]: activation(x kernel + bias), with kernel [in, units] and bias [units].
LayerPtr dense(std::int64_t units, Activation activation = Activation::none, DenseOptions options = {});

struct Conv2DOptions {
  Integers strides = {1, 1};  // height, width
  Padding padding = Padding::valid;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  DType compute = DType::invalid;
};
// [n, h, w, in] -> [n, h', w', filters], with kernel [kernel_size, kernel_size, in, filters] and bias
// [filters].
LayerPtr conv2d(std::int64_t filters, std::int64_t kernel_size, Activation activation = Activation::none,
                Conv2DOptions options = {});

// Over non-overlapping windows of size x size; leftover rows and columns are ignored.
LayerPtr max_pool(std::int64_t size);
LayerPtr average_pool(std::int64_t size);
// Over windows that start every `stride` rows and columns.
LayerPtr max_pool(std::int64_t size, std::int64_t stride, Padding padding);
// [n, h, w, c] -> [n, c]: the mean over all h x w positions.
LayerPtr global_average_pool();

struct BatchNormOptions {
  double momentum = 0.9;  // the fraction that a running average keeps per step, in [0, 1)
  double epsilon = 1e-5;
  Initializer scale_initializer = initializers::ones();
};
// [..., c] -> the same shape (graph/builder/nn.hpp), with variables scale and offset, and the running averages mean and
// variance, all [c]. Training normalises with the statistics of the slot's batch, which the averages follow
// (graph/optimizers/running_average.hpp); otherwise the averages are used. relu is computed in the same kernel.
LayerPtr batch_norm(Activation activation = Activation::none, BatchNormOptions options = {});

// [..., c] -> the same shape, each row on its own, with variables scale and offset [c].
LayerPtr layer_norm(double epsilon = 1e-5);

// In training, zeroes each element with probability `rate` in [0, 1) and scales the others by 1 / (1 - rate).
LayerPtr dropout(double rate, std::int64_t seed = 0);

LayerPtr activation(Activation activation);

}  // namespace layers

// A sequence of layers. Each has a name, the scope of its nodes: its kind, numbered from the second of a kind on
// ("dense", "dense_1").
class Sequential {
 public:
  Sequential() = default;
  explicit Sequential(std::vector<LayerPtr> layers);
  void add(LayerPtr layer);

  // Dtype of products in layers that do not set their own. invalid: the dtype of their input. Throws invalid_argument
  // for a dtype that is not floating.
  void set_compute(DType compute);
  DType compute() const { return compute_; }

  struct Entry {
    std::string name;
    LayerPtr layer;
  };
  std::span<const Entry> layers() const { return entries_; }

  // The result has the dtype of x. Throws invalid_argument naming the layer that does not fit.
  Output apply(LayerContext& context, Output x) const;

  struct Summary {
    std::string name{};
    std::string kind{};
    Shape output{};
    std::int64_t parameters = 0;  // trainable ones
  };
  // Output shapes for an f32 input of this shape, like [?,28,28,1].
  std::vector<Summary> summary(const Shape& input, const OpRegistry& ops = standard_ops()) const;
  // The same as a printable table, with the total.
  std::string dump(const Shape& input, const OpRegistry& ops = standard_ops()) const;

 private:
  static Output apply_entry(const Entry& entry, const LayerContext& context, Output x);
  LayerContext context_for(const LayerContext& outer, Output x) const;

  std::vector<Entry> entries_;
  DType compute_ = DType::invalid;
  std::map<std::string, int> kinds_;  // number of layers of each kind
};

namespace layers {

// activation(body(x) + shortcut(x)), which must have the same shape; without a shortcut, x itself is added. Variables
// of the shortcut are below "shortcut/" (He, Zhang, Ren & Sun, "Deep Residual Learning for Image Recognition", 2016).
LayerPtr residual(Sequential body, Sequential shortcut = {}, Activation activation = Activation::none);

}  // namespace layers

}  // namespace troupe
