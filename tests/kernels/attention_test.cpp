// Attention against its definition in double precision, with all scores at once.
#include <gtest/gtest.h>

#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/random_tensors.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe {
namespace {

using namespace troupe::testing;

struct AttentionCase {
  Shape q, k, v;
  Shape mask{0};
  bool bool_mask = false;
  bool causal = false;
  std::int64_t offset = 0;
  double softcap = 0;
};

// Blocks that are full, cut, and crossed by the diagonal at every offset; grouped heads; masks broadcast in every way.
const std::vector<AttentionCase> kAttentions{
    {{1, 3, 4}, {1, 5, 4}, {1, 5, 3}},
    {{2, 2, 70, 8}, {2, 2, 130, 8}, {2, 2, 130, 20}},
    {{2, 130, 16}, {2, 130, 16}, {2, 130, 16}, {0}, false, true},
    {{1, 4, 65, 5}, {1, 2, 100, 5}, {1, 2, 100, 5}, {0}, false, true, 35},
    {{2, 90, 3}, {1, 40, 3}, {1, 40, 2}, {0}, false, true, -20},
    {{1, 1, 64, 8}, {1, 1, 64, 8}, {1, 1, 64, 8}, {64, 64}, false, true, 7},
    {{2, 3, 20, 4}, {2, 1, 70, 4}, {2, 1, 70, 4}, {2, 1, 1, 70}, true},
    {{2, 2, 70, 4}, {2, 2, 20, 4}, {2, 2, 20, 4}, {2, 70, 1}, false, false, 0, 1.5},
    {{1, 2, 1, 8}, {1, 2, 200, 8}, {1, 2, 200, 8}, {0}, false, true, 199},
    {{1, 1, 600, 4}, {1, 1, 1100, 4}, {1, 1, 1100, 4}},
    {{2, 66, 150}, {1, 70, 150}, {1, 70, 131}, {66, 70}},  // depths beyond what a block of threads accumulates
    {{2, 0, 4}, {2, 3, 4}, {2, 3, 4}},
    {{2, 3, 4}, {2, 0, 4}, {2, 0, 2}},
    {{0, 3, 4}, {0, 3, 4}, {0, 3, 4}},
};

struct Attended {
  AttentionCase c;
  Tensor q, k, v, mask;

  Attended(const AttentionCase& given, DType dtype, std::mt19937_64& engine)
      : c(given),
        q(random_tensor(dtype, c.q, engine, -2, 2)),
        k(random_tensor(dtype, c.k, engine, -2, 2)),
        v(random_tensor(dtype, c.v, engine)),
        mask(c.bool_mask ? Tensor(DType::boolean, c.mask) : random_tensor(dtype, c.mask, engine)) {
    for (std::int64_t i = 0; c.bool_mask && i < mask.num_elements(); ++i)
      mask.mutable_data<bool>()[i] = engine() % 3 > 0;
  }
  std::string where() const {
    return fmt::format("{} q {} k {} mask {}", name(q.dtype()), c.q.to_string(), c.k.to_string(), c.mask.to_string());
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(c.q[-1])); }
  KernelCall call() const {
    const DType dtype = q.dtype();
    return {"Attention",
            dtype,
            {q, k, v, mask},
            {{"T", dtype},
             {"M", mask.dtype()},
             {"U", dtype == DType::f64 ? DType::f64 : DType::f32},
             {"scale", scale()},
             {"causal", c.causal},
             {"causal_offset", c.offset},
             {"softcap", c.softcap}},
            2};
  }

  double mask_at(std::int64_t head, std::int64_t t, std::int64_t s) const {
    if (mask.shape() == Shape{0}) return 0;
    Shape scores = c.q;
    scores.set_dim(-1, c.k[-2]);
    std::vector<std::int64_t> index(static_cast<std::size_t>(scores.rank()));
    index[index.size() - 1] = s, index[index.size() - 2] = t;
    for (int i = scores.rank() - 3; i >= 0; --i) {
      index[static_cast<std::size_t>(i)] = head % scores[i];
      head /= scores[i];
    }
    std::int64_t at = 0;
    for (int i = -c.mask.rank(); i < 0; ++i)
      at = at * c.mask[i] + (c.mask[i] == 1 ? 0 : index[index.size() - static_cast<std::size_t>(-i)]);
    const double value = doubles(mask)[static_cast<std::size_t>(at)];
    return c.bool_mask ? (value != 0 ? 0 : -INFINITY) : value;
  }

  std::vector<double> reference() const {
    const std::vector<double> qs = doubles(q), ks = doubles(k), vs = doubles(v);
    const std::int64_t queries = c.q[-2], keys = c.k[-2], depth = c.q[-1], wide = c.v[-1];
    const std::int64_t group = c.q[-3] / std::max<std::int64_t>(1, c.k[-3]);
    std::vector<double> y;
    for (std::int64_t row = 0; row < (depth ? q.num_elements() / depth : 0); ++row) {
      const std::int64_t head = row / queries, t = row % queries, from = head / group * keys;
      std::vector<double> weights;
      double most = -INFINITY, sum = 0;
      for (std::int64_t s = 0; s < keys; ++s) {
        double score = 0;
        for (std::int64_t i = 0; i < depth; ++i)
          score += qs[static_cast<std::size_t>(row * depth + i)] * ks[static_cast<std::size_t>((from + s) * depth + i)];
        score *= scale();
        if (c.softcap > 0) score = c.softcap * std::tanh(score / c.softcap);
        score += mask_at(head, t, s);
        if (c.causal && s > t + c.offset) score = -INFINITY;
        weights.push_back(score);
        most = std::max(most, score);
      }
      for (double& w : weights) sum += w = most == -INFINITY ? 0 : std::exp(w - most);
      for (std::int64_t i = 0; i < wide; ++i) {
        double value = 0;
        for (std::int64_t s = 0; s < keys && sum > 0; ++s)
          value += weights[static_cast<std::size_t>(s)] / sum * vs[static_cast<std::size_t>((from + s) * wide + i)];
        y.push_back(value);
      }
    }
    return y;
  }
};

TEST(Attention, EqualsTheDefinition) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(31);
  for (const DType dtype : kFloats)
    for (const AttentionCase& c : kAttentions) {
      const Attended in(c, dtype, engine);
      const Tensor y = run_every_way(registry, in.call())[0];
      const std::vector<double> got = doubles(y), want = in.reference();
      const double tolerance = dtype == DType::f64   ? 1e-13
                               : dtype == DType::f32 ? 3e-6
                               : dtype == DType::f16 ? 6e-4
                                                     : 5e-3;
      ASSERT_EQ(got.size(), want.size()) << in.where();
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance) << in.where() << " at " << i;
    }
}

// Those of f64 are checked against differences; they must agree with the gradients of the definition built from other
// ops, for every case.
TEST(Attention, GradientsEqualThoseOfTheDefinition) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(37);
  for (const AttentionCase& c : kAttentions) {
    if (c.q.rank() != 3 || c.k[-3] != c.q[-3] || c.mask.rank() != 1) continue;
    const Attended in(c, DType::f64, engine);
    const Tensor dy = random_tensor(DType::f64, {c.q[0], c.q[1], c.v[2]}, engine);
    KernelCall call = in.call();
    const auto out = run_every_way(registry, call);
    for (const Tensor& t : {out[0], out[1], dy}) call.inputs.push_back(t);
    call.op = "AttentionGrad";
    call.outputs = 4;
    call.attributes.set("mask_gradient", false);
    const auto found = run_every_way(registry, call);
    for (std::int64_t head = 0; head < c.q[0]; ++head) {
      Graph graph;
      const auto one = [&](const Tensor& t) {
        return constant(graph, t.rows(head, head + 1).reshaped(t.shape().without(0)).clone());
      };
      const Output q = one(in.q), k = one(in.k), v = one(in.v);
      Tensor hidden(DType::f64, {c.q[1], c.k[1]});
      for (std::int64_t t = 0; t < c.q[1]; ++t)
        for (std::int64_t s = 0; s < c.k[1]; ++s)
          hidden.mutable_data<double>()[t * c.k[1] + s] = c.causal && s > t + c.offset ? -1e300 : 0;
      const Output scores = matmul(q, k, {.transpose_b = true}) * in.scale() + constant(graph, hidden);
      const Output y = matmul(softmax(scores), v);
      const std::vector<Gradient> want = gradients(Outputs{y}, Outputs{q, k, v}, {.grad_ys = {one(dy)}});
      GraphEvaluator evaluator;
      for (std::size_t i = 0; i < 3; ++i) {
        const Output x = i == 0 ? q : i == 1 ? k : v;
        const Tensor expected = evaluator.run(dense(want[i], x), {});
        const auto got = doubles(found[i].rows(head, head + 1).clone()), values = doubles(expected);
        ASSERT_EQ(got.size(), values.size());
        for (std::size_t n = 0; n < got.size(); ++n)
          ASSERT_NEAR(got[n], values[n], 1e-11) << in.where() << " input " << i << " at " << n;
      }
    }
  }
}

TEST(Attention, GradientsOfAllDtypesAgree) {
  const KernelRegistry registry = all_kernels();
  for (const AttentionCase& c : kAttentions) {
    std::vector<std::vector<double>> first;
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      std::mt19937_64 engine(41);
      const Attended in(c, dtype, engine);
      KernelCall call = in.call();
      const auto out = run_every_way(registry, call);
      for (const Tensor& t : {out[0], out[1], random_tensor(dtype, out[0].shape(), engine)}) call.inputs.push_back(t);
      call.op = "AttentionGrad";
      call.outputs = 4;
      call.attributes.set("mask_gradient", !c.bool_mask);
      const auto found = run_every_way(registry, call);
      const double tolerance = dtype == DType::f64 ? 0 : dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 2e-2 : 0.12;
      for (std::size_t g = 0; g < found.size(); ++g) {
        const std::vector<double> values = doubles(found[g]);
        if (dtype == DType::f64) first.push_back(values);
        ASSERT_EQ(values.size(), first[g].size()) << in.where();
        for (std::size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(values[i], first[g][i], tolerance * (1 + std::fabs(first[g][i])))
              << in.where() << " gradient " << g << " at " << i;
      }
    }
  }
}

TEST(Attention, ZerosWhereAQueryAttendsToNothing) {
  Graph graph;
  const Output x = constant(graph, Tensor::of<float>({1, 2, 2}, {1, 2, 3, 4}));
  const Output mask = constant(graph, Tensor::of<bool>({2, 2}, {false, false, true, false}));
  const Output y = attention(x, x, x, {.mask = mask});
  const std::vector<Gradient> flows = gradients(Outputs{y}, Outputs{x});
  GraphEvaluator evaluator;
  const auto values = doubles(evaluator.run(y, {}));
  EXPECT_EQ(values, (std::vector<double>{0, 0, 1, 2}));
  EXPECT_EQ(doubles(evaluator.run(dense(flows[0], x), {})), (std::vector<double>{1, 1, 0, 0}));
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  std::mt19937_64 engine(3);
  const Attended in({{2, 3, 4}, {2, 5, 4}, {2, 5, 3}}, DType::f32, engine);
  const auto error = [&](std::size_t index, Tensor bad) {
    KernelCall call = in.call();
    call.inputs[index] = std::move(bad);
    return message_of(Code::invalid_argument, [&] { run_kernel(registry, *device, call); });
  };
  EXPECT_EQ(error(1, Tensor::zeros(DType::f32, {2, 5, 5})),
            "Attention: q [2,3,4], k [2,5,5] and v [2,5,3] do not fit together");
  EXPECT_EQ(error(0, Tensor::zeros(DType::f32, {3, 3, 4})),
            "Attention: the 3 heads of q must be a multiple of the 2 of k and v");
  EXPECT_EQ(error(3, Tensor::zeros(DType::boolean, {3, 4})),
            "Attention: the mask [3,4] cannot be broadcast to the scores [2,3,5]");
}

// NumPy: x * cos + rotated * sin.
TEST(RotaryEmbedding, RotatesPairs) {
  Graph graph;
  const Output x = constant(graph, Tensor::of<float>({1, 2, 5}, {1, 2, 3, 4, 5, -1, 0.5f, 2, -3, 7}));
  const Output cosines = constant(graph, Tensor::of<float>({2, 2}, {1, 0.5f, 0.25f, -1}));
  const Output sines = constant(graph, Tensor::of<float>({2, 2}, {0, 2, 0.5f, 1}));
  GraphEvaluator evaluator;
  EXPECT_EQ(doubles(evaluator.run(rotary_embedding(x, cosines, sines), {})),
            (std::vector<double>{1, -7, 3, 6, 5, -1.25, 2.5, 0, 3.5, 7}));
  EXPECT_EQ(doubles(evaluator.run(rotary_embedding(x, cosines, sines, {.interleaved = true}), {})),
            (std::vector<double>{1, 2, -6.5, 8, 5, -0.5, -0.375, 1, 5, 7}));
}

}  // namespace
}  // namespace troupe
