// The kinds of layer: dense, convolutions, pooling, normalisation, embeddings and so on (layers.hpp).
#include <cmath>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/layers/layers.hpp>

namespace troupe {
namespace {

// Requires a known rank; the error states how x should look.
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
  if (value < 1) invalid_argument("{}: {} must be at least 1, not {}", layer, option, value);
}

// A weight in the dtype the layer computes in.
Output weight(LayerContext& context, const std::string& name, const WeightSpec& spec, const Initializer& initializer,
              DType compute) {
  return cast(context.weight(name, spec, initializer).read(), compute);
}

Output with_bias(LayerContext& context, Output x, std::int64_t units, DType dtype) {
  const WeightSpec spec{.dtype = dtype, .shape = Shape{units}};
  return bias_add(x, weight(context, "bias", spec, initializers::zeros(), x.dtype()));
}

// For ops that have no f16 and bf16 kernels, or need the precision.
Output widened(const LayerContext& context, Output x) {
  const bool narrow = x.dtype() == DType::f16 || x.dtype() == DType::bf16;
  return narrow && context.weights != DType::invalid ? cast(x, context.weights) : x;
}

// Softmax is a quotient of sums: never in f16 or bf16.
Output activated(const LayerContext& context, Output x, Activation activation) {
  return activate(activation == Activation::softmax ? widened(context, x) : x, activation);
}

class Flatten : public Layer {
 public:
  std::string kind() const override { return "flatten"; }
  Output apply(LayerContext&, Output x) const override {
    const Shape& shape = x.shape();
    if (shape.rank() < 1 || !shape.sub(1, shape.rank()).fully_known())
      invalid_argument("all dimensions of the input but the first must be known, but it is {}", shape.to_string());
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
    const Output kernel = weight(context, "kernel", spec, options_.kernel_initializer, compute);
    x = matmul(cast(x, compute), kernel);
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
    const Output filter = weight(context, "kernel", spec, options_.kernel_initializer, compute);
    x = troupe::conv2d(cast(x, compute), filter, {.strides = options_.strides, .padding = options_.padding});
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
  Pool(std::string kind, std::int64_t size, std::int64_t stride, Padding padding)
      : kind_(std::move(kind)), options_{.ksize = {size, size}, .strides = {stride, stride}, .padding = padding} {}
  std::string kind() const override { return kind_; }
  Output apply(LayerContext&, Output x) const override {
    require_rank(x, 4, "[n, height, width, channels]");
    return kind_ == "max_pool" ? troupe::max_pool(x, options_) : troupe::avg_pool(x, options_);
  }

 private:
  std::string kind_;
  PoolOptions options_;
};

class GlobalAveragePool : public Layer {
 public:
  std::string kind() const override { return "global_average_pool"; }
  Output apply(LayerContext&, Output x) const override {
    require_rank(x, 4, "[n, height, width, channels]");
    return mean(x, {1, 2});
  }
};

// Parameters and statistics of normalisations are f32, or f64 if the data is.
WeightSpec channels_of(Output x, bool trainable = true) {
  if (x.shape().rank() < 1)
    invalid_argument("the input is {}, but must have a last dimension to normalise", x.shape().to_string());
  return {.dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32,
          .shape = Shape{known_dim(x, -1, "last dimension")},
          .trainable = trainable};
}

class BatchNorm : public Layer {
 public:
  BatchNorm(Activation activation, layers::BatchNormOptions options)
      : activation_(activation), options_(std::move(options)) {}
  std::string kind() const override { return "batch_norm"; }
  Output apply(LayerContext& context, Output x) const override {
    const WeightSpec learnt = channels_of(x), followed = channels_of(x, false);
    const Output scale = context.weight("scale", learnt, options_.scale_initializer).read();
    const Output offset = context.weight("offset", learnt, initializers::zeros()).read();
    const VariableRef mean = context.weight("mean", followed, initializers::zeros());
    const VariableRef variance = context.weight("variance", followed, initializers::ones());
    const bool relu = activation_ == Activation::relu;
    const troupe::BatchNormOptions options{.epsilon = options_.epsilon, .relu = relu};
    Output y;
    if (context.training) {
      if (!context.averages)
        invalid_argument("training updates running averages: LayerContext::averages must not be null");
      const BatchNormOutputs out = troupe::batch_norm(x, scale, offset, options);
      context.averages->push_back({mean, out.mean, 1 - options_.momentum});
      context.averages->push_back({variance, out.variance, 1 - options_.momentum});
      y = out.y;
    } else {
      y = troupe::batch_norm_inference(x, scale, offset, mean.read(), variance.read(), options);
    }
    return relu ? y : activated(context, y, activation_);
  }

 private:
  Activation activation_;
  layers::BatchNormOptions options_;
};

class LayerNorm : public Layer {
 public:
  explicit LayerNorm(double epsilon) : epsilon_(epsilon) {}
  std::string kind() const override { return "layer_norm"; }
  Output apply(LayerContext& context, Output x) const override {
    const WeightSpec learnt = channels_of(x);
    const Output scale = context.weight("scale", learnt, initializers::ones()).read();
    const Output offset = context.weight("offset", learnt, initializers::zeros()).read();
    return troupe::layer_norm(x, scale, offset, {.epsilon = epsilon_});
  }

 private:
  double epsilon_;
};

class Residual : public Layer {
 public:
  Residual(Sequential body, Sequential shortcut, Activation activation)
      : body_(std::move(body)), shortcut_(std::move(shortcut)), activation_(activation) {}
  std::string kind() const override { return "residual"; }
  Output apply(LayerContext& context, Output x) const override {
    const Output y = body_.apply(context, x);
    const Output past = cast(around(context, x), y.dtype());
    if (!y.shape().compatible_with(past.shape()))
      invalid_argument("the output of the body is {}, but that of its shortcut is {}", y.shape().to_string(),
                       past.shape().to_string());
    return activated(context, add(y, past), activation_);
  }

 private:
  Output around(const LayerContext& context, Output x) const {
    if (shortcut_.layers().empty()) return x;
    LayerContext inner = context;
    inner.layer += inner.layer.empty() ? "shortcut" : "/shortcut";
    const auto scope = context.graph.scope("shortcut");
    return shortcut_.apply(inner, x);
  }

  Sequential body_;
  Sequential shortcut_;
  Activation activation_;
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
  invalid_argument("unknown activation {}", static_cast<int>(activation));
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
  invalid_argument("unknown activation {}", static_cast<int>(activation));
}

namespace layers {

LayerPtr flatten() { return std::make_shared<Flatten>(); }

LayerPtr dense(std::int64_t units, Activation activation, DenseOptions options) {
  require_positive("dense", "units", units);
  require_compute_type("dense", options.compute);
  return std::make_shared<Dense>(units, activation, std::move(options));
}

LayerPtr conv2d(std::int64_t filters, std::int64_t kernel_size, Activation activation, Conv2DOptions options) {
  require_positive("conv2d", "filters", filters);
  require_positive("conv2d", "kernel_size", kernel_size);
  require_compute_type("conv2d", options.compute);
  if (options.strides.size() != 2)
    invalid_argument("conv2d: strides are two numbers (height, width), not {}", options.strides.size());
  for (std::int64_t stride : options.strides) require_positive("conv2d", "each stride", stride);
  return std::make_shared<Conv2D>(filters, kernel_size, activation, std::move(options));
}

LayerPtr max_pool(std::int64_t size) { return max_pool(size, size, Padding::valid); }

LayerPtr max_pool(std::int64_t size, std::int64_t stride, Padding padding) {
  require_positive("max_pool", "size", size);
  require_positive("max_pool", "stride", stride);
  return std::make_shared<Pool>("max_pool", size, stride, padding);
}

LayerPtr average_pool(std::int64_t size) {
  require_positive("average_pool", "size", size);
  return std::make_shared<Pool>("average_pool", size, size, Padding::valid);
}

LayerPtr global_average_pool() { return std::make_shared<GlobalAveragePool>(); }

LayerPtr batch_norm(Activation activation, BatchNormOptions options) {
  if (!(options.momentum >= 0 && options.momentum < 1))
    invalid_argument("batch_norm: the momentum must be in [0, 1), not {}", options.momentum);
  if (!(options.epsilon > 0)) invalid_argument("batch_norm: epsilon must be positive, not {}", options.epsilon);
  return std::make_shared<BatchNorm>(activation, std::move(options));
}

LayerPtr layer_norm(double epsilon) {
  if (!(epsilon > 0)) invalid_argument("layer_norm: epsilon must be positive, not {}", epsilon);
  return std::make_shared<LayerNorm>(epsilon);
}

LayerPtr residual(Sequential body, Sequential shortcut, Activation activation) {
  return std::make_shared<Residual>(std::move(body), std::move(shortcut), activation);
}

LayerPtr dropout(double rate, std::int64_t seed) {
  if (!(rate >= 0 && rate < 1)) invalid_argument("dropout: the rate must be in [0, 1), not {}", rate);
  return std::make_shared<Dropout>(rate, seed);
}

LayerPtr activation(Activation activation) { return std::make_shared<Activate>(activation); }

}  // namespace layers
}  // namespace troupe
