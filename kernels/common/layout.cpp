#include "troupe/kernels/common/layout.hpp"

#include <algorithm>
#include <utility>

#include <troupe/kernels/common/slices.hpp>

namespace troupe {
namespace {

std::size_t rank_size(const Shape& shape) { return static_cast<std::size_t>(shape.rank()); }

// The loops that copy all of a dense tensor.
std::array<CopyDim, kMaxRank> dense_loops(const Shape& shape) {
  const auto strides = dense_strides(shape);
  std::array<CopyDim, kMaxRank> dims{};
  for (std::size_t d = 0; d < rank_size(shape); ++d) dims[d] = {shape.dim(static_cast<int>(d)), strides[d], strides[d]};
  return dims;
}

void check_lists(std::string_view a, Dims x, std::string_view b, Dims y) {
  if (x.size() != y.size()) invalid_argument("there are {} {} and {} {}", x.size(), a, y.size(), b);
}

}  // namespace

Tensor reverse_sequence(Device& device, const Tensor& x, Dims lengths, std::int64_t seq_axis, std::int64_t batch_axis) {
  const Shape& shape = x.shape();
  const auto seq = static_cast<std::size_t>(checked_axis(seq_axis, shape.rank()));
  const auto batch = static_cast<std::size_t>(checked_axis(batch_axis, shape.rank()));
  if (seq == batch) invalid_argument("ReverseSequence: both axes are {}", seq);
  if (std::ssize(lengths) != shape.dim(static_cast<int>(batch)))
    invalid_argument("ReverseSequence: {} lengths for dimension {} of {}", lengths.size(), batch, shape.to_string());
  const std::int64_t size = shape.dim(static_cast<int>(seq));
  for (const std::int64_t length : lengths)
    if (length < 0 || length > size)
      invalid_argument("ReverseSequence: a length of {} is not in [0, {}]", length, size);
  Tensor out = device.allocator().tensor(x.dtype(), shape);
  if (out.num_elements() == 0) return out;
  const auto whole = dense_loops(shape);
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    auto dims = whole;
    dims[batch].size = 1;
    const std::int64_t offset = static_cast<std::int64_t>(b) * whole[batch].source_stride;
    const std::int64_t step = whole[seq].source_stride, length = lengths[b];
    dims[seq] = {length, -step, step};
    if (length > 0) strided_copy(device, x, offset + (length - 1) * step, out, offset, {dims.data(), rank_size(shape)});
    dims[seq] = {size - length, step, step};
    if (size > length)
      strided_copy(device, x, offset + length * step, out, offset + length * step, {dims.data(), rank_size(shape)});
  }
  return out;
}

Tensor roll(Device& device, const Tensor& x, Dims shifts, Dims axes) {
  check_lists("shifts", shifts, "axes", axes);
  const Shape& shape = x.shape();
  std::array<std::int64_t, kMaxRank> moved{};  // of each dimension: the place where element 0 goes
  std::array<bool, kMaxRank> seen{};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int d = checked_axis(axes[i], shape.rank());
    if (std::exchange(seen[static_cast<std::size_t>(d)], true)) invalid_argument("Roll: axis {} is given twice", d);
    const std::int64_t size = shape.dim(d);
    if (size > 0) moved[static_cast<std::size_t>(d)] = (shifts[i] % size + size) % size;
  }
  Tensor out = device.allocator().tensor(x.dtype(), shape);
  if (out.num_elements() == 0) return out;
  // Along each rolled dimension there are two stretches; each combination is a box.
  const auto whole = dense_loops(shape);
  std::array<std::size_t, kMaxRank> rolled{};
  std::size_t count = 0;
  for (std::size_t d = 0; d < rank_size(shape); ++d)
    if (moved[d] != 0) rolled[count++] = d;
  for (std::size_t combination = 0; combination < std::size_t{1} << count; ++combination) {
    auto dims = whole;
    std::int64_t from = 0, to = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t d = rolled[i];
      const std::int64_t step = whole[d].source_stride, rest = whole[d].size - moved[d];
      const bool end = (combination >> i & 1) != 0;  // the last elements, which go to the front
      dims[d].size = end ? moved[d] : rest;
      (end ? from : to) += (end ? rest : moved[d]) * step;
    }
    strided_copy(device, x, from, out, to, {dims.data(), rank_size(shape)});
  }
  return out;
}

Tensor repeat(Device& device, const Tensor& x, Dims repeats, std::int64_t axis_given) {
  const int axis = checked_axis(axis_given, x.shape().rank());
  const std::int64_t size = x.shape().dim(axis);
  if (repeats.size() != 1 && std::ssize(repeats) != size)
    invalid_argument("Repeat: {} numbers for dimension {} of {}", repeats.size(), axis, x.shape().to_string());
  std::int64_t total = 0;
  for (const std::int64_t times : repeats)
    if (times < 0 || __builtin_add_overflow(total, times, &total))
      invalid_argument("Repeat: {} times is not possible", times);
  if (repeats.size() == 1 && __builtin_mul_overflow(total, size, &total))
    invalid_argument("Repeat: {} times {} elements are too many", repeats[0], size);
  Shape shape = x.shape();
  shape.set_dim(axis, total);
  Tensor out = device.allocator().tensor(x.dtype(), shape);
  if (out.num_elements() == 0) return out;
  std::int64_t outer = 1, inner = 1;
  for (int d = 0; d < axis; ++d) outer *= shape.dim(d);
  for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape.dim(d);
  const auto copy = [&](std::int64_t from, std::int64_t count, std::int64_t to, std::int64_t times) {
    const CopyDim dims[] = {
        {outer, size * inner, total * inner}, {count, inner, times * inner}, {times, 0, inner}, {inner, 1, 1}};
    if (times > 0) strided_copy(device, x, from * inner, out, to * inner, dims);
  };
  if (repeats.size() == 1) {
    copy(0, size, 0, repeats[0]);
    return out;
  }
  std::int64_t to = 0;
  for (std::int64_t i = 0; i < size;) {  // neighbours repeated as often go together
    std::int64_t count = 1;
    const std::int64_t times = repeats[static_cast<std::size_t>(i)];
    while (i + count < size && repeats[static_cast<std::size_t>(i + count)] == times) ++count;
    copy(i, count, to, times);
    i += count;
    to += count * times;
  }
  return out;
}

Diagonal diagonal_of(const Shape& shape, std::int64_t k) {
  if (shape.rank() < 2) invalid_argument("a diagonal needs matrices, but the shape is {}", shape.to_string());
  const std::int64_t rows = shape.dim(-2), columns = shape.dim(-1);
  Diagonal out;
  out.column = std::clamp<std::int64_t>(k, 0, columns);
  out.row = -std::clamp<std::int64_t>(k, -rows, 0);
  out.length = std::min(rows - out.row, columns - out.column);
  return out;
}

namespace {

// The diagonals of dense matrices of a shape as loops; source: in the matrices, target: dense.
std::array<CopyDim, 2> diagonal_loops(const Shape& shape, const Diagonal& diagonal) {
  const std::int64_t rows = shape.dim(-2), columns = shape.dim(-1);
  std::int64_t matrices = 1;
  for (int d = 0; d + 2 < shape.rank(); ++d) matrices *= shape.dim(d);
  return {CopyDim{matrices, rows * columns, diagonal.length}, CopyDim{diagonal.length, columns + 1, 1}};
}

Shape shape_of_diagonal(const Shape& shape, const Diagonal& diagonal) {
  return shape.sub(0, shape.rank() - 2).with_appended(diagonal.length);
}

}  // namespace

Tensor diag_part(Device& device, const Tensor& x, std::int64_t k) {
  const Diagonal diagonal = diagonal_of(x.shape(), k);
  Tensor out = device.allocator().tensor(x.dtype(), shape_of_diagonal(x.shape(), diagonal));
  if (out.num_elements() == 0) return out;
  strided_copy(device, x, diagonal.row * x.shape().dim(-1) + diagonal.column, out, 0,
               diagonal_loops(x.shape(), diagonal));
  return out;
}

Tensor set_diag(Device& device, const Tensor& x, const Tensor& values, std::int64_t k) {
  const Shape& shape = x.shape();
  const Diagonal diagonal = diagonal_of(shape, k);
  if (values.shape() != shape_of_diagonal(shape, diagonal) || values.dtype() != x.dtype())
    invalid_argument("SetDiag: {}{} is not diagonal {} of {}{}", name(values.dtype()), values.shape().to_string(), k,
                     name(x.dtype()), shape.to_string());
  Tensor out = device.allocator().tensor(x.dtype(), shape);
  if (out.num_elements() == 0) return out;
  const CopyDim all[] = {{x.num_elements(), 1, 1}};
  strided_copy(device, x, 0, out, 0, all);
  auto loops = diagonal_loops(shape, diagonal);
  for (CopyDim& d : loops) std::swap(d.source_stride, d.target_stride);
  if (values.num_elements() > 0)
    strided_copy(device, values, 0, out, diagonal.row * shape.dim(-1) + diagonal.column, loops);
  return out;
}

DepthLayout depth_layout(std::int64_t block, std::string_view mode, std::string_view layout) {
  if (block < 1 || block > 1 << 20) invalid_argument("a block of {} is not possible", block);
  return {.block = block, .column_first = mode == "CRD", .channels_last = layout == "NHWC"};
}

namespace {

// The loops between an image tensor of depth and one of space: source strides are those of depth.
struct DepthLoops {
  std::array<CopyDim, 6> dims;
  Shape depth;
  Shape space;
};

DepthLoops depth_loops(const Shape& given, const DepthLayout& layout, bool from_depth) {
  if (given.rank() != 4) invalid_argument("an image tensor has 4 dimensions, not {}", given.to_string());
  const int channel = layout.channels_last ? 3 : 1, row = layout.channels_last ? 1 : 2, column = row + 1;
  const std::int64_t block = layout.block, square = block * block;
  Shape depth = given, space = given;
  if (from_depth) {
    if (given.dim(channel) % square != 0)
      invalid_argument("{} channels of {} are not divisible by {}", given.dim(channel), given.to_string(), square);
    space.set_dim(channel, given.dim(channel) / square);
    for (const int d : {row, column}) {
      std::int64_t size = 0;
      if (__builtin_mul_overflow(given.dim(d), block, &size)) invalid_argument("DepthToSpace: the result is too large");
      space.set_dim(d, size);
    }
  } else {
    for (const int d : {row, column}) {
      if (given.dim(d) % block != 0)
        invalid_argument("dimension {} of {} is not divisible by {}", d, given.to_string(), block);
      depth.set_dim(d, given.dim(d) / block);
    }
    std::int64_t size = 0;
    if (__builtin_mul_overflow(given.dim(channel), square, &size))
      invalid_argument("SpaceToDepth: the result is too large");
    depth.set_dim(channel, size);
  }
  const auto d = dense_strides(depth), s = dense_strides(space);
  const auto c = static_cast<std::size_t>(channel), r = static_cast<std::size_t>(row), l = r + 1;
  const std::int64_t channels = space.dim(channel);
  // In the channels of depth: how far apart are neighbours of each kind?
  const std::int64_t of_channel = layout.column_first ? square : 1, of_column = layout.column_first ? 1 : channels;
  const CopyDim batches{depth.dim(0), d[0], s[0]}, chans{channels, of_channel * d[c], s[c]};
  const CopyDim rows{depth.dim(row), d[r], block * s[r]}, inner_rows{block, of_column * block * d[c], s[r]};
  const CopyDim columns{depth.dim(column), d[l], block * s[l]}, inner_columns{block, of_column * d[c], s[l]};
  if (layout.channels_last) return {{batches, rows, inner_rows, columns, inner_columns, chans}, depth, space};
  return {{batches, chans, rows, inner_rows, columns, inner_columns}, depth, space};
}

}  // namespace

Tensor depth_to_space(Device& device, const Tensor& x, const DepthLayout& layout) {
  const DepthLoops loops = depth_loops(x.shape(), layout, true);
  Tensor out = device.allocator().tensor(x.dtype(), loops.space);
  if (out.num_elements() > 0) strided_copy(device, x, 0, out, 0, loops.dims);
  return out;
}

Tensor space_to_depth(Device& device, const Tensor& x, const DepthLayout& layout) {
  DepthLoops loops = depth_loops(x.shape(), layout, false);
  for (CopyDim& d : loops.dims) std::swap(d.source_stride, d.target_stride);
  Tensor out = device.allocator().tensor(x.dtype(), loops.depth);
  if (out.num_elements() > 0) strided_copy(device, x, 0, out, 0, loops.dims);
  return out;
}

namespace {

// The block and the pads or crops of x's dimensions as those of Pad, checked; the product of the block.
std::int64_t checked_block(const Shape& x, Dims block, Dims pads, std::array<std::int64_t, 2 * kMaxRank>& all) {
  if (std::ssize(block) >= x.rank() || pads.size() != 2 * block.size())
    invalid_argument("a block of {} numbers with {} pads does not fit {}", block.size(), pads.size(), x.to_string());
  std::int64_t product = 1;
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (block[i] < 1 || __builtin_mul_overflow(product, block[i], &product))
      invalid_argument("the block size {} is not possible", block[i]);
    if (pads[i] < 0 || pads[block.size() + i] < 0) invalid_argument("a pad or crop is negative");
    all[i + 1] = pads[i];
    all[rank_size(x) + i + 1] = pads[block.size() + i];
  }
  return product;
}

// The loops between a tensor of space and one of batches: source strides are those of space. A loop over the block's
// numbers comes before those of the batch and of the dimensions.
std::vector<CopyDim> batch_loops(const Shape& space, const Shape& batches, Dims block) {
  const auto from = dense_strides(space), to = dense_strides(batches);
  std::vector<CopyDim> dims;
  std::int64_t step = space.dim(0) * to[0];
  for (std::size_t i = block.size(); i-- > 0; step *= block[i]) dims.push_back({block[i], from[i + 1], step});
  std::ranges::reverse(dims);
  dims.push_back({space.dim(0), from[0], to[0]});
  for (std::size_t d = 1; d < rank_size(space); ++d) {
    const std::int64_t b = d <= block.size() ? block[d - 1] : 1;
    dims.push_back({batches.dim(static_cast<int>(d)), b * from[d], to[d]});
  }
  return dims;
}

}  // namespace

Tensor space_to_batch(Device& device, const Tensor& x, Dims block, Dims pads, const Tensor& zero) {
  std::array<std::int64_t, 2 * kMaxRank> all{};
  const std::int64_t product = checked_block(x.shape(), block, pads, all);
  const bool padded = std::ranges::any_of(all, [](std::int64_t p) { return p != 0; });
  const Tensor space = padded ? pad(device, x, {all.data(), 2 * rank_size(x.shape())}, PadMode::constant, zero) : x;
  Shape shape = space.shape();
  std::int64_t batch = 0;
  if (__builtin_mul_overflow(shape.dim(0), product, &batch)) invalid_argument("SpaceToBatch: the result is too large");
  shape.set_dim(0, batch);
  for (std::size_t i = 0; i < block.size(); ++i) {
    const int d = static_cast<int>(i) + 1;
    if (shape.dim(d) % block[i] != 0)
      invalid_argument("SpaceToBatch: dimension {} of the padded {} is not divisible by {}", d,
                       space.shape().to_string(), block[i]);
    shape.set_dim(d, shape.dim(d) / block[i]);
  }
  Tensor out = device.allocator().tensor(x.dtype(), shape);
  if (out.num_elements() > 0) strided_copy(device, space, 0, out, 0, batch_loops(space.shape(), shape, block));
  return out;
}

Tensor batch_to_space(Device& device, const Tensor& x, Dims block, Dims crops) {
  std::array<std::int64_t, 2 * kMaxRank> all{};
  const std::int64_t product = checked_block(x.shape(), block, crops, all);
  Shape shape = x.shape();
  if (shape.dim(0) % product != 0)
    invalid_argument("BatchToSpace: dimension 0 of {} is not divisible by {}", shape.to_string(), product);
  shape.set_dim(0, shape.dim(0) / product);
  for (std::size_t i = 0; i < block.size(); ++i) {
    const int d = static_cast<int>(i) + 1;
    std::int64_t size = 0;
    if (__builtin_mul_overflow(shape.dim(d), block[i], &size))
      invalid_argument("BatchToSpace: the result is too large");
    shape.set_dim(d, size);
  }
  Tensor space = device.allocator().tensor(x.dtype(), shape);
  if (space.num_elements() > 0) {
    std::vector<CopyDim> dims = batch_loops(shape, x.shape(), block);
    for (CopyDim& d : dims) std::swap(d.source_stride, d.target_stride);
    strided_copy(device, x, 0, space, 0, dims);
  }
  if (std::ranges::none_of(all, [](std::int64_t p) { return p != 0; })) return space;
  for (std::int64_t& crop : all) crop = -crop;
  return pad(device, space, {all.data(), 2 * rank_size(shape)}, PadMode::constant,
             make_zeros(device, x.dtype(), Shape{}));
}

}  // namespace troupe
