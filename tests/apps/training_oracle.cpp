#include "tests/apps/training_oracle.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "tests/graph/training/classifier_graph.hpp"
#include "tests/kernels/run_kernel.hpp"
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/kernels/cpu/bias.hpp>
#include <troupe/kernels/cpu/linear.hpp>
#include <troupe/kernels/cpu/random.hpp>
#include <troupe/kernels/cpu/softmax.hpp>
#include <troupe/kernels/cpu/updates.hpp>
#include <troupe/kernels/kernels.hpp>
#include <troupe/scheduler/data/permutation.hpp>

namespace troupe::testing {
namespace {

constexpr std::int64_t kPixels = 28 * 28, kHidden = 128, kClasses = 10;

class OneThread final : public Parallelism {
 public:
  int threads() const override { return 1; }
  void parallel_for(std::int64_t total, std::int64_t grain, Range fn) override {
    for (std::int64_t begin = 0; begin < total; begin += grain) fn(begin, std::min(total, begin + grain));
  }
  void run(DynamicWork& work) override {
    while (work.run_some()) {
    }
  }
  void wake() override {}
};

// Kernels and biases of both layers, or what belongs to each of them.
using Four = std::array<Tensor, 4>;
constexpr std::array<const char*, 4> kNames = {"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"};

Four zeros() {
  return {Tensor::zeros(DType::f32, {kPixels, kHidden}), Tensor::zeros(DType::f32, {kHidden}),
          Tensor::zeros(DType::f32, {kHidden, kClasses}), Tensor::zeros(DType::f32, {kClasses})};
}

// op(x[i], i) for every element, in float, rounded to the dtype of x.
template <class Op>
Tensor changed(const Tensor& x, Op op) {
  Tensor out(x.dtype(), x.shape());
  const auto each = [&]<class T>(T) {
    const T* from = x.data<T>();
    T* to = out.mutable_data<T>();
    for (std::int64_t i = 0, n = x.num_elements(); i < n; ++i)
      to[i] = static_cast<T>(op(static_cast<float>(from[i]), i));
  };
  x.dtype() == DType::f16 ? each(Half()) : x.dtype() == DType::bf16 ? each(BFloat16()) : each(0.0f);
  return out;
}

Tensor converted(const Tensor& x, DType to) {
  Tensor wide(DType::f32, x.shape());
  changed(x, [&](float value, std::int64_t i) { return wide.mutable_data<float>()[i] = value; });
  if (to == DType::f32) return wide;
  Tensor out(to, x.shape());
  return changed(out, [&](float, std::int64_t i) { return wide.data<float>()[i]; });
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

struct Batch {
  Tensor images, labels;
};

// Pixels as floats from 0 to 1.
Batch gather(const Dataset& data, std::span<const std::int64_t> examples) {
  Shape shape = data.images.shape();
  shape.set_dim(0, std::ssize(examples));
  Batch batch{Tensor(DType::f32, shape), Tensor(DType::i32, Shape{std::ssize(examples)})};
  const std::int64_t pixels = data.images.num_elements() / data.size();
  float* to = batch.images.mutable_data<float>();
  for (std::size_t i = 0; i < examples.size(); ++i) {
    for (std::int64_t j = 0; j < pixels; ++j)
      *to++ = static_cast<float>(data.images.data<std::uint8_t>()[examples[i] * pixels + j]) * (1 / 255.0f);
    batch.labels.mutable_data<std::int32_t>()[i] = data.labels.data<std::int32_t>()[examples[i]];
  }
  return batch;
}

class Loop {
 public:
  Loop(const Dataset& train, const OracleOptions& options) : train_(train), options_(options) {
    register_all_kernels(kernels_);
    draw(values_[0], "dense/kernel/RandomUniform", kPixels + kHidden);
    draw(values_[2], "dense_1/kernel/RandomUniform", kHidden + kClasses);
  }

  Parameters run() {
    const auto examples = static_cast<std::uint64_t>(train_.size());
    const auto per_step = static_cast<std::uint64_t>(options_.slots) * static_cast<std::uint64_t>(options_.batch);
    for (int epoch = 0; epoch < options_.epochs; ++epoch) {
      const auto order = permutation(options_.seed, static_cast<std::uint64_t>(epoch), examples);
      for (std::uint64_t first = 0; first + per_step <= examples; first += per_step)
        step({order.begin() + static_cast<std::ptrdiff_t>(first),
              order.begin() + static_cast<std::ptrdiff_t>(first + per_step)});
    }
    Parameters out;
    for (std::size_t i = 0; i < kNames.size(); ++i) out.emplace(kNames[i], values_[i]);
    return out;
  }

 private:
  void draw(Tensor& kernel, std::string_view node, std::int64_t fan_in_and_out) {
    const auto limit = static_cast<float>(std::sqrt(6.0 / static_cast<double>(fan_in_and_out)));
    fill_uniform(thread_, random_stream({.seed = options_.seed}, random_node(fnv1a(node), 0)),
                 kernel.mutable_values<float>(), -limit, limit);
  }

  void step(const std::vector<std::int64_t>& examples) {
    Four sum;
    std::vector<Four> ranks;
    for (int slot = 0; slot < options_.slots; ++slot) {
      Four gradients = gradients_of_slot(std::span(examples).subspan(static_cast<std::size_t>(slot * options_.batch),
                                                                     static_cast<std::size_t>(options_.batch)));
      if (options_.clip_norm > 0) clip(gradients);
      if (options_.all_reduce)
        ranks.push_back(std::move(gradients));
      else if (slot == 0)
        sum = std::move(gradients);
      else
        add(sum, gradients);
    }
    if (options_.all_reduce)
      sum = mean_around_the_ring(ranks);
    else if (options_.slots > 1)
      divide(sum, static_cast<float>(options_.slots));
    if (scale() != 1) divide(sum, scale());
    apply(sum);
  }

  Four gradients_of_slot(std::span<const std::int64_t> examples) {
    const std::size_t size = examples.size() / static_cast<std::size_t>(options_.micro_batches);
    Four sum;
    for (int k = 0; k < options_.micro_batches; ++k) {
      Four gradients = gradients_of(gather(train_, examples.subspan(static_cast<std::size_t>(k) * size, size)));
      if (k == 0)
        sum = std::move(gradients);
      else
        add(sum, gradients);
    }
    if (options_.micro_batches > 1) divide(sum, static_cast<float>(options_.micro_batches));
    return sum;
  }

  Tensor narrow(const Tensor& x) const { return converted(x, options_.precision); }
  Tensor narrow_tensor(const Shape& shape) const { return Tensor(options_.precision, shape); }

  // Of the mean loss of a batch.
  Four gradients_of(const Batch& batch) {
    const std::int64_t n = batch.labels.num_elements();
    const Tensor x = narrow(batch.images.reshaped({n, kPixels}));
    const Tensor output_kernel = narrow(values_[2]);
    Tensor hidden = narrow_tensor({n, kHidden}), logits = narrow_tensor({n, kClasses});
    matmul(thread_, x, narrow(values_[0]), false, false, hidden);
    bias_add(thread_, hidden, narrow(values_[1]), hidden);
    hidden = changed(hidden, [](float h, std::int64_t) { return std::max(h, 0.0f); });
    matmul(thread_, hidden, output_kernel, false, false, logits);
    bias_add(thread_, logits, narrow(values_[3]), logits);

    Tensor loss(DType::f32, {n}), wide(DType::f32, {n, kClasses});
    sparse_softmax_cross_entropy(thread_, converted(logits, DType::f32), batch.labels, {}, loss, wide);
    // The gradient of the mean, scale / n, comes first and is multiplied with: two roundings.
    const float d_loss = scale() / static_cast<float>(n);
    const Tensor d_logits = narrow(changed(wide, [&](float d, std::int64_t) { return d * d_loss; }));
    Tensor d_hidden = narrow_tensor({n, kHidden});
    matmul(thread_, d_logits, output_kernel, false, true, d_hidden);
    const Tensor active = converted(hidden, DType::f32);
    d_hidden = changed(d_hidden, [&](float d, std::int64_t i) { return active.data<float>()[i] > 0 ? d : 0.0f; });

    Four out = zeros();
    for (Tensor& gradient : out) gradient = narrow_tensor(gradient.shape());
    matmul(thread_, x, d_hidden, true, false, out[0]);
    bias_add_grad(thread_, d_hidden, out[1]);
    matmul(thread_, hidden, d_logits, true, false, out[2]);
    bias_add_grad(thread_, d_logits, out[3]);
    for (Tensor& gradient : out) gradient = converted(gradient, DType::f32);
    return out;
  }

  float scale() const { return options_.precision == DType::f16 ? 65536.0f : 1.0f; }

  void clip(Four& gradients) {
    double half = 0;
    for (const Tensor& g : gradients)
      half += static_cast<double>(
          run_kernel(kernels_, *device_, {.op = "L2Loss", .dtype = DType::f32, .inputs = {g}})[0].item<float>());
    const double norm = std::sqrt(half * 2) / static_cast<double>(scale());
    const auto factor = static_cast<float>(std::min(options_.clip_norm / norm, 1.0));
    for (Tensor& g : gradients) g = changed(g, [&](float x, std::int64_t) { return x * factor; });
  }

  static void add(Four& sum, const Four& more) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const auto to = sum[i].mutable_values<float>();
      const auto from = more[i].values<float>();
      for (std::size_t j = 0; j < to.size(); ++j) to[j] += from[j];
    }
  }
  static void divide(Four& sum, float divisor) {
    for (Tensor& tensor : sum)
      for (float& value : tensor.mutable_values<float>()) value /= divisor;
  }

  static Four mean_around_the_ring(const std::vector<Four>& ranks) {
    constexpr std::array<std::size_t, 4> kInBackprop = {3, 2, 1, 0};
    const std::size_t n = ranks.size();
    std::size_t elements = 0;
    for (const Tensor& t : ranks[0]) elements += static_cast<std::size_t>(t.num_elements());
    const std::size_t per_part = ((elements + n - 1) / n + 15) / 16 * 16;
    Four mean = zeros();
    std::size_t at = 0;
    for (const std::size_t i : kInBackprop)
      for (std::size_t j = 0; j < static_cast<std::size_t>(mean[i].num_elements()); ++j, ++at) {
        float sum = ranks[at / per_part][i].data<float>()[j];
        for (std::size_t k = 1; k < n; ++k) sum += ranks[(at / per_part + k) % n][i].data<float>()[j];
        mean[i].mutable_data<float>()[j] = n > 1 ? sum / static_cast<float>(n) : sum;
      }
    return mean;
  }

  void apply(const Four& gradients) {
    const Tensor rate = Tensor::scalar(static_cast<float>(options_.learning_rate(steps_)));
    const OptimizerRule adam = AdamRule{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-7};
    ++steps_;
    for (std::size_t i = 0; i < values_.size(); ++i)
      apply_update(thread_, adam, std::array{&values_[i], &first_moments_[i], &second_moments_[i]}, rate, gradients[i],
                   steps_);
  }

  const Dataset& train_;
  const OracleOptions& options_;
  OneThread thread_;
  KernelRegistry kernels_;
  std::shared_ptr<Device> device_ = test_device(1);
  Four values_ = zeros(), first_moments_ = zeros(), second_moments_ = zeros();
  std::int64_t steps_ = 0;
};

// Sessions compute, averages are replayed.
class Replay {
 public:
  Replay(const Sequential& layers, const Dataset& train, const OracleOptions& options)
      : train_(train),
        options_(options),
        graph_(testing::classifier_graph(layers, Shape{28, 28, 1}, optimizers::Adam{.learning_rate = 1e-3},
                                         {.batch = options.batch})),
        session_(*graph_.graph, {.seed = options.seed}) {
    for (auto v = graph_.parameters.rbegin(); v != graph_.parameters.rend(); ++v) gradients_.push_back(gradient_of(*v));
    session_.run({}, std::vector<Output>{}, {graph_.initializer}, {.random_step = 0});
  }

  Parameters run() {
    const auto examples = static_cast<std::uint64_t>(train_.size());
    const auto batch = static_cast<std::size_t>(options_.batch);
    const std::size_t per_step = batch * static_cast<std::size_t>(options_.slots);
    for (int epoch = 0; epoch < options_.epochs; ++epoch) {
      const auto order = permutation(options_.seed, static_cast<std::uint64_t>(epoch), examples);
      const std::vector<std::int64_t> visited(order.begin(), order.end());
      for (std::size_t first = 0; first + per_step <= visited.size(); first += per_step) {
        std::vector<std::vector<Tensor>> ranks;
        for (std::size_t at = first; at < first + per_step; at += batch) {
          const Batch examples_of_slot = gather(train_, std::span(visited).subspan(at, batch));
          ranks.push_back(session_.run(
              {{graph_.images[0], examples_of_slot.images}, {graph_.labels[0], examples_of_slot.labels}}, gradients_));
        }
        Feeds means;
        const std::vector<Tensor> mean = mean_in_buckets(ranks);
        for (std::size_t i = 0; i < mean.size(); ++i) means.emplace_back(gradients_[i], mean[i]);
        session_.run(means, std::vector<Output>{}, {graph_.train});
      }
    }
    Parameters out;
    for (const VariableRef& v : graph_.parameters) out.emplace(v.name, session_.run(v.read()));
    return out;
  }

 private:
  // What the variable's update reads last.
  Output gradient_of(const VariableRef& variable) const {
    for (int id = 0; id < graph_.graph->size(); ++id) {
      const Node& node = graph_.graph->node(id);
      if (node.op->name != "ApplyAdam" || node.inputs[0].node != variable.handle.node) continue;
      return {graph_.graph.get(), node.inputs.back().node, node.inputs.back().index};
    }
    throw std::runtime_error("no update of " + variable.name);
  }

  // As mean_around_the_ring, bucket by bucket.
  static std::vector<Tensor> mean_in_buckets(const std::vector<std::vector<Tensor>>& ranks) {
    std::vector<Tensor> mean;
    std::size_t first = 0, elements = 0;  // of the bucket
    for (std::size_t i = 0; i < ranks[0].size(); ++i) {
      mean.push_back(ranks[0][i].clone());
      elements += static_cast<std::size_t>(mean[i].num_elements());
      if (elements * sizeof(float) < (512 << 10) && i + 1 < ranks[0].size()) continue;
      const std::size_t n = ranks.size(), per_part = ((elements + n - 1) / n + 15) / 16 * 16;
      for (std::size_t at = 0; first <= i; ++first)
        for (std::size_t j = 0; j < static_cast<std::size_t>(mean[first].num_elements()); ++j, ++at) {
          float sum = ranks[at / per_part][first].data<float>()[j];
          for (std::size_t k = 1; k < n; ++k) sum += ranks[(at / per_part + k) % n][first].data<float>()[j];
          mean[first].mutable_data<float>()[j] = n > 1 ? sum / static_cast<float>(n) : sum;
        }
      elements = 0;
    }
    return mean;
  }

  const Dataset& train_;
  const OracleOptions& options_;
  testing::ClassifierGraph graph_;
  Session session_;
  Outputs gradients_;  // as backprop makes them
};

}  // namespace

Parameters trained_by_replay(const Sequential& layers, const Dataset& train, const OracleOptions& options) {
  return Replay(layers, train, options).run();
}

Parameters trained_by_hand(const Dataset& train, const OracleOptions& options) { return Loop(train, options).run(); }

}  // namespace troupe::testing
