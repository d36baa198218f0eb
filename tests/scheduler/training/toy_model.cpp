#include "tests/scheduler/training/toy_model.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
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
    rate = static_cast<T>(update.rate_scale);  // whole numbers
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

bool ToyModel::is_sparse(std::uint32_t slice) { return slice == kSparseSlice; }

Tensor rows_to_pull(std::uint32_t slice, std::uint64_t pull) {
  if (slice != kSparseSlice) return {};
  Tensor rows(DType::u32, Shape{kRows});
  for (std::int64_t i = 0; i < kRows; ++i)
    rows.mutable_data<std::uint32_t>()[i] =
        static_cast<std::uint32_t>((static_cast<std::uint64_t>(i) * 2 + pull) % kRows);
  return rows;
}

Tensor from_rows(const Tensor& rows, const Tensor& values) {
  if (!rows.valid()) return values;
  Tensor out(values.dtype(), values.shape());
  const std::size_t bytes = values.num_bytes() / static_cast<std::size_t>(kRows);
  for (std::size_t i = 0; i < static_cast<std::size_t>(kRows); ++i)
    std::memcpy(out.mutable_raw() + rows.data<std::uint32_t>()[i] * bytes, values.raw() + i * bytes, bytes);
  return out;
}

std::vector<SliceSpec> ToyModel::specs() const {
  std::vector<SliceSpec> specs;
  for (std::uint32_t i = 0; i < slices; ++i)
    specs.push_back({i, fmt::format("slice{}", i), dtype, shape_of(i), i % phases, i == kSparseSlice});
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

NamedSums ToyModel::sums(const Values& values, const std::vector<std::uint32_t>& examples, std::uint32_t phase) const {
  const auto n = static_cast<double>(examples.size());
  const NamedSum loss{phase == 0 ? "loss" : fmt::format("loss_{}", phase), {loss_sum(values, examples), n}};
  if (phase > 0) return {loss};
  return {loss, {"correct", {static_cast<double>(correct(values, examples))}}};
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

std::vector<std::uint32_t> examples_of(const ToyModel& model, const Token& token, const ToyData& data) {
  if (token.kind == TokenKind::evaluate) {
    const std::uint64_t begin = std::min(data.test, token.slot * data.test_batch);
    std::vector<std::uint32_t> examples(std::min(data.test - begin, data.test_batch));
    std::iota(examples.begin(), examples.end(), static_cast<std::uint32_t>(begin));
    return examples;
  }
  if (token.batch >= data.steps()) return {};
  const std::vector<std::uint32_t> order = permutation(model.seed, token.epoch, data.train);
  const auto begin = order.begin() + static_cast<std::ptrdiff_t>((token.batch * data.slots + token.slot) * data.batch);
  return {begin, begin + static_cast<std::ptrdiff_t>(data.batch)};
}

namespace {

// One turn: adds its sums, and updates the slices of its phase.
void train_turn(const ToyModel& model, const ToyData& data, const std::vector<std::uint32_t>& slots, Token token,
                Values& values, NamedSums& sums, double rate_scale) {
  std::vector<std::vector<PushedGradient>> gradients(model.slices);
  for (const std::uint32_t slot : slots) {
    token.slot = slot;
    const std::vector<std::uint32_t> examples = examples_of(model, token, data);
    add(sums, model.sums(values, examples, token.phase));
    for (std::uint32_t slice = token.phase; slice < model.slices; slice += model.phases)
      gradients[slice].push_back(model.gradient(values, slice, examples));
  }
  for (std::uint32_t slice = token.phase; slice < model.slices; slice += model.phases) {
    const PushedGradient mean =
        model.dtype == DType::f32 ? plain_mean<float>(gradients[slice]) : plain_mean<std::int64_t>(gradients[slice]);
    values[slice] = values[slice].clone();
    model.apply(values[slice], {mean, token.step + 1, rate_scale});
  }
}

NamedSums evaluate_all(const ToyModel& model, const ToyData& data, const Values& values) {
  NamedSums sums;
  Token token;
  token.kind = TokenKind::evaluate;
  for (; token.slot < data.test_batches(); ++token.slot)
    add(sums, model.sums(values, examples_of(model, token, data), 0));
  return sums;
}

}  // namespace

OracleResult train_in_a_loop(const ToyModel& model, const ToyData& data, const OracleOptions& options) {
  OracleResult result;
  result.values = model.initial();
  std::vector<std::uint32_t> first(data.slots - options.backups);
  std::iota(first.begin(), first.end(), 0u);
  EpochDecisions decisions(options.control);
  Values kept;
  Token token;
  for (; token.epoch < options.epochs && !decisions.last().stop; ++token.epoch) {
    if (decisions.last().keep) kept = result.values;
    NamedSums& sums = result.training.emplace_back();
    for (token.batch = 0; token.batch < data.steps(); ++token.batch, ++token.step)
      for (token.phase = 0; token.phase < model.phases; ++token.phase) {
        const auto* chosen =
            options.commits ? options.commits->find(turn_of(token.step, token.phase, model.phases)) : nullptr;
        train_turn(model, data, chosen ? *chosen : first, token, result.values, sums, decisions.last().rate_scale);
      }
    result.evaluation.push_back(evaluate_all(model, data, result.values));
    EpochDone epoch{.epoch = token.epoch, .training = sums, .evaluation = result.evaluation.back()};
    decisions.decide(epoch);
  }
  result.final_values = decisions.has_kept() ? kept : result.values;
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
