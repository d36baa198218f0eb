#include "troupe/graph/ops/composed_gradients.hpp"

#include <limits>

#include <troupe/graph/gradients/tape.hpp>

namespace troupe {

void gradient_by_composition(GradientContext& c, const std::function<Outputs(const Outputs&)>& compose) {
  // Copies, so that no path goes from one input to another.
  Outputs inputs, wanted;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const bool differentiable = is_floating(c.input(i).dtype());
    inputs.push_back(differentiable ? identity(c.input(i)) : c.input(i));
    if (c.needs(i) && differentiable) wanted.push_back(inputs.back());
  }
  if (wanted.empty()) return;
  const auto composed = [&] {
    const Outputs results = compose(inputs);
    SeededOutputs made;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].valid() || !c.has_grad(static_cast<int>(i))) continue;
      made.ys.push_back(results[i]);
      made.grad_ys.push_back(c.grad(static_cast<int>(i)));
    }
    return made;
  };
  const std::vector<Gradient> found = gradients_of(composed, wanted);
  std::size_t next = 0;
  for (int i = 0; i < c.num_inputs(); ++i)
    if (c.needs(i) && is_floating(c.input(i).dtype())) c.results()[static_cast<std::size_t>(i)] = found[next++];
}

namespace {

// The numbers 0, 1, ... below `count` (i64 scalar) along dimension `axis` of a matrix.
Output counted(Output count, std::int64_t axis) { return expand_dims(range(count), 1 - axis); }

Output dimension(Output x, std::int64_t axis) {
  const Output dims = shape_of(x);
  return reshape(strided_slice(dims, {axis}, {axis == -1 ? std::numeric_limits<std::int64_t>::max() : axis + 1}),
                 Shape{});
}

// Heads of keys or values, each repeated for the heads of q that share it.
Output shared_heads(Output x, Output q) {
  const Output one = constant<std::int64_t>(*x.graph, 1);
  const Output own = maximum(dimension(x, -3), one);
  return repeat(x, reshape(dimension(q, -3) / own, Shape{1}), -3);
}

struct AttentionOperands {
  Output q, k, v, mask;
};

// As attention() defines it (graph/builder/attention.hpp).
Output composed_attention(const Attributes& a, const AttentionOperands& in) {
  Output scores = matmul(in.q, shared_heads(in.k, in.q), {.transpose_b = true}) * a.real("scale");
  if (const double cap = a.real("softcap"); cap > 0) scores = tanh(scores / cap) * cap;
  constexpr double kLowest = -std::numeric_limits<float>::max();
  Output allowed;
  if (in.mask.dtype() == DType::boolean && in.mask.shape() != Shape{0}) allowed = in.mask;
  if (in.mask.dtype() != DType::boolean) {
    scores = scores + in.mask;
    allowed = greater(in.mask, scalar_like(in.mask, -std::numeric_limits<double>::infinity()));
  }
  if (a.boolean("causal")) {
    const Output offset = constant(*in.q.graph, a.integer("causal_offset"));
    const Output rows = counted(dimension(in.q, -2), 0);
    const Output columns = counted(dimension(in.k, -2), 1);
    const Output before = less_equal(columns, rows + offset);
    allowed = allowed.valid() ? logical_and(allowed, before) : before;
  }
  if (allowed.valid()) scores = select(allowed, scores, scalar_like(scores, kLowest));
  Output weights = softmax(scores);
  // A query without keys has equal ones.
  if (allowed.valid()) weights = weights * cast(allowed, weights.dtype());
  return matmul(weights, shared_heads(in.v, in.q));
}

// Running products of x: those of all elements along the axis, where those that do not count are 1.
Output composed_products(const Attributes& a, Output x, Output axis) {
  const Output dims = shape_of(x);
  const Output rank = rank_of(x);
  const Output at = reshape(floor_mod(axis, rank), Shape{1});
  const Output one = constant<std::int64_t>(*x.graph, {1});
  const Output size = gather(dims, at);
  const Output count = reshape(size, Shape{});
  const Output rows = counted(count, 0);
  const Output columns = counted(count, 1);
  const Output &low = a.boolean("reverse") ? rows : columns, &high = a.boolean("reverse") ? columns : rows;
  const Output counts = a.boolean("exclusive") ? less(low, high) : less_equal(low, high);
  const Output behind = fill(reshape(rank, Shape{1}) - one - at, reshape(one, Shape{}));
  const Output mask = reshape(counts, concat({size, size, behind}, 0));
  const Output factors = select(mask, expand_dims(x, at), scalar_like(x, 1));
  return prod(factors, at + one);
}

}  // namespace

// Inputs: q, k, v, mask, y, log_sums, dy. y and log_sums follow from the others, so the derivatives are total.
void attention_grad_gradient(GradientContext& c) {
  gradient_by_composition(c, [&](const Outputs& in) {
    const DType own = c.attributes().dtype("U");
    Outputs xs{in[0], in[1], in[2]};
    if (c.attributes().boolean("mask_gradient")) xs.push_back(in[3]);
    const std::vector<Gradient> found = gradients_of(
        [&] {
          AttentionOperands operands{
              .q = cast(in[0], own), .k = cast(in[1], own), .v = cast(in[2], own), .mask = in[3]};
          if (is_floating(in[3].dtype())) operands.mask = cast(in[3], own);
          const Output y = composed_attention(c.attributes(), operands);
          return SeededOutputs{.ys = {y}, .grad_ys = {cast(in[6], own)}};
        },
        xs);
    Outputs out;
    for (std::size_t i = 0; i < xs.size(); ++i) out.push_back(dense(found[i], xs[i]));
    return out;
  });
}

// Inputs: x, dy, axis.
void cumulative_product_grad_gradient(GradientContext& c) {
  gradient_by_composition(c, [&](const Outputs& in) {
    const auto products = [&] {
      return SeededOutputs{.ys = {composed_products(c.attributes(), in[0], in[2])}, .grad_ys = {in[1]}};
    };
    return Outputs{dense(gradients_of(products, {in[0]})[0], in[0])};
  });
}

// Inputs: x, y, dy, axis; dx_j = sum of dy_i exp(x_j - y_i) over the i that count j. Its derivative for dy_i in a
// direction g is the sum of g_j exp(x_j - y_i), here as log-sum-exps of the positive and negative parts.
void cumulative_logsumexp_grad_gradient(GradientContext& c) {
  const Output x = c.input(0), y = c.input(1), g = c.grad();
  const Attributes attributes{{"exclusive", c.attributes().boolean("exclusive")},
                              {"reverse", c.attributes().boolean("reverse")}};
  const Output none = scalar_like(y, -std::numeric_limits<double>::infinity());
  const Output zero = scalar_like(g, 0);
  const Output exists = greater(y, none);
  const auto part = [&](Output positive) {
    const Output counted = greater(positive, zero);
    const Output safe = select(counted, positive, scalar_like(g, 1));
    const Output logarithms = select(counted, x + log(safe), none);
    const Output sums = add_op("CumLogSumExp", {logarithms, c.input(3)}, attributes);
    const Output above = select(exists, sums - y, none);
    return exp(above);
  };
  const Output gains = part(g);
  const Output losses = part(-g);
  const Output along = gains - losses;
  if (c.needs(0)) c.set(0, g * c.output(0));
  if (c.needs(1)) c.set(1, -(c.input(2) * along));
  if (c.needs(2)) c.set(2, along);
}

}  // namespace troupe
