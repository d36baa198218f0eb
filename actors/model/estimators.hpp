// Linear models and simple neural networks over named features, as tf.estimator has them: each is a Model.
//
//   using namespace feature_columns;
//   DNNClassifier classifier({.columns = {numeric("age"), embedding(categorical_with_hash("town", 1000), 8)},
//                             .hidden_units = {64, 32},
//                             .classes = 3});
//   classifier.train(people, {.epochs = 10, .batch = 64});
//   fmt::print("{}\n", classifier.evaluate(others)["accuracy"]);
//   classifier.export_model("people-model");
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <troupe/actors/model/model.hpp>

namespace troupe {

// A component of a batch, and how it becomes numbers [n, width].
struct FeatureColumn {
  InputSpec input{};
  std::function<Symbol(const Symbol&)> numbers{};
  // Of categorical ones: ids [n] in [0, categories). As they are, they become one-hot numbers.
  std::function<Symbol(const Symbol&)> ids{};
  std::int64_t categories = 0;
};

// Throw invalid_argument for options that the layers behind them refuse.
namespace feature_columns {

// f32 of this shape, flattened. With both, (x - mean) / sqrt(variance) first (FeatureStatistics).
FeatureColumn numeric(std::string key, Shape shape = {}, Tensor mean = {}, Tensor variance = {});
// A number as one of so many buckets: x < b[0], b[0] <= x < b[1], ...
FeatureColumn bucketized(std::string key, std::vector<double> boundaries);
// Strings; one more category for what is not in the vocabulary.
FeatureColumn categorical_with_vocabulary(std::string key, std::vector<std::string> vocabulary);
FeatureColumn categorical_with_hash(std::string key, std::int64_t buckets);
// i64 in [0, categories).
FeatureColumn categorical_with_identity(std::string key, std::int64_t categories);
// A learnt vector for each category. Throws invalid_argument for a column that is not categorical.
FeatureColumn embedding(FeatureColumn categorical, std::int64_t dimension);

}  // namespace feature_columns

struct EstimatorOptions {
  std::vector<FeatureColumn> columns{};      // one component may be in several
  std::vector<std::int64_t> hidden_units{};  // of DNN estimators
  Activation activation = Activation::relu;
  double dropout = 0;
  std::int64_t classes = 2;     // of classifiers
  std::string label = "label";  // a component: classes i32 or i64 [n]; of regressors f32 [n, 1]
  std::string weight{};         // a component, weights of examples f32 [n]; "": none
  Optimizer optimizer = optimizers::Adagrad{.learning_rate = 0.05};
};

class Estimator {
 public:
  enum class Kind { classifier, regressor };
  // Throws invalid_argument without columns, and for less than 2 classes.
  Estimator(Kind kind, const EstimatorOptions& options);

  TrainingResult train(const BatchSource& source, const TrainingOptions& options) {
    return model_.fit(source, options);
  }
  // "loss", and "accuracy" or "mean_absolute_error" and "r2_score".
  Evaluation evaluate(const BatchSource& source) { return model_.evaluate(source); }
  // Classifiers: "logits" and "probabilities" [n, classes], "class_ids" i64 [n]; regressors: "predictions" [n, 1].
  std::map<std::string, Tensor> predict(const BatchSource& source);
  // A directory as of Model::save().
  void export_model(const std::string& directory) { model_.save(directory); }
  Model& model() { return model_; }

 private:
  Kind kind_;
  Model model_;
};

// Without hidden layers: weights of all columns' numbers, which are added up.
struct LinearClassifier : Estimator {
  explicit LinearClassifier(EstimatorOptions options);
};
struct LinearRegressor : Estimator {
  explicit LinearRegressor(EstimatorOptions options);
};
struct DNNClassifier : Estimator {
  explicit DNNClassifier(const EstimatorOptions& options) : Estimator(Kind::classifier, options) {}
};
struct DNNRegressor : Estimator {
  explicit DNNRegressor(const EstimatorOptions& options) : Estimator(Kind::regressor, options) {}
};

}  // namespace troupe
