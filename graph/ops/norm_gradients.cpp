// Second derivatives of the normalisations, and first ones of their statistics.
#include <troupe/graph/ops/composed_gradients.hpp>

namespace troupe {
namespace {

// x of a norm, its gradient and its statistics, in the dtype of the statistics. Without a mean, that is 0.
struct NormTerms {
  Output x, dy, scale, mean, inverse;
};

// With z = (x - mean) inverse and h = dy scale: dx = inverse (h - mean(h) - z mean(h z)), dscale = sum(dy z) and
// doffset = sum(dy). Means are of what shares statistics, sums of what shares a scale.
Outputs compose_norm(const NormTerms& t, const std::function<Output(Output)>& means,
                     const std::function<Output(Output)>& sums) {
  const Output centred = t.mean.valid() ? t.x - t.mean : t.x;
  const Output z = centred * t.inverse;
  const Output h = t.dy * t.scale;
  const Output along = means(h * z);
  Output rest = h - z * along;
  if (t.mean.valid()) rest = rest - means(h);
  Outputs out{t.inverse * rest};
  out.push_back(sums(t.dy * z));
  if (t.mean.valid()) out.push_back(sums(t.dy));
  return out;
}

// Over the last dimension, which has a scale.
Outputs compose_row_norm(const NormTerms& t, DType data) {
  Outputs out = compose_norm(
      t, [](Output x) { return mean(x, {-1}, {.keep_dims = true}); },
      [&](Output x) { return sum_to_like(x, t.scale); });
  out[0] = cast(out[0], data);
  return out;
}

// Channels in groups: [n, groups, channels of a group, ...].
class Groups {
 public:
  Groups(Output statistic, Output scale) : statistic_(statistic), scale_(scale) {
    const Output one = constant<std::int64_t>(*scale.graph, {1});
    const Output sizes = shape_of(statistic);
    const Output groups = slice(sizes, {1}, {1});
    const Output channels = shape_of(scale) / maximum(groups, one);
    const Output rest = constant<std::int64_t>(*scale.graph, {kUnknown});
    data_ = concat({sizes, channels, rest}, 0);
    statistics_ = concat({sizes, one, one}, 0);
    scales_ = concat({one, groups, channels, one}, 0);
  }
  Output data(Output x) const { return reshape(x, data_); }
  Output statistic(Output x) const { return reshape(x, statistics_); }
  Output scale() const { return reshape(scale_, scales_); }

 private:
  Output statistic_, scale_, data_, statistics_, scales_;
};

// The gradient of x through the statistics of a norm, as far as they have gradients: mean and inverse = 1 /
// sqrt(mean((x - mean)^2) + epsilon) of `count` elements each. `centred` is x - mean; all broadcast to it.
Output through_statistics(Output centred, Output inverse, Output count, Output mean_gradient, Output inverse_gradient) {
  Output out;
  if (inverse_gradient.valid()) {
    const Output cube = inverse * square(inverse);
    const Output slope = -(inverse_gradient * cube);
    out = slope / count * centred;
  }
  if (mean_gradient.valid()) {
    const Output part = mean_gradient / count;
    out = out.valid() ? out + part : broadcast_like(part, centred);
  }
  return out;
}

}  // namespace

// Inputs: dy, x, scale, offset, mean, inverse_deviation.
void batch_norm_grad_gradient(GradientContext& c) {
  gradient_by_composition(c, [&](const Outputs& in) {
    const DType own = in[2].dtype();
    NormTerms t{.x = cast(in[1], own), .dy = cast(in[0], own), .scale = in[2], .mean = in[4], .inverse = in[5]};
    if (c.attributes().string("activation") == "relu") {
      const Output z = (t.x - t.mean) * t.inverse;
      t.dy = add_op("ReluGrad", {t.dy, stop_gradient(z * t.scale + in[3])});
    }
    const Output elements = cast(element_count(t.x), own);
    const Output channels = cast(element_count(t.scale), own);
    const Output rows = elements / channels;
    const auto sums = [&](Output x) { return sum_to_like(x, t.scale); };
    const auto means = [&](Output x) { return sums(x) / rows; };
    Outputs out = compose_norm(t, means, sums);
    out[0] = cast(out[0], in[1].dtype());
    return out;
  });
}

// Inputs: dy, x, scale, mean, inverse_deviation.
void layer_norm_grad_gradient(GradientContext& c) {
  gradient_by_composition(c, [&](const Outputs& in) {
    const DType own = in[2].dtype();
    const NormTerms t{.x = cast(in[1], own),
                      .dy = cast(in[0], own),
                      .scale = in[2],
                      .mean = expand_dims(in[3], -1),
                      .inverse = expand_dims(in[4], -1)};
    return compose_row_norm(t, in[1].dtype());
  });
}

// Inputs: dy, x, scale, inverse.
void rms_norm_grad_gradient(GradientContext& c) {
  gradient_by_composition(c, [&](const Outputs& in) {
    const DType own = in[2].dtype();
    const NormTerms t{
        .x = cast(in[1], own), .dy = cast(in[0], own), .scale = in[2], .mean = {}, .inverse = expand_dims(in[3], -1)};
    return compose_row_norm(t, in[1].dtype());
  });
}

// Inputs: dy, x, scale, mean, inverse_deviation.
void group_norm_grad_gradient(GradientContext& c) {
  gradient_by_composition(c, [&](const Outputs& in) {
    const DType own = in[2].dtype();
    const Groups groups(in[3], in[2]);
    const NormTerms t{.x = groups.data(cast(in[1], own)),
                      .dy = groups.data(cast(in[0], own)),
                      .scale = groups.scale(),
                      .mean = groups.statistic(in[3]),
                      .inverse = groups.statistic(in[4])};
    Outputs out = compose_norm(
        t,
        [](Output x) {
          return mean(x, {2, 3}, {.keep_dims = true});
        },
        [&](Output x) {
          return reshape_like(sum(x, {0, 3}), in[2]);
        });
    out[0] = cast(reshape_like(out[0], in[1]), in[1].dtype());
    return out;
  });
}

void group_norm_gradient(GradientContext& c) {
  const Output x = c.input(0), scale = c.input(1);
  const Outputs found = add_outputs("GroupNormGrad", {c.grad(0), x, scale, c.output(1), c.output(2)});
  for (int i = 0; i < 3; ++i) c.set(i, found[static_cast<std::size_t>(i)]);
  if (!c.has_grad(1) && !c.has_grad(2)) return;
  const Groups groups(c.output(1), scale);
  const auto gradient = [&](int i) { return c.has_grad(i) ? groups.statistic(c.grad(i)) : Output{}; };
  const Output data = groups.data(cast(x, scale.dtype()));
  const Output mean = groups.statistic(c.output(1));
  const Output inverse = groups.statistic(c.output(2));
  const Output elements = element_count(data);
  const Output statistics = element_count(mean);
  const Output count = cast(elements / statistics, scale.dtype());
  const Output of_mean = gradient(1), of_inverse = gradient(2);
  const Output more = through_statistics(data - mean, inverse, count, of_mean, of_inverse);
  c.set(0, found[0] + cast(reshape_like(more, x), x.dtype()));
}

void rms_norm_gradient(GradientContext& c) {
  const Output x = c.input(0);
  const Outputs found = add_outputs("RMSNormGrad", {c.grad(0), x, c.input(1), c.output(1)});
  for (int i = 0; i < 2; ++i) c.set(i, found[static_cast<std::size_t>(i)]);
  if (!c.has_grad(1)) return;
  const DType own = c.input(1).dtype();
  const Output count = cast(element_count(c.input(1)), own);
  const Output inverse = expand_dims(c.output(1), -1);
  const Output flow = expand_dims(c.grad(1), -1);
  const Output more = through_statistics(cast(x, own), inverse, count, {}, flow);
  c.set(0, found[0] + cast(more, x.dtype()));
}

void layer_norm_gradient(GradientContext& c) {
  const Output x = c.input(0);
  const Outputs found = add_outputs("LayerNormGrad", {c.grad(0), x, c.input(1), c.output(1), c.output(2)});
  for (int i = 0; i < 3; ++i) c.set(i, found[static_cast<std::size_t>(i)]);
  if (!c.has_grad(1) && !c.has_grad(2)) return;
  const DType own = c.input(1).dtype();
  const auto gradient = [&](int i) { return c.has_grad(i) ? expand_dims(c.grad(i), -1) : Output{}; };
  const Output count = cast(element_count(c.input(1)), own);
  const Output centred = cast(x, own) - expand_dims(c.output(1), -1);
  const Output inverse = expand_dims(c.output(2), -1);
  const Output of_mean = gradient(1), of_inverse = gradient(2);
  const Output more = through_statistics(centred, inverse, count, of_mean, of_inverse);
  c.set(0, found[0] + cast(more, x.dtype()));
}

void batch_norm_gradient(GradientContext& c) {
  const Output x = c.input(0);
  const Outputs found = add_outputs("BatchNormGrad", {c.grad(0), x, c.input(1), c.input(2), c.output(1), c.output(3)},
                                    {{"activation", c.attributes().string("activation")}});
  for (int i = 0; i < 3; ++i) c.set(i, found[static_cast<std::size_t>(i)]);
  if (!c.has_grad(1) && !c.has_grad(2) && !c.has_grad(3)) return;
  const DType own = c.input(1).dtype();
  const Output centred = cast(x, own) - c.output(1);
  const Output elements = element_count(x);
  const Output count = cast(elements / element_count(c.output(1)), own);
  const auto gradient = [&](int i) { return c.has_grad(i) ? c.grad(i) : Output{}; };
  Output more = through_statistics(centred, c.output(3), count, gradient(1), gradient(3));
  if (c.has_grad(2)) {  // the estimate for all data: the sum of squares over count - 1
    const Output others = maximum(count - 1, scalar_like(count, 1));
    const Output slope = c.grad(2) * 2 / others;
    const Output part = slope * centred;
    more = more.valid() ? more + part : part;
  }
  c.set(0, found[0] + cast(more, x.dtype()));
}

}  // namespace troupe
