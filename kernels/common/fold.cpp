#include "troupe/kernels/common/fold.hpp"

namespace troupe {
namespace {

// From the element that each place copies.
Copies copies_of(const std::vector<std::int64_t>& sources, std::int64_t size) {
  Copies out;
  out.starts.assign(static_cast<std::size_t>(size) + 1, 0);
  for (const std::int64_t s : sources) ++out.starts[static_cast<std::size_t>(s) + 1];
  for (std::size_t i = 1; i < out.starts.size(); ++i) out.starts[i] += out.starts[i - 1];
  out.places.resize(sources.size());
  std::vector<std::int64_t> next(out.starts.begin(), out.starts.end() - 1);
  for (std::size_t p = 0; p < sources.size(); ++p)
    out.places[static_cast<std::size_t>(next[static_cast<std::size_t>(sources[p])]++)] = static_cast<std::int64_t>(p);
  return out;
}

}  // namespace

Shape folded_shape(const Shape& dy, int d, const Copies& copies) {
  Shape shape = dy;
  shape.set_dim(d, std::ssize(copies.starts) - 1);
  return shape;
}

Tensor pad_grad(Device& device, Tensor dy, const Shape& shape, Dims pads, PadMode mode) {
  const auto padded = padded_dims(shape, pads);
  Shape expected = shape;
  for (int d = 0; d < shape.rank(); ++d) expected.set_dim(d, padded[static_cast<std::size_t>(d)].size());
  if (dy.shape() != expected)
    invalid_argument("PadGrad: dy is {}, but {} padded is {}", dy.shape().to_string(), shape.to_string(),
                     expected.to_string());
  if (mode == PadMode::constant) {
    std::vector<std::int64_t> opposite(pads.begin(), pads.end());
    for (std::int64_t& p : opposite) p = -p;
    return pad(device, dy, opposite, mode, make_zeros(device, dy.dtype(), Shape{}));
  }
  for (int d = 0; d < shape.rank(); ++d) {
    const PaddedDim& dim = padded[static_cast<std::size_t>(d)];
    if (dim.before == 0 && dim.after == 0 && dim.kept == shape.dim(d)) continue;
    std::vector<std::int64_t> sources;
    for (std::int64_t p = -dim.before; p < dim.kept + dim.after; ++p)
      sources.push_back(dim.first + padded_source(mode, p, dim.kept));
    dy = fold_copies(device, dy, d, copies_of(sources, shape.dim(d)));
  }
  return dy;
}

Tensor repeat_grad(Device& device, const Tensor& dy, const Shape& shape, Dims repeats, std::int64_t axis_given) {
  const int axis = checked_axis(axis_given, shape.rank());
  const std::int64_t size = shape.dim(axis);
  if (repeats.size() != 1 && std::ssize(repeats) != size)
    invalid_argument("RepeatGrad: {} numbers for dimension {} of {}", repeats.size(), axis, shape.to_string());
  Copies copies;
  copies.starts.push_back(0);
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t times = repeats[repeats.size() == 1 ? 0 : static_cast<std::size_t>(i)];
    std::int64_t end = 0;
    if (times < 0 || __builtin_add_overflow(copies.starts.back(), times, &end))
      invalid_argument("RepeatGrad: {} times is not possible", times);
    copies.starts.push_back(end);
  }
  Shape expected = shape;
  expected.set_dim(axis, copies.starts.back());
  if (dy.shape() != expected)
    invalid_argument("RepeatGrad: dy is {}, but {} repeated is {}", dy.shape().to_string(), shape.to_string(),
                     expected.to_string());
  for (std::int64_t p = 0; p < copies.starts.back(); ++p) copies.places.push_back(p);
  return fold_copies(device, dy, axis, copies);
}

}  // namespace troupe
