#include "troupe/graph/builder/sparse.hpp"

#include <string>

#include <troupe/graph/builder/array.hpp>
#include <troupe/graph/builder/math.hpp>
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

}  // namespace troupe
