// Places and counts of values: SearchSorted, Bincount, HistogramFixedWidth, InTopK.
#include <algorithm>
#include <cmath>
#include <limits>

#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/index_moves.hpp>
#include <troupe/kernels/cpu/sort_keys.hpp>
#include <troupe/kernels/cpu/typed_kernels.hpp>

namespace troupe {
namespace {

// NaN is greater than all numbers, as in sorts.
template <class T>
bool sorts_before(T a, T b) {
  if constexpr (std::is_integral_v<T>) return a < b;
  return order_key(a) < order_key(b);
}

template <class T>
void search_sorted(KernelContext& c, bool right) {
  const Tensor &sorted = c.input(0), &values = c.input(1);
  const int rank = sorted.shape().rank(), last = rank - 1;
  const bool vector = rank == 1;  // serves values of any shape
  if (rank < 1 ||
      (!vector && (values.shape().rank() != rank || values.shape().sub(0, last) != sorted.shape().sub(0, last))))
    invalid_argument("SearchSorted: values {} do not fit the sorted {}", values.shape().to_string(),
                     sorted.shape().to_string());
  Tensor out = c.allocate(DType::i64, values.shape());
  const std::int64_t length = sorted.shape().dim(last);
  const std::int64_t per_row = vector ? std::max<std::int64_t>(values.num_elements(), 1) : values.shape().dim(last);
  const T *rows = sorted.data<T>(), *wanted = values.data<T>();
  std::int64_t* to = out.mutable_data<std::int64_t>();
  c.parallelism().parallel_for(values.num_elements(), rows_per_part(16), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* row = rows + i / per_row * length;
      const T* place = right ? std::upper_bound(row, row + length, wanted[i], sorts_before<T>)
                             : std::lower_bound(row, row + length, wanted[i], sorts_before<T>);
      to[i] = place - row;
    }
  });
  c.set_output(0, std::move(out));
}

std::int64_t scalar_input(const char* op, KernelContext& c, int input, const char* what) {
  if (c.input(input).num_elements() != 1)
    invalid_argument("{}: {} is {}, not a scalar", op, what, c.input(input).shape().to_string());
  const auto value = c.input(input).item<std::int64_t>();
  if (value < 0) invalid_argument("{}: {} is {}", op, what, value);
  return value;
}

template <class I>
void bincount(KernelContext& c) {
  const Tensor& x = c.input(0);
  std::int64_t length = scalar_input("Bincount", c, 1, "min_length");
  const I* from = x.data<I>();
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    if (from[i] < 0 || from[i] == std::numeric_limits<I>::max())
      invalid_argument("Bincount: value {} (element {}) is negative or too large", from[i], i);
    length = std::max(length, static_cast<std::int64_t>(from[i]) + 1);
  }
  Tensor out = make_zeros(c.device(), DType::i64, Shape{length});
  std::int64_t* counts = out.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < x.num_elements(); ++i) ++counts[from[i]];
  c.set_output(0, std::move(out));
}

// Bin floor((x - low) / width), at least the first and at most the last; NaN counts in the first.
template <class T>
void histogram(KernelContext& c) {
  const Tensor &x = c.input(0), &range = c.input(1);
  if (range.shape() != Shape{2})
    invalid_argument("HistogramFixedWidth: the range is {}, not [2]", range.shape().to_string());
  const std::int64_t bins = scalar_input("HistogramFixedWidth", c, 2, "the number of bins");
  const auto low = static_cast<double>(range.data<T>()[0]), high = static_cast<double>(range.data<T>()[1]);
  if (!(low < high) || bins < 1) invalid_argument("HistogramFixedWidth: {} bins from {} to {}", bins, low, high);
  Tensor out = make_zeros(c.device(), DType::i64, Shape{bins});
  std::int64_t* counts = out.mutable_data<std::int64_t>();
  const double width = (high - low) / static_cast<double>(bins), last = static_cast<double>(bins - 1);
  for (const T v : x.values<T>()) {
    const double bin = (static_cast<double>(v) - low) / width;
    ++counts[bin >= last ? bins - 1 : bin > 0 ? static_cast<std::int64_t>(bin) : 0];
  }
  c.set_output(0, std::move(out));
}

// Whether fewer than k predictions are greater than the target's; false if a number among them is not finite, or the
// target does not exist.
template <class T, class I>
void in_top_k(KernelContext& c) {
  const Tensor &predictions = c.input(0), &targets = c.input(1);
  if (predictions.shape().rank() != 2 || targets.shape() != predictions.shape().sub(0, 1))
    invalid_argument("InTopK: targets {} do not fit predictions {}", targets.shape().to_string(),
                     predictions.shape().to_string());
  if (c.input(2).num_elements() != 1) invalid_argument("InTopK: k is {}, not a scalar", c.input(2).shape().to_string());
  const auto k = c.input(2).item<std::int64_t>();
  Tensor out = c.allocate(DType::boolean, targets.shape());
  const std::int64_t rows = targets.num_elements(), classes = predictions.shape().dim(1);
  const T* all = predictions.data<T>();
  const I* wanted = targets.data<I>();
  bool* to = out.mutable_data<bool>();
  c.parallelism().parallel_for(rows, rows_per_part(classes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      to[row] = false;
      if (wanted[row] < 0 || wanted[row] >= classes) continue;
      const T* scores = all + row * classes;
      const auto target = static_cast<Compute<T>>(scores[wanted[row]]);
      std::int64_t greater = 0, odd = 0;
      for (std::int64_t j = 0; j < classes; ++j) {
        const auto score = static_cast<Compute<T>>(scores[j]);
        greater += score > target;
        odd += !std::isfinite(score);
      }
      to[row] = odd == 0 && greater < k;
    }
  });
  c.set_output(0, std::move(out));
}

}  // namespace

void register_search_kernels(KernelRegistry& registry) {
  add_factories(registry, "SearchSorted", RealTypes{}, []<class T>(const KernelInit& init) -> Kernel {
    return [right = init.attributes.boolean("right")](KernelContext& c) { search_sorted<T>(c, right); };
  });
  add_kernels(registry, "Bincount", IndexTypes{}, []<class T>(KernelContext& c) { bincount<T>(c); });
  add_kernels(registry, "HistogramFixedWidth", Types<float, double, std::int32_t, std::int64_t>{},
              []<class T>(KernelContext& c) { histogram<T>(c); });
  add_kernels(registry, "InTopK", FloatTypes{}, []<class T>(KernelContext& c) {
    dispatch(IndexTypes{}, c.input(1).dtype(), [&]<class I>() { in_top_k<T, I>(c); });
  });
}

}  // namespace troupe
