#include "troupe/graph/builder/sparse.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/index.hpp>
#include <troupe/graph/builder/math.hpp>
#include <troupe/graph/builder/order.hpp>
#include <troupe/graph/builder/reduce.hpp>
#include <troupe/graph/known_values.hpp>

namespace troupe {
namespace {

// Whether the shapes of the three parts, as far as they are known, fit together.
bool parts_fit(const Shape& indices, const Shape& values, const Shape& dense_shape) {
  if (!indices.compatible_with(Shape::unknown(2)) || !values.compatible_with(Shape::unknown(1)) ||
      !dense_shape.compatible_with(Shape::unknown(1)))
    return false;
  if (!indices.has_rank()) return true;
  return (!values.has_rank() || values.compatible_with(Shape{indices[0]})) &&
         (!dense_shape.has_rank() || dense_shape.compatible_with(Shape{indices[1]}));
}

void check_parts(std::string_view what, const Shape& indices, const Shape& values, const Shape& dense_shape) {
  if (!parts_fit(indices, values, dense_shape))
    invalid_argument("{}: indices {}, values {} and dense_shape {} must be [n,rank], [n] and [rank]", what,
                     indices.to_string(), values.to_string(), dense_shape.to_string());
}

}  // namespace

Shape SparseTensor::shape() const {
  if (const auto known = known_integers(dense_shape)) {
    std::vector<std::int64_t> dims;
    for (const auto& dim : known->values) dims.push_back(dim.value_or(kUnknown));
    return Shape(dims);
  }
  const Shape &dims = dense_shape.shape(), &places = indices.shape();
  std::int64_t rank = dims.has_rank() && dims.rank() == 1 ? dims[0] : kUnknown;
  if (rank == kUnknown && places.has_rank() && places.rank() == 2) rank = places[1];
  return rank == kUnknown ? Shape::unknown_rank() : Shape::unknown(static_cast<int>(rank));
}

void check_sparse(std::string_view what, const SparseTensorValue& value) {
  if (!value.values.valid() || value.indices.dtype() != DType::i64 || value.dense_shape.dtype() != DType::i64)
    invalid_argument("{}: needs values, and i64 indices and dense_shape: they are {} and {}", what,
                     name(value.indices.dtype()), name(value.dense_shape.dtype()));
  check_parts(what, value.indices.shape(), value.values.shape(), value.dense_shape.shape());
}

SparseTensor sparse_tensor(Output indices, Output values, Output dense_shape) {
  check_parts("sparse_tensor", indices.shape(), values.shape(), dense_shape.shape());
  SparseTensor out{.indices = cast(std::move(indices), DType::i64), .values = std::move(values)};
  out.dense_shape = cast(std::move(dense_shape), DType::i64);
  return out;
}

SparseTensor sparse_constant(Graph& graph, const SparseTensorValue& value, Name name) {
  check_sparse("sparse_constant", value);
  const auto part = [&](const Tensor& tensor, const char* which) {
    return constant(graph, tensor, name.empty() ? Name() : Name(name + "/" + which, name.where()));
  };
  SparseTensor out;
  out.indices = part(value.indices, "indices");
  out.values = part(value.values, "values");
  out.dense_shape = part(value.dense_shape, "shape");
  return out;
}

// Known dimensions are constants beside those that are fed, so that functions know them.
SparseTensor sparse_placeholder(Graph& graph, DType dtype, const Shape& dense_shape, Name name) {
  if (!dense_shape.has_rank())
    invalid_argument("sparse_placeholder: the number of dimensions must be known: they may be unknown themselves");
  std::string own = name;
  for (int i = 1; graph.find(graph.current_scope() + own + "/indices"); ++i) own = name + "_" + std::to_string(i);
  const auto scope = graph.scope(own);
  const std::int64_t rank = dense_shape.rank();
  SparseTensor out;
  out.indices = placeholder(graph, DType::i64, {kUnknown, rank}, Name("indices", name.where()));
  out.values = placeholder(graph, dtype, {kUnknown}, Name("values", name.where()));
  if (dense_shape.fully_known()) {
    out.dense_shape = constant(graph, Tensor::of<std::int64_t>({rank}, dense_shape.dims()), "shape");
    return out;
  }
  const Output fed = placeholder(graph, DType::i64, {rank}, "fed_shape");
  Outputs dims;
  for (std::int64_t d = 0; d < rank; ++d) {
    const std::int64_t size = dense_shape[static_cast<int>(d)];
    dims.push_back(size == kUnknown ? slice(fed, {d}, {1}) : constant<std::int64_t>(graph, {size}));
  }
  out.dense_shape = concat(dims, 0, "shape");
  return out;
}

void feed(std::vector<std::pair<Output, Tensor>>& feeds, const SparseTensor& x, const SparseTensorValue& value) {
  check_sparse("feed", value);
  if (value.values.dtype() != x.dtype())
    invalid_argument("feed: {} is fed to a sparse tensor of {}", name(value.values.dtype()), name(x.dtype()));
  const Shape given(value.dense_shape.values<std::int64_t>()), wanted = x.shape();
  if (!given.compatible_with(wanted) || !given.fully_known())
    invalid_argument("feed: a sparse tensor of shape {} is fed to one of {}", given.to_string(), wanted.to_string());
  feeds.emplace_back(x.indices, value.indices);
  feeds.emplace_back(x.values, value.values);
  if (!wanted.fully_known()) feeds.emplace_back(x.dense_shape, value.dense_shape);
}

Outputs parts_of(const SparseTensor& x) { return {x.indices, x.values, x.dense_shape}; }

SparseTensorValue sparse_value(std::span<const Tensor> parts) {
  if (parts.size() != 3)
    invalid_argument("sparse_value: {} tensors are given: indices, values and dense_shape are needed", parts.size());
  return {.indices = parts[0], .values = parts[1], .dense_shape = parts[2]};
}

namespace {

int rank_of_sparse(const SparseTensor& x, std::string_view function) {
  const Shape shape = x.shape();
  if (!shape.has_rank()) invalid_argument("{}: the number of dimensions of the sparse tensor must be known", function);
  return shape.rank();
}

int sparse_axis(std::int64_t axis, int rank, std::string_view function) {
  if (axis < -rank || axis >= rank)
    fail(Code::out_of_range, "{}: axis {} of a sparse tensor of {} dimensions", function, axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Output integer_vector(Output like, const Integers& values) {
  return constant(*like.graph, Tensor::of<std::int64_t>(Shape{std::ssize(values)}, values));
}

// Coordinates along one axis: [n].
Output coordinates(const SparseTensor& x, std::int64_t axis) {
  return reshape(slice(x.indices, {0, axis}, {-1, 1}), Shape{kUnknown});
}

struct Groups {
  Output groups{}, ids{}, order{};
};
Groups groups_along(const SparseTensor& x, Integers axes) {
  const Outputs out = add_outputs("SparseGroups", {x.indices, x.dense_shape}, {{"axes", std::move(axes)}});
  return {.groups = out[0], .ids = out[1], .order = out[2]};
}
Integers first_axes(int count) {
  Integers axes(static_cast<std::size_t>(count));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}
Output number_of(const Output& rows) { return as_scalar(slice(shape_of(rows), {0}, {1})); }

// The places of x's elements in a dense tensor of this shape, which is broadcast to x's.
Output places_in_dense(const SparseTensor& x, Output shape) {
  return add_op("SparsePlaces", {x.indices, x.dense_shape, std::move(shape)});
}

// Elements of two tensors beside each other, with 0 where one has none.
struct Beside {
  Output indices{}, a{}, b{}, a_places{}, b_places{};
};
// values[places], and 0 for a place -1: the last of the values with a 0 behind them.
Output gather_or_zero(Output values, Output places) {
  const Output zero = reshape(scalar_like(values, 0), Shape{1});
  return gather(concat({std::move(values), zero}, 0), std::move(places), {.from_end = true});
}
Beside beside(const SparseTensor& a, const SparseTensor& b, std::string_view function) {
  if (!a.shape().compatible_with(b.shape()))
    invalid_argument("{}: sparse tensors of shapes {} and {}", function, a.shape().to_string(), b.shape().to_string());
  const Outputs out = add_outputs("SparseUnion", {a.indices, b.indices, a.dense_shape});
  Beside found{.indices = out[0], .a_places = out[1], .b_places = out[2]};
  found.a = gather_or_zero(a.values, found.a_places);
  found.b = gather_or_zero(b.values, found.b_places);
  return found;
}

SparseTensor with_values(const SparseTensor& x, Output values) {
  return {.indices = x.indices, .values = std::move(values), .dense_shape = x.dense_shape};
}

// Of the axes of a reduction: those that stay.
Integers kept_axes(const SparseTensor& x, const Integers& axes, std::string_view function) {
  const int rank = rank_of_sparse(x, function);
  std::vector<bool> reduced(static_cast<std::size_t>(rank), axes.empty());
  for (const std::int64_t axis : axes) reduced[static_cast<std::size_t>(sparse_axis(axis, rank, function))] = true;
  Integers kept;
  for (int d = 0; d < rank; ++d)
    if (!reduced[static_cast<std::size_t>(d)]) kept.push_back(d);
  return kept;
}

using SegmentFn = Output (*)(Output x, Output ids, Output segments, Name name);

SparseTensor reduced_sparse(const SparseTensor& x, const Integers& axes, bool keep_dims, SegmentFn reduce,
                            std::string_view function) {
  const Integers kept = kept_axes(x, axes, function);
  const Groups found = groups_along(x, kept);
  SparseTensor out{.indices = found.groups};
  out.values = reduce(x.values, found.ids, number_of(found.groups), {});
  out.dense_shape = gather(x.dense_shape, integer_vector(x.dense_shape, kept));
  if (!keep_dims) return out;
  const int rank = rank_of_sparse(x, function);
  for (int d = 0; d < rank; ++d)
    if (std::ranges::find(kept, d) == kept.end()) out = sparse_expand_dims(out, d);
  return out;
}

}  // namespace

// ---- To and from dense tensors

Output sparse_to_dense(const SparseTensor& x, SparseToDenseOptions options) {
  Output otherwise = options.default_value;
  if (!otherwise.valid())
    otherwise = x.dtype() == DType::string    ? constant(*x.values.graph, std::string())
                : x.dtype() == DType::boolean ? constant(*x.values.graph, false)
                                              : scalar_like(x.values, 0);
  return add_op("SparseToDense", {x.indices, x.values, x.dense_shape, otherwise}, {{"validate", options.validate}},
                std::move(options.name));
}

SparseTensor dense_to_sparse(Output x, Name name) {
  SparseTensor out{.indices = where(x.dtype() == DType::string ? string_length(x) : x)};
  out.values = gather_nd(x, out.indices, {.name = std::move(name)});
  out.dense_shape = shape_of(x);
  return out;
}

Output sparse_to_indicator(const SparseTensor& ids, std::int64_t size, Name name) {
  const int rank = rank_of_sparse(ids, "sparse_to_indicator");
  if (rank == 0) invalid_argument("sparse_to_indicator: ids have no dimension");
  const Output columns = expand_dims(cast(ids.values, DType::i64), -1);
  SparseTensor out{.indices = concat({slice(ids.indices, {0, 0}, {-1, rank - 1}), columns}, 1)};
  const Output is_there = constant(*columns.graph, true);
  out.values = fill(shape_of(ids.values), is_there);
  const Output rows = slice(ids.dense_shape, {0}, {rank - 1});
  out.dense_shape = concat({rows, integer_vector(rows, {size})}, 0);
  return sparse_to_dense(out, {.validate = false, .name = std::move(name)});
}

// ---- Order

SparseTensor sparse_reorder(const SparseTensor& x) {
  const Output order = groups_along(x, first_axes(rank_of_sparse(x, "sparse_reorder"))).order;
  SparseTensor out{.indices = gather(x.indices, order)};
  out.values = gather(x.values, order);
  out.dense_shape = x.dense_shape;
  return out;
}

SparseTensor sparse_coalesce(const SparseTensor& x) {
  const Groups found = groups_along(x, first_axes(rank_of_sparse(x, "sparse_coalesce")));
  SparseTensor out{.indices = found.groups};
  out.values = unsorted_segment_sum(x.values, found.ids, number_of(found.groups));
  out.dense_shape = x.dense_shape;
  return out;
}

// ---- Products

Output sparse_dense_matmul(const SparseTensor& a, Output b, SparseMatMulOptions options) {
  return add_op("SparseDenseMatMul", {a.indices, a.values, a.dense_shape, std::move(b)},
                {{"adjoint_a", options.adjoint_a}, {"adjoint_b", options.adjoint_b}}, std::move(options.name));
}

Output sampled_matmul(Output indices, Output x, Output y, Name name) {
  return add_op("SampledMatMul", {cast(std::move(indices), DType::i64), std::move(x), std::move(y)}, {},
                std::move(name));
}

// ---- Elementwise

SparseTensor sparse_add(const SparseTensor& a, const SparseTensor& b, SparseAddOptions options) {
  const Beside found = beside(a, b, "sparse_add");
  SparseTensor out{.indices = found.indices};
  out.values = add(found.a, found.b);
  out.dense_shape = a.dense_shape;
  if (options.threshold <= 0) return out;
  const Output magnitudes = abs(out.values);
  return sparse_retain(out, greater_equal(magnitudes, scalar_like(magnitudes, options.threshold)));
}

SparseTensor sparse_maximum(const SparseTensor& a, const SparseTensor& b) {
  const Beside found = beside(a, b, "sparse_maximum");
  SparseTensor out{.indices = found.indices};
  out.values = maximum(found.a, found.b);
  out.dense_shape = a.dense_shape;
  return out;
}
SparseTensor sparse_minimum(const SparseTensor& a, const SparseTensor& b) {
  const Beside found = beside(a, b, "sparse_minimum");
  SparseTensor out{.indices = found.indices};
  out.values = minimum(found.a, found.b);
  out.dense_shape = a.dense_shape;
  return out;
}

SparseTensor sparse_multiply(const SparseTensor& a, const SparseTensor& b) {
  const Beside found = beside(a, b, "sparse_multiply");
  const Output zero = scalar_like(found.a_places, 0);
  const Output in_a = greater_equal(found.a_places, zero);
  const Output in_b = greater_equal(found.b_places, zero);
  SparseTensor out{.indices = found.indices};
  out.values = mul(found.a, found.b);
  out.dense_shape = a.dense_shape;
  return sparse_retain(out, logical_and(in_a, in_b));
}

namespace {

// The elements of b, which is broadcast to x's shape, at x's.
Output dense_beside(const SparseTensor& x, Output b) {
  const Output places = places_in_dense(x, shape_of(b));
  return gather(reshape(std::move(b), Shape{kUnknown}), places);
}

}  // namespace

SparseTensor sparse_dense_multiply(const SparseTensor& x, Output b) {
  return with_values(x, mul(x.values, dense_beside(x, std::move(b))));
}
SparseTensor sparse_dense_divide(const SparseTensor& x, Output b) {
  return with_values(x, div(x.values, dense_beside(x, std::move(b))));
}

Output sparse_dense_add(const SparseTensor& x, Output b) {
  if (!b.shape().compatible_with(x.shape()))
    invalid_argument("sparse_dense_add: a sparse tensor of shape {} and a dense one {}", x.shape().to_string(),
                     b.shape().to_string());
  const Output places = expand_dims(places_in_dense(x, x.dense_shape), -1);
  const Output flat = reshape(b, Shape{kUnknown});
  return reshape_like(tensor_scatter(flat, places, x.values, {.reduction = "add"}), b);
}

// The largest element of each row is subtracted, which changes no result.
SparseTensor sparse_softmax(const SparseTensor& x) {
  const int rank = rank_of_sparse(x, "sparse_softmax");
  if (rank == 0) invalid_argument("sparse_softmax: the sparse tensor has no dimension");
  const Groups rows = groups_along(x, first_axes(rank - 1));
  const Output count = number_of(rows.groups);
  const Output largest = unsorted_segment_max(stop_gradient(x.values), rows.ids, count);
  const Output shares = exp(sub(x.values, gather(largest, rows.ids)));
  const Output sums = unsorted_segment_sum(shares, rows.ids, count);
  return with_values(x, div(shares, gather(sums, rows.ids)));
}

// ---- Reductions

SparseTensor sparse_reduce_sum_sparse(const SparseTensor& x, const Integers& axes, bool keep_dims) {
  return reduced_sparse(x, axes, keep_dims, unsorted_segment_sum, "sparse_reduce_sum_sparse");
}
SparseTensor sparse_reduce_max_sparse(const SparseTensor& x, const Integers& axes, bool keep_dims) {
  return reduced_sparse(x, axes, keep_dims, unsorted_segment_max, "sparse_reduce_max_sparse");
}
Output sparse_reduce_sum(const SparseTensor& x, const Integers& axes, bool keep_dims) {
  return sparse_to_dense(reduced_sparse(x, axes, keep_dims, unsorted_segment_sum, "sparse_reduce_sum"));
}
Output sparse_reduce_max(const SparseTensor& x, const Integers& axes, bool keep_dims) {
  return sparse_to_dense(reduced_sparse(x, axes, keep_dims, unsorted_segment_max, "sparse_reduce_max"));
}

// ---- Shapes

namespace {

// Sizes, of which -1 stands for all there is.
Output sizes_or_all(const IntegersArg& sizes, const Output& like) {
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  if (const auto known = sizes.known()) {
    Integers numbers;
    for (const auto& size : *known)
      if (size) numbers.push_back(*size < 0 ? kAll : *size);
    if (numbers.size() == known->size()) return integer_vector(like, numbers);
  }
  const Output given = sizes.in(like);
  const Output all = constant<std::int64_t>(*like.graph, kAll);
  return select(less(given, scalar_like(given, 0)), all, given);
}

}  // namespace

SparseTensor sparse_slice(const SparseTensor& x, IntegersArg begin, IntegersArg size) {
  const Output from = begin.in(x.indices), asked = sizes_or_all(size, x.indices);
  const Output zero = scalar_like(from, 0);
  const Output rest = maximum(sub(x.dense_shape, from), zero);
  const Output sizes = minimum(asked, rest);
  const Output moved = sub(x.indices, from);
  const Output after = greater_equal(moved, zero);
  const Output before = less(moved, sizes);
  const Output inside = reduce_all(logical_and(after, before), Axes{-1});
  SparseTensor out{.indices = moved};
  out.values = x.values;
  out.dense_shape = sizes;
  return sparse_retain(out, inside);
}

SparseTensor sparse_concat(const std::vector<SparseTensor>& xs, std::int64_t axis) {
  if (xs.empty()) invalid_argument("sparse_concat: there is no tensor");
  const int rank = rank_of_sparse(xs[0], "sparse_concat"), along = sparse_axis(axis, rank, "sparse_concat");
  Shape shape = xs[0].shape();
  shape.set_dim(along, kUnknown);
  Integers only(static_cast<std::size_t>(rank));
  only[static_cast<std::size_t>(along)] = 1;
  const Output unit = integer_vector(xs[0].indices, only);
  Output offset{};
  Outputs indices, values;
  for (const SparseTensor& x : xs) {
    if (!x.shape().compatible_with(shape))
      invalid_argument("sparse_concat: along axis {} the other dimensions of {} and {} differ", along,
                       xs[0].shape().to_string(), x.shape().to_string());
    indices.push_back(offset.valid() ? add(x.indices, offset) : x.indices);
    values.push_back(x.values);
    const Output own = mul(x.dense_shape, unit);
    offset = offset.valid() ? add(offset, own) : own;
  }
  SparseTensor out{.indices = concat(indices, 0)};
  out.values = concat(values, 0);
  for (std::int64_t& d : only) d = 1 - d;
  const Output others = mul(xs[0].dense_shape, integer_vector(unit, only));
  out.dense_shape = add(others, offset);
  return sparse_reorder(out);
}

std::vector<SparseTensor> sparse_split(const SparseTensor& x, std::int64_t axis, std::int64_t parts) {
  const int rank = rank_of_sparse(x, "sparse_split"), along = sparse_axis(axis, rank, "sparse_split");
  if (parts < 1) invalid_argument("sparse_split: {} parts: there must be at least 1", parts);
  Integers only(static_cast<std::size_t>(rank));
  only[static_cast<std::size_t>(along)] = 1;
  const Output unit = integer_vector(x.indices, only);
  for (std::int64_t& d : only) d = d - 1;
  const Output others = integer_vector(x.indices, only);  // -1: all
  const Output total = slice(x.dense_shape, {along}, {1});
  const Output count = scalar_like(total, static_cast<double>(parts)), one = scalar_like(total, 1);
  const Output size = floor_div(total, count);
  const Output larger = floor_mod(total, count);
  Output begin = mul(unit, scalar_like(unit, 0));
  std::vector<SparseTensor> out;
  for (std::int64_t i = 0; i < parts; ++i) {
    const Output left = sub(larger, scalar_like(larger, static_cast<double>(i)));
    const Output extra = minimum(maximum(left, scalar_like(left, 0)), one);
    const Output own = mul(add(size, extra), unit);
    out.push_back(sparse_slice(x, begin, add(own, others)));
    begin = add(begin, own);
  }
  return out;
}

SparseTensor sparse_reshape(const SparseTensor& x, IntegersArg shape) {
  const Outputs made = add_outputs("SparseReshape", {x.indices, x.dense_shape, shape.in(x.indices)});
  return {.indices = made[1], .values = x.values, .dense_shape = made[0]};
}

SparseTensor sparse_transpose(const SparseTensor& x, Integers perm) {
  const int rank = rank_of_sparse(x, "sparse_transpose");
  if (perm.empty()) {
    perm = first_axes(rank);
    std::ranges::reverse(perm);
  }
  Integers sorted = perm;
  std::ranges::sort(sorted);
  if (sorted != first_axes(rank))
    invalid_argument("sparse_transpose: perm must have each of the {} dimensions of the sparse tensor once", rank);
  const Output order = integer_vector(x.indices, perm);
  SparseTensor out{.indices = gather(x.indices, order, {.axis = 1})};
  out.values = x.values;
  out.dense_shape = gather(x.dense_shape, order);
  return sparse_reorder(out);
}

SparseTensor sparse_expand_dims(const SparseTensor& x, std::int64_t axis) {
  const int rank = rank_of_sparse(x, "sparse_expand_dims");
  const std::int64_t at = sparse_axis(axis, rank + 1, "sparse_expand_dims");
  const Output before = slice(x.indices, {0, 0}, {-1, at}), behind = slice(x.indices, {0, at}, {-1, -1});
  const Output count = number_of(x.indices);
  const Output sizes = concat({reshape(count, Shape{1}), integer_vector(count, {1})}, 0);
  const Output zeros = fill(sizes, scalar_like(count, 0));
  SparseTensor out{.indices = concat({before, zeros, behind}, 1)};
  out.values = x.values;
  const Output dims_before = slice(x.dense_shape, {0}, {at}), dims_behind = slice(x.dense_shape, {at}, {-1});
  out.dense_shape = concat({dims_before, integer_vector(count, {1}), dims_behind}, 0);
  return out;
}

SparseTensor sparse_retain(const SparseTensor& x, Output keep) {
  if (keep.dtype() != DType::boolean || !keep.shape().compatible_with(x.values.shape()))
    invalid_argument("sparse_retain: {}{} is not one bool for each of the elements {}", name(keep.dtype()),
                     keep.shape().to_string(), x.values.shape().to_string());
  SparseTensor out{.indices = compress(x.indices, keep, 0)};
  out.values = compress(x.values, keep, 0);
  out.dense_shape = x.dense_shape;
  return out;
}

// The new shape is checked by the coordinates' places in it.
SparseTensor sparse_reset_shape(const SparseTensor& x, Output shape) {
  SparseTensor out = x;
  if (!shape.valid()) {
    const Output zero =
        integer_vector(x.indices, Integers(static_cast<std::size_t>(rank_of_sparse(x, "sparse_reset_shape"))));
    const Output one = scalar_like(x.indices, 1);
    out.dense_shape = max(concat({add(x.indices, one), expand_dims(zero, 0)}, 0), Axes{0});
    return out;
  }
  out.dense_shape = cast(std::move(shape), DType::i64);
  check_parts("sparse_reset_shape", x.indices.shape(), x.values.shape(), out.dense_shape.shape());
  return sparse_reorder(out);
}

FilledRows sparse_fill_empty_rows(const SparseTensor& x, Output default_value) {
  const int rank = rank_of_sparse(x, "sparse_fill_empty_rows");
  if (rank == 0) invalid_argument("sparse_fill_empty_rows: the sparse tensor has no rows");
  const Output rows = coordinates(x, 0);
  const Output total = as_scalar(slice(x.dense_shape, {0}, {1}));
  const Output ones = ones_like(rows);
  const Output counts = unsorted_segment_sum(ones, rows, total);
  FilledRows out;
  out.empty_row_indicator = equal(counts, scalar_like(counts, 0));
  const Output empty = where(out.empty_row_indicator);
  const Output first = pad(empty, {0, 0}, {0, rank - 1});
  const Output value = cast(std::move(default_value), x.dtype());
  const Output filled = fill(slice(shape_of(empty), {0}, {1}), value);
  SparseTensor all{.indices = concat({x.indices, first}, 0)};
  all.values = concat({x.values, filled}, 0);
  all.dense_shape = x.dense_shape;
  out.output = sparse_reorder(all);
  return out;
}

// ---- Rows of tables

Ragged sparse_to_ragged(const SparseTensor& x) {
  const SparseTensor ordered = sparse_reorder(x);
  const Output rows = coordinates(ordered, 0);
  const Output one = scalar_like(rows, 1);
  const Output total = as_scalar(slice(x.dense_shape, {0}, {1}));
  const Output ends = range(add(total, one));
  return {.values = ordered.values, .row_splits = search_sorted(rows, ends)};
}

Output sparse_segment_sum(Output x, Output indices, Output ids, Name name) {
  return segment_sum(gather(std::move(x), std::move(indices)), std::move(ids), std::move(name));
}
Output sparse_segment_mean(Output x, Output indices, Output ids, Name name) {
  return segment_mean(gather(std::move(x), std::move(indices)), std::move(ids), std::move(name));
}
Output sparse_segment_sqrt_n(Output x, Output indices, Output ids, Name name) {
  const Output rows = gather(std::move(x), std::move(indices));
  const Output sums = segment_sum(rows, ids);
  const Output counts = segment_sum(ones_like(rows), ids);
  return div(sums, sqrt(maximum(counts, scalar_like(counts, 1))), std::move(name));
}

}  // namespace troupe
