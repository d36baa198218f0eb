#include <cmath>

#include "graph/layers.hpp"

namespace troupe {
namespace {

// A known rank, or an error that says how x should look.
void require_rank(Output x, int rank, const char* expected) {
  if (x.shape().rank() != rank)
    invalid_argument("the input is {}, but must be {}{}", x.shape().to_string(), expected,
                     rank == 2 ? "; put a flatten layer before it" : "");
}

std::int64_t known_dim(Output x, int axis, const char* what) {
  if (x.shape()[axis] == kUnknown)
    invalid_argument("the {} of the input must be known, but it is {}", what, x.shape().to_string());
  return x.shape()[axis];
}

void require_positive(const char* layer, const char* option, std::int64_t value) {
  if (value < 1) invalid_argument("{}: {} must be at least 1, it is {}", layer, option, value);
}

// A weight as the layer computes with it.
Output weight(LayerContext& context, const std::string& name, const WeightSpec& spec,
              const Initializer& initializer, DType compute) {
  return cast(context.weight(name, spec, initializer).read(), compute);
}

Output with_bias(LayerContext& context, Output x, std::int64_t units, DType dtype) {
  const WeightSpec spec{.dtype = dtype, .shape = Shape{units}};
  return bias_add(x, weight(context, "bias", spec, initializers::zeros(), x.dtype()));
}

// For ops that have no kernels for f16 and bf16, or need the precision.
Output widened(const LayerContext& context, Output x) {
  const bool narrow = x.dtype() == DType::f16 || x.dtype() == DType::bf16;
  return narrow && context.weights != DType::invalid ? cast(x, context.weights) : x;
}

// Softmax is a quotient of sums: not in f16 or bf16.
Output activated(const LayerContext& context, Output x, Activation activation) {
  return activate(activation == Activation::softmax ? widened(context, x) : x, activation);
}

class Flatten : public Layer {
 public:
  std::string kind() const override { return "flatten"; }
  Output apply(LayerContext&, Output x) const override {
    const Shape& shape = x.shape();
    if (shape.rank() < 1 || !shape.sub(1, shape.rank()).fully_known())
      invalid_argument("all dimensions of the input but the first must be known, but it is {}",
                       shape.to_string());
    return reshape(x, Shape{kUnknown, shape.sub(1, shape.rank()).num_elements()});
  }
};

class Dense : public Layer {
 public:
  Dense(std::int64_t units, Activation activation, layers::DenseOptions options)
      : units_(units), activation_(activation), options_(std::move(options)) {}
  std::string kind() const override { return "dense"; }
  Output apply(LayerContext& context, Output x) const override {
    require_rank(x, 2, "[n, features]");
    const std::int64_t in = known_dim(x, 1, "last dimension");
    const DType compute = context.compute_type(x, options_.compute);
    const WeightSpec spec{.dtype = context.weight_type(x),
                          .shape = Shape{in, units_},
                          .fan_in = static_cast<double>(in),
                          .fan_out = static_cast<double>(units_)};
    x = matmul(cast(x, compute), weight(context, "kernel", spec, options_.kernel_initializer, compute));
    if (options_.use_bias) x = with_bias(context, x, units_, spec.dtype);
    return activated(context, x, activation_);
  }

 private:
  std::int64_t units_;
  Activation activation_;
  layers::DenseOptions options_;
};

class Conv2D : public Layer {
 public:
  Conv2D(std::int64_t filters, std::int64_t kernel_size, Activation activation, layers::Conv2DOptions options)
      : filters_(filters), size_(kernel_size), activation_(activation), options_(std::move(options)) {}
  std::string kind() const override { return "conv2d"; }
  Output apply(LayerContext& context, Output x) const override {
    require_rank(x, 4, "[n, height, width, channels]");
    const std::int64_t in = known_dim(x, 3, "number of channels");
    const double window = static_cast<double>(size_) * static_cast<double>(size_);
    const DType compute = context.compute_type(x, options_.compute);
    const WeightSpec spec{.dtype = context.weight_type(x),
                          .shape = Shape{size_, size_, in, filters_},
                          .fan_in = window * static_cast<double>(in),
                          .fan_out = window * static_cast<double>(filters_)};
    x = troupe::conv2d(cast(x, compute),
                       weight(context, "kernel", spec, options_.kernel_initializer, compute),
                       {.strides = options_.strides, .padding = options_.padding});
    if (options_.use_bias) x = with_bias(context, x, filters_, spec.dtype);
    return activated(context, x, activation_);
  }

 private:
  std::int64_t filters_;
  std::int64_t size_;
  Activation activation_;
  layers::Conv2DOptions options_;
};

class Pool : public Layer {
 public:
  Pool(std::string kind, std::int64_t size) : kind_(std::move(kind)), size_(size) {}
  std::string kind() const override { return kind_; }
  Output apply(LayerContext&, Output x) const override {
    require_rank(x, 4, "[n, height, width, channels]");
    const PoolOptions options{.ksize = {size_, size_}, .strides = {size_, size_}, .padding = Padding::valid};
    return kind_ == "max_pool" ? troupe::max_pool(x, options) : troupe::avg_pool(x, options);
  }

 private:
  std::string kind_;
  std::int64_t size_;
};

class Dropout : public Layer {
 public:
  Dropout(double rate, std::int64_t seed) : rate_(rate), seed_(seed) {}
  std::string kind() const override { return "dropout"; }
  Output apply(LayerContext& context, Output x) const override {
    return context.training ? troupe::dropout(widened(context, x), rate_, {.seed = seed_}) : x;
  }

 private:
  double rate_;
  std::int64_t seed_;
};

class Activate : public Layer {
 public:
  explicit Activate(Activation activation) : activation_(activation) {}
  std::string kind() const override { return to_string(activation_); }
  Output apply(LayerContext& context, Output x) const override { return activated(context, x, activation_); }

 private:
  Activation activation_;
};

}  // namespace

std::string to_string(Activation activation) {
  switch (activation) {
    case Activation::none:
      return "none";
    case Activation::relu:
      return "relu";
    case Activation::leaky_relu:
      return "leaky_relu";
    case Activation::sigmoid:
      return "sigmoid";
    case Activation::tanh:
      return "tanh";
    case Activation::softplus:
      return "softplus";
    case Activation::softmax:
      return "softmax";
  }
  invalid_argument("there is no activation {}", static_cast<int>(activation));
}

Output activate(Output x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return relu(x);
    case Activation::leaky_relu:
      return leaky_relu(x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::tanh:
      return tanh(x);
    case Activation::softplus:
      return softplus(x);
    case Activation::softmax:
      return softmax(x);
  }
  invalid_argument("there is no activation {}", static_cast<int>(activation));
}

namespace layers {

LayerPtr flatten() { return std::make_shared<Flatten>(); }

LayerPtr dense(std::int64_t units, Activation activation, DenseOptions options) {
  require_positive("dense", "units", units);
  require_compute_type("dense", options.compute);
  return std::make_shared<Dense>(units, activation, std::move(options));
}

LayerPtr conv2d(std::int64_t filters, std::int64_t kernel_size, Activation activation,
                Conv2DOptions options) {
  require_positive("conv2d", "filters", filters);
  require_positive("conv2d", "kernel_size", kernel_size);
  require_compute_type("conv2d", options.compute);
  if (options.strides.size() != 2)
    invalid_argument("conv2d: strides are two numbers (height, width), not {}", options.strides.size());
  for (std::int64_t stride : options.strides) require_positive("conv2d", "each stride", stride);
  return std::make_shared<Conv2D>(filters, kernel_size, activation, std::move(options));
}

LayerPtr max_pool(std::int64_t size) {
  require_positive("max_pool", "size", size);
  return std::make_shared<Pool>("max_pool", size);
}

LayerPtr average_pool(std::int64_t size) {
  require_positive("average_pool", "size", size);
  return std::make_shared<Pool>("average_pool", size);
}

LayerPtr dropout(double rate, std::int64_t seed) {
  if (!(rate >= 0 && rate < 1)) invalid_argument("dropout: the rate must be in [0, 1), it is {}", rate);
  return std::make_shared<Dropout>(rate, seed);
}

LayerPtr activation(Activation activation) { return std::make_shared<Activate>(activation); }

}  // namespace layers
}  // namespace troupe
