#include "troupe/kernels/common/slices.hpp"

#include <algorithm>
#include <utility>

#include <troupe/graph/strided_range.hpp>

namespace troupe {
namespace {

std::size_t dims_of(const Shape& shape) { return static_cast<std::size_t>(shape.rank()); }

void check_entries(std::string_view what, Dims list, std::size_t count, const Shape& shape) {
  if (list.size() != count)
    invalid_argument("{} has {} values where {} needs {}", what, list.size(), shape.to_string(), count);
}

// A box inside a tensor: its elements as loops of a copy.
struct Box {
  std::array<CopyDim, kMaxRank> dims{};  // source: in the tensor; target: in a dense tensor of the box's shape
  Shape shape{};
  std::int64_t offset = 0;
};

// The box of `ranges`, one for each dimension.
Box box_of(const Shape& shape, std::span<const StridedRange> ranges) {
  Box box{.shape = shape};
  for (std::size_t d = 0; d < dims_of(shape); ++d) box.shape.set_dim(static_cast<int>(d), ranges[d].count);
  const auto from = dense_strides(shape), to = dense_strides(box.shape);
  for (std::size_t d = 0; d < dims_of(shape); ++d) {
    // A single element has no stride, which might overflow.
    box.dims[d] = {ranges[d].count, ranges[d].count > 1 ? ranges[d].stride * from[d] : 0, to[d]};
    box.offset += ranges[d].count > 0 ? ranges[d].begin * from[d] : 0;
  }
  return box;
}

Tensor read_box(Device& device, const Tensor& x, const Box& box) {
  Tensor out = device.allocator().tensor(x.dtype(), box.shape);
  if (out.num_elements() > 0) strided_copy(device, x, box.offset, out, 0, {box.dims.data(), dims_of(box.shape)});
  return out;
}

// Zeros of `shape` with dy in the box.
Tensor write_box(Device& device, const Tensor& dy, const Shape& shape, Box box) {
  if (dy.shape() != box.shape)
    invalid_argument("a gradient {} does not fit a slice {} of {}", dy.shape().to_string(), box.shape.to_string(),
                     shape.to_string());
  Tensor out = make_zeros(device, dy.dtype(), shape);
  for (CopyDim& d : box.dims) std::swap(d.source_stride, d.target_stride);
  if (dy.num_elements() > 0) strided_copy(device, dy, 0, out, box.offset, {box.dims.data(), dims_of(shape)});
  return out;
}

Box whole_box(const Shape& shape, Dims begin, Dims size) {
  check_entries("begin", begin, dims_of(shape), shape);
  check_entries("size", size, dims_of(shape), shape);
  std::array<StridedRange, kMaxRank> ranges;
  for (std::size_t d = 0; d < dims_of(shape); ++d) {
    const std::int64_t b = begin[d], s = size[d], all = shape.dim(static_cast<int>(d));
    if (b < 0 || b > all || s < -1 || s > all - b)
      invalid_argument("slice [begin {}, size {}] exceeds dimension {} of {}", b, s, d, shape.to_string());
    ranges[d] = {b, 1, s == -1 ? all - b : s};
  }
  return box_of(shape, ranges);
}

std::array<StridedRange, kMaxRank> whole_ranges(const Shape& shape) {
  std::array<StridedRange, kMaxRank> ranges;
  for (std::size_t d = 0; d < dims_of(shape); ++d) ranges[d] = {0, 1, shape.dim(static_cast<int>(d))};
  return ranges;
}

// Calls set(range, i) for the range of each axis.
template <class Set>
void for_axes(const Shape& shape, Dims axes, std::array<StridedRange, kMaxRank>& ranges, Set set) {
  std::array<bool, kMaxRank> seen{};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(checked_axis(axes[i], shape.rank()));
    if (std::exchange(seen[d], true)) invalid_argument("axis {} is given twice", d);
    set(ranges[d], i);
  }
}

Box strided_box(const Shape& shape, const StridedBox& box) {
  for (const auto& [what, list] : {std::pair("begin", box.begin), {"end", box.end}, {"strides", box.strides}})
    check_entries(what, list, box.axes.size(), shape);
  auto ranges = whole_ranges(shape);
  for_axes(shape, box.axes, ranges, [&](StridedRange& range, std::size_t i) {
    range = strided_range(box.begin[i], box.end[i], box.strides[i], range.count);
  });
  return box_of(shape, ranges);
}

}  // namespace

Tensor slice(Device& device, const Tensor& x, Dims begin, Dims size) {
  return read_box(device, x, whole_box(x.shape(), begin, size));
}

Tensor slice_grad(Device& device, const Tensor& dy, const Shape& shape, Dims begin) {
  if (dy.shape().rank() != shape.rank())
    invalid_argument("a gradient {} does not fit in {}", dy.shape().to_string(), shape.to_string());
  return write_box(device, dy, shape, whole_box(shape, begin, dy.shape().dims()));
}

Tensor strided_slice(Device& device, const Tensor& x, const StridedBox& box) {
  return read_box(device, x, strided_box(x.shape(), box));
}

Tensor strided_slice_grad(Device& device, const Tensor& dy, const Shape& shape, const StridedBox& box) {
  return write_box(device, dy, shape, strided_box(shape, box));
}

Tensor reverse(Device& device, const Tensor& x, Dims axes) {
  auto ranges = whole_ranges(x.shape());
  for_axes(x.shape(), axes, ranges, [](StridedRange& range, std::size_t) {
    range = {std::max<std::int64_t>(range.count - 1, 0), -1, range.count};
  });
  return read_box(device, x, box_of(x.shape(), ranges));
}

std::array<PaddedDim, kMaxRank> padded_dims(const Shape& shape, Dims pads) {
  const std::size_t rank = dims_of(shape);
  check_entries("pads", pads, 2 * rank, shape);
  std::array<PaddedDim, kMaxRank> out{};
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t before = pads[d], after = pads[rank + d], size = shape.dim(static_cast<int>(d));
    const bool crops = before < -size || after < -size;  // more than there is
    PaddedDim& dim = out[d];
    std::int64_t total = 0;
    if (!crops)
      dim = {.first = std::max<std::int64_t>(-before, 0),
             .kept = size - std::max<std::int64_t>(-before, 0) - std::max<std::int64_t>(-after, 0),
             .before = std::max<std::int64_t>(before, 0),
             .after = std::max<std::int64_t>(after, 0)};
    if (crops || dim.kept < 0 || __builtin_add_overflow(dim.kept, dim.before, &total) ||
        __builtin_add_overflow(total, dim.after, &total))
      invalid_argument("invalid padding of {} and {} for dimension {} of {}", before, after, d, shape.to_string());
  }
  return out;
}

std::int64_t padded_source(PadMode mode, std::int64_t p, std::int64_t kept) {
  const auto modulo = [&](std::int64_t period) { return (p % period + period) % period; };
  switch (mode) {
    case PadMode::reflect: {
      if (kept == 1) return 0;
      const std::int64_t at = modulo(2 * (kept - 1));
      return at < kept ? at : 2 * (kept - 1) - at;
    }
    case PadMode::symmetric: {
      const std::int64_t at = modulo(2 * kept);
      return at < kept ? at : 2 * kept - 1 - at;
    }
    case PadMode::wrap:
      return modulo(kept);
    default:
      return std::clamp<std::int64_t>(p, 0, kept - 1);
  }
}

namespace {

// Fills the border of a padded tensor, whose inner box is there. Dimensions go from last to first: each copies or fills
// slabs, whole in later dimensions, inside the box in earlier ones.
class Border {
 public:
  Border(Device& device, Tensor& out, std::span<const PaddedDim> padded)
      : device_(device), out_(out), padded_(padded), strides_(dense_strides(out.shape())) {}

  void fill(const Tensor& value) {
    for (std::size_t d = padded_.size(); d-- > 0;) {
      fill_slab(d, 0, padded_[d].before, value);
      fill_slab(d, padded_[d].before + padded_[d].kept, padded_[d].after, value);
    }
  }
  void repeat(PadMode mode) {
    for (std::size_t d = padded_.size(); d-- > 0;) {
      repeat_range(d, -padded_[d].before, 0, mode);
      repeat_range(d, padded_[d].kept, padded_[d].kept + padded_[d].after, mode);
    }
  }

 private:
  // The loops of a slab of `count` along d. Source strides are those of out, or 0.
  std::int64_t slab(std::size_t d, std::int64_t count, std::int64_t step, bool one,
                    std::array<CopyDim, kMaxRank>& dims) const {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < padded_.size(); ++i) {
      const std::int64_t size = i < d ? padded_[i].kept : i == d ? count : padded_[i].size();
      dims[i] = {size, one ? 0 : strides_[i] * (i == d ? step : 1), strides_[i]};
      if (i < d) offset += padded_[i].before * strides_[i];
    }
    return offset;
  }
  void fill_slab(std::size_t d, std::int64_t begin, std::int64_t count, const Tensor& value) {
    if (count == 0) return;
    std::array<CopyDim, kMaxRank> dims;
    const std::int64_t offset = slab(d, count, 0, true, dims);
    strided_copy(device_, value, 0, out_, offset + begin * strides_[d], {dims.data(), padded_.size()});
  }
  // Places [begin, end) along d, in stretches whose sources have a constant step.
  void repeat_range(std::size_t d, std::int64_t begin, std::int64_t end, PadMode mode) {
    const std::int64_t kept = padded_[d].kept, first = padded_[d].before;
    while (begin < end) {
      const std::int64_t from = padded_source(mode, begin, kept);
      const std::int64_t step = begin + 1 < end ? padded_source(mode, begin + 1, kept) - from : 0;
      std::int64_t count = 1;
      while (begin + count < end && padded_source(mode, begin + count, kept) == from + count * step) ++count;
      std::array<CopyDim, kMaxRank> dims;
      const std::int64_t offset = slab(d, count, step, false, dims);
      strided_copy(device_, out_, offset + (first + from) * strides_[d], out_, offset + (first + begin) * strides_[d],
                   {dims.data(), padded_.size()});
      begin += count;
    }
  }

  Device& device_;
  Tensor& out_;
  std::span<const PaddedDim> padded_;
  std::array<std::int64_t, kMaxRank> strides_;
};

}  // namespace

Tensor pad(Device& device, const Tensor& x, Dims pads, PadMode mode, const Tensor& value) {
  const auto all = padded_dims(x.shape(), pads);
  const std::span<const PaddedDim> padded(all.data(), dims_of(x.shape()));
  Shape shape = x.shape();
  for (std::size_t d = 0; d < padded.size(); ++d) {
    const PaddedDim& dim = padded[d];
    if (mode != PadMode::constant && dim.kept == 0 && dim.size() > 0)
      invalid_argument("dimension {} of {} has no element to pad with in mode {}", d, x.shape().to_string(),
                       name(mode));
    shape.set_dim(static_cast<int>(d), dim.size());
  }
  if (mode == PadMode::constant && (value.num_elements() != 1 || value.dtype() != x.dtype()))
    invalid_argument("the value of a pad must be a scalar of {}, not {}{}", name(x.dtype()), name(value.dtype()),
                     value.shape().to_string());
  Tensor out = device.allocator().tensor(x.dtype(), shape);
  if (out.num_elements() == 0) return out;
  const auto from = dense_strides(x.shape()), to = dense_strides(shape);
  std::array<CopyDim, kMaxRank> dims;
  std::int64_t source = 0, target = 0;
  for (std::size_t d = 0; d < padded.size(); ++d) {
    dims[d] = {padded[d].kept, from[d], to[d]};
    source += padded[d].first * from[d];
    target += padded[d].before * to[d];
  }
  strided_copy(device, x, source, out, target, {dims.data(), padded.size()});
  Border border(device, out, padded);
  if (mode == PadMode::constant)
    border.fill(value);
  else
    border.repeat(mode);
  return out;
}

Tensor tile(Device& device, const Tensor& x, Dims multiples) {
  check_entries("multiples", multiples, dims_of(x.shape()), x.shape());
  Shape shape = x.shape();
  for (int d = 0; d < shape.rank(); ++d) {
    const std::int64_t times = multiples[static_cast<std::size_t>(d)];
    std::int64_t size = 0;
    if (times < 0 || __builtin_mul_overflow(shape.dim(d), times, &size))
      invalid_argument("invalid multiple {} for dimension {} of {}", times, d, x.shape().to_string());
    shape.set_dim(d, size);
  }
  Tensor out = device.allocator().tensor(x.dtype(), shape);
  if (out.num_elements() == 0) return out;
  const auto from = dense_strides(x.shape()), to = dense_strides(shape);
  std::array<CopyDim, kMaxCopyDims> dims;
  for (std::size_t d = 0; d < dims_of(shape); ++d) {
    const std::int64_t size = x.shape().dim(static_cast<int>(d));
    dims[2 * d] = {multiples[d], 0, size * to[d]};
    dims[2 * d + 1] = {size, from[d], to[d]};
  }
  strided_copy(device, x, 0, out, 0, {dims.data(), 2 * dims_of(shape)});
  return out;
}

}  // namespace troupe
