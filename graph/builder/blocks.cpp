// im2col and col2im: gathers, and sums of segments, with indices that are known when the graph is built.
#include <algorithm>
#include <numeric>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/conv.hpp>
#include <troupe/graph/builder/index.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/order.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kMostIndices = 1 << 24;

std::int64_t product(const Integers& sizes) {
  std::int64_t out = 1;
  for (const std::int64_t size : sizes) {
    if (size < 1) invalid_argument("sizes of images and blocks must be positive, not {}", size);
    if (size > kMostIndices / out)
      invalid_argument("images and blocks are too large: more than {} elements", kMostIndices);
    out *= size;
  }
  return out;
}

Integers given_or(const Integers& list, std::size_t count, std::int64_t otherwise, std::string_view what) {
  if (list.empty()) return Integers(count, otherwise);
  if (list.size() != count) invalid_argument("there are {} {}, not {}", list.size(), what, count);
  for (const std::int64_t value : list)
    if (value < otherwise) invalid_argument("one of the {} is {}", what, value);
  return list;
}

struct BlockWalk {
  std::int64_t elements = 0;  // of the block
  std::int64_t places = 0;
  // For each element and place, in this order, the number of an image's element; -1 in pads.
  Integers indices{};
  bool padded = false;
};

// Advances a position in row-major order.
void advance(Integers& at, const Integers& sizes) {
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (++at[d] < sizes[d]) return;
    at[d] = 0;
  }
}

BlockWalk walk_blocks(const Integers& image, const Integers& block, const BlockOptions& options) {
  const std::size_t rank = image.size();
  if (rank == 0 || block.size() != rank)
    invalid_argument("a block of {} dimensions does not fit an image of {}", block.size(), rank);
  const Integers strides = given_or(options.strides, rank, 1, "strides"),
                 dilations = given_or(options.dilations, rank, 1, "dilations"),
                 pads = given_or(options.pads, 2 * rank, 0, "pads");
  product(image);
  Integers counts;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t reach = (block[d] - 1) * dilations[d] + 1, size = image[d] + pads[d] + pads[d + rank];
    if (reach > size) invalid_argument("a block reaches over {} elements, but there are {}", reach, size);
    counts.push_back((size - reach) / strides[d] + 1);
  }
  BlockWalk walk{.elements = product(block), .places = product(counts)};
  if (walk.elements > kMostIndices / walk.places)
    invalid_argument("there are more than {} elements in all places of the block", kMostIndices);
  Integers element(rank, 0), place(rank, 0);
  for (std::int64_t e = 0; e < walk.elements; ++e, advance(element, block))
    for (std::int64_t p = 0; p < walk.places; ++p, advance(place, counts)) {
      std::int64_t index = 0;
      for (std::size_t d = 0; d < rank && index >= 0; ++d) {
        const std::int64_t at = place[d] * strides[d] - pads[d] + element[d] * dilations[d];
        index = at < 0 || at >= image[d] ? -1 : index * image[d] + at;
      }
      walk.indices.push_back(index);
      walk.padded |= index < 0;
    }
  return walk;
}

Output list_constant(Graph& graph, const Integers& values) {
  return constant(graph, Tensor::of<std::int64_t>(Shape{std::ssize(values)}, values));
}

}  // namespace

Output im2col(Output x, const Integers& block, BlockOptions options) {
  const Shape& shape = x.shape();
  if (!shape.has_rank() || shape.rank() < 3 || !shape.sub(2, shape.rank()).fully_known())
    invalid_argument("im2col: x must be [n,c,spatial...] with known spatial dimensions, not {}", shape.to_string());
  const Shape image = shape.sub(2, shape.rank());
  const BlockWalk walk = walk_blocks(Integers(image.dims().begin(), image.dims().end()), block, options);
  Integers places = walk.indices;
  for (std::int64_t& index : places) index = std::max<std::int64_t>(index, 0);
  const Output flat = reshape_copying_zeros(x, {0, 0, image.num_elements()});
  Output found = gather(flat, list_constant(*x.graph, places), {.axis = 2});
  if (walk.padded) {
    const Output inside = greater_equal(list_constant(*x.graph, walk.indices), constant<std::int64_t>(*x.graph, 0));
    found = select(inside, found, scalar_like(x, 0));
  }
  return reshape_copying_zeros(found, {0, -1, walk.places}, std::move(options.name));
}

Output col2im(Output columns, const Integers& image, const Integers& block, BlockOptions options) {
  const BlockWalk walk = walk_blocks(image, block, options);
  const Output apart = reshape_copying_zeros(columns, {0, -1, walk.elements * walk.places});
  const Output rows = transpose(apart, {2, 0, 1});
  const Output ids = list_constant(*columns.graph, walk.indices);
  const Output pixels = constant<std::int64_t>(*columns.graph, product(image));
  const Output sums = transpose(unsorted_segment_sum(rows, ids, pixels), {1, 2, 0});
  Integers sizes{0, 0};
  sizes.insert(sizes.end(), image.begin(), image.end());
  return reshape_copying_zeros(sums, sizes, std::move(options.name));
}

}  // namespace troupe
