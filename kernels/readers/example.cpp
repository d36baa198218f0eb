#include "troupe/kernels/readers/example.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include <troupe/graph/data/composite.hpp>
#include <troupe/kernels/readers/example_wire.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

using namespace example_wire;

ListKind kind_of(DType dtype) {
  return dtype == DType::f32 ? ListKind::floats : dtype == DType::i64 ? ListKind::integers : ListKind::bytes;
}

// Of the dimensions behind an unknown one; of all if they are known.
std::int64_t known_elements(const Shape& shape) {
  return shape.fully_known() ? shape.num_elements() : shape.sub(1, shape.rank()).num_elements();
}

std::string expected_values(const ExampleFeature& feature) {
  const std::int64_t n = known_elements(feature.shape);
  const bool fixed = feature.shape.fully_known();
  const std::string count = fixed    ? fmt::format("{}", n)
                            : n == 1 ? "any number of"
                                     : fmt::format("a multiple of {}", n);
  const std::string as = fmt::format("({}{})", name(feature.dtype), feature.shape.to_string());
  return feature.dtype == DType::u8 ? fmt::format("one value of {} bytes in bytes_list {}", count, as)
                                    : fmt::format("{} values in {} {}", count, name_of(kind_of(feature.dtype)), as);
}

[[noreturn]] void refuse_feature(const RecordPlace& place, const ExampleFeature& feature, std::string_view has) {
  fail(Code::data_loss, "{}: record at byte {}: feature '{}' {}, expected {}", place.file, place.offset, feature.name,
       has, expected_values(feature));
}

// How many elements the feature has. Throws unless they are as its dtype and shape want.
std::int64_t checked_elements(const WireContext& context, const ExampleFeature& feature, const FeatureList& list) {
  if (list.kind != kind_of(feature.dtype))
    refuse_feature(context.place, feature, fmt::format("has {}", name_of(list.kind)));
  std::int64_t count = count_values(context, list);
  if (feature.dtype == DType::u8) {
    if (count != 1) refuse_feature(context.place, feature, fmt::format("has {} values", count));
    each_run(context, list, [&](std::string_view bytes) { count = static_cast<std::int64_t>(bytes.size()); });
  }
  const std::int64_t wanted = known_elements(feature.shape);
  const bool fits = feature.shape.fully_known() ? count == wanted : wanted == 0 ? count == 0 : count % wanted == 0;
  if (!fits)
    refuse_feature(context.place, feature,
                   fmt::format("has {} {}", count, feature.dtype == DType::u8 ? "bytes" : "values"));
  return count;
}

// Writes what checked_elements() counted to out[at] and the following.
void write_elements(const WireContext& context, const FeatureList& list, Tensor& out, std::int64_t at) {
  if (list.kind == ListKind::integers) {
    std::int64_t* to = out.mutable_data<std::int64_t>() + at;
    each_run(context, list, [&](std::string_view run) {
      while (!run.empty()) *to++ = static_cast<std::int64_t>(take_varint(context, run));
    });
  } else if (out.dtype() == DType::string) {
    std::string* to = out.mutable_data<std::string>() + at;
    each_run(context, list, [&](std::string_view run) { *to++ = run; });
  } else {
    std::byte* to = out.mutable_raw() + static_cast<std::size_t>(at) * size_of(out.dtype());
    each_run(context, list, [&](std::string_view run) {
      if (!run.empty()) std::memcpy(to, run.data(), run.size());
      to += run.size();
    });
  }
}

void write_default(const Tensor& from, Tensor& out, std::int64_t at) {
  if (from.dtype() == DType::string)
    std::ranges::copy(from.values<std::string>(), out.mutable_data<std::string>() + at);
  else if (from.num_bytes() > 0)
    std::memcpy(out.mutable_raw() + static_cast<std::size_t>(at) * size_of(from.dtype()), from.raw(), from.num_bytes());
}

void check_feature(const ExampleFeature& feature) {
  constexpr DType kDTypes[] = {DType::f32, DType::i64, DType::string, DType::u8};
  if (std::ranges::find(kDTypes, feature.dtype) == std::end(kDTypes))
    invalid_argument("feature '{}': an Example has f32, i64, string or u8, but not {}: cast it in the graph",
                     feature.name, name(feature.dtype));
  const Shape& shape = feature.shape;
  if (!shape.fully_known() && !shape.sub(1, shape.rank()).fully_known())
    invalid_argument("feature '{}': only the leading dimension may be unknown, not {}", feature.name,
                     shape.to_string());
  static_cast<void>(known_elements(shape));  // throws if it does not fit
  const Tensor& value = feature.otherwise;
  if (value.valid() && (value.dtype() != feature.dtype || !value.shape().compatible_with(shape)))
    invalid_argument("feature '{}': its default is {}{}, but must be {}{}", feature.name, name(value.dtype()),
                     value.shape().to_string(), name(feature.dtype), shape.to_string());
}

void check_sparse_feature(const ExampleSparseFeature& sparse) {
  if (!sparse.shape.fully_known() || sparse.shape.rank() == 0 ||
      std::ssize(sparse.index_features) != sparse.shape.rank())
    invalid_argument("sparse feature '{}': {} index features for the shape {}, which needs one for each dimension",
                     sparse.name, sparse.index_features.size(), sparse.shape.to_string());
  if (sparse.dtype == DType::u8)
    invalid_argument("sparse feature '{}': its values are f32, i64 or string, not u8", sparse.name);
}

Tensor dims_tensor(const Shape& shape) {
  std::vector<std::int64_t> dims;
  for (int d = 0; d < shape.rank(); ++d) dims.push_back(shape.dim(d));
  return Tensor::of<std::int64_t>(Shape{std::ssize(dims)}, std::span<const std::int64_t>(dims));
}

// Elements of a vector in another order.
Tensor reordered(const Tensor& from, std::span<const std::int64_t> order) {
  Tensor out(from.dtype(), from.shape());
  if (from.dtype() == DType::string) {
    std::string* to = out.mutable_data<std::string>();
    for (const std::int64_t i : order) *to++ = from.data<std::string>()[i];
    return out;
  }
  const std::size_t size = size_of(from.dtype());
  std::byte* to = out.mutable_raw();
  for (const std::int64_t i : order) {
    std::memcpy(to, from.raw() + static_cast<std::size_t>(i) * size, size);
    to += size;
  }
  return out;
}

// Brings places, and their values, into row-major order, unless they are in it. Calls `twice` with a place that comes
// twice.
template <class Twice>
void sort_places(Tensor& indices, Tensor& values, std::size_t rank, Twice&& twice) {
  const std::int64_t count = values.num_elements();
  const std::int64_t* const from = indices.data<std::int64_t>();
  const auto place = [&](std::int64_t i) { return std::span(from + i * static_cast<std::int64_t>(rank), rank); };
  const auto before = [&](std::int64_t a, std::int64_t b) {
    return std::ranges::lexicographical_compare(place(a), place(b));
  };
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  const bool sorted = std::ranges::is_sorted(order, before);
  if (!sorted) std::ranges::sort(order, before);
  for (std::size_t i = 1; i < order.size(); ++i)
    if (!before(order[i - 1], order[i])) twice(fmt::format("[{}]", fmt::join(place(order[i]), ", ")));
  if (sorted) return;
  Tensor in_order(DType::i64, indices.shape());
  std::int64_t* to = in_order.mutable_data<std::int64_t>();
  for (const std::int64_t i : order) to = std::ranges::copy(place(i), to).out;
  values = reordered(values, order);
  indices = std::move(in_order);
}

}  // namespace

ExampleParser::ExampleParser(std::vector<ExampleFeature> features, std::vector<ExampleSparseFeature> sparse)
    : features_(std::move(features)), sparse_(std::move(sparse)) {
  for (const ExampleFeature& feature : features_)
    schema_.push_back({.name = feature.name, .dtype = feature.dtype, .shape = feature.shape});
  const auto add_list = [&](const std::string& name, DType dtype) {
    features_.push_back({.name = name, .dtype = dtype, .shape = Shape{kUnknown}, .otherwise = Tensor(dtype, Shape{0})});
  };
  for (const ExampleSparseFeature& one : sparse_) {
    check_sparse_feature(one);
    std::ranges::copy(data::sparse_parts(one.name, one.dtype, one.shape.rank()), std::back_inserter(schema_));
    for (const std::string& name : one.index_features) add_list(name, DType::i64);
    add_list(one.value_feature, one.dtype);
  }
  check_schema(schema_);
  for (std::size_t i = 0; i < features_.size(); ++i) {
    check_feature(features_[i]);
    by_name_.emplace_back(features_[i].name, i);
  }
  std::ranges::sort(by_name_);
}

// Calls `each` with the number of every feature, and its list: none if it is missing and has a default.
template <class Each>
void ExampleParser::each_feature(std::string_view record, const RecordPlace& place, Each&& each) const {
  thread_local std::vector<FeatureList> lists;  // keeps its memory from one record to the next
  const WireContext context{record, place};
  lists.assign(features_.size(), FeatureList());
  each_entry(context, [&](std::string_view name, std::string_view feature) {
    // Sparse features may share lists.
    for (const auto& [wanted, i] :
         std::ranges::equal_range(by_name_, name, {}, [](const auto& n) -> std::string_view { return n.first; }))
      lists[i] = list_of(context, feature);
  });
  for (std::size_t i = 0; i < features_.size(); ++i) {
    if (lists[i].kind == ListKind::none && !features_[i].otherwise.valid())
      refuse_feature(place, features_[i], "is missing and has no default");
    each(context, i, lists[i]);
  }
}

void ExampleParser::parse(std::string_view record, const RecordPlace& place, std::int64_t row,
                          std::span<Tensor> out) const {
  if (out.size() != schema_.size() || !sparse_.empty())
    fail(Code::internal, "a batch of {} components for Examples of {}", out.size(), to_string(schema_));
  each_feature(record, place, [&](const WireContext& context, std::size_t i, const FeatureList& list) {
    const ExampleFeature& feature = features_[i];
    const std::int64_t elements = feature.shape.num_elements();
    Tensor& to = out[i];
    if (to.dtype() != feature.dtype || row < 0 || to.shape().rank() == 0 || row >= to.shape()[0] ||
        to.num_elements() != to.shape()[0] * elements)
      fail(Code::internal, "row {} of '{}' is not in {}{}", row, feature.name, name(to.dtype()),
           to.shape().to_string());
    if (list.kind == ListKind::none) {
      write_default(feature.otherwise, to, row * elements);
    } else {
      checked_elements(context, feature, list);
      write_elements(context, list, to, row * elements);
    }
  });
}

std::vector<Tensor> ExampleParser::parse(std::string_view record, const RecordPlace& place) const {
  std::vector<Tensor> out(features_.size());
  each_feature(record, place, [&](const WireContext& context, std::size_t i, const FeatureList& list) {
    const ExampleFeature& feature = features_[i];
    if (list.kind == ListKind::none) {
      out[i] = feature.otherwise.clone();
      return;
    }
    const std::int64_t elements = checked_elements(context, feature, list);
    Shape shape = feature.shape;
    if (!shape.fully_known()) shape.set_dim(0, elements / std::max<std::int64_t>(1, known_elements(feature.shape)));
    out[i] = Tensor(feature.dtype, shape);
    write_elements(context, list, out[i], 0);
  });
  if (sparse_.empty()) return out;
  std::size_t at = features_.size();
  for (const ExampleSparseFeature& sparse : sparse_) at -= sparse.index_features.size() + 1;
  std::vector<Tensor> all(std::make_move_iterator(out.begin()),
                          std::make_move_iterator(out.begin() + static_cast<std::ptrdiff_t>(at)));
  for (const ExampleSparseFeature& sparse : sparse_) {
    const std::size_t lists = sparse.index_features.size() + 1;
    std::ranges::move(sparse_parts(sparse, std::span(out).subspan(at, lists), place), std::back_inserter(all));
    at += lists;
  }
  return all;
}

std::vector<Tensor> ExampleParser::sparse_parts(const ExampleSparseFeature& sparse, std::span<Tensor> lists,
                                                const RecordPlace& place) const {
  const std::size_t rank = lists.size() - 1;
  const std::int64_t count = lists[rank].num_elements();
  const auto refuse = [&](const std::string& why) {
    fail(Code::data_loss, "{}: record at byte {}: sparse feature '{}' {}", place.file, place.offset, sparse.name, why);
  };
  Tensor indices(DType::i64, Shape{count, std::int64_t{sparse.shape.rank()}});
  std::int64_t* const to = indices.mutable_data<std::int64_t>();
  for (std::size_t d = 0; d < rank; ++d) {
    if (lists[d].num_elements() != count)
      refuse(fmt::format("has {} values in '{}', but {} indices in '{}'", count, sparse.value_feature,
                         lists[d].num_elements(), sparse.index_features[d]));
    const std::int64_t size = sparse.shape.dim(static_cast<int>(d));
    const std::int64_t* const from = lists[d].data<std::int64_t>();
    for (std::int64_t i = 0; i < count; ++i) {
      if (from[i] < 0 || from[i] >= size)
        refuse(fmt::format("has the index {} in '{}', whose dimension is {}", from[i], sparse.index_features[d], size));
      to[static_cast<std::size_t>(i) * rank + d] = from[i];
    }
  }
  Tensor values = std::move(lists[rank]);
  sort_places(indices, values, rank, [&](const std::string& place) { refuse("has two values at " + place); });
  return {std::move(indices), std::move(values), dims_tensor(sparse.shape)};
}

std::vector<ExampleFeature> infer_example(std::string_view record, const RecordPlace& place) {
  const WireContext context{record, place};
  std::map<std::string_view, FeatureList> lists;
  each_entry(context,
             [&](std::string_view name, std::string_view feature) { lists[name] = list_of(context, feature); });
  std::vector<ExampleFeature> out;
  for (const auto& [name, list] : lists) {
    if (name.empty() || list.kind == ListKind::none) continue;
    const std::int64_t count = count_values(context, list);
    out.push_back({.name = std::string(name),
                   .dtype = list.kind == ListKind::floats     ? DType::f32
                            : list.kind == ListKind::integers ? DType::i64
                                                              : DType::string,
                   .shape = count == 1   ? Shape{}
                            : count == 0 ? Shape{kUnknown}
                                         : Shape{count}});
  }
  return out;
}

std::string example_of(std::span<const NamedTensor> tensors) {
  std::string features;
  std::set<std::string_view> names;
  for (const NamedTensor& t : tensors) {
    if (!names.insert(t.name).second) invalid_argument("an Example has one feature '{}', not two", t.name);
    std::string entry;
    put_bytes(entry, kEntryName, t.name);
    put_bytes(entry, kEntryValue, feature_of(t));
    put_bytes(features, kFeature, entry);
  }
  std::string out;
  put_bytes(out, kFeatures, features);
  return out;
}

}  // namespace troupe
