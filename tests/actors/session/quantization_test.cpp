// Quantised graphs against those in f32, in QDQ form and as products of bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/actors/session/drawn.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/quantization.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using testing::drawn;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;

// 10 log10 of the signal's power by the error's.
double sqnr(const Tensor& exact, const Tensor& actual) {
  double signal = 0, noise = 0;
  for (std::int64_t i = 0; i < exact.num_elements(); ++i) {
    const double x = static_cast<double>(exact.data<float>()[i]), y = static_cast<double>(actual.data<float>()[i]);
    signal += x * x;
    noise += (x - y) * (x - y);
  }
  return 10 * std::log10(signal / noise);
}

class Quantization : public ::testing::Test {
 protected:
  Output conv(Output x, std::int64_t size, std::int64_t out, const ConvOptions& options = {}) {
    const std::int64_t in = x.shape()[-1] / options.groups;
    ConvOptions named = options;
    named.name = fmt::format("conv{}", ++seed_);
    return conv2d(x, constant(graph_, drawn({size, size, in, out}, seed_, -0.3f, 0.3f)), named);
  }
  Output norm(Output x, const std::string& activation) {
    const Shape one{x.shape()[-1]};
    const auto values = [&](float low, float high) { return constant(graph_, drawn(one, ++seed_, low, high)); };
    const Output scale = values(0.5f, 1.5f), offset = values(-0.5f, 0.5f), mean = values(-0.2f, 0.2f);
    return add_op("BatchNormInference", {x, scale, offset, mean, values(0.5f, 2)},
                  {{"epsilon", 1e-3}, {"activation", activation}});
  }
  Output dense(Output x, std::int64_t units) {
    const std::string name = fmt::format("dense{}", ++seed_);
    const Output product =
        matmul(x, constant(graph_, drawn({x.shape()[-1], units}, seed_, -0.3f, 0.3f)), {.name = name});
    return bias_add(product, constant(graph_, drawn({units}, seed_ + 50, -0.3f, 0.3f)));
  }
  // Convolutions with normalisation, a pool, a residual and a product.
  void make_residual_net() {
    x_ = placeholder(graph_, DType::f32, Shape{kUnknown, 12, 12, 3}, "x");
    Output y = norm(conv(x_, 3, 16, {.strides = {1, 1}}), "relu");
    y = max_pool(y, {.ksize = {3, 3}, .strides = {2, 2}, .padding = Padding::same});
    Output inner = norm(conv(y, 1, 8), "relu");
    inner = norm(conv(inner, 3, 8), "relu");
    inner = norm(conv(inner, 1, 16), "none");
    y = relu(inner + norm(conv(y, 1, 16), "none"));
    y = norm(conv(y, 3, 16, {.groups = 4}), "relu");
    y_ = dense(global_avg_pool(y), 5);
  }
  CalibrationBatches batches(int count, float high = 1) {
    return [this, high, left = count]() mutable -> std::optional<std::map<std::string, Tensor>> {
      if (left-- == 0) return std::nullopt;
      return std::map<std::string, Tensor>{{"x", examples(static_cast<std::uint64_t>(left), high)}};
    };
  }
  Tensor examples(std::uint64_t seed, float high = 1) const {
    Shape shape = x_.shape();
    shape.set_dim(0, 6);
    return drawn(shape, 100 + seed, -1, high);
  }
  Tensor run(const Graph& graph, const Output& y, std::optional<InferencePasses> inference,
             std::string* explained = nullptr) {
    Session session(task_, graph, {.inference = std::move(inference)});
    Graph& fed = *y.graph;
    if (explained) *explained = session.explain({fed.output("x")}, {y});
    return session.run({{fed.output("x"), examples(77)}}, y);
  }

  Task task_{TaskOptions{.threads = 2}};
  Graph graph_;
  Output x_, y_;
  std::uint64_t seed_ = 0;
};

TEST_F(Quantization, ConvolutionsAndProductsOfBytesAreCloseToFloats) {
  make_residual_net();
  const QuantizedModel q = quantize(task_, graph_, {y_}, batches(4));
  ASSERT_EQ(q.report.layers.size(), 7u);
  const Tensor exact = run(graph_, y_, std::nullopt), simulated = run(*q.graph, q.outputs[0], std::nullopt);
  std::string explained;
  const Tensor bytes = run(*q.graph, q.outputs[0], InferencePasses{}, &explained);
  EXPECT_GT(sqnr(exact, simulated), 25);
  EXPECT_GT(sqnr(exact, bytes), 25);
  EXPECT_GT(sqnr(simulated, bytes), 30);
  EXPECT_THAT(explained, HasSubstr("Conv 'conv1' multiplies bytes, relu, makes bytes"));
  EXPECT_THAT(explained, HasSubstr("multiplies bytes, adds a residual, relu, makes bytes"));
  EXPECT_THAT(explained, HasSubstr("multiplies bytes\n"));  // the product's result is f32
  EXPECT_THAT(explained, HasSubstr("1 MaxPool of bytes"));
  EXPECT_THAT(explained, Not(HasSubstr("FusedConv")));

  const Tensor off = run(*q.graph, q.outputs[0], InferencePasses{.switched_off = {"quantized_products"}}, &explained);
  EXPECT_THAT(explained, Not(HasSubstr("multiplies bytes")));
  EXPECT_GT(sqnr(simulated, off), 30);
}

// As in models of PyTorch that onnxruntime has quantised.
TEST_F(Quantization, ImagesWithChannelsFirstAreTransposed) {
  x_ = placeholder(graph_, DType::f32, Shape{kUnknown, 3, 8, 8}, "x");
  const auto bytes = [&](Output value, float scale, std::int8_t zero) {
    const Output step = constant(graph_, scale), start = constant(graph_, zero);
    return dequantize_linear(quantize_linear(value, step, start), step, start);
  };
  const auto layer = [&](Output x, std::int64_t out) {
    Tensor filter(DType::i8, Shape{out, x.shape()[1], 3, 3}), bias(DType::i32, Shape{out});
    for (std::int64_t i = 0; i < filter.num_elements(); ++i)
      filter.mutable_data<std::int8_t>()[i] = static_cast<std::int8_t>(i * 37 % 255 - 127);
    for (std::int64_t i = 0; i < out; ++i) bias.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(10 * i);
    const Output scale = constant(graph_, drawn({out}, ++seed_, 1e-3f, 2e-3f));
    const Output weights = dequantize_linear(constant(graph_, filter), scale,
                                             constant(graph_, Tensor::zeros(DType::i8, {out})), {.axis = 0});
    const Output shift = dequantize_linear(constant(graph_, bias), constant(graph_, 1e-3f), constant(graph_, 0));
    return bias_add(conv2d(x, weights, {.format = DataFormat::channels_first}), shift, DataFormat::channels_first);
  };
  const Output first = bytes(layer(bytes(x_, 0.01f, 3), 8), 0.006f, -128);
  const Output sum = bytes(bytes(layer(first, 8), 0.015f, 5) + first, 0.015f, 5);
  y_ = layer(sum, 4);
  std::string explained;
  const Tensor simulated = run(graph_, y_, std::nullopt), multiplied = run(graph_, y_, InferencePasses{}, &explained);
  EXPECT_EQ(multiplied.shape(), simulated.shape());
  EXPECT_GT(sqnr(simulated, multiplied), 30);
  EXPECT_THAT(explained, HasSubstr("multiplies bytes, adds a residual, makes bytes"));
  EXPECT_THAT(explained, Not(HasSubstr("FusedConv")));
}

TEST_F(Quantization, LayersStayInFloatsByName) {
  make_residual_net();
  const QuantizedModel q = quantize(task_, graph_, {y_}, batches(2), {.layers = {.keep = {"conv1", "dense*"}}});
  EXPECT_EQ(q.report.layers.size(), 5u);
  std::string explained;
  const Tensor bytes = run(*q.graph, q.outputs[0], InferencePasses{}, &explained);
  EXPECT_GT(sqnr(run(graph_, y_, std::nullopt), bytes), 25);
  EXPECT_THAT(explained, Not(HasSubstr("'conv1' multiplies")));
  EXPECT_THAT(explained, Not(HasSubstr("'dense")));
  EXPECT_EQ(error_of([&] { quantize(task_, graph_, {y_}, batches(1), {.layers = {.keep = {"con1"}}}); }).code(),
            Code::not_found);
}

TEST_F(Quantization, ProductsTakeTheStepsOfEachRun) {
  x_ = placeholder(graph_, DType::f32, Shape{kUnknown, 40}, "x");
  y_ = dense(relu(dense(x_, 64)), 10);
  const QuantizedModel q = quantize(task_, graph_, {y_}, batches(1), {.method = QuantizationOptions::Method::dynamic});
  ASSERT_EQ(q.report.layers.size(), 2u);
  EXPECT_EQ(q.report.layers[0].layer.bytes_before, 4 * (40 * 64 + 64));
  EXPECT_EQ(q.report.layers[0].layer.bytes_after, 40 * 64 + 4 * 64 + 4 * 64);
  EXPECT_GT(sqnr(run(graph_, y_, std::nullopt), run(*q.graph, q.outputs[0], InferencePasses{})), 35);
}

TEST_F(Quantization, TheReportIsATableOfLayers) {
  make_residual_net();
  const QuantizedModel q = quantize(task_, graph_, {y_}, batches(1));
  const std::string table = q.report.to_string();
  EXPECT_THAT(table, HasSubstr("f32 bytes"));
  EXPECT_THAT(table, HasSubstr("conv1 "));
  for (const LayerQuantization& l : q.report.layers) {
    EXPECT_GT(l.sqnr, 15) << l.layer.name;
    EXPECT_LT(l.layer.bytes_after, l.layer.bytes_before) << l.layer.name;
    EXPECT_LE(l.mean_error, l.greatest_error) << l.layer.name;
    EXPECT_GT(std::min(l.seconds_before, l.seconds_after), 0) << l.layer.name;
  }
  const QuantizedModel untimed = quantize(task_, graph_, {y_}, batches(1), {.timed_runs = 0});
  EXPECT_EQ(untimed.report.layers[0].seconds_after, 0);
}

TEST_F(Quantization, RangesComeFromBatches) {
  x_ = placeholder(graph_, DType::f32, Shape{kUnknown, 40}, "x");
  y_ = dense(x_, 3);
  EXPECT_THAT(error_of([&] { quantize(task_, graph_, {y_}, batches(0)); }).message(),
              HasSubstr("there are no batches"));
  EXPECT_EQ(error_of([&] { quantize(task_, graph_, {y_}, batches(1), {.percentile = 40}); }).code(),
            Code::invalid_argument);
  const std::vector<std::string> names = tensors_to_calibrate(graph_);
  EXPECT_EQ(names, std::vector<std::string>{"x"});
  EXPECT_THAT(error_of([&] { quantize_static(graph_, {}); }).message(), HasSubstr("no range of 'x'"));
  // Steps of 1 / 255 from 0 to 1: everything below 0 is clipped.
  const auto clipped = quantize_static(graph_, {{"x", {.low = 0.5f, .high = 1}}});
  EXPECT_EQ(clipped->get("x/step").attributes.tensor("value").item<float>(), 1 / 255.0f);
  EXPECT_EQ(clipped->get("x/zero").attributes.tensor("value").item<std::uint8_t>(), 0);
}

TEST(ValueHistogram, LeavesOutRareValuesByPercentile) {
  ValueHistogram histogram;
  Tensor values(DType::f32, Shape{10000});
  for (std::int64_t i = 0; i < 10000; ++i) values.mutable_data<float>()[i] = static_cast<float>(i - 5000) / 5000;
  histogram.add(values);
  histogram.add(Tensor::vector<float>({100, std::numeric_limits<float>::quiet_NaN()}));  // bins become wider
  EXPECT_EQ(histogram.range(100).low, -1);
  EXPECT_EQ(histogram.range(100).high, 100);
  EXPECT_NEAR(histogram.range(99.9).high, 1, 0.2);
  EXPECT_NEAR(histogram.range(99.9).low, -1, 0.2);
  EXPECT_EQ(ValueHistogram().range(100).high, 0);
}

}  // namespace
}  // namespace troupe
