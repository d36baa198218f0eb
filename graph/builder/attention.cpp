#include "troupe/graph/builder/attention.hpp"

#include <cmath>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/math.hpp>

namespace troupe {
namespace {

double default_scale(Output q) {
  const Shape& shape = q.shape();
  if (shape.rank() < 1 || shape[-1] <= 0)
    invalid_argument("attention: pass a scale, since the depth of 'q' is not known: {}", shape.to_string());
  return 1 / std::sqrt(static_cast<double>(shape[-1]));
}

// Elements [begin, begin + size) along the last axis.
Output part_of(Output x, std::int64_t begin, std::int64_t size) {
  Integers begins(static_cast<std::size_t>(x.shape().rank()), 0), sizes(begins.size(), -1);
  begins.back() = begin;
  sizes.back() = size;
  return slice(x, begins, sizes);
}

// x with its last dimension cut in pairs: [..., 2].
Output in_pairs(Output x) {
  Integers shape(static_cast<std::size_t>(x.shape().rank() - 1), 0);
  shape.push_back(x.shape()[-1] / 2);
  shape.push_back(2);
  return reshape_copying_zeros(x, shape);
}

}  // namespace

Output attention(Output q, Output k, Output v, AttentionOptions options) {
  const double scale = options.scale ? *options.scale : default_scale(q);
  const Output mask = options.mask.valid() ? options.mask : constant(*q.graph, Tensor(DType::boolean, Shape{0}));
  return add_op("Attention", {q, k, v, mask},
                {{"U", q.dtype() == DType::f64 ? DType::f64 : DType::f32},
                 {"scale", scale},
                 {"causal", options.causal},
                 {"causal_offset", options.causal_offset},
                 {"softcap", options.softcap}},
                std::move(options.name));
}

Output rotary_embedding(Output x, Output cos, Output sin, RotaryOptions options) {
  const Shape &shape = x.shape(), &angles = cos.shape();
  if (shape.rank() < 1 || angles.rank() < 1 || shape[-1] == kUnknown || angles[-1] == kUnknown)
    invalid_argument("rotary_embedding: the last dimensions must be known, but x is {} and cos {}", shape.to_string(),
                     angles.to_string());
  const std::int64_t depth = shape[-1], half = angles[-1];
  if (2 * half > depth)
    invalid_argument("rotary_embedding: x has {} elements in its last dimension, less than twice the {} of cos", depth,
                     half);
  const Output turned = 2 * half == depth ? x : part_of(x, 0, 2 * half);
  Output first, second;
  if (options.interleaved) {
    const Outputs both = unstack(in_pairs(turned), -1);
    first = both[0];
    second = both[1];
  } else {
    first = part_of(turned, 0, half);
    second = part_of(turned, half, half);
  }
  const Output first_cos = first * cos, second_sin = second * sin;
  const Output second_cos = second * cos, first_sin = first * sin;
  const Output real = first_cos - second_sin;
  const Output imaginary = second_cos + first_sin;
  Output out;
  if (options.interleaved)
    out = reshape_like(stack({real, imaginary}, -1), turned);
  else
    out = concat({real, imaginary}, -1);
  if (2 * half == depth) return options.name.empty() ? out : identity(out, options.name);
  return concat({out, part_of(x, 2 * half, depth - 2 * half)}, -1, std::move(options.name));
}

}  // namespace troupe
