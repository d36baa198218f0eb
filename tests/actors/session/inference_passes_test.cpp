// Passes that make predictions faster, against the same graph without them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/actors/session/drawn.hpp"
#include "tests/actors/session/folded.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/graph/passes/freeze.hpp>

namespace troupe {
namespace {

using testing::drawn;
using testing::error_of;
using testing::Folded;
using testing::folded;
using ::testing::HasSubstr;
using ::testing::Not;

// Constants, as of a frozen model.
struct Norm {
  Output scale, offset, mean, variance;
  Norm(Graph& g, std::int64_t channels, std::uint64_t seed)
      : scale(constant(g, drawn(Shape{channels}, seed, -2, 2))),
        offset(constant(g, drawn(Shape{channels}, seed + 1, -1, 1))),
        mean(constant(g, drawn(Shape{channels}, seed + 2, -1, 1))),
        variance(constant(g, drawn(Shape{channels}, seed + 3, 0.1f, 3))) {}
  Output operator()(Output x, const std::string& activation = "none") const {
    return add_op("BatchNormInference", {x, scale, offset, mean, variance},
                  {{"epsilon", 1e-3}, {"activation", activation}});
  }
};

Output filter(Graph& g, const Shape& shape) { return constant(g, drawn(shape, 5, -0.5f, 0.5f)); }

constexpr std::string_view kFolded = "folded BatchNormInference";

TEST(InferencePasses, NormalisationsAreFoldedIntoConvolutions) {
  const std::map<std::string, std::function<Output(Graph&, const Output& x)>> graphs = {
      {"conv",
       [](Graph& g, Output x) {
         return Norm(g, 6, 1)(conv2d(x, filter(g, {3, 3, 4, 6})));
       }},
      {"bias",
       [](Graph& g, Output x) {
         return Norm(g, 6, 1)(bias_add(conv2d(x, filter(g, {3, 3, 4, 6})), constant(g, drawn({6}, 3, -1, 1))), "relu");
       }},
      {"groups",
       [](Graph& g, Output x) {
         return Norm(g, 6, 1)(conv2d(x, filter(g, {3, 3, 2, 6}), {.strides = {2, 2}, .groups = 2}), "relu");
       }},
      {"depthwise",
       [](Graph& g, Output x) {
         return Norm(g, 8, 1)(depthwise_conv2d(x, filter(g, {3, 3, 4, 2})));
       }},
      {"two", [](Graph& g, Output x) {
         const Output first = Norm(g, 6, 1)(conv2d(x, filter(g, {1, 1, 4, 6})), "relu");
         return Norm(g, 5, 7)(conv2d(first, filter(g, {3, 3, 6, 5}))) + 1.0;
       }}};
  for (const auto& [name, make] : graphs) {
    SCOPED_TRACE(name);
    Graph g;
    const Output x = placeholder(g, DType::f32, Shape{2, 9, 8, 4}, "x");
    const Output y = make(g, x);
    const Folded all = folded(g, x, y);
    EXPECT_LT(all.difference, 1e-5);
    EXPECT_THAT(all.explained, HasSubstr(std::string(kFolded)));
    EXPECT_THAT(all.explained, HasSubstr("products and convolutions add their bias where sums are made"));
    const Folded off = folded(g, x, y, {.switched_off = {"fold_batch_norm", "bias_inside"}});
    EXPECT_EQ(off.difference, 0);
    EXPECT_THAT(off.explained, Not(HasSubstr(std::string(kFolded))));
  }
}

TEST(InferencePasses, BiasesAddedWhereSumsAreMadeHardlyChangeThem) {
  for (const std::int64_t size : {1, 3})
    for (const bool activated : {false, true}) {
      SCOPED_TRACE(fmt::format("{0} x {0}{1}", size, activated ? ", relu" : ""));
      Graph g;
      const Output x = placeholder(g, DType::f32, Shape{1, 9, 8, 512}, "x");
      const Output sums = bias_add(conv2d(x, filter(g, {size, size, 512, 32})), constant(g, drawn({32}, 3, -1, 1)));
      const Folded inside = folded(g, x, activated ? relu(sums) : sums);
      EXPECT_LT(inside.difference, 2e-6);
      EXPECT_THAT(inside.explained, HasSubstr("1 products and convolutions add their bias where sums are made"));
    }
}

TEST(InferencePasses, ResidualsAreAddedWhereSumsAreMade) {
  const auto conv = [](Graph& g, const Output& x, std::int64_t size, std::uint64_t seed) {
    const Shape shape{size, size, 16, 16};
    return bias_add(conv2d(x, constant(g, drawn(shape, seed, -0.2f, 0.2f))), constant(g, drawn({16}, seed + 1, -1, 1)));
  };
  struct Block {
    const char* name;
    int residuals;
    std::function<Output(Graph&, const Output& x)> make;
  };
  const Block blocks[] = {
      {"identity", 2,
       [&](Graph& g, Output x) {
         const Output first = relu(conv(g, relu(conv(g, x, 3, 1)), 3, 3) + x);
         return relu(first + conv(g, relu(conv(g, first, 1, 5)), 3, 7));
       }},
      {"projection", 1, [&](Graph& g, Output x) { return relu(conv(g, x, 1, 1) + conv(g, relu(x), 3, 3)); }},
      {"of what is convolved", 1, [&](Graph& g, Output x) { return conv(g, x * 2.0, 3, 1) + x * 2.0; }},
      {"read again", 1,
       [&](Graph& g, Output x) {
         const Output shared = x * 0.5 + 1.0;
         return (relu(conv(g, x, 3, 1) + shared) - shared) * 2.0;
       }},
      {"no relu but exp", 1, [&](Graph& g, Output x) { return exp(tanh(conv(g, x, 1, 1) + x)); }},
      {"two readers", 0,
       [&](Graph& g, Output x) {
         const Output y = conv(g, x, 1, 1);
         return relu(y + x) + y;
       }},
      {"an activation before", 0, [&](Graph& g, Output x) { return relu(conv(g, x, 1, 1)) + x; }},
      {"a row for all", 0,
       [&](Graph& g, Output x) {
         return relu(conv(g, x, 1, 1) + sum(x, {1, 2}, {.keep_dims = true}));
       }},
  };
  for (const Block& block : blocks) {
    SCOPED_TRACE(block.name);
    Graph g;
    const Output x = placeholder(g, DType::f32, Shape{2, 9, 8, 16}, "x");
    const Output y = block.make(g, x);
    const Folded all = folded(g, x, y);
    EXPECT_LT(all.difference, 2e-6);
    std::size_t found = 0;
    for (std::size_t at = 0; (at = all.explained.find("-> ResidualConv", at)) != std::string::npos; ++at) ++found;
    EXPECT_EQ(found, block.residuals) << all.explained;
    EXPECT_EQ(folded(g, x, y, {.switched_off = {"bias_inside", "residual_inside"}}).difference, 0);
  }
}

TEST(InferencePasses, AResidualOfOneImageIsAddedToEach) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{kUnknown, 5, 4, 16}, "x");
  const Output other = placeholder(g, DType::f32, Shape{kUnknown, 5, 4, 16}, "other");
  const Output y = relu(bias_add(conv2d(x, filter(g, {3, 3, 16, 16})), constant(g, drawn({16}, 3, -1, 1))) + other);
  Session plain(g), faster(g, {.inference = InferencePasses{}});
  for (const auto& [images, residuals] :
       {std::pair<std::int64_t, std::int64_t>{3, 3}, {3, 1}, {1, 3}, {0, 0}, {0, 1}}) {
    SCOPED_TRACE(fmt::format("{} and {}", images, residuals));
    const Feeds feeds{{x, drawn({images, 5, 4, 16}, 1, -1, 1)}, {other, drawn({residuals, 5, 4, 16}, 2, -1, 1)}};
    const Tensor expected = plain.run(feeds, y), actual = faster.run(feeds, y);
    ASSERT_EQ(actual.shape(), expected.shape());
    for (std::int64_t i = 0; i < expected.num_elements(); ++i)
      ASSERT_NEAR(actual.data<float>()[i], expected.data<float>()[i], 1e-5) << i;
  }
  EXPECT_THAT(faster.explain({x, other}, {y}), HasSubstr("-> ResidualConv"));
  EXPECT_THAT(error_of([&] {
                faster.run({{x, drawn({2, 5, 4, 16}, 1, -1, 1)}, {other, drawn({3, 5, 4, 16}, 2, -1, 1)}}, y);
              }).message(),
              HasSubstr("the convolution is [2,5,4,16], but the residual [3,5,4,16]"));
}

// Gelu as builders and exporters write it, behind a product with a bias.
TEST(InferencePasses, AGeluBehindAProductIsMadeWhereItsSumsAre) {
  struct Form {
    const char* name;
    std::function<Output(Output x)> gelu;
    bool recognised = true;
  };
  const double root = std::sqrt(2.0);
  const std::vector<Form> forms = {
      {"of the builder", [](Output x) { return gelu(x); }},
      {"divided", [=](Output x) { return 0.5 * (x * (1 + erf(x / root))); }},
      {"the half first", [=](Output x) { return (0.5 * x) * (erf((1 / root) * x) + 1); }},
      {"of tanh", [](Output x) { return gelu(x, {.approximate = true}); }, false},
      {"another root", [](Output x) { return x * (0.5 * (1 + erf(0.7 * x))); }, false},
      {"no half", [=](Output x) { return x * (1 + erf(x / root)); }, false},
      {"of something else", [=](Output x) { return x * (0.5 * (1 + erf(square(x) / root))); }, false},
      {"read by others",
       [=](Output x) {
         const Output e = erf(x / root);
         return x * (0.5 * (1 + e)) + e;
       },
       false}};
  for (const Form& form : forms)
    for (const std::int64_t rows : {40, 3}) {
      SCOPED_TRACE(fmt::format("{}, {} rows", form.name, rows));
      Graph g;
      const Output x = placeholder(g, DType::f32, Shape{rows, 24}, "x");
      const Output w = constant(g, drawn({24, 36}, 5, -1, 1));
      const Output y = form.gelu(bias_add(matmul(x, w), constant(g, drawn({36}, 3, -1, 1))));
      const Folded all = folded(g, x, y);
      EXPECT_LT(all.difference, 1e-5);
      EXPECT_EQ(all.explained.find("-> GeluMatMul") != std::string::npos, form.recognised) << all.explained;
      const Folded off = folded(g, x, y, {.switched_off = {"gelu_inside", "bias_inside"}});
      EXPECT_EQ(off.difference, 0);
    }
}

// A constant matrix is laid out once; plans of other sizes read that.
TEST(InferencePasses, ProductsByAConstantHaveTheSameBitsOnSeveralThreads) {
  for (const bool transposed : {false, true})
    for (const bool batched : {false, true}) {
      SCOPED_TRACE(fmt::format("transposed {}, batched {}", transposed, batched));
      Graph g;
      const Output x = placeholder(g, DType::f32, batched ? Shape{kUnknown, 5, 96} : Shape{kUnknown, 96}, "x");
      const auto dense = [&](Output in, std::int64_t from, std::int64_t to, std::uint64_t seed) {
        const Output w = constant(g, drawn(transposed ? Shape{to, from} : Shape{from, to}, seed, -1, 1));
        return bias_add(matmul(in, w, {.transpose_b = transposed}), constant(g, drawn({to}, seed + 1, -1, 1)));
      };
      const Output hidden = relu(dense(gelu(dense(x, 96, 1000, 1)), 1000, 130, 3));
      const Output y = dense(matmul(hidden, constant(g, drawn({130, 64}, 7, -1, 1))), 64, 1, 5);
      const auto results = [&](int threads, std::optional<InferencePasses> passes) {
        Task task({.threads = threads, .gpus = {.count = 0}});
        Session session(task, g, {.inference = std::move(passes)});
        std::vector<Tensor> out;
        for (const std::int64_t rows : {1, 7, 300, 16, 1300, 0, 300}) {
          const Shape shape = batched ? Shape{rows, 5, 96} : Shape{rows, 96};
          out.push_back(session.run({{x, drawn(shape, 6, -1, 1)}}, y));
        }
        return out;
      };
      const std::vector<Tensor> plain = results(1, std::nullopt), expected = results(1, InferencePasses{});
      for (std::size_t i = 0; i < plain.size(); ++i) {
        ASSERT_EQ(expected[i].shape(), plain[i].shape());
        float largest = 0;
        for (const float value : plain[i].values<float>()) largest = std::max(largest, std::abs(value));
        for (std::int64_t at = 0; at < plain[i].num_elements(); ++at)
          ASSERT_NEAR(expected[i].data<float>()[at], plain[i].data<float>()[at], 1e-5 * largest) << i << ": " << at;
      }
      for (const int threads : {2, 5}) {
        const std::vector<Tensor> actual = results(threads, InferencePasses{});
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_TRUE(bitwise_equal(actual[i], expected[i])) << threads << " threads, result " << i;
      }
    }
}

// As graph/passes/bias_inside.hpp states.
TEST(InferencePasses, OfNotANumberOnlyAReluInsideMakesZero) {
  for (const bool activated : {false, true})
    for (const bool inside : {false, true}) {
      SCOPED_TRACE(fmt::format("relu {}, inside {}", activated, inside));
      Graph g;
      const Output x = placeholder(g, DType::f32, Shape{1, 3, 3, 16}, "x");
      const Output sums = bias_add(conv2d(x, filter(g, {1, 1, 16, 16})), constant(g, drawn({16}, 3, -1, 1)));
      const Output y = activated ? relu(sums) : sums;
      InferencePasses passes;
      if (!inside) passes.switched_off.insert("bias_inside");
      Session session(g, {.inference = passes});
      Tensor image = drawn(x.shape(), 9, -1, 1);
      image.mutable_data<float>()[4 * 16] = std::numeric_limits<float>::quiet_NaN();
      const Tensor out = session.run({{x, image}}, y);
      for (std::int64_t i = 0; i < out.num_elements(); ++i) {
        const float value = out.data<float>()[i];
        if (i / 16 == 4 && activated && inside)
          EXPECT_EQ(value, 0) << i;
        else
          EXPECT_EQ(std::isnan(value), i / 16 == 4) << i;
      }
    }
}

TEST(InferencePasses, OnlyConstantsThatNobodyElseSeesAreFolded) {
  const std::map<std::string, std::function<Output(Graph&, const Output& x)>> graphs = {
      {"the convolution is read by others",
       [](Graph& g, Output x) {
         const Output made = conv2d(x, filter(g, {3, 3, 4, 4}));
         return Norm(g, 4, 1)(made) + made;
       }},
      {"the filter is computed",
       [](Graph& g, Output x) {
         return Norm(g, 4, 1)(conv2d(x, filter(g, {3, 3, 4, 4}) * reduce_l2(x, {})));
       }},
      {"another op is between", [](Graph& g, Output x) {
         return Norm(g, 4, 1)(relu(conv2d(x, filter(g, {3, 3, 4, 4}))));
       }}};
  for (const auto& [name, make] : graphs) {
    SCOPED_TRACE(name);
    Graph g;
    const Output x = placeholder(g, DType::f32, Shape{2, 9, 8, 4}, "x");
    EXPECT_THAT(folded(g, x, make(g, x)).explained, Not(HasSubstr(std::string(kFolded))));
  }
}

// A filter that is constant is laid out for the library once: by the first batch, and used by batches of other sizes.
TEST(ConstantFilters, GiveTheBitsOfFedOnes) {
  for (const auto& [filter_shape, groups] : {std::pair<Shape, std::int64_t>{{3, 3, 32, 48}, 1},
                                             {{1, 1, 32, 16}, 1},
                                             {{3, 3, 1, 32}, 32},
                                             {{3, 3, 8, 40}, 4}}) {
    SCOPED_TRACE(filter_shape.to_string());
    Graph g;
    const Output x = placeholder(g, DType::f32, Shape{kUnknown, 11, 10, 32}, "x");
    const Output fed = placeholder(g, DType::f32, filter_shape, "filter");
    const Tensor value = drawn(filter_shape, 5, -1, 1);
    const ConvOptions options{.groups = groups};
    const Output kept = conv2d(x, constant(g, value), options), other = conv2d(x, fed, options);
    Session session(g);
    for (const std::int64_t batch : {1, 16, 3, 1}) {
      const Tensor images = drawn(Shape{batch, 11, 10, 32}, static_cast<std::uint64_t>(batch), -1, 1);
      const Tensor actual = session.run({{x, images}}, kept),
                   expected = session.run({{x, images}, {fed, value}}, other);
      ASSERT_EQ(std::memcmp(actual.raw(), expected.raw(), expected.num_bytes()), 0) << batch;
    }
  }
}

// A small image is made by several threads in slices of output channels, of the filter that was laid out once.
TEST(ConstantFilters, AreReadInSlicesWithTheSameBits) {
  for (const bool activated : {false, true})
    for (const std::int64_t size : {1, 3}) {
      SCOPED_TRACE(fmt::format("relu {}, filter {}", activated, size));
      Graph g;
      const Output x = placeholder(g, DType::f32, Shape{kUnknown, 7, 7, 256}, "x");
      const Output sums = bias_add(conv2d(x, filter(g, {size, size, 256, 512})), constant(g, drawn({512}, 3, -1, 1)));
      const Output y = activated ? relu(sums) : sums;
      const Output other = bias_add(conv2d(y, filter(g, {1, 1, 512, 192})), constant(g, drawn({192}, 3, -1, 1)));
      const Output z = relu(other + constant(g, drawn({1, 7, 7, 192}, 4, -1, 1)));
      const auto results = [&](int threads) {
        Task task({.threads = threads, .gpus = {.count = 0}});
        Session session(task, g, {.inference = InferencePasses{}});
        std::vector<Tensor> out;
        for (const std::int64_t batch : {1, 2, 8, 1})
          for (Tensor& result : session.run({{x, drawn({batch, 7, 7, 256}, 6, -1, 1)}}, {y, z}))
            out.push_back(std::move(result));
        return out;
      };
      const std::vector<Tensor> expected = results(1);
      for (const int threads : {2, 5}) {
        const std::vector<Tensor> actual = results(threads);
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_TRUE(bitwise_equal(actual[i], expected[i])) << threads << " threads, result " << i;
      }
    }
}

// Convolutions of both formats read one constant, as different filters.
TEST(ConstantFilters, OfOneConstantAreKeptForEachMeaning) {
  for (const std::int64_t n : {1, 3, 8, 16}) {
    Graph g;
    const Tensor value = drawn({n, n, n, n}, 5, -1, 1);
    const Output x = placeholder(g, DType::f32, Shape{1, 18, 18, n}, "x");
    const Output planes = placeholder(g, DType::f32, Shape{1, n, 18, 18}, "planes");
    const Output fed = placeholder(g, DType::f32, value.shape(), "filter"), same = constant(g, value);
    const ConvOptions first{.format = DataFormat::channels_first};
    const Output kept_last = conv2d(x, same), kept_first = conv2d(planes, same, first);
    const Output fed_last = conv2d(x, fed), fed_first = conv2d(planes, fed, first);
    Session session(g);
    const Feeds feeds{{x, drawn(x.shape(), 1, -1, 1)}, {planes, drawn(planes.shape(), 2, -1, 1)}, {fed, value}};
    const std::vector<Tensor> y = session.run(feeds, {kept_last, kept_first, fed_last, fed_first});
    EXPECT_EQ(std::memcmp(y[0].raw(), y[2].raw(), y[2].num_bytes()), 0) << n;
    EXPECT_EQ(std::memcmp(y[1].raw(), y[3].raw(), y[3].num_bytes()), 0) << n;
  }
}

// So are the weights of a recurrent layer's state, for each direction.
TEST(ConstantFilters, OfRecurrentLayersGiveTheBitsOfFedOnes) {
  for (const Direction direction : {Direction::forward, Direction::bidirectional}) {
    const std::int64_t directions = direction == Direction::bidirectional ? 2 : 1;
    Graph g;
    const Output x = placeholder(g, DType::f32, Shape{7, kUnknown, 20}, "x");
    const Output w = constant(g, drawn({directions, 4 * 70, 20}, 1, -0.3f, 0.3f));
    const Tensor value = drawn({directions, 4 * 70, 70}, 2, -0.3f, 0.3f);
    const Output fed = placeholder(g, DType::f32, value.shape(), "r");
    const Output kept = lstm(x, w, constant(g, value), {.direction = direction}).y;
    const Output other = lstm(x, w, fed, {.direction = direction}).y;
    Session session(g);
    for (const std::int64_t batch : {1, 16, 1}) {
      const Tensor rows = drawn(Shape{7, batch, 20}, static_cast<std::uint64_t>(batch), -1, 1);
      const Tensor actual = session.run({{x, rows}}, kept), expected = session.run({{x, rows}, {fed, value}}, other);
      ASSERT_EQ(std::memcmp(actual.raw(), expected.raw(), expected.num_bytes()), 0) << directions << ", " << batch;
    }
  }
}

TEST(InferencePasses, AFrozenNetworkPredictsTheSame) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{2, 12, 12, 3}, "x");
  VariablePool pool;
  LayerContext context{.graph = g, .variables = pool};
  const Sequential network({layers::conv2d(8, 3, Activation::none, {.use_bias = false}),
                            layers::batch_norm(Activation::relu), layers::flatten(), layers::dense(5)});
  const Output y = network.apply(context, x);
  std::map<std::string, Tensor> values;
  for (const VariableInfo& v : variables(g))
    values[v.name] = drawn(v.shape, 1 + values.size(), v.name.ends_with("variance") ? 0.1f : -1, 1);
  const auto frozen = freeze(g, values);
  EXPECT_EQ(frozen->find(pool.all().front().name + "/read")->op->name, "Const");
  const Output frozen_x = frozen->output(*frozen->find("x")), frozen_y = frozen->output(*frozen->find(y.source().name));
  const Folded result = folded(*frozen, frozen_x, frozen_y);
  EXPECT_LT(result.difference, 1e-5);
  EXPECT_THAT(result.explained, HasSubstr(std::string(kFolded)));

  values.erase(pool.all().front().name);
  EXPECT_THAT(error_of([&] { freeze(g, values); }).message(), HasSubstr("has no value to freeze"));
  values[pool.all().front().name] = Tensor::scalar(1.0f);
  EXPECT_THAT(error_of([&] { freeze(g, values); }).message(), HasSubstr(", but its value is f32[]"));
}

TEST(InferencePasses, AnUnknownNameIsRefused) {
  Graph g;
  const Output x = placeholder(g, DType::f32, Shape{2}, "x");
  Session session(g, {.inference = InferencePasses{.switched_off = {"fold_all"}}});
  EXPECT_THAT(error_of([&] {
                session.run({{x, Tensor::vector<float>({1, 2})}}, x);
              }).message(),
              HasSubstr("'fold_all'"));
}

}  // namespace
}  // namespace troupe
