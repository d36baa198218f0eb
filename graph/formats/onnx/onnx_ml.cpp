// Linear models, and what prepares their features, of ai.onnx.ml.
#include "troupe/graph/formats/onnx/onnx_ml.hpp"

#include <cmath>

#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

std::vector<double> no_reals() { return {}; }

Output floating_features(Output x) { return x.dtype() == DType::f64 ? x : cast(x, DType::f32); }

// Refuses a list that has neither one element nor one for each of the features of x, where their number is known.
void check_features(const char* name, std::size_t size, const Shape& x) {
  if (size == 1 || !x.has_rank() || x.rank() == 0 || x[-1] == kUnknown) return;
  if (static_cast<std::int64_t>(size) != x[-1])
    invalid_argument("attribute '{}' has {} elements, but there are {} features", name, size, x[-1]);
}

Output features_attr(const OnnxNode& node, const char* name, Output x) {
  const std::vector<double> values = node.reals(name);
  check_features(name, values.size(), x.shape());
  return constant(*x.graph, vector_of(values, x.dtype()));
}

void scaler_node(OnnxNode& node) {
  Output x = floating_features(node.in(0));
  if (!node.reals("offset", no_reals()).empty()) x = x - features_attr(node, "offset", x);
  if (!node.reals("scale", no_reals()).empty()) x = x * features_attr(node, "scale", x);
  node.set(cast(x, DType::f32));
}

void normalizer_node(OnnxNode& node) {
  const std::string norm = node.string("norm", "MAX");
  const Output x = floating_features(node.in(0));
  if (norm != "MAX" && norm != "L1" && norm != "L2")
    invalid_argument("attribute 'norm' must be MAX, L1 or L2, not '{}'", norm);
  const ReduceOptions keep{.keep_dims = true};
  const Output size = norm == "MAX"  ? max(x, {-1}, keep)
                      : norm == "L1" ? reduce_l1(x, {-1}, keep)
                                     : reduce_l2(x, {-1}, keep);
  const Output none = equal(size, scalar_like(size, 0));
  node.set(cast(x / select(none, ones_like(size), size), DType::f32));
}

void imputer_node(OnnxNode& node) {
  const Output x = node.in(0);
  Output replaced{}, missing{};
  if (is_floating(x.dtype())) {
    replaced = features_attr(node, "imputed_value_floats", x);
    const double value = node.real("replaced_value_float", 0);
    missing = std::isnan(value) ? is_nan(x) : equal(x, scalar_like(x, value));
  } else {
    const Integers values = node.integers("imputed_value_int64s");
    check_features("imputed_value_int64s", values.size(), x.shape());
    replaced = cast(constant(node.graph(), Tensor::of<std::int64_t>(Shape{std::ssize(values)}, values)), x.dtype());
    const std::int64_t value = node.integer("replaced_value_int64", 0);
    missing = equal(cast(x, DType::i64), constant(node.graph(), value));
  }
  node.set(select(missing, replaced, x));
}

void binarizer_node(OnnxNode& node) {
  const Output x = node.in(0);
  const double threshold = node.real("threshold", 0);
  // Integers are compared with a threshold that may be none.
  const Output above = is_floating(x.dtype()) ? greater(x, scalar_like(x, threshold))
                                              : greater(cast(x, DType::f64), constant(node.graph(), threshold));
  node.set(cast(above, x.dtype()));
}

void feature_vectorizer_node(OnnxNode& node) {
  const Integers sizes = node.integers("inputdimensions", Integers{});
  if (!sizes.empty() && std::ssize(sizes) != node.num_inputs())
    invalid_argument("attribute 'inputdimensions' has {} elements for {} inputs", sizes.size(), node.num_inputs());
  Outputs parts;
  for (int i = 0; i < node.num_inputs(); ++i) {
    Output x = cast(feature_rows(node.in(i)), DType::f32);
    if (!sizes.empty()) {
      const std::int64_t wanted = sizes[static_cast<std::size_t>(i)];
      const Shape& shape = x.shape();
      if (!shape.has_rank() || shape.rank() != 2 || shape[1] == kUnknown)
        fail(Code::unimplemented, "input {} is {}: its number of columns must be known", i, shape.to_string());
      if (wanted < 0) invalid_argument("element {} of attribute 'inputdimensions' is {}", i, wanted);
      if (shape[1] != wanted) x = pad(x, {0, 0}, {0, wanted - shape[1]});
    }
    parts.push_back(x);
  }
  node.set(parts.size() == 1 ? parts[0] : concat(parts, 1));
}

void array_feature_extractor_node(OnnxNode& node) {
  Output x = node.in(0);
  if (x.shape().has_rank() && x.shape().rank() == 1) x = expand_dims(x, 0);
  node.set(gather(x, reshape(node.in(1), Shape{kUnknown}), {.axis = -1}));
}

// ---- linear models

// x w^T + b: coefficients [targets,features], of targets that the number of intercepts says, or else `targets`.
Output linear_scores(OnnxNode& node, std::int64_t targets) {
  const Output x = feature_rows(node.in(0));
  const std::vector<double> weights = node.reals("coefficients");
  const std::int64_t size = std::ssize(weights);
  if (targets < 1 || size == 0 || size % targets != 0)
    invalid_argument("attribute 'coefficients' has {} elements for {} targets", size, targets);
  const Tensor w = vector_of(weights, x.dtype()).reshaped(Shape{targets, size / targets});
  Output y = matmul(x, constant(node.graph(), w), {.transpose_b = true});
  const std::vector<double> intercepts = node.reals("intercepts", no_reals());
  if (intercepts.empty()) return y;
  if (std::ssize(intercepts) != targets)
    invalid_argument("attribute 'intercepts' has {} elements for {} targets", intercepts.size(), targets);
  return y + constant(node.graph(), vector_of(intercepts, x.dtype()));
}

void linear_regressor_node(OnnxNode& node) {
  const Output y = linear_scores(node, node.integer("targets", 1));
  node.set(cast(post_transformed(y, node.string("post_transform", "NONE")), DType::f32));
}

void linear_classifier_node(OnnxNode& node) {
  const Tensor labels = class_labels(node, "classlabels_ints", "classlabels_strings");
  const std::int64_t classes = labels.num_elements();
  const auto intercepts = std::ssize(node.reals("intercepts", no_reals()));
  const std::string transform = node.string("post_transform", "NONE");
  if (classes == 2 && intercepts == 1) {  // one score says which of two it is
    const Output s = linear_scores(node, 1);
    const Output second = greater(s, scalar_like(s, 0));
    return set_classes(node, squeeze(cast(second, DType::i64), {1}), two_scores(s, true, transform), labels);
  }
  const Output y = linear_scores(node, classes);
  set_classes(node, arg_max(y, 1), post_transformed(y, transform), labels);
}

// The probabilities stay a tensor: its type has the classes of the columns.
void zip_map_node(OnnxNode& node) {
  const Tensor labels = class_labels(node, "classlabels_int64s", "classlabels_strings");
  const Output x = feature_rows(node.in(0));
  if (x.shape().has_rank() && x.shape()[-1] != kUnknown && x.shape()[-1] != labels.num_elements())
    invalid_argument("has {} labels for {} columns", labels.num_elements(), x.shape()[-1]);
  node.set(0, x, {.lists = {}, .dtype = x.dtype(), .shape = x.shape(), .classes = labels});
}

constexpr OnnxOp kMlOps[] = {
    {"ArrayFeatureExtractor", array_feature_extractor_node},
    {"Binarizer", binarizer_node},
    {"FeatureVectorizer", feature_vectorizer_node},
    {"Imputer", imputer_node},
    {"LinearClassifier", linear_classifier_node},
    {"LinearRegressor", linear_regressor_node},
    {"Normalizer", normalizer_node},
    {"Scaler", scaler_node},
    {"ZipMap", zip_map_node},
};

}  // namespace

std::span<const OnnxOp> onnx_ml_ops() { return kMlOps; }

}  // namespace troupe
