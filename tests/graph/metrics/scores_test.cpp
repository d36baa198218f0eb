// Metrics of thresholds and classes, on values computed with Keras 3.15 in float64.
#include "tests/graph/messages.hpp"
#include "tests/graph/metrics/metric_case.hpp"
#include <troupe/graph/metrics/classes.hpp>
#include <troupe/graph/metrics/scores.hpp>

namespace troupe::testing {
namespace {

using namespace metrics;

TEST(Scores, OfThresholdsEqualKeras) {
  const SixExamples d;
  const Tensor p = d.probabilities();
  const std::vector<double> three = {0.2, 0.5, 0.8};
  d.expect(precision(), p, d.bits, {0.5625}, {0.609756097560976});
  d.expect(precision({.from_logits = true}), d.logits, d.bits, {0.5625}, {0.609756097560976});
  d.expect(precision({.thresholds = three}), p, d.bits, {0.409090909090909, 0.5625, 0.5},
           {0.431034482758621, 0.609756097560976, 0.363636363636364});
  d.expect(precision({.top_k = 2}), p, d.bits, {0.75}, {0.78125});
  d.expect(precision({.class_id = 2}), p, d.bits, {0.75}, {1});
  d.expect(recall(), p, d.bits, {1}, {1});
  d.expect(recall({.thresholds = three}), p, d.bits, {1, 1, 0.222222222222222}, {1, 1, 0.16});
  d.expect(recall({.thresholds = {0.3}, .top_k = 1, .class_id = 2}), p, d.bits, {2.0 / 3}, {0.555555555555556});
  d.expect(true_positives(), p, d.bits, {9}, {12.5});
  d.expect(false_positives(), p, d.bits, {7}, {8});
  d.expect(true_negatives(), p, d.bits, {8}, {11.5});
  d.expect(false_negatives(), p, d.bits, {0}, {0});
  const std::vector<double> two = {0.3, 0.6};
  d.expect(true_positives({.thresholds = two}), p, d.bits, {9, 7}, {12.5, 10});
  d.expect(false_positives({.thresholds = two}), p, d.bits, {12, 3}, {15, 3.5});
  d.expect(true_negatives({.thresholds = two}), p, d.bits, {3, 12}, {4.5, 16});
  d.expect(false_negatives({.thresholds = two}), p, d.bits, {0, 2}, {0, 2.5});
}

TEST(Scores, AreasEqualKeras) {
  const SixExamples d;
  const Tensor p = d.probabilities();
  d.expect(auc(), p, d.bits, {0.82962962962963}, {0.848205128205128});
  d.expect(auc({.num_thresholds = 50, .from_logits = true}), d.logits, d.bits, {0.82962962962963}, {0.848205128205128});
  d.expect(auc({.thresholds = {0.2, 0.4, 0.7}}), p, d.bits, {0.677777777777778}, {0.651794871794872});
  d.expect(auc({.curve = Curve::pr}), p, d.bits, {0.66083939770142}, {0.692078881547052});
  d.expect(auc({.curve = Curve::pr, .sum = AreaSum::minoring}), p, d.bits, {0.512506012506012}, {0.505232863754603});
  d.expect(auc({.curve = Curve::pr, .sum = AreaSum::majoring}), p, d.bits, {0.692266992266992}, {0.740202465006813});
  d.expect(auc({.curve = Curve::pr_gain}), p, d.bits, {0.611938775510204}, {0.588315664036818});
  d.expect(auc({.curve = Curve::pr_gain, .sum = AreaSum::minoring}), p, d.bits, {0.553367346938776},
           {0.431295613187585});
  d.expect(auc({.multi_label = true}), p, d.bits, {0.819444444444444}, {0.81547619047619});
  d.expect(auc({.curve = Curve::pr, .multi_label = true, .label_weights = {1, 2, 0.5, 1}}), p, d.bits,
           {0.60812378597878}, {0.583383439074915});
  d.expect(auc({.label_weights = {1, 2, 0.5, 1}}), p, d.bits, {0.810526315789474}, {0.733605720122574});
}

TEST(Scores, AtAnotherScoreEqualKeras) {
  const SixExamples d;
  const Tensor p = d.probabilities();
  d.expect(precision_at_recall({.at = 0.6}), p, d.bits, {0.7}, {0.78125});
  d.expect(precision_at_recall({.at = 0.6, .thresholds = 1}), p, d.bits, {0.5625}, {0.609756097560976});
  d.expect(precision_at_recall({.at = 0.6, .thresholds = 20, .class_id = 3}), p, d.bits, {1}, {1});
  d.expect(recall_at_precision({.at = 0.6}), p, d.bits, {1}, {1});
  d.expect(sensitivity_at_specificity({.at = 0.7}), p, d.bits, {1}, {1});
  d.expect(specificity_at_sensitivity({.at = 0.7}), p, d.bits, {0.8}, {0.82051282051282});
  d.expect(precision_at_recall({.at = 0.6, .from_logits = true}), d.logits, d.bits, {0.7}, {0.78125});
}

// A threshold is as precise as the outputs: 0.1 of f32 does not exceed 0.1, although it is greater than 0.1 of f64.
TEST(Scores, ThresholdsAreComparedInTheOutputsPrecision) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Tensor outputs(dtype, Shape{3});
    if (dtype == DType::f32) {
      outputs = Tensor::vector<float>({0.1f, 0.1f, 0.1f});
    } else {
      outputs = Tensor::vector<double>({0.1, 0.1, 0.1});
    }
    expect_metric(true_positives({.thresholds = {0.1}}), {outputs, Tensor::vector<float>({1, 1, 1}), {}}, {0});
  }
}

TEST(Scores, OfThresholdsDoNotDependOnThreads) {
  constexpr std::int64_t kRows = 30'000;
  MetricData data{Tensor(DType::f32, Shape{kRows, 4}), Tensor(DType::f32, Shape{kRows, 4}),
                  Tensor(DType::f32, Shape{kRows})};
  for (std::int64_t i = 0; i < 4 * kRows; ++i) {
    data.outputs.mutable_data<float>()[i] = static_cast<float>(i * 7919 % 1013) / 1013;
    data.targets.mutable_data<float>()[i] = static_cast<float>(i * 31 % 7 < 3);
    data.weights.mutable_data<float>()[i / 4] = 1 / static_cast<float>(i % 97 + 1);
  }
  for (const Metric& metric : {auc(), auc({.multi_label = true}), f1(), recall({.top_k = 2}), mean_iou({.classes = 4})})
    EXPECT_TRUE(bitwise_equal(sums_of(metric, data, 0, kRows, 1), sums_of(metric, data, 0, kRows, 4))) << metric.name;
}

// Keras adds 1e-7 to denominators.
TEST(ClassScores, EqualKeras) {
  const SixExamples d;
  const Tensor p = d.probabilities(), q = d.softmax_of(d.logits), one_hot = d.one_hot_classes();
  const auto expect = [&](Average average, const std::vector<double>& of_f1, const std::vector<double>& f1_weighted,
                          const std::vector<double>& of_f2, const std::vector<double>& f2_weighted) {
    d.expect(f1({.average = average}), q, one_hot, of_f1, f1_weighted, 3e-7);
    d.expect(f1({.average = average}), q, d.classes, of_f1, f1_weighted, 3e-7);
    d.expect(f_beta({.average = average, .threshold = 0.5, .beta = 2}), p, d.bits, of_f2, f2_weighted, 3e-7);
  };
  expect(Average::micro, {2.0 / 3}, {0.5625}, {0.865384580436391}, {0.886524790629245});
  expect(Average::macro, {0.583333263888893}, {0.39285710607143}, {0.859374939941409}, {0.841878592309029});
  expect(Average::weighted, {0.555555483333338}, {0.455357094754467}, {0.868055486665705}, {0.905256967091538});
  expect(Average::none, {2.0 / 3, 2.0 / 3, 1, 0}, {0, 4.0 / 7, 1, 0}, {5.0 / 6, 5.0 / 6, 0.9375, 5.0 / 6},
         {0.588235228373706, 5.0 / 6, 1, 0.945945897370345});
  // By hand, of the confusion matrix.
  d.expect(class_precision({.average = Average::none}), q, d.classes, {0.5, 0.5, 1, 0}, {0, 0.4, 1, 0});
  d.expect(class_recall({.average = Average::none}), q, d.classes, {1, 1, 1, 0}, {0, 1, 1, 0});
}

TEST(ClassScores, ConfusionMatricesAndUnionsEqualKeras) {
  const SixExamples d;
  const Tensor p = d.probabilities(), one_hot = d.one_hot_classes();
  d.expect(confusion_matrix({.classes = 4}), d.found_classes, d.classes,
           {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 1, 1, 0, 0}, {0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2.5, 0, 0.5, 3, 0, 0});
  EXPECT_EQ(confusion_matrix({.classes = 4}).result(Tensor::zeros(DType::f64, Shape{4, 4})).shape(), (Shape{4, 4}));
  d.expect(mean_iou({.classes = 4}), d.found_classes, d.classes, {0.5}, {0.35});
  d.expect(mean_iou({.classes = 4}), d.logits, d.classes, {0.5}, {0.35});
  d.expect(mean_iou({.classes = 4}), d.logits, one_hot, {0.5}, {0.35});
  d.expect(mean_iou({.classes = 4, .ignore_class = 3}), d.found_classes, d.classes, {1}, {1});
  d.expect(mean_iou({.classes = 4, .of_classes = {1, 2}}), d.found_classes, d.classes, {0.75}, {0.7});
  expect_metric(mean_iou({.threshold = 0.55, .of_classes = {1}}), {p, d.bits, {}}, {8.0 / 13});
  // Classes that the matrix does not have.
  d.expect(confusion_matrix({.classes = 2}), d.found_classes, d.classes, {1, 0, 0, 1}, {0, 0, 0, 2});
}

TEST(Scores, OptionsAndInputsThatDoNotFitAreRefused) {
  EXPECT_EQ(message_of([] { precision({.thresholds = {0.5, 0.2}}); }), "metric 'precision': thresholds must ascend");
  EXPECT_EQ(message_of([] { recall({.thresholds = {1.5}}); }), "metric 'recall': the threshold 1.5 is not in [0, 1]");
  EXPECT_EQ(message_of([] { auc({.num_thresholds = 1}); }), "metric 'auc': 1 thresholds: pass 2 or more");
  EXPECT_EQ(message_of([] { precision_at_recall({.at = 2}); }), "metric 'precision_at_recall': 2 is not in [0, 1]");
  EXPECT_EQ(message_of([] { mean_iou({.classes = 3, .threshold = 0.5}); }),
            "metric 'mean_iou': a threshold makes two classes, not 3");
  EXPECT_EQ(message_of([] { mean_iou({.classes = 3, .of_classes = {3}}); }),
            "metric 'mean_iou': class 3 is not in [0, 3)");
  EXPECT_EQ(message_of([] { f1({.beta = 2}); }), "metric 'f1': beta is 2: use f_beta()");
  Graph g;
  const Output rows = placeholder(g, DType::f32, Shape{kUnknown, 3}, "rows");
  const Output wide = placeholder(g, DType::f32, Shape{kUnknown, kUnknown}, "wide");
  const Output n = placeholder(g, DType::f32, Shape{kUnknown}, "n");
  const auto refused = [](const Metric& metric, const MetricInputs& in) {
    return message_of([&] { metric.sums(in); });
  };
  EXPECT_EQ(refused(precision({.class_id = 3}), {rows, rows, {}}), "metric 'precision': class_id 3 is not in [0, 3)");
  EXPECT_EQ(refused(precision({.top_k = 4}), {rows, rows, {}}),
            "metric 'precision': top_k is 4, but there are 3 classes");
  EXPECT_EQ(refused(f1(), {wide, wide, {}}),
            "metric 'f1': the outputs 'wide' are [?,?], but need a last dimension of known size");
  EXPECT_EQ(refused(f1(), {rows, n, {}}),
            "metric 'f1': outputs 'rows' [?,3] and targets 'n' f32 [?] must be [n,c] and [n,c], or classes [n]");
  EXPECT_EQ(refused(mean_iou(), {n, n, {}}),
            "metric 'mean_iou': 'n' is f32 [?]: classes must be integers, or rows with a score for each");
}

}  // namespace
}  // namespace troupe::testing
