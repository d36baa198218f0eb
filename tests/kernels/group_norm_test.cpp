// Normalisation of groups, of instances and by root mean squares, on values computed with PyTorch 1.13 in float64.
#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include "tests/kernels/random_tensors.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe::testing {
namespace {

// [2,4,3]
Tensor grouped_input() {
  Tensor x(DType::f64, Shape{2, 4, 3});
  for (std::int64_t i = 0; i < 24; ++i) x.mutable_data<double>()[i] = static_cast<double>(i * 7 % 11) / 4 - 1;
  return x;
}

void expect_close_to(const Tensor& got, const std::vector<double>& want, const char* what) {
  const auto values = doubles(got);
  ASSERT_EQ(values.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(values[i], want[i], 2e-13) << what << ' ' << i;
}

TEST(GroupNorm, EqualsPyTorchs) {
  Graph g;
  GraphEvaluator run;
  const Output x = constant(g, grouped_input());
  const Output scale = constant<double>(g, {1, 0.5, 2, -1}), offset = constant<double>(g, {0, 0.1, -0.2, 0.3});
  const std::vector<double> groups = {-1.3920600601076,   0.696030030053799,  -0.497164307181285, 0.895462891490056,
                                      0.298865722872514,  -0.297731445745028, 2.52194569250534,   0.102438410278371,
                                      -2.31706887194859,  -0.758534435974297, 0.451219205139185,  1.66097284625267,
                                      0.286029207956596,  -1.08691099023507,  1.31573435660034,   0.0713970792043404,
                                      -0.615073019891491, 0.586249653526214,  0.372058415913193,  -2.37382198047013,
                                      2.43146871320069,   0.357205841591319,  1.73014603978298,   -0.672499307052428};
  expect_close_to(run.run(group_norm(x, scale, offset, 2, {.epsilon = 1e-3})), groups, "group_norm");
  expect_close_to(run.run(instance_norm(x, scale, offset, {.epsilon = 1e-3})),
                  {-1.16134697739263,
                   1.2774816751319,
                   -0.116134697739263,
                   0.71191367241325,
                   0.1,
                   -0.51191367241325,
                   2.247654689653,
                   -0.2,
                   -2.647654689653,
                   -0.923827344826501,
                   0.3,
                   1.5238273448265,
                   0.116134697739263,
                   -1.2774816751319,
                   1.16134697739263,
                   0.158067348869632,
                   -0.538740837565949,
                   0.680673488696317,
                   0.0322693954785268,
                   -2.75496335026379,
                   2.12269395478527,
                   0.183865302260737,
                   1.5774816751319,
                   -0.861346977392634},
                  "instance_norm");
  const Output last = transpose(x, {0, 2, 1});
  const Output channels_last = group_norm(last, scale, offset, 2, {.epsilon = 1e-3, .axis = -1});
  expect_close_to(run.run(transpose(channels_last, {0, 2, 1})), groups, "channels last");
}

TEST(GroupNorm, RowsAndSeveralDimensionsEqualPyTorchs) {
  Graph g;
  GraphEvaluator run;
  const Output x = constant(g, grouped_input());
  const Output first = slice(x, {0, 0, 0}, {1, 4, 3});
  const Output scale = constant<double>(g, {1, 2, 0.5});
  expect_close_to(
      run.run(rms_norm(first, scale, {.epsilon = 1e-3})),
      {-1.35747996035, 2.036219940525, -0.16968499504375, 1.56584503911587, 1.04389669274392, -0.260974173185979,
       1.46284735777453, 0.58513894310981, -0.438854207332358, 1.2238273448265, 0, -0.61191367241325},
      "rms_norm");
  Tensor quarters(DType::f64, Shape{4, 3}), ones(DType::f64, Shape{4, 3});
  for (std::int64_t i = 0; i < 12; ++i) {
    quarters.mutable_data<double>()[i] = static_cast<double>(i) / 4;
    ones.mutable_data<double>()[i] = 1;
  }
  const LayerNormOutputs layers =
      layer_norm_outputs(x, constant(g, quarters), constant(g, ones), {.epsilon = 1e-3, .axis = 1});
  expect_close_to(run.run(layers.y),
                  {1,
                   1.18140289637495,
                   0.76229965302593,
                   2.21977809631431,
                   1.42535851563781,
                   0.0304327952373446,
                   2.98917658783564,
                   1.2189345301077,
                   -1.15181366734422,
                   3.308195474564,
                   0.562130939784607,
                   -2.78443973471875,
                   1,
                   0.824151087543372,
                   1.78455668634496,
                   1.20290259129611,
                   -0.0280397959002872,
                   2.55558653327017,
                   0.918838963481556,
                   -1.36719689845461,
                   2.83965016108472,
                   0.147809116556341,
                   -3.19332022011959,
                   2.63674756978862},
                  "layer_norm");
  EXPECT_EQ(layers.mean.shape(), (Shape{2, 1, 1}));
  expect_close_to(run.run(local_response_norm(x, 3, {.alpha = 0.3, .beta = 0.75, .bias = 1.5})),
                  {-0.636873015965068,
                   0.531876570141169,
                   -0.181616554540982,
                   0.898228435175339,
                   0.353536862868216,
                   -0.353536862868216,
                   0.748523695979449,
                   0.181616554540982,
                   -0.507968802481336,
                   0.655481210495157,
                   0,
                   -0.684944813592238,
                   0.531876570141169,
                   -0.181616554540982,
                   0.933805385629692,
                   0.353536862868216,
                   -0.353536862868216,
                   0.748523695979449,
                   0.181616554540982,
                   -0.507968802481336,
                   0.640164355063747,
                   0,
                   -0.684944813592238,
                   0.513708610194178},
                  "lrn");
}

TEST(GroupNorm, IsAccurateAroundALargeMeanAndTheSameOnAnyThreads) {
  std::mt19937_64 engine(5);
  std::normal_distribution<double> normal(1000, 0.5);
  for (const DType dtype : {DType::f32, DType::f64}) {
    Tensor x(dtype, Shape{3, 8, 37, 41});
    for (std::int64_t i = 0; i < x.num_elements(); ++i)
      if (dtype == DType::f32)
        x.mutable_data<float>()[i] = static_cast<float>(normal(engine));
      else
        x.mutable_data<double>()[i] = normal(engine);
    Graph g;
    const Output in = constant(g, x);
    const Output ones = cast(constant<float>(g, {1, 1, 1, 1, 1, 1, 1, 1}), dtype);
    const Output y = group_norm(in, ones, zeros_like(ones), 2);
    GraphEvaluator one, three(3);
    const Tensor got = one.run(y);
    EXPECT_TRUE(bitwise_equal(got, three.run(y)));
    const auto values = doubles(x), found = doubles(got);
    const std::size_t size = 4 * 37 * 41;
    for (std::size_t group = 0; group < 6; ++group) {
      double mean = 0, squares = 0;
      for (std::size_t i = 0; i < size; ++i) mean += values[group * size + i] / static_cast<double>(size);
      for (std::size_t i = 0; i < size; ++i)
        squares += (values[group * size + i] - mean) * (values[group * size + i] - mean);
      const double inverse = 1 / std::sqrt(squares / static_cast<double>(size) + 1e-5);
      for (std::size_t i = 0; i < size; i += 13)
        ASSERT_NEAR(found[group * size + i], (values[group * size + i] - mean) * inverse,
                    dtype == DType::f32 ? 3e-4 : 1e-9)
            << group << ' ' << i;
    }
  }
}

TEST(GroupNorm, RefusesGroupsThatDoNotDivide) {
  Graph g;
  const Output x = constant(g, grouped_input());
  const Output c = constant<double>(g, {1, 1, 1, 1});
  EXPECT_THROW(group_norm(x, c, c, 3), Error);
  EXPECT_THROW(group_norm(x, c, c, 0), Error);
  EXPECT_THROW(instance_norm(constant<double>(g, {1, 2}), c, c), Error);
  EXPECT_THROW(local_response_norm(x, 0), Error);
}

TEST(Normalize, ByNorms) {
  Graph g;
  GraphEvaluator run;
  const Output x = constant(g, Tensor::of<double>(Shape{2, 2}, {3, 4, 0, 0}));
  expect_close_to(run.run(l2_normalize(x, {1})), {0.6, 0.8, 0, 0}, "l2");
  expect_close_to(run.run(lp_normalize(x, 1)), {0.6, 0.8, 0, 0}, "lp 2");
  expect_close_to(run.run(lp_normalize(x, -1, 1)), {3 / 7.0, 4 / 7.0, 0, 0}, "lp 1");
  expect_close_to(run.run(mean_variance_normalize(constant<double>(g, {1, 3}))), {-1, 1}, "mvn");
}

// A tensor of a dtype, and its values.
struct NormInput {
  NormInput(DType dtype, const Shape& shape, std::mt19937_64& engine, double low, double high)
      : tensor(random_tensor(dtype, shape, engine, low, high)), all(doubles(tensor)) {}
  double operator[](std::int64_t i) const { return all[static_cast<std::size_t>(i)]; }
  Tensor tensor;
  std::vector<double> all;
};

DType statistic_type(DType dtype) { return dtype == DType::f64 ? dtype : DType::f32; }

void expect_near(const Tensor& got, const std::vector<double>& want, DType data, const std::string& what) {
  const double tolerance = data == DType::f64 ? 1e-11 : 1e-4;
  const double rounding = got.dtype() == DType::f16 ? 1e-3 : got.dtype() == DType::bf16 ? 8e-3 : 0;
  const auto values = doubles(got);
  ASSERT_EQ(values.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(values[i], want[i], tolerance * (1 + std::abs(want[i])) + rounding * std::abs(want[i]))
        << what << " at " << i;
}

// y, mean and inverse deviation, and the gradients, of rows of `width` elements, by their definitions in f64.
// channel(i) is the scale's element for element i of x; `centred`: with a mean and an offset.
struct NormReference {
  std::vector<double> y, mean, inverse, dx, dscale, doffset;

  template <class Channel>
  NormReference(const NormInput& x, const NormInput& scale, const NormInput& offset, const NormInput& dy,
                std::int64_t width, double epsilon, bool centred, Channel channel)
      : y(x.all.size()), dx(x.all.size()), dscale(scale.all.size()), doffset(scale.all.size()) {
    const auto size = static_cast<double>(width);
    for (std::int64_t row = 0; row < std::ssize(x.all); row += width) {
      double m = 0, variance = 0, a = 0, b = 0;
      for (std::int64_t i = row; centred && i < row + width; ++i) m += x[i] / size;
      for (std::int64_t i = row; i < row + width; ++i) variance += (x[i] - m) * (x[i] - m) / size;
      const double by = 1 / std::sqrt(variance + epsilon);
      mean.push_back(m);
      inverse.push_back(by);
      for (std::int64_t i = row; i < row + width; ++i) {
        const auto c = static_cast<std::size_t>(channel(i)), at = static_cast<std::size_t>(i);
        const double hat = (x[i] - m) * by;
        y[at] = hat * scale.all[c] + (centred ? offset.all[c] : 0);
        dscale[c] += dy[i] * hat;
        doffset[c] += dy[i];
        a += centred ? dy[i] * scale.all[c] / size : 0;
        b += dy[i] * scale.all[c] * hat / size;
      }
      for (std::int64_t i = row; i < row + width; ++i)
        dx[static_cast<std::size_t>(i)] =
            by * (dy[i] * scale.all[static_cast<std::size_t>(channel(i))] - a - (x[i] - m) * by * b);
    }
  }
};

// Rows of a thread, of part of a warp and of blocks; vectors that fit, and not.
TEST(GroupNorm, EqualsItsDefinitionForEveryDtype) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(11);
  struct Case {
    Shape shape;
    std::int64_t groups;
  };
  for (const Case& c : {Case{{3, 6, 5}, 3}, Case{{2, 8, 64}, 2}, Case{{2, 4, 1500, 2}, 4}, Case{{5, 3}, 1},
                        Case{{2, 40, 8, 8}, 2}, Case{{3, 12}, 6}})
    for (DType dtype : kFloats) {
      const std::string where = std::string(name(dtype)) + c.shape.to_string();
      const std::int64_t channels = c.shape[1], positions = c.shape.num_elements() / c.shape[0] / channels;
      const std::int64_t width = channels / c.groups * positions;
      const NormInput x(dtype, c.shape, engine, -1, 3), dy(dtype, c.shape, engine, -1, 1);
      const NormInput scale(statistic_type(dtype), {channels}, engine, -1, 2),
          offset(statistic_type(dtype), {channels}, engine, -1, 1);
      const NormReference want(x, scale, offset, dy, width, 1e-3, true,
                               [&](std::int64_t i) { return i / positions % channels; });
      const auto got = run_every_way(
          registry,
          {"GroupNorm", dtype, {x.tensor, scale.tensor, offset.tensor}, {{"groups", c.groups}, {"epsilon", 1e-3}}, 3});
      expect_near(got[0], want.y, dtype, where + " y");
      expect_near(got[1], want.mean, dtype, where + " mean");
      expect_near(got[2], want.inverse, dtype, where + " inverse");
      const auto grad =
          run_every_way(registry, {"GroupNormGrad", dtype, {dy.tensor, x.tensor, scale.tensor, got[1], got[2]}, {}, 3});
      expect_near(grad[0], want.dx, dtype, where + " dx");
      expect_near(grad[1], want.dscale, dtype, where + " dscale");
      expect_near(grad[2], want.doffset, dtype, where + " doffset");
    }
}

TEST(RMSNorm, EqualsItsDefinitionForEveryDtype) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(12);
  for (const Shape& shape : {Shape{7, 1}, Shape{3, 5, 12}, Shape{70, 33}, Shape{3, 2064}, Shape{5}})
    for (DType dtype : kFloats) {
      const std::string where = std::string(name(dtype)) + shape.to_string();
      const std::int64_t width = shape[-1];
      const NormInput x(dtype, shape, engine, -1, 3), dy(dtype, shape, engine, -1, 1);
      const NormInput scale(statistic_type(dtype), {width}, engine, -1, 2);
      const NormReference want(x, scale, scale, dy, width, 1e-3, false, [&](std::int64_t i) { return i % width; });
      const auto got = run_every_way(registry, {"RMSNorm", dtype, {x.tensor, scale.tensor}, {{"epsilon", 1e-3}}, 2});
      expect_near(got[0], want.y, dtype, where + " y");
      expect_near(got[1], want.inverse, dtype, where + " inverse");
      const auto grad =
          run_every_way(registry, {"RMSNormGrad", dtype, {dy.tensor, x.tensor, scale.tensor, got[1]}, {}, 2});
      expect_near(grad[0], want.dx, dtype, where + " dx");
      expect_near(grad[1], want.dscale, dtype, where + " dscale");
    }
}

}  // namespace
}  // namespace troupe::testing
