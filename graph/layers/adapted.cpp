// Statistics and vocabularies that preprocessing layers learn from data, on the host.
#include <algorithm>

#include <troupe/graph/layers/preprocessing.hpp>

namespace troupe {
namespace {

template <class T>
std::vector<double> doubles_of(const Tensor& tensor) {
  std::vector<double> values;
  for (const T& v : tensor.values<T>()) {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      values.push_back(static_cast<float>(v));
    else
      values.push_back(static_cast<double>(v));
  }
  return values;
}

std::vector<double> numbers_in(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f32:
      return doubles_of<float>(tensor);
    case DType::f64:
      return doubles_of<double>(tensor);
    case DType::f16:
      return doubles_of<Half>(tensor);
    case DType::bf16:
      return doubles_of<BFloat16>(tensor);
    case DType::u8:
      return doubles_of<std::uint8_t>(tensor);
    case DType::i32:
      return doubles_of<std::int32_t>(tensor);
    case DType::i64:
      return doubles_of<std::int64_t>(tensor);
    default:
      invalid_argument("numbers of f16, bf16, f32, f64, u8, i32 or i64 are needed, not {}", name(tensor.dtype()));
  }
}

Tensor floats_of(const std::vector<double>& values) {
  Tensor tensor(DType::f32, Shape{static_cast<std::int64_t>(values.size())});
  std::ranges::transform(values, tensor.mutable_data<float>(), [](double v) { return static_cast<float>(v); });
  return tensor;
}

template <class Value, class Counts>
std::vector<Value> by_frequency(const Counts& counts, std::size_t most) {
  std::vector<std::pair<std::int64_t, Value>> ordered;
  for (const auto& [value, count] : counts) ordered.emplace_back(count, value);
  std::ranges::sort(ordered, std::greater<>());
  if (most != 0 && ordered.size() > most) ordered.resize(most);
  std::vector<Value> values;
  for (auto& [count, value] : ordered) values.push_back(std::move(value));
  return values;
}

}  // namespace

// Joins the moments of a batch to those before (Chan, Golub & LeVeque 1983).
void FeatureStatistics::update(const Tensor& batch) {
  if (batch.shape().rank() < 1) invalid_argument("statistics: a batch must have a last dimension, of the features");
  const std::vector<double> numbers = numbers_in(batch);
  const auto features = static_cast<std::size_t>(batch.shape()[-1]);
  if (numbers.empty()) return;
  if (count_ == 0) {
    means_.assign(features, 0);
    squares_.assign(features, 0);
  }
  if (features != means_.size())
    invalid_argument("statistics: a batch has {} features, but those before had {}", features, means_.size());
  const std::size_t rows = numbers.size() / features;
  const auto n = static_cast<double>(rows);
  for (std::size_t f = 0; f < features; ++f) {
    double sum = 0, squares = 0;
    for (std::size_t r = 0; r < rows; ++r) sum += numbers[r * features + f];
    const double mean = sum / n, distance = mean - means_[f];
    for (std::size_t r = 0; r < rows; ++r) {
      const double d = numbers[r * features + f] - mean;
      squares += d * d;
    }
    means_[f] += distance * n / (count_ + n);
    squares_[f] += squares + distance * distance * count_ * n / (count_ + n);
  }
  count_ += n;
}

Tensor FeatureStatistics::mean() const {
  if (count_ == 0) fail(Code::failed_precondition, "statistics: there is no data; call update() first");
  return floats_of(means_);
}

Tensor FeatureStatistics::variance() const {
  if (count_ == 0) fail(Code::failed_precondition, "statistics: there is no data; call update() first");
  std::vector<double> variances;
  for (const double s : squares_) variances.push_back(s / count_);
  return floats_of(variances);
}

void VocabularyBuilder::update(const Tensor& values) {
  if (values.dtype() == DType::string) {
    for (const std::string& v : values.values<std::string>()) add(v);
  } else if (values.dtype() == DType::i32) {
    for (const std::int32_t v : values.values<std::int32_t>()) ++integers_[v];
  } else if (values.dtype() == DType::i64) {
    for (const std::int64_t v : values.values<std::int64_t>()) ++integers_[v];
  } else {
    invalid_argument("vocabulary: values must be strings, i32 or i64, not {}", name(values.dtype()));
  }
}

void VocabularyBuilder::add(std::string_view word) {
  if (word.empty()) return;
  auto found = strings_.find(word);
  if (found == strings_.end()) found = strings_.emplace(word, 0).first;
  ++found->second;
}

std::vector<std::string> VocabularyBuilder::strings(std::size_t most) const {
  if (!integers_.empty()) fail(Code::failed_precondition, "vocabulary: the values are integers");
  return by_frequency<std::string>(strings_, most);
}

std::vector<std::int64_t> VocabularyBuilder::integers(std::size_t most) const {
  if (!strings_.empty()) fail(Code::failed_precondition, "vocabulary: the values are strings");
  return by_frequency<std::int64_t>(integers_, most);
}

Tensor split_words(const Tensor& texts) {
  std::vector<std::string> words;
  for (const std::string& text : texts.values<std::string>())
    texts::each_word(text, {}, [&](std::string_view word) { words.emplace_back(word); });
  return Tensor::of<std::string>(Shape{std::ssize(words)}, words);
}

std::vector<double> layers::quantiles(const Tensor& values, std::int64_t bins) {
  if (bins < 1) invalid_argument("quantiles: there must be a bin, not {}", bins);
  std::vector<double> sorted = numbers_in(values);
  std::ranges::sort(sorted);
  std::vector<double> boundaries;
  for (std::int64_t bin = 1; bin < bins && !sorted.empty(); ++bin) {
    const double at = sorted[sorted.size() * static_cast<std::size_t>(bin) / static_cast<std::size_t>(bins)];
    if (boundaries.empty() || at > boundaries.back()) boundaries.push_back(at);
  }
  return boundaries;
}

}  // namespace troupe
