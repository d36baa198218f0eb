// RNN, GRU and LSTM against loops in double precision, one unit at a time.
#include <gtest/gtest.h>

#include <functional>

#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/random_tensors.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using namespace troupe::testing;

using Values = std::vector<double>;

struct LayerCase {
  std::string op;
  std::int64_t steps, batch, inputs, units;
  std::string direction = "forward";
  bool bias = true, states = true, peepholes = false, linear_before_reset = false, input_forget = false;
  std::vector<std::int64_t> lengths{};
  double clip = 0;

  std::int64_t gates() const { return op == "RNN" ? 1 : op == "GRU" ? 3 : 4; }
  std::int64_t directions() const { return direction == "bidirectional" ? 2 : 1; }
};

// Few units and many, more rows than a part has, sequences that end early.
const std::vector<LayerCase> kLayers{
    {.op = "RNN", .steps = 4, .batch = 3, .inputs = 2, .units = 5},
    {.op = "RNN", .steps = 3, .batch = 2, .inputs = 3, .units = 70, .direction = "bidirectional", .lengths = {3, 1}},
    {.op = "GRU", .steps = 4, .batch = 3, .inputs = 2, .units = 5, .direction = "reverse"},
    {.op = "GRU", .steps = 3, .batch = 2, .inputs = 3, .units = 33, .linear_before_reset = true},
    {.op = "GRU", .steps = 3, .batch = 3, .inputs = 2, .units = 4, .direction = "bidirectional", .lengths = {2, 0, 3}},
    {.op = "LSTM", .steps = 5, .batch = 2, .inputs = 3, .units = 17, .peepholes = true},
    {.op = "LSTM", .steps = 3, .batch = 140, .inputs = 2, .units = 64, .bias = false, .states = false},
    {.op = "LSTM", .steps = 3, .batch = 2, .inputs = 2, .units = 200, .direction = "reverse", .lengths = {2, 3}},
    {.op = "LSTM", .steps = 3, .batch = 2, .inputs = 2, .units = 5, .input_forget = true, .clip = 0.2},
    {.op = "LSTM", .steps = 1, .batch = 1, .inputs = 1, .units = 1, .direction = "bidirectional"},
    {.op = "GRU", .steps = 0, .batch = 2, .inputs = 3, .units = 4},
    {.op = "LSTM", .steps = 2, .batch = 0, .inputs = 3, .units = 4},
};

struct RecurrentLayer {
  LayerCase c;
  std::vector<Tensor> inputs;

  RecurrentLayer(const LayerCase& layer, DType dtype, std::mt19937_64& engine) : c(layer) {
    const std::int64_t d = c.directions(), width = c.gates() * c.units;
    const auto random = [&](const Shape& shape) { return random_tensor(dtype, shape, engine, -0.7, 0.7); };
    const Tensor none(dtype, Shape{0});
    inputs = {random({c.steps, c.batch, c.inputs}), random({d, width, c.inputs}), random({d, width, c.units})};
    inputs.push_back(c.bias ? random({d, 2 * width}) : none);
    Tensor lengths(DType::i64, Shape{static_cast<std::int64_t>(c.lengths.size())});
    std::copy(c.lengths.begin(), c.lengths.end(), lengths.mutable_data<std::int64_t>());
    inputs.push_back(lengths);
    inputs.push_back(c.states ? random({d, c.batch, c.units}) : none);
    if (c.op != "LSTM") return;
    inputs.push_back(c.states ? random({d, c.batch, c.units}) : none);
    inputs.push_back(c.peepholes ? random({d, 3 * c.units}) : none);
  }

  KernelCall call(DType dtype) const {
    const std::size_t count = (c.op == "RNN" ? 1 : c.op == "GRU" ? 2 : 3) * static_cast<std::size_t>(c.directions());
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i)
      names.push_back(c.op == "RNN" || i % (count / static_cast<std::size_t>(c.directions())) > 0 ? "tanh" : "sigmoid");
    const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
    Attributes a{{"T", dtype},
                 {"U", wide},
                 {"direction", c.direction},
                 {"activations", names},
                 {"alphas", std::vector<double>(count)},
                 {"betas", std::vector<double>(count)},
                 {"clip", c.clip}};
    if (c.op == "GRU") a.set("linear_before_reset", c.linear_before_reset);
    if (c.op == "LSTM") a.set("input_forget", c.input_forget);
    return {c.op, dtype, inputs, a, c.op == "RNN" ? 3u : c.op == "GRU" ? 4u : 5u};
  }
};

double sigma(double x) { return 1 / (1 + std::exp(-x)); }

// The layer's y, last_h and last_c in doubles.
struct RecurrentReference {
  const LayerCase& c;
  Values x, w, r, bias, h0, c0, peep;
  Values y, last_h, last_c;

  explicit RecurrentReference(const RecurrentLayer& layer) : c(layer.c) {
    const auto get = [&](std::size_t i) { return i < layer.inputs.size() ? doubles(layer.inputs[i]) : Values{}; };
    x = get(0), w = get(1), r = get(2), bias = get(3), h0 = get(5), c0 = get(6), peep = get(7);
    y.resize(static_cast<std::size_t>(c.steps * c.directions() * c.batch * c.units));
    for (std::int64_t d = 0; d < c.directions(); ++d)
      for (std::int64_t n = 0; n < c.batch; ++n) run(d, n);
  }

  static double at(const Values& v, std::int64_t i, double otherwise = 0) {
    return v.empty() ? otherwise : v[static_cast<std::size_t>(i)];
  }
  double clipped(double v) const { return c.clip > 0 ? std::min(std::max(v, -c.clip), c.clip) : v; }
  // W x and R h of one row of the weights, with its bias.
  double input(std::int64_t d, std::int64_t t, std::int64_t n, std::int64_t row) const {
    const std::int64_t width = c.gates() * c.units;
    double sum = at(bias, d * 2 * width + row);
    for (std::int64_t i = 0; i < c.inputs; ++i)
      sum += at(x, (t * c.batch + n) * c.inputs + i) * at(w, (d * width + row) * c.inputs + i);
    return sum;
  }
  double state(std::int64_t d, const Values& h, std::int64_t row) const {
    const std::int64_t width = c.gates() * c.units;
    double sum = at(bias, d * 2 * width + width + row);
    for (std::int64_t i = 0; i < c.units; ++i) sum += at(h, i) * at(r, (d * width + row) * c.units + i);
    return sum;
  }

  void run(std::int64_t d, std::int64_t n) {
    Values h, cell;
    for (std::int64_t u = 0; u < c.units; ++u) {
      h.push_back(at(h0, (d * c.batch + n) * c.units + u));
      cell.push_back(at(c0, (d * c.batch + n) * c.units + u));
    }
    const bool reverse = d == 1 || c.direction == "reverse";
    const std::int64_t length = c.lengths.empty() ? c.steps : c.lengths[static_cast<std::size_t>(n)];
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t t = reverse ? length - 1 - i : i;
      h = c.op == "RNN" ? rnn_step(d, t, n, h) : c.op == "GRU" ? gru_step(d, t, n, h) : lstm_step(d, t, n, h, cell);
      for (std::int64_t u = 0; u < c.units; ++u)
        y[static_cast<std::size_t>(((t * c.directions() + d) * c.batch + n) * c.units + u)] = at(h, u);
    }
    last_h.insert(last_h.end(), h.begin(), h.end());
    last_c.insert(last_c.end(), cell.begin(), cell.end());
  }
  Values rnn_step(std::int64_t d, std::int64_t t, std::int64_t n, const Values& h) const {
    Values next;
    for (std::int64_t u = 0; u < c.units; ++u) next.push_back(std::tanh(clipped(input(d, t, n, u) + state(d, h, u))));
    return next;
  }
  Values gru_step(std::int64_t d, std::int64_t t, std::int64_t n, const Values& h) const {
    const std::int64_t units = c.units;
    Values z, reset, scaled, next;
    for (std::int64_t u = 0; u < units; ++u) {
      z.push_back(sigma(clipped(input(d, t, n, u) + state(d, h, u))));
      reset.push_back(sigma(clipped(input(d, t, n, units + u) + state(d, h, units + u))));
      scaled.push_back(at(reset, u) * at(h, u));
    }
    for (std::int64_t u = 0; u < units; ++u) {
      const std::int64_t row = 2 * units + u;
      const double linear = c.linear_before_reset ? at(reset, u) * state(d, h, row) : state(d, scaled, row);
      next.push_back((1 - at(z, u)) * std::tanh(clipped(input(d, t, n, row) + linear)) + at(z, u) * at(h, u));
    }
    return next;
  }
  Values lstm_step(std::int64_t d, std::int64_t t, std::int64_t n, const Values& h, Values& cell) const {
    const std::int64_t units = c.units;
    Values next;
    for (std::int64_t u = 0; u < units; ++u) {
      const auto gate = [&](std::int64_t g) { return input(d, t, n, g * units + u) + state(d, h, g * units + u); };
      const auto peephole = [&](std::int64_t g) { return at(peep, (d * 3 + g) * units + u); };
      double& own = cell[static_cast<std::size_t>(u)];
      const double in = sigma(clipped(gate(0) + peephole(0) * own));
      const double forget = c.input_forget ? 1 - in : sigma(clipped(gate(2) + peephole(2) * own));
      own = forget * own + in * std::tanh(clipped(gate(3)));
      next.push_back(sigma(clipped(gate(1) + peephole(1) * own)) * std::tanh(own));
    }
    return next;
  }
};

void expect_near(const Tensor& got, const Values& want, DType dtype, const std::string& where) {
  const double tolerance = dtype == DType::f64 ? 1e-13 : dtype == DType::f32 ? 2e-6 : dtype == DType::f16 ? 1e-3 : 8e-3;
  const Values values = doubles(got);
  ASSERT_EQ(values.size(), want.size()) << where;
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(values[i], want[i], tolerance) << where << " at " << i;
}

TEST(Recurrent, EqualsTheFormulas) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(17);
  for (const DType dtype : kFloats)
    for (const LayerCase& c : kLayers) {
      const RecurrentLayer layer(c, dtype, engine);
      const auto out = run_every_way(registry, layer.call(dtype));
      const RecurrentReference want(layer);
      const std::string where = fmt::format("{} {} of {} units, {}", name(dtype), c.op, c.units, c.direction);
      expect_near(out[0], want.y, dtype, where + ": y");
      expect_near(out[1], want.last_h, dtype, where + ": last_h");
      if (c.op == "LSTM") expect_near(out[2], want.last_c, dtype, where + ": last_c");
    }
}

// Gradients are checked against differences in float64; those of other dtypes must agree with them.
TEST(Recurrent, GradientsOfAllDtypesAgree) {
  const KernelRegistry registry = all_kernels();
  for (const LayerCase& c : kLayers) {
    std::vector<std::vector<Values>> found;
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      std::mt19937_64 engine(23);  // so that all have the same numbers, rounded
      const RecurrentLayer layer(c, dtype, engine);
      KernelCall call = layer.call(dtype);
      const auto out = run_every_way(registry, call);
      call.op += "Grad";
      call.attributes.set("input_gradient", true);
      call.inputs.push_back(out[0]);
      for (std::size_t i = c.op == "LSTM" ? 3 : 2; i < out.size(); ++i) call.inputs.push_back(out[i]);
      call.inputs.push_back(random_tensor(dtype, out[0].shape(), engine));
      call.inputs.push_back(random_tensor(dtype, out[1].shape(), engine));
      if (c.op == "LSTM") call.inputs.push_back(Tensor(dtype, Shape{0}));
      call.outputs = c.op == "LSTM" ? 7 : 5;
      std::vector<Values> gradients;
      for (const Tensor& t : run_every_way(registry, call)) gradients.push_back(doubles(t));
      const double tolerance = dtype == DType::f64 ? 0 : dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 8e-3 : 6e-2;
      found.push_back(gradients);
      for (std::size_t g = 0; g < gradients.size(); ++g) {
        ASSERT_EQ(gradients[g].size(), found[0][g].size()) << c.op << " gradient " << g;
        double largest = 1;
        for (const double v : found[0][g]) largest = std::max(largest, std::fabs(v));
        for (std::size_t i = 0; i < gradients[g].size(); ++i)
          ASSERT_NEAR(gradients[g][i], found[0][g][i], tolerance * largest)
              << name(dtype) << ' ' << c.op << " of " << c.units << " units, gradient " << g << " at " << i;
      }
    }
  }
}

// From onnxruntime: the clipped cell, and activations with parameters.
TEST(Recurrent, EqualsOnnxruntime) {
  Tensor w(DType::f32, {1, 8, 2}), r(DType::f32, {1, 8, 2});
  for (int i = 0; i < 16; ++i) {
    w.mutable_data<float>()[i] = static_cast<float>(-1 + i * 2 / 15.0);
    r.mutable_data<float>()[i] = static_cast<float>(1.2 - i * 2 / 15.0);
  }
  Graph graph;
  const Output x = constant(graph, Tensor::of<float>({3, 1, 2}, {.5f, -1, .25f, 2, -.75f, 1.5f}));
  const Output weights = constant(graph, w);
  const LstmOutputs out =
      lstm(x, weights, constant(graph, r),
           {.activations = {{"hard_sigmoid", 0.3, 0.45}, {"scaled_tanh", 0.8, 1.3}, {"elu", 0.6}}, .clip = 0.4});
  GraphEvaluator evaluator;
  const std::vector<float> y{-0.0554859f, -0.047578935f, 0.0013620118f, 0.004937653f, 0.052089628f, 0.065067813f};
  const std::vector<float> last_c{0.12827985f, 0.13976294f};
  const Tensor got = evaluator.run(out.y, {}), got_c = evaluator.run(out.last_c, {});
  ASSERT_EQ(got.shape(), (Shape{3, 1, 1, 2}));
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(got.values<float>()[i], y[i], 1e-7);
  for (std::size_t i = 0; i < last_c.size(); ++i) EXPECT_NEAR(got_c.values<float>()[i], last_c[i], 1e-7);
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  std::mt19937_64 engine(3);
  const RecurrentLayer layer({.op = "LSTM", .steps = 2, .batch = 2, .inputs = 3, .units = 4, .peepholes = true},
                             DType::f32, engine);
  const auto error = [&](std::size_t index, Tensor bad) {
    KernelCall call = layer.call(DType::f32);
    call.inputs[index] = std::move(bad);
    return message_of(Code::invalid_argument, [&] { run_kernel(registry, *device, call); });
  };
  EXPECT_EQ(error(4, Tensor::vector<std::int64_t>({2, 3})), "LSTM: a length is 3, but there are 2 steps");
  EXPECT_EQ(error(4, Tensor::vector<std::int64_t>({2, -1})), "LSTM: a length is -1, but there are 2 steps");
  EXPECT_EQ(error(4, Tensor::vector<std::int64_t>({2})), "LSTM: lengths must be i64[2], but is i64[1]");
  EXPECT_EQ(error(0, Tensor::zeros(DType::f32, {2, 2})), "LSTM: x must have 3 dimensions, but its shape is [2,2]");
  EXPECT_EQ(error(1, Tensor::zeros(DType::f32, {1, 12, 3})), "LSTM: w must be f32[1,16,3], but is f32[1,12,3]");
  EXPECT_EQ(error(7, Tensor::zeros(DType::f32, {1, 8})), "LSTM: peepholes must be f32[1,12], but is f32[1,8]");
}

}  // namespace
}  // namespace troupe
