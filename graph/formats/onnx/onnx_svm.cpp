// Support vector machines of ai.onnx.ml, computed in f64: distances of vectors that are close lose digits.
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/formats/onnx/onnx_ml.hpp>

namespace troupe {
namespace {

Output matrix_of(const OnnxNode& node, const std::vector<double>& values, std::int64_t rows) {
  const Tensor flat = vector_of(values, DType::f64);
  return constant(node.graph(), flat.reshaped(Shape{rows, flat.num_elements() / rows}));
}

// The kernel of each row of x [n,f] and each of the support vectors [k,f]: [n,k]. Its formulas and parameters (gamma,
// coef0, degree) are those of LIBSVM.
Output svm_kernel(const OnnxNode& node, Output x, std::int64_t vectors) {
  const std::vector<double> values = node.reals("support_vectors"),
                            given = node.reals("kernel_params", std::vector<double>{});
  if (values.empty() || std::ssize(values) % vectors != 0)
    invalid_argument("attribute 'support_vectors' has {} elements for {} vectors", values.size(), vectors);
  if (!given.empty() && given.size() != 3)
    invalid_argument("attribute 'kernel_params' has {} elements, not 3", given.size());
  const double gamma = given.empty() ? 0 : given[0], coef0 = given.empty() ? 0 : given[1];
  const double degree = given.empty() ? 0 : given[2];
  const std::string type = node.string("kernel_type", "LINEAR");
  const Output support = matrix_of(node, values, vectors);
  const Output product = matmul(x, support, {.transpose_b = true});
  if (type == "LINEAR") return product;
  if (type == "POLY") return pow(product * gamma + coef0, constant(node.graph(), degree));
  if (type == "SIGMOID") return tanh(product * gamma + coef0);
  if (type != "RBF") invalid_argument("attribute 'kernel_type' must be LINEAR, POLY, RBF or SIGMOID, not '{}'", type);
  const Output distances = sum(square(x), {-1}, {.keep_dims = true}) + sum(square(support), {-1}) - product * 2.0;
  return exp(distances * -gamma);
}

void svm_regressor_node(OnnxNode& node) {
  const Output x = cast(feature_rows(node.in(0)), DType::f64);
  const std::int64_t vectors = node.integer("n_supports", 0);
  const std::vector<double> coefficients = node.reals("coefficients"), rho = node.reals("rho");
  if (rho.size() != 1) invalid_argument("attribute 'rho' has {} elements, not 1", rho.size());
  if (vectors < 0 || coefficients.empty() || (vectors > 0 && std::ssize(coefficients) != vectors))
    invalid_argument("attribute 'coefficients' has {} elements for {} support vectors", coefficients.size(), vectors);
  const Output features = vectors > 0 ? svm_kernel(node, x, vectors) : x;
  Output y = matmul(features, matrix_of(node, coefficients, 1), {.transpose_b = true}) + rho[0];
  if (node.integer("one_class", 0) != 0) y = select(greater(y, zeros_like(y)), ones_like(y), -ones_like(y));
  node.set(cast(post_transformed(y, node.string("post_transform", "NONE")), DType::f32));
}

// Of each pair of classes i < j, the decision value [n,pairs]; positive: i.
Output svm_decisions(OnnxNode& node, Output x, const Integers& per_class) {
  const std::int64_t classes = std::ssize(per_class), pairs = classes * (classes - 1) / 2;
  std::int64_t vectors = 0;
  Integers first;
  for (const std::int64_t count : per_class) {
    if (count < 0 || count > std::ssize(node.reals("coefficients")))
      invalid_argument("attribute 'vectors_per_class' has {}", count);
    first.push_back(vectors);
    vectors += count;
  }
  const std::vector<double> coefficients = node.reals("coefficients"), rho = node.reals("rho");
  if (vectors < 1 || std::ssize(coefficients) != vectors * (classes - 1))
    invalid_argument("attribute 'coefficients' has {} elements for {} vectors and {} classes", coefficients.size(),
                     vectors, classes);
  if (std::ssize(rho) != pairs)
    invalid_argument("attribute 'rho' has {} elements for {} pairs of classes", rho.size(), pairs);
  std::vector<double> weights(static_cast<std::size_t>(vectors * pairs));
  std::int64_t pair = 0;
  for (std::int64_t i = 0; i < classes; ++i)
    for (std::int64_t j = i + 1; j < classes; ++j, ++pair)
      for (const auto& [own, other] : {std::pair{i, j}, std::pair{j, i}}) {
        const std::int64_t row = own < other ? other - 1 : other;
        for (std::int64_t k = 0; k < per_class[static_cast<std::size_t>(own)]; ++k) {
          const std::int64_t v = first[static_cast<std::size_t>(own)] + k;
          weights[static_cast<std::size_t>(v * pairs + pair)] =
              coefficients[static_cast<std::size_t>(row * vectors + v)];
        }
      }
  return matmul(svm_kernel(node, x, vectors), matrix_of(node, weights, vectors)) +
         constant(node.graph(), vector_of(rho, DType::f64));
}

// The class that most pairs decide for, the first of several.
Output svm_votes(Output decisions, std::int64_t classes) {
  const std::int64_t pairs = classes * (classes - 1) / 2;
  std::vector<double> yes(static_cast<std::size_t>(pairs * classes)), no = yes;
  std::int64_t pair = 0;
  for (std::int64_t i = 0; i < classes; ++i)
    for (std::int64_t j = i + 1; j < classes; ++j, ++pair) {
      yes[static_cast<std::size_t>(pair * classes + i)] = 1;
      no[static_cast<std::size_t>(pair * classes + j)] = 1;
    }
  const auto matrix = [&](const std::vector<double>& values) {
    return constant(*decisions.graph, vector_of(values, DType::f64).reshaped(Shape{pairs, classes}));
  };
  const Output for_first = cast(greater(decisions, zeros_like(decisions)), DType::f64);
  return arg_max(matmul(for_first, matrix(yes)) + matmul(1.0 - for_first, matrix(no)), 1);
}

void svm_classifier_node(OnnxNode& node) {
  const Tensor labels = class_labels(node, "classlabels_ints", "classlabels_strings");
  const std::int64_t classes = labels.num_elements();
  if (!node.reals("prob_a", std::vector<double>{}).empty())
    fail(Code::unimplemented, "probabilities (attributes prob_a and prob_b) are not supported");
  const Integers per_class = node.integers("vectors_per_class", Integers{});
  if (per_class.empty()) fail(Code::unimplemented, "a model without support vectors is not supported");
  if (classes < 2 || std::ssize(per_class) != classes)
    invalid_argument("attribute 'vectors_per_class' has {} elements for {} classes", per_class.size(), classes);
  const Output decisions = svm_decisions(node, cast(feature_rows(node.in(0)), DType::f64), per_class);
  const Output scores = classes == 2 ? concat({-decisions, decisions}, 1) : decisions;
  const Output indices = svm_votes(decisions, classes);
  const Output transformed = post_transformed(scores, node.string("post_transform", "NONE"));
  if (classes == 2) return set_classes(node, indices, transformed, labels);
  // The columns are pairs of classes, and have no labels.
  node.set(0, gather(constant(node.graph(), labels), indices));
  node.set(1, cast(transformed, DType::f32));
}

constexpr OnnxOp kSvmOps[] = {
    {"SVMClassifier", svm_classifier_node},
    {"SVMRegressor", svm_regressor_node},
};

}  // namespace

std::span<const OnnxOp> onnx_svm_ops() { return kSvmOps; }

}  // namespace troupe
