// Losses, on values computed with PyTorch 1.13 in float64.
#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>
#include <troupe/graph/layers/losses.hpp>

namespace troupe::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void expect_values(const std::vector<double>& got, const std::vector<double>& want, const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (std::isfinite(want[i]))
      EXPECT_NEAR(got[i], want[i], 1e-12) << what << ' ' << i;
    else
      EXPECT_EQ(got[i], want[i]) << what << ' ' << i;
}

Tensor matrix(std::initializer_list<double> values) { return Tensor::of<double>(Shape{2, 3}, values); }

TEST(Losses, EqualPyTorchs) {
  Graph g;
  GraphEvaluator run;
  const Output x = constant(g, matrix({0.2, -1.5, 0.7, 2.0, 0.1, -0.4}));
  const Output y = constant(g, matrix({0.5, -0.25, 0.7, -1.0, 1.0, 0.3}));
  const Output signs = constant(g, matrix({1, -1, 1, -1, -1, 1}));
  const Output bits = constant(g, matrix({1, 0, 1, 0, 0, 1}));
  const Output one_hot_labels = constant(g, matrix({0, 0, 1, 0, 1, 0}));
  const Output classes = constant<std::int32_t>(g, {2, 1});
  const Output p = constant(g, matrix({0.5, 0.5, 0, 0.2, 0.3, 0.5}));
  const Output q = softmax(x);
  const auto expect = [&](Loss loss, Output outputs, Output targets, const std::vector<double>& want,
                          const char* what) {
    expect_values(doubles(run.run(losses::per_example(loss, outputs, targets))), want, what);
  };
  expect(Loss::huber, x, y, {0.265, 1.05}, "huber");
  expect(Loss::mean_absolute_error, x, y, {0.516666666666667, 1.53333333333333}, "mean_absolute_error");
  expect(Loss::log_cosh, x, y, {0.226694441219515, 0.965476387967473}, "log_cosh");
  expect(Loss::hinge, x, signs, {0.366666666666667, 1.83333333333333}, "hinge");
  expect(Loss::squared_hinge, x, signs, {0.243333333333333, 4.05666666666667}, "squared_hinge");
  expect(Loss::kl_divergence, q, p, {1.19762580183811, 0.955689445715849}, "kl_divergence");
  expect(Loss::poisson, q, p, {0.963590688626796, 0.995113834202543}, "poisson");
  expect(Loss::categorical_hinge, x, one_hot_labels, {0.5, 2.9}, "categorical_hinge");
  expect(Loss::cosine_distance, x, y, {0.353925805421233, 1.68424274122763}, "cosine_distance");
  expect(Loss::binary_focal, x, bits, {0.0154759637872918, 0.491079830416002}, "binary_focal");
  expect(Loss::focal, x, classes, {0.0235878393571993, 0.40897949549332}, "focal");
  expect_values(
      doubles(run.run(weighted_sigmoid_cross_entropy(x, bits, 3))),
      {1.79441660814478, 0.201413277982752, 1.20955814665637, 2.12692801104297, 0.744396660073571, 2.73904575719986},
      "weighted sigmoid");
  const Output weights = constant<double>(g, {1, 2, 4});
  const Output plain = sparse_softmax_cross_entropy(x, classes);
  const auto each = doubles(run.run(plain));
  expect_values(doubles(run.run(weighted_sparse_softmax_cross_entropy(x, classes, weights))),
                {4 * each[0], 2 * each[1]}, "weighted sparse");
}

// On values computed with Keras 3.15 in float64.
TEST(Losses, EqualKeras) {
  Graph g;
  GraphEvaluator run;
  const Output x = constant(g, matrix({0.2, -1.5, 0.7, 2.0, 0.1, -0.4}));
  const Output y = constant(g, matrix({0.5, -0.25, 0.7, -1.0, 1.0, 0.3}));
  const Output bits = constant(g, matrix({1, 0, 1, 0, 0, 1}));
  const Output classes = constant<std::int32_t>(g, {2, 1});
  const Output z = constant(g, matrix({0.5, 0.5, 0, 0.2, 0.3, 0.5}));
  const Output p = sigmoid(x), q = softmax(x);
  const auto expect = [&](Loss loss, Output outputs, Output targets, const LossOptions& options,
                          const std::vector<double>& want, double tolerance = 1e-12) {
    const auto got = doubles(run.run(losses::per_example(loss, outputs, targets, options)));
    ASSERT_EQ(got.size(), want.size()) << name(loss);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], want[i], tolerance * std::max(1.0, want[i])) << name(loss) << ' ' << i;
  };
  expect(Loss::mean_absolute_percentage_error, x, y, {}, {186.66666666666666, 207.7777777777778});
  expect(Loss::mean_squared_logarithmic_error, x, abs(y), {}, {0.033195348119179, 0.196881996054123});
  expect(Loss::sigmoid_cross_entropy, p, bits, {.from_logits = false}, {0.400912732083267, 1.261446641172165});
  const std::vector<double> smooth = {0.480912732083267, 1.178113307838832};
  expect(Loss::sigmoid_cross_entropy, p, bits, {.from_logits = false, .label_smoothing = 0.2}, smooth);
  expect(Loss::sigmoid_cross_entropy, x, bits, {.label_smoothing = 0.2}, smooth);
  expect(Loss::softmax_cross_entropy, p, z, {.from_logits = false, .label_smoothing = 0.1},
         {1.46168142032077, 1.255552712814322});
  expect(Loss::softmax_cross_entropy, x, z, {.label_smoothing = 0.1}, {1.845772982398053, 1.951675793113756});
  expect(Loss::sparse_softmax_cross_entropy, p, classes, {.from_logits = false},
         {0.739977729683947, 1.236113704983099});
  expect(Loss::sparse_softmax_cross_entropy, x, classes, {.ignore_class = 1}, {0.540772982398053, 0});
  expect(Loss::binary_focal, p, bits, {.from_logits = false, .balance_classes = false},
         {0.05743529053145, 0.72749516048607});
  expect(Loss::binary_focal, x, bits, {.label_smoothing = 0.1, .gamma = 1.5, .alpha = 0.3},
         {0.035750585784267, 0.461759831577007});
  expect(Loss::categorical_focal, x, z, {.label_smoothing = 0.1, .gamma = 1.5, .alpha = 0.3},
         {0.439542422795407, 0.498311723446627});
  expect(Loss::categorical_focal, p, z, {.from_logits = false}, {0.235837574972423, 0.169934521336798});
  expect(Loss::generalized_cross_entropy, q, classes, {.from_logits = false, .q = 0.7},
         {0.45020024117668, 1.103615197031895});
  expect(Loss::generalized_cross_entropy, x, classes, {.q = 0.7}, {0.45020024117668, 1.103615197031895});
  expect(Loss::dice, p, bits, {}, {0.283610873154395, 0.71407220646537});
  // Keras' alpha is the weight of misses.
  expect(Loss::tversky, p, bits, {.wrong_hit_weight = 0.8, .miss_weight = 0.3}, {0.238048617555136, 0.76470068210367});
  const Output embeddings =
      constant(g, Tensor::of<double>(Shape{5, 3}, {1, 0, 0, 0.6, 0.8, 0, 0, 1, 0, 0, 0.6, 0.8, 0.8, 0, 0.6}));
  const Output of_embeddings = constant<std::int64_t>(g, {0, 1, 0, 1, 2});
  expect(Loss::circle, embeddings, of_embeddings, {}, {105.6, 47.232, 105.6, 24.832031421594504, 0}, 1e-10);
  expect(Loss::circle, embeddings, of_embeddings, {.circle_scale = 5, .margin = 0.25},
         {7.827991467751823, 4.260103918081523, 7.827991467751823, 3.097011935943418, 0});
}

TEST(Losses, OfSequencesAreAveragedOverTheirRows) {
  Graph g;
  GraphEvaluator run;
  Tensor x(DType::f64, Shape{2, 3, 4}), y(DType::f64, Shape{2, 3, 4});
  const auto value = [](std::int64_t i) { return static_cast<double>(i * 37 % 23) / 8 - 1.2; };
  for (std::int64_t i = 0; i < 24; ++i) {
    x.mutable_data<double>()[i] = value(i);
    y.mutable_data<double>()[i] = value((i + 19) % 24);
  }
  const Output classes = constant(g, Tensor::of<std::int32_t>(Shape{2, 3}, {0, 3, 1, 2, 2, 0}));
  const Output outputs = constant(g, x), vectors = constant(g, y);
  expect_values(doubles(run.run(losses::per_example(Loss::sparse_softmax_cross_entropy, outputs, classes))),
                {(2.963924828714606 + 1.834850814524833 + 1.836273085114841) / 3,
                 (1.597391797407365 + 0.709850814524833 + 2.222391797407365) / 3},
                "sparse");
  const auto cosines = doubles(run.run(losses::per_example(Loss::cosine_distance, outputs, vectors)));
  EXPECT_NEAR(cosines[0], 0.63765646, 1e-8);
  EXPECT_NEAR(cosines[1], 0.36707205, 1e-8);
}

TEST(Losses, WeightsScaleExamplesAndClasses) {
  Graph g;
  GraphEvaluator run;
  const Output x = constant(g, matrix({0.2, -1.5, 0.7, 2.0, 0.1, -0.4}));
  const Output y = constant(g, matrix({0.5, -0.25, 0.7, -1.0, 1.0, 0.3}));
  const Output each = losses::per_example(Loss::mean_squared_error, x, y);
  const Output weighted = losses::weighted_mean(each, constant<float>(g, {0.5f, 2}));
  EXPECT_NEAR(run.run(weighted).item<double>(), 3.571041666666667, 1e-12);  // of Keras
  const Output classes = constant<std::int32_t>(g, {2, 0, 1, 2});
  EXPECT_EQ(doubles(run.run(losses::class_weights(classes, {1, 0.5, 3}))), (std::vector<double>{3, 1, 0.5, 3}));
}

// Gradients with respect to the outputs, against central differences.
TEST(Losses, HaveExactGradients) {
  const Tensor x = matrix({0.2, -1.5, 0.7, 0.31, 0.1, -0.4}), y = matrix({0.5, 0.2, 0.3, 0.3, 0.6, 0.1});
  const Tensor p = matrix({0.2, 0.5, 0.7, 0.31, 0.1, 0.4});
  for (int kind = 0; kind <= static_cast<int>(Loss::circle); ++kind) {
    const auto loss = static_cast<Loss>(kind);
    for (const bool from_logits : {true, false}) {
      const bool of_classes = loss == Loss::sparse_softmax_cross_entropy || loss == Loss::focal ||
                              loss == Loss::generalized_cross_entropy || loss == Loss::circle;
      const bool positive = !from_logits || loss == Loss::poisson || loss == Loss::kl_divergence ||
                            loss == Loss::mean_squared_logarithmic_error || loss == Loss::circle;
      Graph g;
      GraphEvaluator run;
      const Output in = placeholder(g, DType::f64, Shape{2, 3});
      const Output targets = of_classes ? constant<std::int32_t>(g, {2, 1}) : constant(g, y);
      const Output each = losses::per_example(loss, in, targets, {.from_logits = from_logits, .circle_scale = 2});
      const Output total = troupe::sum(each);
      const Output gradient = dense(gradients(Outputs{total}, Outputs{in})[0], in);
      const Tensor at = positive ? p : x;
      const auto slope = doubles(run.run(gradient, {{{in.node, in.index}, at}}));
      for (std::size_t i = 0; i < 6; ++i) {
        constexpr double kStep = 1e-5;
        double values[2];
        for (int side = 0; side < 2; ++side) {
          Tensor moved = at.clone();
          moved.mutable_data<double>()[i] += side == 0 ? -kStep : kStep;
          values[side] = run.run(total, {{{in.node, in.index}, moved}}).item<double>();
        }
        EXPECT_NEAR(slope[i], (values[1] - values[0]) / (2 * kStep), 1e-6 * std::max(1.0, std::abs(slope[i])))
            << name(loss) << ' ' << i << (from_logits ? "" : " of probabilities");
      }
    }
  }
}

// Probabilities of exactly 0 and 1 have a finite loss and gradient in every dtype.
TEST(Losses, OfCertainProbabilitiesAreFinite) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    Graph g;
    GraphEvaluator run;
    const Output wide = constant(g, matrix({1, 0, 1, 0, 1, 0}));
    const Output p = cast(wide, dtype);
    const Output targets = constant(g, matrix({0, 0, 1, 0, 1, 1}));
    for (const Loss loss : {Loss::sigmoid_cross_entropy, Loss::softmax_cross_entropy, Loss::binary_focal}) {
      const Output each = losses::per_example(loss, p, targets, {.from_logits = false});
      EXPECT_EQ(each.dtype(), dtype);
      const Output slope = dense(gradients(Outputs{each}, Outputs{p})[0], p);
      for (const Output values : {each, slope})
        for (const double value : doubles(run.run(cast(values, DType::f64))))
          EXPECT_TRUE(std::isfinite(value)) << name(loss) << ' ' << name(dtype);
    }
  }
}

class CtcTest : public KernelTest {
 protected:
  static constexpr std::int64_t kFrames = 6, kExamples = 3, kClasses = 4;
  static Tensor logits() {
    Tensor x(DType::f64, Shape{kFrames, kExamples, kClasses});
    for (std::int64_t i = 0; i < x.num_elements(); ++i)
      x.mutable_data<double>()[i] = static_cast<double>(i * 37 % 23) / 8 - 1.2;
    return x;
  }
  std::vector<Tensor> ctc(const Tensor& x, std::vector<std::int64_t> labels, std::vector<std::int64_t> frames,
                          std::vector<std::int64_t> counts, std::int64_t blank = 0) {
    return run({.op = "CTCLoss",
                .dtype = x.dtype(),
                .inputs = {x, Tensor::of<std::int64_t>(Shape{kExamples, 3}, labels),
                           Tensor::of<std::int64_t>(Shape{kExamples}, frames),
                           Tensor::of<std::int64_t>(Shape{kExamples}, counts)},
                .attributes = {{"blank", blank}},
                .outputs = 2});
  }
};

TEST_F(CtcTest, EqualsPyTorchs) {
  // The last example has three equal labels, and needs five frames.
  const auto out = ctc(logits(), {1, 2, 2, 3, 0, 0, 1, 1, 1}, {6, 4, 4}, {3, 1, 3});
  expect_values(doubles(out[0]), {4.02780554231742, 4.26449941292333, kInfinity}, "loss");
  expect_values(doubles(out[1]),
                {-0.0425425720797904,
                 -0.608812292586264,
                 0.0964312626381196,
                 0.554923602027934,
                 -0.53485895657846,
                 0.0854476975718576,
                 0.49171754910554,
                 -0.0423062900989377,
                 0,
                 0,
                 0,
                 0,
                 0.0146167973979663,
                 -0.0119945061229933,
                 -0.068339674909077,
                 0.065717383634104,
                 -0.246180511777188,
                 0.0854476975718576,
                 0.49171754910554,
                 -0.33098473490021,
                 0,
                 0,
                 0,
                 0,
                 0.154795141531455,
                 0.0824985882047316,
                 -0.3969310452967,
                 0.159637315560514,
                 -0.00866299989853433,
                 0.297029199940376,
                 0.0964312626381197,
                 -0.384797462679961,
                 0,
                 0,
                 0,
                 0,
                 -0.463957166341695,
                 0.159410429486466,
                 0.00672884639460362,
                 0.297817890460625,
                 -0.520153603892775,
                 0.623509175777011,
                 0.202423792336578,
                 -0.305779364220813,
                 0,
                 0,
                 0,
                 0,
                 -0.176524451514571,
                 0.62350917577701,
                 -0.512702107896544,
                 0.065717383634104,
                 0,
                 0,
                 0,
                 0,
                 0,
                 0,
                 0,
                 0,
                 0.012561156804747,
                 0.0854476975718575,
                 -0.257646169937119,
                 0.159637315560514,
                 0,
                 0,
                 0,
                 0,
                 0,
                 0,
                 0,
                 0},
                "gradient");
}

// Computed in f32 and rounded.
TEST_F(CtcTest, NarrowLogits) {
  const auto converted = [&](const Tensor& x, DType dtype) {
    return run(
        {.op = "Cast", .dtype = x.dtype(), .inputs = {x}, .attributes = {{"DstT", dtype}}, .output_types = {dtype}})[0];
  };
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = converted(logits(), dtype);
    const std::vector<std::int64_t> labels{1, 2, 2, 3, 0, 0, 1, 1, 1}, frames{6, 4, 4}, counts{3, 1, 3};
    const auto narrow = ctc(x, labels, frames, counts), wide = ctc(converted(x, DType::f32), labels, frames, counts);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(bitwise_equal(narrow[i], converted(wide[i], dtype))) << i;
  }
}

TEST_F(CtcTest, NoLabelsReadAsBlanksAndNoFramesAsNothing) {
  const auto out = ctc(Tensor::zeros(DType::f64, Shape{kFrames, kExamples, kClasses}), {1, 1, 1, 2, 2, 2, 1, 1, 1},
                       {2, 0, 0}, {0, 0, 1}, 3);
  expect_values(doubles(out[0]), {2 * std::log(4.0), 0, kInfinity}, "loss");
}

TEST_F(CtcTest, RefusesLabelsAndLengthsOutOfRange) {
  const auto refused = [&](std::vector<std::int64_t> labels, std::vector<std::int64_t> frames,
                           std::vector<std::int64_t> counts) {
    try {
      ctc(logits(), std::move(labels), std::move(frames), std::move(counts));
    } catch (const Error& e) {
      return e.message();
    }
    return std::string();
  };
  EXPECT_EQ(refused({1, 2, 4, 1, 1, 1, 1, 1, 1}, {6, 6, 6}, {3, 1, 1}),
            "CTCLoss: label 2 of example 0 is 4, not a class in [0, 4) other than the blank 0");
  EXPECT_EQ(refused({1, 2, 1, 0, 1, 1, 1, 1, 1}, {6, 6, 6}, {3, 1, 1}),
            "CTCLoss: label 0 of example 1 is 0, not a class in [0, 4) other than the blank 0");
  EXPECT_EQ(refused({1, 2, 1, 1, 1, 1, 1, 1, 1}, {6, 7, 6}, {3, 1, 1}),
            "CTCLoss: number of frames 7 of example 1 is out of range: 0 to 6");
  EXPECT_EQ(refused({1, 2, 1, 1, 1, 1, 1, 1, 1}, {6, 6, 6}, {3, -1, 1}),
            "CTCLoss: number of labels -1 of example 1 is out of range: 0 to 3");
}

// Over all classes, each expected once: sampled softmax is the softmax, nce the sum of sigmoid losses.
TEST(SampledLosses, OfFixedSamplesEqualTheFormula) {
  Graph g;
  GraphEvaluator run;
  const Output weights = constant(g, Tensor::of<double>(Shape{4, 2}, {1, 0, 0, 1, 1, 1, -1, 2}));
  const Output biases = constant<double>(g, {0, 0.5, -0.5, 0.25});
  const Output inputs = constant(g, Tensor::of<double>(Shape{2, 2}, {1, 2, 0.5, -1}));
  const Output labels = constant<std::int64_t>(g, {1, 3});
  const SampledClasses samples{constant<std::int64_t>(g, {0, 3, 2}), 4};
  const auto logit = [](int n, int k) {
    const double w[4][2] = {{1, 0}, {0, 1}, {1, 1}, {-1, 2}}, b[4] = {0, 0.5, -0.5, 0.25},
                 x[2][2] = {{1, 2}, {0.5, -1}};
    const double expected = 3 * std::log((k + 2.0) / (k + 1.0)) / std::log(5.0);
    return x[n][0] * w[k][0] + x[n][1] * w[k][1] + b[k] - std::log(expected);
  };
  const auto softplus_of = [](double x) { return std::log1p(std::exp(x)); };
  std::vector<double> softmaxes, nces;
  for (int n = 0; n < 2; ++n) {
    const int label = n == 0 ? 1 : 3;
    double total = std::exp(logit(n, label)), nce = softplus_of(-logit(n, label));
    for (int k : {0, 3, 2}) {
      if (k != label) total += std::exp(logit(n, k));
      nce += softplus_of(logit(n, k));
    }
    softmaxes.push_back(std::log(total) - logit(n, label));
    nces.push_back(nce);
  }
  expect_values(doubles(run.run(sampled_softmax_loss({weights, biases}, inputs, labels, samples))), softmaxes,
                "softmax");
  expect_values(doubles(run.run(nce_loss({weights, biases}, inputs, labels, samples))), nces, "nce");
}

TEST(SampledLosses, CandidatesFollowZipfsLaw) {
  Graph g;
  GraphEvaluator run;
  const SampledClasses samples = log_uniform_candidates(g, 100'000, 9, 3);
  std::vector<double> counts(9);
  for (const double k : doubles(run.run(samples.classes))) counts.at(static_cast<std::size_t>(k)) += 1;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const double kth = static_cast<double>(k);
    const double p = std::log((kth + 2) / (kth + 1)) / std::log(10.0);
    EXPECT_NEAR(counts[k] / 1e5, p, 5 * std::sqrt(p / 1e5)) << k;
  }
}

}  // namespace
}  // namespace troupe::testing
