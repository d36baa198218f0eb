#include "tests/scheduler/training/toy_model.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include <troupe/messages/philox.hpp>

namespace troupe::testing {
namespace {

constexpr std::uint32_t kSparseSlice = 3;
constexpr std::int64_t kRows = 5;

const Shape& shape_of(std::uint32_t slice) {
  static const Shape kShapes[] = {Shape{3}, Shape{2, 2}, Shape{}, Shape{kRows, 2}};
  return kShapes[slice % 4];
}

std::uint64_t hash(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0) { return mix64(mix64(mix64(a) ^ b) ^ c); }

template <class T>
T small(std::uint64_t bits) {
  if constexpr (std::is_same_v<T, float>)
    return uniform_float(static_cast<std::uint32_t>(bits)) - 0.25f;
  else
    return static_cast<T>(bits % 1000);
}

// Something of all values: a worker that saw one slice too old or too new gets another one.
template <class T>
T mixture(const Values& values) {
  T mix = 0;
  for (const Tensor& value : values)
    for (const T& v : value.values<T>()) {
      if constexpr (std::is_same_v<T, float>)
        mix = mix * 0.75f + v;
      else
        mix = (mix * 31 + v) % 1009;
    }
  return mix;
}

template <class T>
PushedGradient gradient_as(const ToyModel& model, const Values& values, std::uint32_t slice,
                           const std::vector<std::uint32_t>& examples) {
  const T mix = model.coupled ? mixture<T>(values) : T{0};
  const auto element = [&](std::uint32_t example, std::uint64_t j) {
    if (model.digits) return static_cast<T>(j == 0 ? std::int64_t{1} << (2 * example) : 0);
    return small<T>(hash(example, slice, j)) + mix;
  };
  if (slice == kSparseSlice) {
    PushedGradient gradient;
    const auto n = static_cast<std::int64_t>(examples.size());
    gradient.indices = Tensor(DType::i64, Shape{n});
    gradient.values = Tensor(dtype_of<T>, Shape{n, 2});
    for (std::size_t i = 0; i < examples.size(); ++i) {
      gradient.indices.mutable_data<std::int64_t>()[i] = examples[i] % kRows;
      for (std::size_t j = 0; j < 2; ++j) gradient.values.mutable_data<T>()[2 * i + j] = element(examples[i], j);
    }
    return gradient;
  }
  Tensor result = Tensor::zeros(dtype_of<T>, shape_of(slice));
  for (const std::uint32_t example : examples)
    for (std::int64_t j = 0; j < result.num_elements(); ++j)
      result.mutable_data<T>()[j] += element(example, static_cast<std::uint64_t>(j));
  return {result, {}};
}

template <class T>
void apply_as(const ToyModel& model, Tensor& value, const Update& update) {
  const auto step = static_cast<T>(update.step % 7);
  T rate;
  if constexpr (std::is_same_v<T, float>)
    rate = -0.01f * static_cast<float>(update.rate_scale);
  else
    rate = 1;
  if (model.coupled) rate *= 1 + step;
  const std::int64_t width = update.gradient.sparse() ? value.shape()[1] : value.num_elements();
  const std::int64_t rows = update.gradient.sparse() ? update.gradient.indices.num_elements() : 1;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t target = update.gradient.sparse() ? update.gradient.indices.data<std::int64_t>()[row] : 0;
    for (std::int64_t j = 0; j < width; ++j)
      value.mutable_data<T>()[target * width + j] += rate * update.gradient.values.data<T>()[row * width + j];
  }
}

template <class T>
PushedGradient plain_mean(const std::vector<PushedGradient>& slots) {
  const auto n = static_cast<T>(slots.size());
  std::vector<T> values;
  std::vector<std::int64_t> indices;
  if (slots[0].sparse()) {
    for (const PushedGradient& slot : slots) {
      for (const T& v : slot.values.values<T>()) values.push_back(v / n);
      for (const std::int64_t& i : slot.indices.values<std::int64_t>()) indices.push_back(i);
    }
    const auto rows = static_cast<std::int64_t>(indices.size());
    return {Tensor::of<T>(Shape{rows, 2}, std::span<const T>(values)),
            Tensor::of<std::int64_t>(Shape{rows}, std::span<const std::int64_t>(indices))};
  }
  for (std::int64_t i = 0; i < slots[0].values.num_elements(); ++i) {
    T sum = slots[0].values.data<T>()[i];
    for (std::size_t slot = 1; slot < slots.size(); ++slot) sum = sum + slots[slot].values.data<T>()[i];
    values.push_back(sum / n);
  }
  return {Tensor::of<T>(slots[0].values.shape(), std::span<const T>(values)), {}};
}

}  // namespace

std::vector<SliceSpec> ToyModel::specs() const {
  std::vector<SliceSpec> specs;
  for (std::uint32_t i = 0; i < slices; ++i) specs.push_back({i, fmt::format("slice{}", i), dtype, shape_of(i)});
  return specs;
}

Values ToyModel::initial() const {
  Values values;
  for (std::uint32_t i = 0; i < slices; ++i) {
    if (digits) {
      values.push_back(Tensor::zeros(dtype, shape_of(i)));
      continue;
    }
    Tensor value(dtype, shape_of(i));
    for (std::int64_t j = 0; j < value.num_elements(); ++j) {
      const std::uint64_t bits = hash(seed, i, static_cast<std::uint64_t>(j));
      if (dtype == DType::f32)
        value.mutable_data<float>()[j] = small<float>(bits);
      else
        value.mutable_data<std::int64_t>()[j] = small<std::int64_t>(bits);
    }
    values.push_back(value);
  }
  return values;
}

PushedGradient ToyModel::gradient(const Values& values, std::uint32_t slice,
                                  const std::vector<std::uint32_t>& examples) const {
  return dtype == DType::f32 ? gradient_as<float>(*this, values, slice, examples)
                             : gradient_as<std::int64_t>(*this, values, slice, examples);
}

double ToyModel::loss_sum(const Values& values, const std::vector<std::uint32_t>& examples) const {
  double sum = 0;
  for (const std::uint32_t example : examples)
    sum += 0.1 * static_cast<double>(example) +
           (dtype == DType::f32 ? mixture<float>(values) : static_cast<double>(mixture<std::int64_t>(values)));
  return sum;
}

std::uint64_t ToyModel::correct(const Values& values, const std::vector<std::uint32_t>& examples) const {
  const std::uint64_t mix = dtype == DType::f32 ? std::bit_cast<std::uint32_t>(mixture<float>(values))
                                                : static_cast<std::uint64_t>(mixture<std::int64_t>(values));
  std::uint64_t count = 0;
  for (const std::uint32_t example : examples) count += hash(mix, example) & 1;
  return count;
}

void ToyModel::apply(Tensor& value, const Update& update) const {
  if (dtype == DType::f32)
    apply_as<float>(*this, value, update);
  else
    apply_as<std::int64_t>(*this, value, update);
}

std::vector<int> counts_of(const Tensor& value, std::uint64_t examples, std::int64_t& tags) {
  const bool rows = value.shape().rank() == 2 && value.shape()[0] == kRows;
  const std::span<const std::int64_t> elements = value.values<std::int64_t>();
  std::int64_t sum = 0;
  tags = 0;
  for (std::size_t i = 0; i < elements.size(); i += rows ? 2 : elements.size()) {
    sum += elements[i];
    if (elements.size() > 1) tags += elements[i + 1];
  }
  std::vector<int> counts;
  for (std::uint64_t example = 0; example < examples; ++example)
    counts.push_back(static_cast<int>(sum >> (2 * example) & 3));
  return counts;
}

PushedGradient tagged(PushedGradient gradient, std::int64_t tag) {
  if (gradient.values.num_elements() > 1) gradient.values.mutable_data<std::int64_t>()[1] = tag;
  return gradient;
}

std::vector<std::uint32_t> examples_of(const ToyModel& model, const Token& token, std::uint64_t train_examples) {
  std::vector<std::uint32_t> examples(token.end - token.begin);
  if (token.kind == TokenKind::evaluate) {
    std::iota(examples.begin(), examples.end(), static_cast<std::uint32_t>(token.begin));
    return examples;
  }
  const std::vector<std::uint32_t> order = permutation(model.seed, token.epoch, train_examples);
  std::copy(order.begin() + static_cast<std::ptrdiff_t>(token.begin),
            order.begin() + static_cast<std::ptrdiff_t>(token.end), examples.begin());
  return examples;
}

OracleResult train_in_a_loop(const ToyModel& model, const OracleOptions& options) {
  OracleResult result;
  result.values = model.initial();
  std::uint64_t version = 0;
  std::vector<std::uint32_t> first(options.slots);
  std::iota(first.begin(), first.end(), 0u);
  for (std::uint32_t epoch = 0; epoch < options.epochs; ++epoch) {
    const std::vector<std::uint32_t> order = permutation(model.seed, epoch, options.train_examples);
    double loss = 0;
    for (std::uint64_t t = 0; t < options.steps_per_epoch; ++t) {
      std::vector<std::vector<PushedGradient>> gradients(model.slices);
      const auto* chosen = options.commits ? options.commits->find(version) : nullptr;
      for (const std::uint32_t w : chosen ? *chosen : first) {
        const auto begin =
            order.begin() + static_cast<std::ptrdiff_t>((t * (options.slots + options.backups) + w) * options.batch);
        const std::vector<std::uint32_t> examples(begin, begin + static_cast<std::ptrdiff_t>(options.batch));
        loss += model.loss_sum(result.values, examples);
        for (std::uint32_t slice = 0; slice < model.slices; ++slice)
          gradients[slice].push_back(model.gradient(result.values, slice, examples));
      }
      ++version;
      for (std::uint32_t slice = 0; slice < model.slices; ++slice) {
        const PushedGradient mean = model.dtype == DType::f32 ? plain_mean<float>(gradients[slice])
                                                              : plain_mean<std::int64_t>(gradients[slice]);
        result.values[slice] = result.values[slice].clone();
        model.apply(result.values[slice], {mean, version, 1});
      }
    }
    result.losses.push_back(loss / static_cast<double>(options.steps_per_epoch * options.slots * options.batch));
    std::vector<std::uint32_t> test(options.test_examples);
    std::iota(test.begin(), test.end(), 0u);
    result.test_accuracies.push_back(
        test.empty() ? 0 : static_cast<double>(model.correct(result.values, test)) / static_cast<double>(test.size()));
  }
  return result;
}

ToyStore::ToyStore(const ToyModel& model, const std::vector<SliceSpec>& slices) : model_(model) {
  const Values initial = model.initial();
  for (const SliceSpec& slice : slices) values_[slice.id] = initial.at(slice.id);
}

void ToyStore::apply(std::uint32_t slice, const Update& update) {
  Tensor value = values_.at(slice).clone();
  model_.apply(value, update);
  values_[slice] = value;
  ++applications;
}

}  // namespace troupe::testing
