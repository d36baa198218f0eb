// Means of values per example, on values computed with Keras 3.15 in float64.
#include "tests/error_of.hpp"
#include "tests/graph/messages.hpp"
#include "tests/graph/metrics/metric_case.hpp"

namespace troupe::testing {
namespace {

TEST(Metrics, AccuraciesEqualKeras) {
  const SixExamples d;
  d.expect(metrics::accuracy(), d.logits, d.classes, {2.0 / 3}, {0.5625});
  d.expect(metrics::accuracy(), d.logits, d.one_hot_classes(), {2.0 / 3}, {0.5625});
  d.expect(metrics::top_k_accuracy({.k = 1}), d.logits, d.classes, {2.0 / 3}, {0.5625});
  d.expect(metrics::top_k_accuracy({.k = 2}), d.logits, d.classes, {1}, {1});
  d.expect(metrics::top_k_accuracy({.k = 2}), d.logits, d.one_hot_classes(), {1}, {1});
  d.expect(metrics::binary_accuracy(), d.probabilities(), d.bits, {17.0 / 24}, {0.75});
  d.expect(metrics::binary_accuracy({.threshold = 0.3}), d.probabilities(), d.bits, {0.5}, {0.53125});
  d.expect(metrics::binary_accuracy({.threshold = 0.3, .from_logits = true}), d.logits, d.bits, {0.5}, {0.53125});
  d.expect(metrics::equality(), d.found_classes, d.classes, {2.0 / 3}, {0.5625});
  d.expect(metrics::mean_of_outputs(), d.logits, {}, {0.252083333333333}, {0.1390625});
  d.expect(metrics::sum_of_outputs(), d.logits, {}, {6.05}, {4.45});
}

TEST(Metrics, ErrorsEqualKeras) {
  const SixExamples d;
  const auto loss = [](Loss loss, LossOptions options = {}) { return metrics::loss(loss, options); };
  d.expect(loss(Loss::mean_squared_error), d.logits, d.numbers, {0.8690625}, {1.1808984375});
  d.expect(loss(Loss::mean_absolute_error), d.logits, d.numbers, {0.677083333333333}, {0.85234375});
  d.expect(loss(Loss::mean_absolute_percentage_error), d.logits, d.numbers, {33333535.405092593}, {75000226.28472222});
  d.expect(loss(Loss::mean_squared_logarithmic_error), d.sizes(d.logits), d.sizes(d.numbers), {0.172982186409831},
           {0.245105691820338});
  d.expect(metrics::root_mean_squared_error(), d.logits, d.numbers, {0.932235217099204}, {1.086691509813158});
  d.expect(metrics::cosine_similarity(), d.logits, d.numbers, {0.529941322707698}, {0.398965846862097});
  d.expect(loss(Loss::log_cosh), d.logits, d.numbers, {0.327214676725927}, {0.436355820062583},
           1e-8);  // Keras' log(2) is f32
  d.expect(loss(Loss::poisson), d.sizes(d.logits), d.sizes(d.numbers), {1.194860072641032}, {1.437522503235404});
  d.expect(loss(Loss::kl_divergence), d.softmax_of(d.logits), d.softmax_of(d.numbers), {0.335891023816948},
           {0.488915278324375});
  d.expect(loss(Loss::hinge), d.logits, d.signs(), {0.739583333333333}, {0.696875});
  d.expect(loss(Loss::squared_hinge), d.logits, d.signs(), {1.143020833333333}, {1.005078125});
  d.expect(loss(Loss::categorical_hinge), d.logits, d.one_hot_classes(), {0.85}, {1.03125});
  d.expect(loss(Loss::sigmoid_cross_entropy), d.logits, d.bits, {0.609290983143645}, {0.58399275431711});
  d.expect(loss(Loss::sigmoid_cross_entropy, {.from_logits = false}), d.probabilities(), d.bits, {0.609290983143645},
           {0.58399275431711});
  d.expect(loss(Loss::softmax_cross_entropy, {.from_logits = false}), d.softmax_of(d.logits), d.one_hot_classes(),
           {0.851186299525578}, {0.944769882672729});
  d.expect(loss(Loss::softmax_cross_entropy, {.label_smoothing = 0.1}), d.logits, d.one_hot_classes(),
           {0.944311299525578}, {1.030238632672729});
  d.expect(loss(Loss::sparse_softmax_cross_entropy), d.logits, d.classes, {0.851186299525578}, {0.944769882672729});
  d.expect(metrics::perplexity(), d.logits, d.classes, {std::exp(0.851186299525578)}, {std::exp(0.944769882672729)});
  d.expect(metrics::pearson_correlation(), d.logits, d.numbers, {0.486366718231725}, {0.288067087996986});
  // Keras adds 1e-7 to the denominator.
  d.expect(metrics::concordance_correlation(), d.logits, d.numbers, {0.463455267085037}, {0.304376568248998}, 1e-6);
  EXPECT_EQ(metrics::loss(Loss::hinge).name, "hinge");
  EXPECT_EQ(metrics::loss(Loss::hinge, {}, "mine").name, "mine");
}

TEST(Metrics, R2EqualsKeras) {
  const SixExamples d;
  using metrics::R2Average;
  d.expect(metrics::r2_score(), d.logits, d.numbers, {-0.990603089961827}, {-3.127202690066963});
  d.expect(metrics::r2_score({.average = R2Average::variance_weighted}), d.logits, d.numbers, {-0.535238913083482},
           {-2.062394347470987});
  d.expect(metrics::r2_score({.average = R2Average::none}), d.logits, d.numbers,
           {-2.834030100334447, 0.234195648449546, -1.556943423952976, 0.194365515990569},
           {-2.481338566961612, -0.415672913117547, -8.737373737373737, -0.874425542814954});
  const auto first_column = [](const Tensor& x) {
    Tensor y(DType::f64, Shape{6, 1});
    for (int i = 0; i < 6; ++i) y.mutable_data<double>()[i] = x.data<double>()[4 * i];
    return y;
  };
  d.expect(metrics::r2_score({.regressors = 2}), first_column(d.logits), first_column(d.numbers), {-5.390050167224078},
           {-4.802230944936021});
}

TEST(Metrics, TokensOfPaddingDoNotCountForPerplexity) {
  const SixExamples d;
  const MetricData sequences{.outputs = d.logits.reshaped(Shape{3, 2, 4}),
                             .targets = Tensor::of<std::int64_t>(Shape{3, 2}, {2, 0, 1, 0, 2, 3})};
  // log softmax at the three tokens that are not 0, from NumPy.
  const double entropies[] = {0.818080350382008, 0.8694844739767998, 0.2493575292846919, 1.3984915971796208};
  double total = 0;
  for (double e : entropies) total += e;
  expect_metric(metrics::perplexity({.ignore_class = 0}), sequences, {std::exp(total / 4)}, 1e-10);
}

TEST(Metrics, WeightsOfElementsScaleThem) {
  const MetricData data{.outputs = Tensor::of<double>(Shape{3, 2, 2}, {1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1}),
                        .targets = Tensor::of<std::int32_t>(Shape{3, 2}, {0, 0, 1, 0, 1, 1}),
                        .weights = Tensor::of<float>(Shape{3, 2}, {1, 2, 0, 1, 4, 0})};
  expect_metric(metrics::accuracy(), data, {(1 + 0 + 0 + 1 + 4 + 0) / 8.0});
}

TEST(Metrics, OnesOwnTakesTenLines) {
  const Metric within = metrics::mean_of("within", [](const MetricInputs& in) {
    const Output error = abs(in.outputs - in.targets);
    return less(error, scalar_like(error, 0.5));
  });
  const MetricData data{.outputs = Tensor::vector<float>({1, 2, 3, 4}), .targets = Tensor::vector<float>({1, 2, 9, 9})};
  expect_metric(within, data, {0.5});
}

TEST(Metrics, CountsAreExactAndDoNotDependOnThreads) {
  constexpr std::int64_t kRows = 40'000;
  Tensor outputs(DType::f32, Shape{kRows, 8}), weights(DType::f32, Shape{kRows});
  Tensor classes(DType::i32, Shape{kRows});
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t j = 0; j < 8; ++j)
      outputs.mutable_data<float>()[8 * i + j] = static_cast<float>((i * 8 + j) * 7919 % 1013) / 7;
    const float* row = outputs.data<float>() + 8 * i;
    classes.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(i % 8);
    right += std::max_element(row, row + 8) - row == i % 8;
    weights.mutable_data<float>()[i] = 1.0f / static_cast<float>(i % 97 + 1);
  }
  const Tensor counts = sums_of(metrics::accuracy(), {outputs, classes, {}}, 0, kRows);
  EXPECT_EQ(counts.data<double>()[0], static_cast<double>(right));
  EXPECT_EQ(counts.data<double>()[1], static_cast<double>(kRows));
  for (const Metric& metric : {metrics::accuracy(), metrics::perplexity(),
                               metrics::loss(Loss::sparse_softmax_cross_entropy), metrics::top_k_accuracy({.k = 3})}) {
    const MetricData data{outputs, classes, weights};
    EXPECT_TRUE(bitwise_equal(sums_of(metric, data, 0, kRows, 1), sums_of(metric, data, 0, kRows, 4))) << metric.name;
  }
}

TEST(Metrics, NoExamplesHaveResultZero) {
  const Metric metric = metrics::accuracy();
  EXPECT_EQ(metric.result(Tensor::vector<double>({0, 0})).item<double>(), 0);
}

TEST(Metrics, InputsThatDoNotFitAreRefused) {
  Graph g;
  const Output rows = placeholder(g, DType::f32, Shape{kUnknown, 3}, "rows");
  const Output column = placeholder(g, DType::f32, Shape{kUnknown, 1}, "column");
  const Output n = placeholder(g, DType::i32, Shape{kUnknown}, "n");
  const Output unknown = placeholder(g, DType::f32, Shape::unknown_rank(), "unknown");
  const auto refused = [](const Metric& metric, const MetricInputs& in) {
    return message_of([&] { metric.sums(in); });
  };
  EXPECT_EQ(refused(metrics::accuracy(), {rows, column, {}}),
            "metric 'accuracy': the targets 'column' are [?,1], but must be classes or rows of the outputs' [?,3]");
  EXPECT_EQ(refused(metrics::accuracy(), {column, n, {}}),
            "metric 'accuracy': the outputs 'column' are [?,1], but need a last dimension of at least two classes");
  EXPECT_EQ(refused(metrics::accuracy(), {unknown, n, {}}),
            "metric 'accuracy': the outputs 'unknown' are [?...], but must have a known rank and a dimension for the "
            "examples");
  EXPECT_EQ(
      refused(metrics::binary_accuracy(), {column, n, {}}),
      "metric 'binary_accuracy': cannot compare outputs 'column' [?,1] with targets 'n' [?]: reshape one of them");
  EXPECT_EQ(refused(metrics::accuracy(), {rows, n, n}),
            "metric 'accuracy': the weights 'n' are i32, but must be floating");
  EXPECT_EQ(refused(metrics::accuracy(), {rows, n, column}),
            "metric 'accuracy': the weights 'column' are [?,1], but must have leading dimensions of [?]");
  EXPECT_EQ(refused(metrics::accuracy(), {rows, {}, {}}), "metric 'accuracy': the targets are not a tensor");
  EXPECT_EQ(message_of([] { metrics::top_k_accuracy({.k = 0}); }),
            "metric 'top_k_accuracy': k is 0, but must be at least 1");
  EXPECT_EQ(message_of([] { metrics::binary_accuracy({.threshold = 1}); }),
            "metric 'binary_accuracy': the threshold 1 is not in (0, 1)");
}

}  // namespace
}  // namespace troupe::testing
