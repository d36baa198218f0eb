// Ops that passes for inference recognise in their parts.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/actors/session/folded.hpp"
#include "tests/error_of.hpp"
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using testing::drawn;
using testing::error_of;
using testing::Folded;
using testing::folded;

TEST(RecognisedParts, AttentionIsRecognisedInItsParts) {
  // x [2, 7, 24] as 3 heads of 8.
  const auto split = [](const Output& x) { return reshape(x, {2, 7, 3, 8}); };
  const auto heads = [&](const Output& x) { return transpose(split(x), {0, 2, 1, 3}); };
  const auto exchanged = [](const Output& x) { return transpose(x, {0, 1, 3, 2}); };
  struct Form {
    const char* name;
    bool recognised;
    std::function<Output(Graph&, const Output& x)> make;
  };
  const Form forms[] = {
      {"scaled scores", true,
       [&](Graph&, Output x) {
         const Output scores = matmul(heads(x), exchanged(heads(x + 1.0))) / std::sqrt(8.0);
         return matmul(softmax(scores), heads(x * 2.0));
       }},
      {"a mask", true,
       [&](Graph& g, Output x) {
         const Output mask = constant(g, drawn({2, 1, 1, 7}, 3, -4, 0));
         const Output scores = matmul(heads(x), exchanged(heads(x + 1.0))) * 0.25;
         return matmul(softmax(mask + scores), heads(x * 2.0));
       }},
      {"keys transposed at once", true,
       [&](Graph&, Output x) {
         const Output keys = transpose(split(x + 1.0), {0, 2, 3, 1});
         return matmul(softmax(matmul(heads(x) * 0.3, keys)), heads(x * 2.0));
       }},
      {"both scaled", true,
       [&](Graph&, Output x) {
         const Output scores = matmul(heads(x) * 0.5, exchanged(heads(x + 1.0)) * 0.5);
         return matmul(softmax(scores), heads(x * 2.0));
       }},
      {"no scale, transposed in the product", true,
       [&](Graph&, Output x) {
         const Output scores = matmul(heads(x), heads(x + 1.0), {.transpose_b = true});
         return matmul(softmax(scores), heads(x * 2.0));
       }},
      {"weights are read again", false,
       [&](Graph&, Output x) {
         const Output weights = softmax(matmul(heads(x), exchanged(heads(x + 1.0))) * 0.3);
         return matmul(weights, heads(x * 2.0)) + sum(weights);
       }},
      {"softmax over queries", false,
       [&](Graph&, Output x) {
         const Output scores = matmul(heads(x), exchanged(heads(x + 1.0))) * 0.3;
         return matmul(softmax(scores, {.axis = -2}), heads(x * 2.0));
       }},
      {"keys that are not transposed", false,
       [&](Graph& g, Output x) {
         const Output keys = constant(g, drawn({2, 3, 8, 7}, 3, -1, 1));
         return matmul(softmax(matmul(heads(x), keys) * 0.3), heads(x * 2.0));
       }},
      {"keys of one head for all", false,
       [&](Graph&, Output x) {
         const Output key = reshape(slice(x, {0, 0, 0}, {2, 7, 8}), {2, 1, 7, 8});
         return matmul(softmax(matmul(heads(x), exchanged(key)) * 0.3), heads(x * 2.0));
       }},
      {"a mask that adds queries", false,
       [&](Graph& g, Output x) {
         const Output query = slice(heads(x), {0, 0, 0, 0}, {2, 3, 1, 8});
         const Output mask = constant(g, drawn({7, 7}, 3, -1, 1));
         return matmul(softmax(matmul(query, exchanged(heads(x + 1.0))) * 0.3 + mask), heads(x * 2.0));
       }},
  };
  for (const Form& form : forms) {
    SCOPED_TRACE(form.name);
    Graph g;
    const Output x = placeholder(g, DType::f32, Shape{2, 7, 24}, "x");
    const Output y = form.make(g, x);
    const Folded all = folded(g, x, y);
    EXPECT_LT(all.difference, 1e-5);
    EXPECT_EQ(all.explained.find("recognised attention") != std::string::npos, form.recognised) << all.explained;
    EXPECT_EQ(folded(g, x, y, {.switched_off = {"fuse_attention"}}).difference, 0);
  }
}

// A product would repeat the one; Attention says so instead of computing something else.
TEST(RecognisedParts, AttentionTakesUnknownBatchesToBeEqual) {
  Graph g;
  const Output q = placeholder(g, DType::f32, Shape{kUnknown, 3, 5, 8}, "q");
  const Output k = placeholder(g, DType::f32, Shape{kUnknown, 3, 7, 8}, "k");
  const Output y = matmul(softmax(matmul(q, k, {.transpose_b = true})), k);
  const auto run = [&](Session& session, std::int64_t queries, std::int64_t keys) {
    return session.run({{q, drawn({queries, 3, 5, 8}, 1, -1, 1)}, {k, drawn({keys, 3, 7, 8}, 2, -1, 1)}}, y);
  };
  Session plain(g), faster(g, {.inference = InferencePasses{}});
  const Tensor expected = run(plain, 2, 2), actual = run(faster, 2, 2);
  ASSERT_EQ(actual.shape(), expected.shape());
  for (std::int64_t i = 0; i < expected.num_elements(); ++i)
    ASSERT_NEAR(actual.data<float>()[i], expected.data<float>()[i], 1e-5) << i;
  EXPECT_NE(faster.explain({q, k}, {y}).find("recognised attention"), std::string::npos);
  EXPECT_EQ(run(plain, 1, 2).shape(), (Shape{2, 3, 5, 8}));
  const Error error = error_of([&] { run(faster, 1, 2); });
  EXPECT_EQ(error.code(), Code::invalid_argument);
  EXPECT_NE(error.message().find("Attention"), std::string::npos) << error.message();
}

TEST(RecognisedParts, LayerNormalisationIsRecognisedInItsParts) {
  struct Form {
    const char* name;
    bool recognised;
    std::function<Output(Graph&, const Output& x)> make;
  };
  const auto row = [](Graph& g, std::uint64_t seed) { return constant(g, drawn({24}, seed, -2, 2)); };
  const auto off_mean = [](const Output& x) {
    const Output average = mean(x, {-1}, {.keep_dims = true});
    return x - average;
  };
  const auto average_of = [](const Output& x) { return mean(x, {-1}, {.keep_dims = true}); };
  const Form forms[] = {
      {"a power and a quotient", true,
       [&](Graph& g, Output x) {
         const Output off = off_mean(x), deviation = sqrt(average_of(pow(off, constant(g, 2.0f))) + 1e-5);
         return off / deviation * row(g, 1) + row(g, 2);
       }},
      {"a product, the other order, the axis from the front", true,
       [&](Graph& g, Output x) {
         const Output off = off_mean(x), variance = mean(off * off, {2}, {.keep_dims = true});
         const Output normal = off / sqrt(1e-3 + variance);
         return row(g, 2) + row(g, 1) * normal;
       }},
      {"a squared difference and an inverse root", true,
       [&](Graph& g, Output x) {
         const Output average = average_of(x), off = x - average;
         const Output variance = average_of(squared_difference(x, average));
         return rsqrt(variance + 1e-5) * off * row(g, 1) + row(g, 2);
       }},
      {"two in a row", true,
       [&](Graph& g, Output x) {
         for (const std::uint64_t seed : {1, 3}) {
           const Output off = off_mean(x), deviation = sqrt(average_of(square(off)) + 1e-5);
           x = off / deviation * row(g, seed) + row(g, seed + 1) + x;
         }
         return x;
       }},
      {"another axis", false,
       [&](Graph& g, Output x) {
         const Output off = x - mean(x, {1}, {.keep_dims = true});
         return off / sqrt(mean(square(off), {1}, {.keep_dims = true}) + 1e-5) * row(g, 1) + row(g, 2);
       }},
      {"the variance of something else", false,
       [&](Graph& g, Output x) {
         const Output off = off_mean(x);
         return off / sqrt(average_of(square(x)) + 1e-5) * row(g, 1) + row(g, 2);
       }},
      {"a cube", false,
       [&](Graph& g, Output x) {
         const Output off = off_mean(x), cubes = pow(abs(off), constant(g, 3.0f));
         return off / sqrt(average_of(cubes) + 1e-5) * row(g, 1) + row(g, 2);
       }},
      {"what is between is read", false,
       [&](Graph& g, Output x) {
         const Output off = off_mean(x), deviation = sqrt(average_of(square(off)) + 1e-5);
         return off / deviation * row(g, 1) + row(g, 2) + off;
       }},
      {"a scale for each row", false,
       [&](Graph& g, Output x) {
         const Output off = off_mean(x), deviation = sqrt(average_of(square(off)) + 1e-5);
         return off / deviation * constant(g, drawn({7, 1}, 1, -2, 2)) + row(g, 2);
       }},
  };
  for (const Form& form : forms) {
    SCOPED_TRACE(form.name);
    Graph g;
    const Output x = placeholder(g, DType::f32, Shape{2, 7, 24}, "x");
    const Output y = form.make(g, x);
    const Folded all = folded(g, x, y);
    EXPECT_LT(all.difference, 1e-5);
    EXPECT_EQ(all.explained.find("recognised LayerNorm") != std::string::npos, form.recognised) << all.explained;
    EXPECT_EQ(folded(g, x, y, {.switched_off = {"fuse_layer_norm"}}).difference, 0);
  }
}

}  // namespace
}  // namespace troupe
