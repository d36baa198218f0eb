// Resize: each axis that changes is interpolated by a table of weights, one axis after the other; nearest elements are
// moved at once. The gradient takes the tables transposed.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include <troupe/graph/resize.hpp>
#include <troupe/kernels/common/array.hpp>
#include <troupe/kernels/cpu/cast.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kResizeGrain = 16384;  // products

// Element j of the resized axis is the sum of weights[t] * x[sources[t]] for t in [starts[j], starts[j + 1]).
struct ResizeTable {
  std::vector<std::int64_t> starts{0};
  std::vector<std::int64_t> sources;
  std::vector<double> weights;
  std::vector<char> outside;  // elements that have the extrapolation value; empty if there is none
  std::int64_t before = 0;    // size of the axis

  std::int64_t size() const { return std::ssize(starts) - 1; }
  bool is_identity() const {
    if (size() != before || std::ssize(sources) != before || !outside.empty()) return false;
    for (std::int64_t j = 0; j < before; ++j)
      if (sources[static_cast<std::size_t>(j)] != j || weights[static_cast<std::size_t>(j)] != 1) return false;
    return true;
  }
  ResizeTable transposed() const;
};

ResizeTable ResizeTable::transposed() const {
  ResizeTable out;
  out.before = size();
  out.starts.assign(static_cast<std::size_t>(before) + 1, 0);
  for (const std::int64_t s : sources) ++out.starts[static_cast<std::size_t>(s) + 1];
  std::partial_sum(out.starts.begin(), out.starts.end(), out.starts.begin());
  out.sources.resize(sources.size());
  out.weights.resize(sources.size());
  std::vector<std::int64_t> next(out.starts.begin(), out.starts.end() - 1);
  for (std::int64_t j = 0; j < size(); ++j)
    for (auto t = static_cast<std::size_t>(starts[static_cast<std::size_t>(j)]);
         t < static_cast<std::size_t>(starts[static_cast<std::size_t>(j) + 1]); ++t) {
      const auto at = static_cast<std::size_t>(next[static_cast<std::size_t>(sources[t])]++);
      out.sources[at] = j;
      out.weights[at] = weights[t];
    }
  return out;
}

struct ResizeSettings {
  ResizeMode mode;
  ResizeCoordinates coordinates;
  NearestMode nearest;
  AspectPolicy aspect;
  double cubic_a;
  bool exclude_outside;
  bool antialias;
  double extrapolation = 0;
  std::vector<std::int64_t> axes;
};

ResizeSettings resize_settings(const Attributes& a) {
  return {resize_choice<ResizeMode>(kResizeModes, "mode", a.string("mode")),
          resize_choice<ResizeCoordinates>(kResizeCoordinates, "coordinates", a.string("coordinates")),
          resize_choice<NearestMode>(kNearestModes, "nearest_mode", a.string("nearest_mode")),
          resize_choice<AspectPolicy>(kAspectPolicies, "aspect", a.string("aspect")),
          a.real("cubic_coeff_a"),
          a.boolean("exclude_outside"),
          a.boolean("antialias"),
          a.has("extrapolation_value") ? a.real("extrapolation_value") : 0,
          a.integers("axes")};
}

// Where element j of the resized axis lies in x; none if it is outside. `begin` and `end` are of the region.
std::optional<double> source_place(const ResizeSettings& s, std::int64_t j, std::int64_t n, ResizedDim dim,
                                   double begin, double end) {
  const auto at = static_cast<double>(j), size = static_cast<double>(n), resized = dim.scale * size;
  switch (s.coordinates) {
    case ResizeCoordinates::align_corners:
      return resized == 1 ? 0 : at * (size - 1) / (resized - 1);
    case ResizeCoordinates::asymmetric:
      return at / dim.scale;
    case ResizeCoordinates::tf_half_pixel_for_nn:
      return (at + 0.5) / dim.scale;
    case ResizeCoordinates::pytorch_half_pixel:
      return dim.size > 1 ? (at + 0.5) / dim.scale - 0.5 : 0;
    case ResizeCoordinates::half_pixel:
      return (at + 0.5) / dim.scale - 0.5;
    case ResizeCoordinates::half_pixel_symmetric:
      return size / 2 * (1 - static_cast<double>(dim.size) / resized) + (at + 0.5) / dim.scale - 0.5;
    case ResizeCoordinates::tf_crop_and_resize:
      break;
  }
  const double width = (end - begin) * (size - 1);
  const double place = begin * (size - 1) + (resized == 1 ? width / 2 : at * width / (resized - 1));
  if (!(place >= 0 && place <= size - 1)) return std::nullopt;
  return place;
}

std::int64_t nearest_to(double place, NearestMode mode) {
  double chosen = 0;
  switch (mode) {
    case NearestMode::floor:
      chosen = std::floor(place);
      break;
    case NearestMode::ceil:
      chosen = std::ceil(place);
      break;
    case NearestMode::round_prefer_floor:
      chosen = std::ceil(place - 0.5);
      break;
    case NearestMode::round_prefer_ceil:
      chosen = std::floor(place + 0.5);
      break;
  }
  return static_cast<std::int64_t>(chosen);
}

// Keys, "Cubic convolution interpolation for digital image processing" (1981).
double cubic_weight(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// Adds the elements around `place` and their weights.
void add_weights(ResizeTable& table, const ResizeSettings& s, double place, double scale) {
  const double support = s.mode == ResizeMode::cubic ? 2 : 1;
  const double stretch = s.antialias ? std::min(scale, 1.0) : 1.0;
  const std::size_t start = table.sources.size();
  const std::int64_t last = table.before - 1;
  double total = 0;
  const auto from = static_cast<std::int64_t>(std::ceil(place - support / stretch)),
             to = static_cast<std::int64_t>(std::floor(place + support / stretch));
  for (std::int64_t p = from; p <= to; ++p) {
    const double distance = (static_cast<double>(p) - place) * stretch;
    const double weight =
        s.mode == ResizeMode::cubic ? cubic_weight(distance, s.cubic_a) : std::max(1 - std::abs(distance), 0.0);
    if (weight == 0 || (s.exclude_outside && (p < 0 || p > last))) continue;
    const std::int64_t source = std::clamp<std::int64_t>(p, 0, last);
    total += weight;
    if (table.sources.size() > start && table.sources.back() == source) {
      table.weights.back() += weight;
    } else {
      table.sources.push_back(source);
      table.weights.push_back(weight);
    }
  }
  if (s.exclude_outside || s.antialias)
    for (std::size_t t = start; t < table.weights.size(); ++t) table.weights[t] /= total;
}

ResizeTable resize_table(const ResizeSettings& s, std::int64_t n, ResizedDim dim, double begin, double end) {
  ResizeTable table;
  table.before = n;
  if (n == 0 && dim.size > 0) invalid_argument("a dimension of size 0 cannot be resized to {}", dim.size);
  for (std::int64_t j = 0; j < dim.size; ++j) {
    const auto place = source_place(s, j, n, dim, begin, end);
    if (!place) {
      if (table.outside.empty()) table.outside.resize(static_cast<std::size_t>(dim.size));
      table.outside[static_cast<std::size_t>(j)] = 1;
      if (s.mode == ResizeMode::nearest) {  // moved, then overwritten
        table.sources.push_back(0);
        table.weights.push_back(0);
      }
    } else if (s.mode == ResizeMode::nearest) {
      table.sources.push_back(
          std::clamp<std::int64_t>(nearest_to(std::clamp(*place, -1.0, static_cast<double>(n)), s.nearest), 0, n - 1));
      table.weights.push_back(1);
    } else {
      // Places so far outside that all weights go to the outermost element have the same value as nearer ones.
      const double margin = 4 + 4 / std::min(dim.scale, 1.0);
      add_weights(table, s, std::clamp(*place, -margin, static_cast<double>(n) + margin), dim.scale);
    }
    table.starts.push_back(std::ssize(table.sources));
  }
  return table;
}

struct ResizePlan {
  Shape result;
  std::vector<ResizeTable> tables;  // of all dimensions of x; none if the result is empty
};

ResizePlan plan_of(const ResizeSettings& s, const Shape& x, const Tensor& roi, const Tensor& scales,
                   const Tensor& sizes) {
  std::vector<int> axes;
  std::vector<char> seen(kMaxRank);
  for (const std::int64_t axis : s.axes) axes.push_back(checked_axis(axis, x.rank()));
  if (axes.empty()) {
    axes.resize(static_cast<std::size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (const int axis : axes)
    if (std::exchange(seen[static_cast<std::size_t>(axis)], 1))
      invalid_argument("Resize: axis {} is given twice", axis);
  std::vector<ResizedDim> dims(axes.size());
  if (sizes.num_elements() != 0) {
    const Dims wanted = checked_sizes(sizes, axes.size());
    std::vector<std::int64_t> before;
    for (const int axis : axes) before.push_back(x[axis]);
    resize_to(before, wanted, s.aspect, dims);
  } else {
    if (scales.num_elements() != std::ssize(axes))
      invalid_argument("Resize: there are {} scales for {} axes", scales.num_elements(), axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i) dims[i] = resized_by_scale(x[axes[i]], scales.data<float>()[i]);
  }
  const bool cropped = s.coordinates == ResizeCoordinates::tf_crop_and_resize;
  if (cropped && roi.num_elements() != 2 * std::ssize(axes))
    invalid_argument("Resize: the region has {} numbers for {} axes, where tf_crop_and_resize needs two for each",
                     roi.num_elements(), axes.size());
  Shape result = x;
  for (std::size_t i = 0; i < axes.size(); ++i) result.set_dim(axes[i], dims[i].size);
  if (result.num_elements() == 0) return {result, {}};
  constexpr std::int64_t kMostElements = std::int64_t{1} << 31;
  std::vector<ResizeTable> tables(static_cast<std::size_t>(x.rank()));
  for (const ResizedDim& dim : dims)
    if (dim.size > kMostElements) invalid_argument("Resize to {} elements of a dimension", dim.size);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const float* region = cropped ? roi.data<float>() : nullptr;
    tables[static_cast<std::size_t>(axes[i])] =
        resize_table(s, x[axes[i]], dims[i], cropped ? region[i] : 0, cropped ? region[axes.size() + i] : 1);
  }
  return {result, std::move(tables)};
}

// Tables that change nothing are removed: they have no sources.
bool changes(const ResizeTable& table) { return !(table.starts.size() == 1 && table.before == 0); }

// to[i] = (or +=, unless kFirst) the weighted sum of up to four rows.
template <bool kFirst, class T>
void add_rows(const T* from, T* to, std::int64_t inner, const std::int64_t* sources, const T* weights,
              std::int64_t count) {
  // Rows that are not there have weight 0, and stand for a row that is.
  const T* rows[4];
  T w[4];
  for (std::int64_t k = 0; k < 4; ++k) {
    rows[k] = from + sources[std::min(k, count - 1)] * inner;
    w[k] = k < count ? weights[k] : T{};
  }
  const auto sum = [&](auto term) {
    for (std::int64_t i = 0; i < inner; ++i) to[i] = kFirst ? term(i) : to[i] + term(i);
  };
  const T *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
  const T wa = w[0], wb = w[1], wc = w[2], wd = w[3];
  if (count == 1)
    sum([=](std::int64_t i) { return wa * a[i]; });
  else if (count == 2)
    sum([=](std::int64_t i) { return wa * a[i] + wb * b[i]; });
  else if (count == 3)
    sum([=](std::int64_t i) { return (wa * a[i] + wb * b[i]) + wc * c[i]; });
  else
    sum([=](std::int64_t i) { return (wa * a[i] + wb * b[i]) + (wc * c[i] + wd * d[i]); });
}

// to[i] = the weighted sum of from[sources[t] * inner + i].
template <class T>
void sum_rows(const T* from, T* to, std::int64_t inner, const std::int64_t* sources, const T* weights,
              std::int64_t count) {
  if (count == 0) std::fill_n(to, inner, T{});
  for (std::int64_t t = 0; t < count; t += 4) {
    const std::int64_t n = std::min<std::int64_t>(count - t, 4);
    if (t == 0)
      add_rows<true>(from, to, inner, sources, weights, n);
    else
      add_rows<false>(from, to, inner, sources + t, weights + t, n);
  }
}

// The same of the elements of one line; kCount: the number of weights of each, 0 if it differs.
template <int kCount, class T>
void sum_line(const T* line, T* to, const ResizeTable& table, const T* weights) {
  const std::int64_t *starts = table.starts.data(), *sources = table.sources.data();
  for (std::int64_t j = 0; j < table.size(); ++j) {
    T sum{};
    if constexpr (kCount == 2) {
      sum = weights[2 * j] * line[sources[2 * j]] + weights[2 * j + 1] * line[sources[2 * j + 1]];
    } else if constexpr (kCount == 4) {
      const T* w = weights + 4 * j;
      const std::int64_t* s = sources + 4 * j;
      sum = (w[0] * line[s[0]] + w[1] * line[s[1]]) + (w[2] * line[s[2]] + w[3] * line[s[3]]);
    } else {
      for (std::int64_t t = starts[j]; t < starts[j + 1]; ++t) sum += weights[t] * line[sources[t]];
    }
    to[j] = sum;
  }
}

// x with dimension d interpolated.
template <class T>
Tensor resized_axis(Device& device, const Tensor& x, int d, const ResizeTable& table) {
  Shape shape = x.shape();
  shape.set_dim(d, table.size());
  Tensor out = device.allocator().tensor(x.dtype(), shape);
  if (out.num_elements() == 0) return out;
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < d; ++i) outer *= shape[i];
  for (int i = d + 1; i < shape.rank(); ++i) inner *= shape[i];
  const std::vector<T> weights(table.weights.begin(), table.weights.end());
  const T* from = x.data<T>();
  T* to = out.mutable_data<T>();
  const std::int64_t before = table.before, after = table.size();
  const std::int64_t products = std::max<std::int64_t>(std::ssize(weights) / after, 1);
  const std::int64_t *starts = table.starts.data(), *sources = table.sources.data();
  if (inner == 1) {
    const auto all_have = [&](std::int64_t count) {
      for (std::int64_t j = 0; j <= after; ++j)
        if (starts[j] != j * count) return false;
      return true;
    };
    const auto run = all_have(2) ? sum_line<2, T> : all_have(4) ? sum_line<4, T> : sum_line<0, T>;
    device.parallelism().parallel_for(outer, std::max<std::int64_t>(kResizeGrain / (after * products), 1),
                                      [&](std::int64_t begin, std::int64_t end) {
                                        for (std::int64_t o = begin; o < end; ++o)
                                          run(from + o * before, to + o * after, table, weights.data());
                                      });
    return out;
  }
  device.parallelism().parallel_for(outer * after, std::max<std::int64_t>(kResizeGrain / (inner * products), 1),
                                    [&](std::int64_t begin, std::int64_t end) {
                                      for (std::int64_t row = begin; row < end; ++row) {
                                        const std::int64_t j = row % after, t = starts[j];
                                        sum_rows(from + row / after * before * inner, to + row * inner, inner,
                                                 sources + t, weights.data() + t, starts[j + 1] - t);
                                      }
                                    });
  return out;
}

// Axes that shrink first, and so least work.
std::vector<int> resize_order(const std::vector<ResizeTable>& tables) {
  std::vector<int> order;
  for (std::size_t d = 0; d < tables.size(); ++d)
    if (changes(tables[d])) order.push_back(static_cast<int>(d));
  const auto ratio = [&](int d) {
    const ResizeTable& t = tables[static_cast<std::size_t>(d)];
    return static_cast<double>(t.size()) / static_cast<double>(std::max<std::int64_t>(t.before, 1));
  };
  std::ranges::stable_sort(order, [&](int a, int b) { return ratio(a) < ratio(b); });
  return order;
}

template <class T>
Tensor resized_axes_of(Device& device, Tensor x, const std::vector<ResizeTable>& tables) {
  for (const int d : resize_order(tables)) x = resized_axis<T>(device, x, d, tables[static_cast<std::size_t>(d)]);
  return x;
}

// Floats hold all integers of at most 16 bits.
bool wants_double(DType dtype) {
  return dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64 || dtype == DType::u32 ||
         dtype == DType::u64;
}

Tensor interpolated(Device& device, const Tensor& x, const std::vector<ResizeTable>& tables) {
  if (std::ranges::none_of(tables, changes)) return x;
  const DType inner = wants_double(x.dtype()) ? DType::f64 : DType::f32;
  Tensor wide = x.dtype() == inner ? x : cast(device, x, inner);
  wide = inner == DType::f64 ? resized_axes_of<double>(device, std::move(wide), tables)
                             : resized_axes_of<float>(device, std::move(wide), tables);
  return x.dtype() == inner ? wide : cast(device, wide, x.dtype());
}

template <class E>
void pick(const E* from, E* to, const std::int64_t* sources, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) to[j] = from[sources[j]];
}

// Each element a copy of its source.
Tensor picked(Device& device, const Tensor& x, const std::vector<ResizeTable>& tables) {
  int last = -1;
  Shape shape = x.shape();
  for (int d = 0; d < shape.rank(); ++d)
    if (const ResizeTable& t = tables[static_cast<std::size_t>(d)]; changes(t)) {
      last = d;
      shape.set_dim(d, t.size());
    }
  if (last < 0) return x;
  Tensor out = device.allocator().tensor(x.dtype(), shape);
  if (out.num_elements() == 0) return out;
  std::int64_t inner = 1, outer = 1;
  for (int d = last + 1; d < shape.rank(); ++d) inner *= shape[d];
  for (int d = 0; d < last; ++d) outer *= shape[d];
  const ResizeTable& table = tables[static_cast<std::size_t>(last)];
  const std::int64_t after = table.size();
  const auto bytes = static_cast<std::int64_t>(size_of(x.dtype()));
  const bool strings = x.dtype() == DType::string;
  device.parallelism().parallel_for(
      outer, std::max<std::int64_t>(kResizeGrain / (after * inner), 1), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          std::int64_t rest = row, stride = table.before, source = 0;
          for (int d = last - 1; d >= 0; --d) {
            const ResizeTable& t = tables[static_cast<std::size_t>(d)];
            const std::int64_t j = rest % shape[d];
            rest /= shape[d];
            source += stride * (changes(t) ? t.sources[static_cast<std::size_t>(j)] : j);
            stride *= x.shape()[d];
          }
          const std::int64_t from = source * inner, to = row * after * inner;
          if (strings) {
            for (std::int64_t j = 0; j < after; ++j)
              std::copy_n(x.data<std::string>() + from + table.sources[static_cast<std::size_t>(j)] * inner, inner,
                          out.mutable_data<std::string>() + to + j * inner);
            continue;
          }
          const std::byte* a = x.raw() + from * bytes;
          std::byte* b = out.mutable_raw() + to * bytes;
          const auto pick_as = [&]<class E>(E) {
            pick(reinterpret_cast<const E*>(a), reinterpret_cast<E*>(b), table.sources.data(), after);
          };
          if (inner != 1)
            for (std::int64_t j = 0; j < after; ++j)
              std::memcpy(b + j * inner * bytes, a + table.sources[static_cast<std::size_t>(j)] * inner * bytes,
                          static_cast<std::size_t>(inner * bytes));
          else if (bytes == 1)
            pick_as(std::uint8_t{});
          else if (bytes == 2)
            pick_as(std::uint16_t{});
          else if (bytes == 4)
            pick_as(std::uint32_t{});
          else
            pick_as(std::uint64_t{});
        }
      });
  return out;
}

// Writes `value`, a scalar, to what lies outside.
void fill_outside(Device& device, Tensor& out, const std::vector<ResizeTable>& tables, double value) {
  Tensor one = cast(device, Tensor::scalar(value), out.dtype());
  for (int d = 0; d < out.shape().rank(); ++d) {
    const ResizeTable& table = tables[static_cast<std::size_t>(d)];
    for (std::int64_t j = 0; j < std::ssize(table.outside); ++j) {
      if (table.outside[static_cast<std::size_t>(j)] == 0) continue;
      const auto strides = dense_strides(out.shape());
      std::vector<CopyDim> loops;
      for (int e = 0; e < out.shape().rank(); ++e)
        if (e != d) loops.push_back({out.shape()[e], 0, strides[static_cast<std::size_t>(e)]});
      if (loops.empty()) loops.push_back({1, 0, 1});
      strided_copy(device, one, 0, out, j * strides[static_cast<std::size_t>(d)], loops);
    }
  }
}

void drop_identities(std::vector<ResizeTable>& tables) {
  for (ResizeTable& table : tables)
    if (table.is_identity()) table = {};
}

Tensor resize(Device& device, const ResizeSettings& s, const Tensor& x, const Tensor& roi, const Tensor& scales,
              const Tensor& sizes) {
  if (s.mode != ResizeMode::nearest && (x.dtype() == DType::string || x.dtype() == DType::boolean))
    invalid_argument("Resize of {} has mode nearest only", name(x.dtype()));
  auto [result, tables] = plan_of(s, x.shape(), roi, scales, sizes);
  if (result.num_elements() == 0) return device.allocator().tensor(x.dtype(), result);
  drop_identities(tables);
  Tensor out = s.mode == ResizeMode::nearest ? picked(device, x, tables) : interpolated(device, x, tables);
  if (out.num_elements() > 0 && std::ranges::any_of(tables, [](const ResizeTable& t) { return !t.outside.empty(); })) {
    if (x.dtype() == DType::string) invalid_argument("Resize of strings outside x");
    fill_outside(device, out, tables, s.extrapolation);
  }
  return out;
}

Tensor resize_grad(Device& device, const ResizeSettings& s, const Tensor& dy, const Shape& x, const Tensor& roi,
                   const Tensor& scales, const Tensor& sizes) {
  auto [result, tables] = plan_of(s, x, roi, scales, sizes);
  if (dy.shape() != result)
    invalid_argument("ResizeGrad: dy is {}, but {} resized is {}", dy.shape().to_string(), x.to_string(),
                     result.to_string());
  if (result.num_elements() == 0) return make_zeros(device, dy.dtype(), x);
  drop_identities(tables);
  for (ResizeTable& table : tables)
    if (changes(table)) table = table.transposed();
  return interpolated(device, dy, tables);
}

}  // namespace

void register_resize_kernels(KernelRegistry& registry) {
  add_untyped(registry, "Resize", [](const KernelInit& init) -> Kernel {
    return [s = resize_settings(init.attributes)](KernelContext& c) {
      c.set_output(0, resize(c.device(), s, c.input(0), c.input(1), c.input(2), c.input(3)));
    };
  });
  add_untyped(registry, "ResizeGrad", [](const KernelInit& init) -> Kernel {
    return [s = resize_settings(init.attributes)](KernelContext& c) {
      c.set_output(0, resize_grad(c.device(), s, c.input(0), c.input(1).shape(), c.input(2), c.input(3), c.input(4)));
    };
  });
}

}  // namespace troupe
