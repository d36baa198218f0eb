// Evaluates a metric over a data set in batches of different sizes, as a trainer does.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/kernels/evaluate_graph.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/metrics/metrics.hpp>

namespace troupe::testing {

struct MetricData {
  Tensor outputs{}, targets{}, weights{};  // weights: [n], or none
};

// Sums of examples [begin, end).
inline Tensor sums_of(const Metric& metric, const MetricData& data, std::int64_t begin, std::int64_t end,
                      int threads = 1) {
  Graph graph;
  MetricInputs in;
  Feeds feeds;
  const auto feed = [&](const Tensor& tensor) {
    Shape shape = tensor.shape();
    shape.set_dim(0, kUnknown);
    const Output x = placeholder(graph, tensor.dtype(), shape);
    feeds[{x.node, x.index}] = tensor.rows(begin, end).clone();
    return x;
  };
  in.outputs = feed(data.outputs);
  if (data.targets.valid()) in.targets = feed(data.targets);
  if (data.weights.valid()) in.weights = feed(data.weights);
  const Output sums = metric.sums(in);
  EXPECT_EQ(sums.dtype(), DType::f64) << metric.name;
  EXPECT_TRUE(sums.shape().fully_known()) << metric.name << ' ' << sums.shape().to_string();
  return GraphEvaluator(threads).run(sums, feeds);
}

// Of two batches, merged.
inline std::vector<double> result_of(const Metric& metric, const MetricData& data) {
  const std::int64_t n = data.outputs.shape()[0];
  Tensor total = sums_of(metric, data, 0, n / 3);
  const Tensor rest = sums_of(metric, data, n / 3, n);
  EXPECT_EQ(total.shape(), rest.shape()) << metric.name;
  for (std::int64_t i = 0; i < total.num_elements(); ++i) total.mutable_data<double>()[i] += rest.data<double>()[i];
  const auto values = metric.result(total);
  return {values.values<double>().begin(), values.values<double>().end()};
}

inline void expect_metric(const Metric& metric, const MetricData& data, const std::vector<double>& want,
                          double tolerance = 1e-12) {
  const std::vector<double> got = result_of(metric, data);
  ASSERT_EQ(got.size(), want.size()) << metric.name;
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got[i], want[i], tolerance * std::max(1.0, std::abs(want[i]))) << metric.name << ' ' << i;
}

// Six examples of four classes, and weights: the data of all values computed with Keras 3.15 in float64.
struct SixExamples {
  Tensor logits = Tensor::of<double>(Shape{6, 4}, {0.2, -1.5, 0.7, 0.1, 2.0,  0.1, -0.4, 1.9,  -0.3, 0.6, 0.5,  -2.0,
                                                   1.1, -0.7, 0.9, 0.4, -1.2, 0.3, 2.2,  -0.1, 0.05, 1.4, -0.8, 0.6});
  Tensor numbers = Tensor::of<double>(Shape{6, 4}, {0.5, -0.25, 0.7, 0.1, 1.0, 0.3, -0.9, 2,    0.4, 0.6, -0.2, -1,
                                                    1,   -1,    1,   -1,  0.3, 0.2, 0.1,  0.05, 2,   1,   0,    -1});
  Tensor bits =
      Tensor::of<double>(Shape{6, 4}, {1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1});
  Tensor classes = Tensor::vector<std::int32_t>({2, 3, 1, 0, 2, 3});
  Tensor found_classes = Tensor::vector<std::int32_t>({2, 0, 1, 0, 2, 1});
  Tensor weights = Tensor::vector<double>({1, 0.5, 2, 0, 1.5, 3});

  Tensor mapped(const Tensor& x, double (*f)(double)) const {
    Tensor y = x.clone();
    for (double& value : y.mutable_values<double>()) value = f(value);
    return y;
  }
  Tensor probabilities() const {
    return mapped(logits, [](double x) { return 1 / (1 + std::exp(-x)); });
  }
  Tensor sizes(const Tensor& x) const {
    return mapped(x, [](double value) { return std::abs(value); });
  }
  Tensor signs() const {
    return mapped(bits, [](double x) { return 2 * x - 1; });
  }
  Tensor softmax_of(const Tensor& x) const {
    Tensor y = mapped(x, [](double value) { return std::exp(value); });
    for (std::int64_t row = 0; row < 6; ++row) {
      double* p = y.mutable_data<double>() + 4 * row;
      const double total = p[0] + p[1] + p[2] + p[3];
      for (int i = 0; i < 4; ++i) p[i] /= total;
    }
    return y;
  }
  Tensor one_hot_classes() const {
    Tensor y = Tensor::zeros(DType::f64, Shape{6, 4});
    for (std::int64_t row = 0; row < 6; ++row)
      y.mutable_data<double>()[4 * row + classes.data<std::int32_t>()[row]] = 1;
    return y;
  }

  // Without and with weights.
  void expect(const Metric& metric, const Tensor& outputs, const Tensor& targets, const std::vector<double>& plain,
              const std::vector<double>& weighted, double tolerance = 1e-12) const {
    SCOPED_TRACE("without weights");
    expect_metric(metric, {outputs, targets, {}}, plain, tolerance);
    SCOPED_TRACE("with weights");
    expect_metric(metric, {outputs, targets, weights}, weighted, tolerance);
  }
};

}  // namespace troupe::testing
