#include "troupe/kernels/cpu/softmax.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/lanes.hpp>
#include <troupe/kernels/cpu/low_precision.hpp>
#include <troupe/kernels/cpu/scratch.hpp>
#include <troupe/kernels/cpu/vector_math.hpp>

namespace troupe {
namespace {

// Minimum elements per part.
constexpr std::int64_t kPartElements = std::int64_t{1} << 13;
// Rows copied together from memory where their elements are not neighbours: a cache line of them.
constexpr std::int64_t kMaxColumns = 16;

// Rows of [outer, width, inner] along the middle: row i of outer * inner has its elements `inner` apart.
struct Rows {
  std::int64_t outer = 0;
  std::int64_t width = 0;
  std::int64_t inner = 1;
  // Rows of one outer index that are copied together.
  std::int64_t columns() const {
    const std::int64_t fit = (std::int64_t{1} << 18) / std::max<std::int64_t>(1, width);
    return std::min(inner, std::clamp<std::int64_t>(fit, 1, kMaxColumns));
  }
  std::int64_t first_of(std::int64_t row) const { return row / inner * width * inner + row % inner; }
};
Rows rows_of(std::string_view what, const Shape& shape, std::int64_t given) {
  if (shape.rank() < 1) invalid_argument("{} must have at least one dimension, but is a scalar", what);
  const int axis = checked_axis(given, shape.rank());
  const std::int64_t inner = shape.sub(axis + 1, shape.rank()).num_elements();
  const std::int64_t width = shape[axis];
  return {width == 0 || inner == 0 ? 0 : shape.num_elements() / width / inner, width, std::max<std::int64_t>(1, inner)};
}
Shape without_axis(const Shape& shape, std::int64_t axis) { return shape.without(checked_axis(axis, shape.rank())); }

// Returns the largest number, skipping NaN, since the exponential restores it.
template <class T>
T maximum(const T* x, std::int64_t n) {
  return combine_lanes(
      n, -std::numeric_limits<T>::infinity(), [x](std::int64_t j) { return x[j]; },
      [](T a, T b) { return b > a ? b : a; });
}

// out = exp(x - max x); returns the sum of out and stores the maximum in `largest`.
template <class T>
T shifted_exp(const T* x, std::int64_t n, T* out, T& largest) {
  largest = maximum(x, n);
  const T shift = largest;
  for (std::int64_t j = 0; j < n; ++j) out[j] = VectorMath::exp(x[j] - shift);
  return sum_of<T>(n, [out](std::int64_t j) { return out[j]; });
}

template <class T>
void divide(T* x, std::int64_t n, T divisor) {
  for (std::int64_t j = 0; j < n; ++j) x[j] /= divisor;
}

template <class T>
void softmax_row(const T* x, std::int64_t n, T* out) {
  T largest;
  const T sum = shifted_exp(x, n, out, largest);
  divide(out, n, sum);
}

template <class T>
void log_softmax_row(const T* x, std::int64_t n, T* out) {
  const T largest = maximum(x, n);
  const T log_sum =
      VectorMath::log(sum_of<T>(n, [x, largest](std::int64_t j) { return VectorMath::exp(x[j] - largest); }));
  for (std::int64_t j = 0; j < n; ++j) out[j] = x[j] - largest - log_sum;
}

template <class T>
void softmax_grad_row(const T* dy, const T* y, std::int64_t n, T* dx) {
  const T dot = sum_of<T>(n, [=](std::int64_t j) { return dy[j] * y[j]; });
  for (std::int64_t j = 0; j < n; ++j) dx[j] = y[j] * (dy[j] - dot);
}

template <class T>
void log_softmax_grad_row(const T* dy, const T* y, std::int64_t n, T* dx) {
  const T sum = sum_of<T>(n, [=](std::int64_t j) { return dy[j]; });
  for (std::int64_t j = 0; j < n; ++j) dx[j] = dy[j] - VectorMath::exp(y[j]) * sum;
}

// With `smoothing` s, the label's class has probability 1 - s + s / n, the others s / n.
template <class T>
T sparse_cross_entropy_row(const T* logits, std::int64_t label, std::int64_t n, T smoothing, T* backprop) {
  T largest;
  const T sum = shifted_exp(logits, n, backprop, largest);
  divide(backprop, n, sum);
  if (smoothing == T{0}) {
    backprop[label] -= T{1};
    return VectorMath::log(sum) - (logits[label] - largest);
  }
  const T share = smoothing / static_cast<T>(n);
  for (std::int64_t j = 0; j < n; ++j) backprop[j] -= share;
  backprop[label] -= T{1} - smoothing;
  const T all = sum_of<T>(n, [=](std::int64_t j) { return logits[j] - largest; });
  return VectorMath::log(sum) - (T{1} - smoothing) * (logits[label] - largest) - share * all;
}

// Rows of at most this many classes go kNarrow at a time, each in a lane of the registers.
constexpr std::int64_t kNarrow = 16;
template <class T>
using LaneRows = std::array<std::array<T, kNarrow>, kNarrow>;  // [class][row]

// Joins the classes of each row in the order of combine_lanes().
template <class T, class Combine>
std::array<T, kNarrow> joined(LaneRows<T> lanes, Combine combine) {
  for (std::size_t width = kNarrow / 2; width > 0; width /= 2)
    for (std::size_t j = 0; j < width; ++j)
      for (std::size_t r = 0; r < kNarrow; ++r) lanes[j][r] = combine(lanes[j][r], lanes[j + width][r]);
  return lanes[0];
}

// kNarrow rows of n <= kNarrow classes; the bits are those of sparse_cross_entropy_row() without smoothing. `label(r)`
// is the label of row r.
template <class T, class Label>
void narrow_cross_entropy(const T* x, std::int64_t n, Label label, T* backprop, T* loss) {
  constexpr T kLeast = -std::numeric_limits<T>::infinity();
  const auto classes = static_cast<std::size_t>(n);
  LaneRows<T> v;
  for (std::size_t j = 0; j < kNarrow; ++j) v[j].fill(kLeast);
  for (std::size_t r = 0; r < kNarrow; ++r)
    for (std::size_t j = 0; j < classes; ++j) v[j][r] = x[r * classes + j];
  LaneRows<T> numbers;  // NaN is skipped
  for (std::size_t j = 0; j < kNarrow; ++j)
    for (std::size_t r = 0; r < kNarrow; ++r) numbers[j][r] = v[j][r] > kLeast ? v[j][r] : kLeast;
  const auto largest = joined(numbers, [](T a, T b) { return b > a ? b : a; });
  for (std::size_t j = 0; j < classes; ++j)
    for (std::size_t r = 0; r < kNarrow; ++r) v[j][r] = VectorMath::exp(v[j][r] - largest[r]);
  for (std::size_t j = classes; j < kNarrow; ++j) v[j].fill(T{0});
  const auto sum = joined(v, [](T a, T b) { return a + b; });
  std::array<T, kNarrow> log_sum;
  for (std::size_t r = 0; r < kNarrow; ++r) log_sum[r] = VectorMath::log(sum[r]);
  for (std::size_t j = 0; j < classes; ++j)
    for (std::size_t r = 0; r < kNarrow; ++r) v[j][r] /= sum[r];
  for (std::size_t r = 0; r < kNarrow; ++r) {
    T* to = backprop + r * classes;
    for (std::size_t j = 0; j < classes; ++j) to[j] = v[j][r];
    const auto at = static_cast<std::size_t>(label(r));
    to[at] -= T{1};
    loss[r] = log_sum[r] - (x[r * classes + at] - largest[r]);
  }
}

template <class T>
T cross_entropy_row(const T* logits, const T* labels, std::int64_t n, T* backprop) {
  T largest;
  const T sum = shifted_exp(logits, n, backprop, largest);
  for (std::int64_t j = 0; j < n; ++j) backprop[j] = backprop[j] / sum - labels[j];
  const T log_sum = VectorMath::log(sum);
  return sum_of<T>(n, [=](std::int64_t j) { return labels[j] * (log_sum - (logits[j] - largest)); });
}

template <class T>
void sigmoid_cross_entropy_part(const T* x, const T* z, std::int64_t n, T* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T magnitude = x[i] < T{0} ? -x[i] : x[i];
    const T positive = x[i] < T{0} ? T{0} : x[i];
    out[i] = positive - x[i] * z[i] + VectorMath::softplus(-magnitude);  // log1p(exp(-|x|)), as one vector loop
  }
}

// Calls fn.operator()<U>() with the type used for arithmetic on the dtype.
template <class Fn>
void for_floating(std::string_view op, DType dtype, Fn fn) {
  if (dtype == DType::f64) return fn.template operator()<double>();
  if (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16) return fn.template operator()<float>();
  invalid_argument("{} requires a floating dtype, not {}", op, name(dtype));
}

template <class T>
const T* elements(const Tensor& t) {
  return reinterpret_cast<const T*>(t.raw());
}
template <class T>
T* elements(Tensor& t) {
  return reinterpret_cast<T*>(t.mutable_raw());
}

// Elements [at, at + n) of x, as U.
void load(const Tensor& x, std::int64_t at, std::int64_t n, double* to) {
  std::copy_n(elements<double>(x) + at, n, to);
}
void load(const Tensor& x, std::int64_t at, std::int64_t n, float* to) {
  if (x.dtype() == DType::f32) std::copy_n(elements<float>(x) + at, n, to);
  if (x.dtype() == DType::f16) widen(elements<Half>(x) + at, to, n);
  if (x.dtype() == DType::bf16) widen(elements<BFloat16>(x) + at, to, n);
}
void store(const double* from, std::int64_t n, Tensor& x, std::int64_t at) {
  std::copy_n(from, n, elements<double>(x) + at);
}
void store(const float* from, std::int64_t n, Tensor& x, std::int64_t at) {
  if (x.dtype() == DType::f32) std::copy_n(from, n, elements<float>(x) + at);
  if (x.dtype() == DType::f16) narrow(from, elements<Half>(x) + at, n);
  if (x.dtype() == DType::bf16) narrow(from, elements<BFloat16>(x) + at, n);
}

// `columns` neighbouring rows, the first at element `at`, to `to` [columns, width].
template <class U>
void load_rows(const Tensor& x, std::int64_t at, const Rows& rows, std::int64_t columns, U* to) {
  if (rows.inner == 1) return load(x, at, rows.width, to);
  U line[kMaxColumns];
  for (std::int64_t k = 0; k < rows.width; ++k) {
    load(x, at + k * rows.inner, columns, line);
    for (std::int64_t c = 0; c < columns; ++c) to[c * rows.width + k] = line[c];
  }
}
template <class U>
void store_rows(const U* from, const Rows& rows, std::int64_t columns, Tensor& x, std::int64_t at) {
  if (rows.inner == 1) return store(from, rows.width, x, at);
  U line[kMaxColumns];
  for (std::int64_t k = 0; k < rows.width; ++k) {
    for (std::int64_t c = 0; c < columns; ++c) line[c] = from[c * rows.width + k];
    store(line, columns, x, at + k * rows.inner);
  }
}

// Calls row(i, a, b, out) for every row: those of a and b (which may be null) as U, and room for that of `out`.
template <class U, class Row>
void for_rows(Parallelism& parallelism, const Rows& rows, const Tensor& a, const Tensor* b, Tensor& out, Row row) {
  const bool direct = rows.inner == 1 && a.dtype() == dtype_of<U>;
  const std::int64_t width = rows.width, most = rows.columns();
  const std::int64_t tiles = (rows.inner + most - 1) / most;
  const std::int64_t grain = std::max<std::int64_t>(1, kPartElements / std::max<std::int64_t>(1, width * most));
  parallelism.parallel_for(rows.outer * tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    if (direct) {
      const U *x = elements<U>(a), *z = b ? elements<U>(*b) : nullptr;
      U* y = elements<U>(out);
      for (std::int64_t i = begin; i < end; ++i) row(i, x + i * width, z ? z + i * width : nullptr, y + i * width);
      return;
    }
    const ScratchArray<U> room((b ? 3 : 2) * most * width);
    U *y = room.data(), *x = y + most * width, *z = b ? x + most * width : nullptr;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first = unit / tiles * rows.inner + unit % tiles * most;
      const std::int64_t columns = std::min(most, rows.inner - unit % tiles * most);
      const std::int64_t at = rows.first_of(first);
      load_rows(a, at, rows, columns, x);
      if (b) load_rows(*b, at, rows, columns, z);
      for (std::int64_t c = 0; c < columns; ++c)
        row(first + c, x + c * width, z ? z + c * width : nullptr, y + c * width);
      store_rows(y, rows, columns, out, at);
    }
  });
}

// Labels of either integer dtype, by position.
class Labels {
 public:
  // Throws unless all labels are classes, or `ignored`.
  Labels(const Tensor& labels, std::int64_t classes, std::int64_t ignored) {
    if (labels.dtype() == DType::i32)
      narrow_ = labels.data<std::int32_t>();
    else if (labels.dtype() == DType::i64)
      wide_ = labels.data<std::int64_t>();
    else
      invalid_argument("SparseSoftmaxCrossEntropy: labels must be i32 or i64, but are {}", name(labels.dtype()));
    for (std::int64_t i = 0; i < labels.num_elements(); ++i) {
      if ((*this)[i] == ignored) {
        all_are_classes_ = false;
        continue;
      }
      if ((*this)[i] < 0 || (*this)[i] >= classes)
        fail(
            Code::out_of_range,
            "SparseSoftmaxCrossEntropy: label {} in row {} of the batch is out of range: there are {} classes, 0 to {}",
            (*this)[i], i, classes, classes - 1);
    }
  }
  bool all_are_classes() const { return all_are_classes_; }  // none is ignored
  std::int64_t operator[](std::int64_t i) const { return narrow_ ? narrow_[i] : wide_[i]; }

 private:
  const std::int32_t* narrow_ = nullptr;
  const std::int64_t* wide_ = nullptr;
  bool all_are_classes_ = true;
};

void narrow_rows(Parallelism& parallelism, const float* x, const Rows& rows, const Labels& label, float* loss,
                 float* backprop) {
  const std::int64_t n = rows.width, grain = std::max<std::int64_t>(kNarrow, kPartElements / n / kNarrow * kNarrow);
  parallelism.parallel_for(rows.outer, grain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t i = begin;
    for (; i + kNarrow <= end; i += kNarrow)
      narrow_cross_entropy(
          x + i * n, n, [&](std::size_t r) { return label[i + static_cast<std::int64_t>(r)]; }, backprop + i * n,
          loss + i);
    for (; i < end; ++i) loss[i] = sparse_cross_entropy_row(x + i * n, label[i], n, 0.0f, backprop + i * n);
  });
}

}  // namespace

void softmax(Parallelism& parallelism, const Tensor& x, std::int64_t axis, Tensor& out) {
  const Rows rows = rows_of("Softmax: x", x.shape(), axis);
  check_tensor("Softmax: the output", out, x.dtype(), x.shape());
  for_floating("Softmax", x.dtype(), [&]<class U>() {
    for_rows<U>(parallelism, rows, x, nullptr, out,
                [=](std::int64_t, const U* from, const U*, U* to) { softmax_row(from, rows.width, to); });
  });
}

void log_softmax(Parallelism& parallelism, const Tensor& x, std::int64_t axis, Tensor& out) {
  const Rows rows = rows_of("LogSoftmax: x", x.shape(), axis);
  check_tensor("LogSoftmax: the output", out, x.dtype(), x.shape());
  for_floating("LogSoftmax", x.dtype(), [&]<class U>() {
    for_rows<U>(parallelism, rows, x, nullptr, out,
                [=](std::int64_t, const U* from, const U*, U* to) { log_softmax_row(from, rows.width, to); });
  });
}

void softmax_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& y, std::int64_t axis, Tensor& dx) {
  const Rows rows = rows_of("SoftmaxGrad: y", y.shape(), axis);
  check_tensor("SoftmaxGrad: dy", dy, y.dtype(), y.shape());
  check_tensor("SoftmaxGrad: the output", dx, y.dtype(), y.shape());
  for_floating("SoftmaxGrad", y.dtype(), [&]<class U>() {
    for_rows<U>(parallelism, rows, dy, &y, dx,
                [=](std::int64_t, const U* g, const U* value, U* to) { softmax_grad_row(g, value, rows.width, to); });
  });
}

void log_softmax_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& y, std::int64_t axis, Tensor& dx) {
  const Rows rows = rows_of("LogSoftmaxGrad: y", y.shape(), axis);
  check_tensor("LogSoftmaxGrad: dy", dy, y.dtype(), y.shape());
  check_tensor("LogSoftmaxGrad: the output", dx, y.dtype(), y.shape());
  for_floating("LogSoftmaxGrad", y.dtype(), [&]<class U>() {
    for_rows<U>(parallelism, rows, dy, &y, dx, [=](std::int64_t, const U* g, const U* value, U* to) {
      log_softmax_grad_row(g, value, rows.width, to);
    });
  });
}

void sparse_softmax_cross_entropy(Parallelism& parallelism, const Tensor& logits, const Tensor& labels,
                                  const SparseLabels& how, Tensor& loss, Tensor& backprop) {
  const Rows rows = rows_of("SparseSoftmaxCrossEntropy: logits", logits.shape(), how.axis);
  const Shape each = without_axis(logits.shape(), how.axis);
  check_tensor("SparseSoftmaxCrossEntropy: labels", labels, labels.dtype(), each);
  check_tensor("SparseSoftmaxCrossEntropy: the loss", loss, logits.dtype(), each);
  check_tensor("SparseSoftmaxCrossEntropy: the backprop", backprop, logits.dtype(), logits.shape());
  const Labels label(labels, rows.width, how.ignored);
  if (logits.dtype() == DType::f32 && rows.inner == 1 && rows.width > 0 && rows.width <= kNarrow &&
      how.smoothing == 0 && label.all_are_classes())
    return narrow_rows(parallelism, logits.data<float>(), rows, label, loss.mutable_data<float>(),
                       backprop.mutable_data<float>());
  for_floating("SparseSoftmaxCrossEntropy", logits.dtype(), [&]<class U>() {
    for_rows<U>(parallelism, rows, logits, nullptr, backprop, [&](std::int64_t i, const U* x, const U*, U* grad) {
      U value{0};
      if (label[i] == how.ignored)
        std::fill_n(grad, rows.width, U{0});
      else
        value = sparse_cross_entropy_row(x, label[i], rows.width, static_cast<U>(how.smoothing), grad);
      store(&value, 1, loss, i);
    });
    // Without classes there are no rows, but each label is ignored.
    if (rows.width == 0) std::fill_n(loss.mutable_raw(), loss.num_bytes(), std::byte{0});
  });
}

void softmax_cross_entropy(Parallelism& parallelism, const Tensor& logits, const Tensor& labels, std::int64_t axis,
                           Tensor& loss, Tensor& backprop) {
  const Rows rows = rows_of("SoftmaxCrossEntropy: logits", logits.shape(), axis);
  check_tensor("SoftmaxCrossEntropy: labels", labels, logits.dtype(), logits.shape());
  check_tensor("SoftmaxCrossEntropy: the loss", loss, logits.dtype(), without_axis(logits.shape(), axis));
  check_tensor("SoftmaxCrossEntropy: the backprop", backprop, logits.dtype(), logits.shape());
  if (rows.width == 0) std::fill_n(loss.mutable_raw(), loss.num_bytes(), std::byte{0});
  for_floating("SoftmaxCrossEntropy", logits.dtype(), [&]<class U>() {
    for_rows<U>(parallelism, rows, logits, &labels, backprop, [&](std::int64_t i, const U* x, const U* z, U* grad) {
      const U value = cross_entropy_row(x, z, rows.width, grad);
      store(&value, 1, loss, i);
    });
  });
}

void sigmoid_cross_entropy(Parallelism& parallelism, const Tensor& logits, const Tensor& labels, Tensor& out) {
  check_tensor("SigmoidCrossEntropy: labels", labels, logits.dtype(), logits.shape());
  check_tensor("SigmoidCrossEntropy: the output", out, logits.dtype(), logits.shape());
  constexpr std::int64_t kBlock = 1024;
  for_floating("SigmoidCrossEntropy", logits.dtype(), [&]<class U>() {
    parallelism.parallel_for(logits.num_elements(), kPartElements, [&](std::int64_t begin, std::int64_t end) {
      if (logits.dtype() == dtype_of<U>)
        return sigmoid_cross_entropy_part(elements<U>(logits) + begin, elements<U>(labels) + begin, end - begin,
                                          elements<U>(out) + begin);
      U x[kBlock], z[kBlock], y[kBlock];
      for (std::int64_t at = begin; at < end; at += kBlock) {
        const std::int64_t n = std::min(kBlock, end - at);
        load(logits, at, n, x);
        load(labels, at, n, z);
        sigmoid_cross_entropy_part(x, z, n, y);
        store(y, n, out, at);
      }
    });
  });
}

}  // namespace troupe
