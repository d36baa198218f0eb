#include "troupe/actors/model/estimators.hpp"

#include <algorithm>

#include <troupe/graph/layers/layers.hpp>

namespace troupe {
namespace feature_columns {
namespace {

FeatureColumn categorical(InputSpec input, LayerPtr ids, std::int64_t categories) {
  FeatureColumn out{.input = std::move(input)};
  out.ids = [ids](const Symbol& x) { return ids ? ids(x) : x; };
  out.categories = categories;
  out.numbers = [of = out.ids, categories](const Symbol& x) {
    return layers::category_encoding(categories, layers::Encoding::one_hot)(of(x));
  };
  return out;
}

}  // namespace

FeatureColumn numeric(std::string key, Shape shape, Tensor mean, Tensor variance) {
  FeatureColumn out{.input = {.name = std::move(key), .shape = shape, .dtype = DType::f32}};
  out.numbers = [=](const Symbol& x) {
    const Symbol flat = shape.rank() == 0 ? layers::reshape({1})(x) : shape.rank() == 1 ? x : layers::flatten()(x);
    return mean.valid() && variance.valid() ? layers::normalization(mean, variance)(flat) : flat;
  };
  return out;
}

FeatureColumn bucketized(std::string key, std::vector<double> boundaries) {
  const auto buckets = static_cast<std::int64_t>(boundaries.size()) + 1;
  return categorical({.name = std::move(key), .shape = {}, .dtype = DType::f32},
                     layers::discretization(std::move(boundaries)), buckets);
}

FeatureColumn categorical_with_vocabulary(std::string key, std::vector<std::string> vocabulary) {
  const auto categories = static_cast<std::int64_t>(vocabulary.size()) + 1;
  return categorical({.name = std::move(key), .shape = {}, .dtype = DType::string},
                     layers::string_lookup(std::move(vocabulary)), categories);
}

FeatureColumn categorical_with_hash(std::string key, std::int64_t buckets) {
  return categorical({.name = std::move(key), .shape = {}, .dtype = DType::string}, layers::hashing(buckets), buckets);
}

FeatureColumn categorical_with_identity(std::string key, std::int64_t categories) {
  return categorical({.name = std::move(key), .shape = {}, .dtype = DType::i64}, nullptr, categories);
}

FeatureColumn embedding(FeatureColumn column, std::int64_t dimension) {
  if (!column.ids) invalid_argument("embedding: column '{}' is not categorical", column.input.name);
  column.numbers = [ids = column.ids, categories = column.categories, dimension](const Symbol& x) {
    return layers::embedding(categories, dimension)(ids(x));
  };
  return column;
}

}  // namespace feature_columns

namespace {

Network network_of(Estimator::Kind kind, const EstimatorOptions& options) {
  if (options.columns.empty()) invalid_argument("an estimator needs at least one column");
  const bool classifies = kind == Estimator::Kind::classifier;
  if (classifies && options.classes < 2)
    invalid_argument("a classifier has at least 2 classes, not {}", options.classes);
  Symbols inputs, numbers;
  std::map<std::string, Symbol> by_name;
  for (const FeatureColumn& column : options.columns) {
    Symbol& x = by_name[column.input.name];
    if (!x.valid()) inputs.push_back(x = input(column.input.name, column.input.shape, column.input.dtype));
    numbers.push_back(column.numbers(x));
  }
  Symbol x = numbers.size() == 1 ? numbers.front() : layers::concatenate()(numbers);
  for (const std::int64_t units : options.hidden_units) {
    x = layers::dense(units, options.activation)(x);
    if (options.dropout > 0) x = layers::dropout(options.dropout)(x);
  }
  if (!classifies) return Network(inputs, {{"predictions", layers::dense(1).named("predictions")(x)}});
  const Symbol logits = layers::dense(options.classes).named("logits")(x);
  return Network(inputs, {{"logits", logits}, {"probabilities", layers::activation(Activation::softmax)(logits)}});
}

EstimatorOptions without_hidden_layers(EstimatorOptions options) {
  if (!options.hidden_units.empty()) invalid_argument("a linear model has no hidden_units");
  return options;
}

}  // namespace

Estimator::Estimator(Kind kind, const EstimatorOptions& options) : kind_(kind), model_(network_of(kind, options)) {
  OutputTraining learns{.target = options.label, .sample_weights = options.weight};
  if (kind == Kind::classifier) {
    learns.output = "logits";
    learns.loss = Loss::sparse_softmax_cross_entropy;
    learns.metrics = {metrics::accuracy()};
  } else {
    learns.loss = Loss::mean_squared_error;
    learns.metrics = {metrics::loss(Loss::mean_absolute_error), metrics::r2_score()};
  }
  model_.compile({.optimizer = options.optimizer, .outputs = {learns}});
}

std::map<std::string, Tensor> Estimator::predict(const BatchSource& source) {
  auto out = model_.predict(source);
  if (kind_ == Kind::regressor) return out;
  const Tensor& logits = out.at("logits");
  const std::int64_t rows = logits.shape()[0], classes = logits.shape()[1];
  Tensor ids(DType::i64, Shape{rows});
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* row = logits.data<float>() + i * classes;
    ids.mutable_data<std::int64_t>()[i] = std::max_element(row, row + classes) - row;
  }
  out.emplace("class_ids", std::move(ids));
  return out;
}

LinearClassifier::LinearClassifier(EstimatorOptions options)
    : Estimator(Kind::classifier, without_hidden_layers(std::move(options))) {}
LinearRegressor::LinearRegressor(EstimatorOptions options)
    : Estimator(Kind::regressor, without_hidden_layers(std::move(options))) {}

}  // namespace troupe
