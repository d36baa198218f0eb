// Layers: dense, embedding, activations, and layers around others.
#pragma once

#include <functional>

#include <troupe/graph/layers/activations.hpp>
#include <troupe/graph/layers/network.hpp>

// Each function throws invalid_argument for options that no input fits.
namespace troupe::layers {

struct DenseOptions {
  bool use_bias = true;    // initialized to zeros
  WeightOptions kernel{};  // initialized by glorot_uniform()
  WeightOptions bias{};
  DType compute = DType::invalid;  // bf16, f16, ...; invalid: the model's
};
// [..., in] -> [..., units]: activation(x kernel + bias), with kernel [in, units] and bias [units].
LayerPtr dense(std::int64_t units, Activation activation = Activation::none, DenseOptions options = {});

struct EmbeddingOptions {
  // A second output: bool [...], whether an id is not 0, as a mask.
  bool mask_zero = false;
  WeightOptions table{};  // initialized by random_uniform()
};
// Ids [...] of an integer dtype in [0, vocabulary) -> rows of table [vocabulary, units]: [..., units]. The table's
// gradient is sparse. A step fails for an id out of range.
LayerPtr embedding(std::int64_t vocabulary, std::int64_t units, EmbeddingOptions options = {});

// factor x + offset, in the weights' dtype: rescaling(1 / 255.0) makes numbers from 0 to 1 of u8.
LayerPtr rescaling(double factor, double offset = 0);

LayerPtr activation(Activation activation);
// x where x > 0, else slope x, with a variable slope of x's dimensions but the first and `shared_axes`, which have 1.
LayerPtr prelu(Integers shared_axes = {}, WeightOptions slope = {});

// activation(body(x) + shortcut(x)), which must have the same shape; without a shortcut, x itself is added. Variables
// of the shortcut are below "shortcut/" (He, Zhang, Ren & Sun, "Deep Residual Learning for Image Recognition", 2016).
LayerPtr residual(Sequential body, Sequential shortcut = {}, Activation activation = Activation::none);

// The same layer, with the same names, whose weights are not trained; averages follow no batch, and it is applied as in
// evaluation.
LayerPtr frozen(LayerPtr layer);

// [n, steps, ...]: the layer on each step alone.
LayerPtr time_distributed(LayerPtr layer);

// A function as a layer, which cannot be written. Weights that it has are the context's.
using LambdaFunction = std::function<Output(LayerContext&, Output)>;
LayerPtr lambda(LambdaFunction function, std::string kind = "lambda");
using LambdaOfMany = std::function<Outputs(LayerContext&, const Outputs&)>;
LayerPtr lambda_of_many(LambdaOfMany function, int outputs = 1, std::string kind = "lambda");

}  // namespace troupe::layers
