#include "troupe/kernels/cpu/sparse_kernels.hpp"

#include <algorithm>
#include <numeric>

#include <troupe/kernels/common/row_groups.hpp>
#include <troupe/kernels/cpu/sparse_indices.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

Tensor integers_of(KernelContext& c, const std::vector<std::int64_t>& values) {
  Tensor out = c.allocate(DType::i64, Shape{std::ssize(values)});
  std::ranges::copy(values, out.mutable_data<std::int64_t>());
  return out;
}

// Coordinates of these places, in a tensor of these dimensions.
Tensor coordinates_of(KernelContext& c, std::span<const std::int64_t> places, const Shape& dims) {
  Tensor out = c.allocate(DType::i64, Shape{std::ssize(places), dims.rank()});
  std::int64_t* to = out.mutable_data<std::int64_t>();
  for (std::int64_t place : places) {
    for (int d = dims.rank() - 1; d >= 0; --d) {
      to[d] = place % dims[d];
      place /= dims[d];
    }
    to += dims.rank();
  }
  return out;
}

void to_dense(KernelContext& c, bool validate) {
  const SparseIndices at("SparseToDense", c.input(0), c.input(2));
  const Tensor &values = c.input(1), &otherwise = c.input(3);
  if (values.shape() != Shape{at.count()})
    invalid_argument("SparseToDense: {} values for {} rows of indices", values.shape().to_string(), at.count());
  const std::vector<std::int64_t> places = at.places();
  if (validate) at.check_order(places);
  Tensor out = c.allocate(values.dtype(), at.shape());
  dispatch(ElementTypes{}, values.dtype(), [&]<class T>() {
    T* to = out.mutable_data<T>();
    std::fill_n(to, out.num_elements(), otherwise.item<T>());
    const T* from = values.data<T>();
    for (std::size_t i = 0; i < places.size(); ++i) to[places[i]] = from[i];
  });
  c.set_output(0, std::move(out));
}

void places_in(KernelContext& c) {
  const SparseIndices at("SparsePlaces", c.input(0), c.input(1));
  const Shape like = shape_in("SparsePlaces: like", c.input(2));
  const int skipped = at.rank() - like.rank();
  std::vector<int> axes;
  for (int d = 0; d < like.rank(); ++d) {
    if (skipped < 0 || (like[d] != 1 && like[d] != at.shape()[d + skipped]))
      invalid_argument("SparsePlaces: a dense tensor {} does not broadcast to the sparse one, {}", like.to_string(),
                       at.shape().to_string());
    if (like[d] != 1) axes.push_back(d + skipped);
  }
  c.set_output(0, integers_of(c, at.places(axes)));
}

void union_of(KernelContext& c) {
  const SparseIndices a("SparseUnion", c.input(0), c.input(2)), b("SparseUnion", c.input(1), c.input(2));
  const std::vector<std::int64_t> left = a.places(), right = b.places();
  a.check_order(left);
  b.check_order(right);
  std::vector<std::int64_t> all, of_a, of_b;
  for (auto* list : {&all, &of_a, &of_b}) list->reserve(left.size() + right.size());
  std::size_t i = 0, j = 0;
  while (i < left.size() || j < right.size()) {
    const bool from_a = j == right.size() || (i < left.size() && left[i] <= right[j]),
               from_b = i == left.size() || (j < right.size() && right[j] <= left[i]);
    all.push_back(from_a ? left[i] : right[j]);
    of_a.push_back(from_a ? static_cast<std::int64_t>(i++) : -1);
    of_b.push_back(from_b ? static_cast<std::int64_t>(j++) : -1);
  }
  c.set_output(0, coordinates_of(c, all, a.shape()));
  c.set_output(1, integers_of(c, of_a));
  c.set_output(2, integers_of(c, of_b));
}

void groups_of(KernelContext& c, const std::vector<std::int64_t>& given) {
  const SparseIndices at("SparseGroups", c.input(0), c.input(1));
  std::vector<int> axes;
  Shape kept;
  for (const std::int64_t axis : given) {
    axes.push_back(static_cast<int>(axis < 0 ? axis + at.rank() : axis));
    if (axes.back() < 0 || axes.back() >= at.rank())
      invalid_argument("SparseGroups: axis {} of a sparse tensor of shape {}", axis, at.shape().to_string());
    kept = kept.with_appended(at.shape()[axes.back()]);
  }
  const std::vector<std::int64_t> places = at.places(axes);
  std::vector<std::int64_t> order(places.size()), ids(places.size()), groups;
  if (std::ranges::is_sorted(places))
    std::iota(order.begin(), order.end(), 0);
  else
    order = group_rows(places).order;
  for (const std::int64_t element : order) {
    const std::int64_t place = places[static_cast<std::size_t>(element)];
    if (groups.empty() || groups.back() != place) groups.push_back(place);
    ids[static_cast<std::size_t>(element)] = std::ssize(groups) - 1;
  }
  c.set_output(0, coordinates_of(c, groups, kept));
  c.set_output(1, integers_of(c, ids));
  c.set_output(2, integers_of(c, order));
}

// `dims` of which one may be -1, as the shape of this many elements.
Shape reshaped_to(std::span<const std::int64_t> dims, const Shape& from) {
  const std::int64_t elements = from.num_elements();
  Shape out, others;
  int open = -1;
  for (const std::int64_t dim : dims) {
    if (dim == kUnknown && open < 0)
      open = out.rank();
    else if (dim < 0)
      invalid_argument("SparseReshape: dimensions {} and {} of the new shape are negative", open, out.rank());
    else
      others = others.with_appended(dim);
    out = out.with_appended(std::max<std::int64_t>(dim, 0));
  }
  const std::int64_t known = others.num_elements();
  if (open >= 0 && known > 0) out.set_dim(open, elements / known);
  if (out.num_elements() != elements)
    invalid_argument("SparseReshape: a sparse tensor of shape {} has no shape {}", from.to_string(), out.to_string());
  return out;
}

void reshape_sparse(KernelContext& c) {
  const SparseIndices at("SparseReshape", c.input(0), c.input(1));
  const Shape to = reshaped_to(c.input(2).values<std::int64_t>(), at.shape());
  c.set_output(0, integers_of(c, {to.dims().begin(), to.dims().end()}));
  c.set_output(1, coordinates_of(c, at.places(), to));
}

}  // namespace

void register_sparse_kernels(KernelRegistry& registry) {
  add_untyped(registry, "SparseToDense", [](const KernelInit& init) -> Kernel {
    return [validate = init.attributes.boolean("validate")](KernelContext& c) { to_dense(c, validate); };
  });
  add_untyped(registry, "SparsePlaces", [](const KernelInit&) -> Kernel { return places_in; });
  add_untyped(registry, "SparseUnion", [](const KernelInit&) -> Kernel { return union_of; });
  add_untyped(registry, "SparseGroups", [](const KernelInit& init) -> Kernel {
    return [axes = init.attributes.integers("axes")](KernelContext& c) { groups_of(c, axes); };
  });
  add_untyped(registry, "SparseReshape", [](const KernelInit&) -> Kernel { return reshape_sparse; });
}

}  // namespace troupe
