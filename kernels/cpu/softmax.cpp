#include "troupe/kernels/cpu/softmax.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include <troupe/kernels/common/tensor_checks.hpp>
#include <troupe/kernels/cpu/lanes.hpp>
#include <troupe/kernels/cpu/vector_math.hpp>

namespace troupe {
namespace {

// Minimum elements per part.
constexpr std::int64_t kPartElements = std::int64_t{1} << 13;

struct Rows {
  std::int64_t count = 0;
  std::int64_t width = 0;
  std::int64_t grain() const { return std::max<std::int64_t>(1, kPartElements / std::max<std::int64_t>(1, width)); }
};
Rows rows_of(std::string_view what, const Shape& shape) {
  if (shape.rank() < 1) invalid_argument("{} must have at least one dimension, but is a scalar", what);
  const std::int64_t width = shape[-1];
  return {width == 0 ? 0 : shape.num_elements() / width, width};
}

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

template <class T>
T sparse_cross_entropy_row(const T* logits, std::int64_t label, std::int64_t n, T* backprop) {
  T largest;
  const T sum = shifted_exp(logits, n, backprop, largest);
  divide(backprop, n, sum);
  backprop[label] -= T{1};
  return VectorMath::log(sum) - (logits[label] - largest);
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
    out[i] = positive - x[i] * z[i] + VectorMath::log1p(VectorMath::exp(-magnitude));
  }
}

// Calls fn.operator()<T>() for the dtype.
template <class Fn>
void for_floating(std::string_view op, DType dtype, Fn fn) {
  if (dtype == DType::f32) return fn.template operator()<float>();
  if (dtype == DType::f64) return fn.template operator()<double>();
  invalid_argument("{} requires f32 or f64, not {}", op, name(dtype));
}

// Calls row(i) for every row.
template <class Fn>
void for_rows(Parallelism& parallelism, Rows rows, Fn row) {
  parallelism.parallel_for(rows.count, rows.grain(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) row(i);
  });
}

// Labels of either integer dtype, by position.
class Labels {
 public:
  // Throws unless all labels are classes.
  Labels(const Tensor& labels, std::int64_t classes) {
    if (labels.dtype() == DType::i32)
      narrow_ = labels.data<std::int32_t>();
    else if (labels.dtype() == DType::i64)
      wide_ = labels.data<std::int64_t>();
    else
      invalid_argument("SparseSoftmaxCrossEntropy: labels must be i32 or i64, but are {}", name(labels.dtype()));
    for (std::int64_t i = 0; i < labels.num_elements(); ++i)
      if ((*this)[i] < 0 || (*this)[i] >= classes)
        fail(
            Code::out_of_range,
            "SparseSoftmaxCrossEntropy: label {} in row {} of the batch is out of range: there are {} classes, 0 to {}",
            (*this)[i], i, classes, classes - 1);
  }
  std::int64_t operator[](std::int64_t i) const { return narrow_ ? narrow_[i] : wide_[i]; }

 private:
  const std::int32_t* narrow_ = nullptr;
  const std::int64_t* wide_ = nullptr;
};

}  // namespace

void softmax(Parallelism& parallelism, const Tensor& x, Tensor& out) {
  const Rows rows = rows_of("Softmax: x", x.shape());
  check_tensor("Softmax: the output", out, x.dtype(), x.shape());
  for_floating("Softmax", x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = out.mutable_data<T>();
    for_rows(parallelism, rows,
             [=](std::int64_t i) { softmax_row(from + i * rows.width, rows.width, to + i * rows.width); });
  });
}

void log_softmax(Parallelism& parallelism, const Tensor& x, Tensor& out) {
  const Rows rows = rows_of("LogSoftmax: x", x.shape());
  check_tensor("LogSoftmax: the output", out, x.dtype(), x.shape());
  for_floating("LogSoftmax", x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = out.mutable_data<T>();
    for_rows(parallelism, rows,
             [=](std::int64_t i) { log_softmax_row(from + i * rows.width, rows.width, to + i * rows.width); });
  });
}

void softmax_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& y, Tensor& dx) {
  const Rows rows = rows_of("SoftmaxGrad: y", y.shape());
  check_tensor("SoftmaxGrad: dy", dy, y.dtype(), y.shape());
  check_tensor("SoftmaxGrad: the output", dx, y.dtype(), y.shape());
  for_floating("SoftmaxGrad", y.dtype(), [&]<class T>() {
    const T *g = dy.data<T>(), *value = y.data<T>();
    T* to = dx.mutable_data<T>();
    const std::int64_t w = rows.width;
    for_rows(parallelism, rows, [=](std::int64_t i) { softmax_grad_row(g + i * w, value + i * w, w, to + i * w); });
  });
}

void log_softmax_grad(Parallelism& parallelism, const Tensor& dy, const Tensor& y, Tensor& dx) {
  const Rows rows = rows_of("LogSoftmaxGrad: y", y.shape());
  check_tensor("LogSoftmaxGrad: dy", dy, y.dtype(), y.shape());
  check_tensor("LogSoftmaxGrad: the output", dx, y.dtype(), y.shape());
  for_floating("LogSoftmaxGrad", y.dtype(), [&]<class T>() {
    const T *g = dy.data<T>(), *value = y.data<T>();
    T* to = dx.mutable_data<T>();
    const std::int64_t w = rows.width;
    for_rows(parallelism, rows, [=](std::int64_t i) { log_softmax_grad_row(g + i * w, value + i * w, w, to + i * w); });
  });
}

void sparse_softmax_cross_entropy(Parallelism& parallelism, const Tensor& logits, const Tensor& labels, Tensor& loss,
                                  Tensor& backprop) {
  check_rank("SparseSoftmaxCrossEntropy: logits", logits.shape(), 2);
  const Rows rows{logits.shape()[0], logits.shape()[1]};
  check_tensor("SparseSoftmaxCrossEntropy: labels", labels, labels.dtype(), Shape{rows.count});
  check_tensor("SparseSoftmaxCrossEntropy: the loss", loss, logits.dtype(), Shape{rows.count});
  check_tensor("SparseSoftmaxCrossEntropy: the backprop", backprop, logits.dtype(), logits.shape());
  const Labels label(labels, rows.width);
  for_floating("SparseSoftmaxCrossEntropy", logits.dtype(), [&]<class T>() {
    const T* x = logits.data<T>();
    T *out = loss.mutable_data<T>(), *grad = backprop.mutable_data<T>();
    const std::int64_t w = rows.width;
    for_rows(parallelism, rows,
             [=](std::int64_t i) { out[i] = sparse_cross_entropy_row(x + i * w, label[i], w, grad + i * w); });
  });
}

void softmax_cross_entropy(Parallelism& parallelism, const Tensor& logits, const Tensor& labels, Tensor& loss,
                           Tensor& backprop) {
  check_rank("SoftmaxCrossEntropy: logits", logits.shape(), 2);
  const Rows rows{logits.shape()[0], logits.shape()[1]};
  check_tensor("SoftmaxCrossEntropy: labels", labels, logits.dtype(), logits.shape());
  check_tensor("SoftmaxCrossEntropy: the loss", loss, logits.dtype(), Shape{rows.count});
  check_tensor("SoftmaxCrossEntropy: the backprop", backprop, logits.dtype(), logits.shape());
  for_floating("SoftmaxCrossEntropy", logits.dtype(), [&]<class T>() {
    const T *x = logits.data<T>(), *z = labels.data<T>();
    T *out = loss.mutable_data<T>(), *grad = backprop.mutable_data<T>();
    const std::int64_t w = rows.width;
    for_rows(parallelism, rows,
             [=](std::int64_t i) { out[i] = cross_entropy_row(x + i * w, z + i * w, w, grad + i * w); });
  });
}

void sigmoid_cross_entropy(Parallelism& parallelism, const Tensor& logits, const Tensor& labels, Tensor& out) {
  check_tensor("SigmoidCrossEntropy: labels", labels, logits.dtype(), logits.shape());
  check_tensor("SigmoidCrossEntropy: the output", out, logits.dtype(), logits.shape());
  for_floating("SigmoidCrossEntropy", logits.dtype(), [&]<class T>() {
    const T *x = logits.data<T>(), *z = labels.data<T>();
    T* to = out.mutable_data<T>();
    parallelism.parallel_for(logits.num_elements(), kPartElements, [=](std::int64_t begin, std::int64_t end) {
      sigmoid_cross_entropy_part(x + begin, z + begin, end - begin, to + begin);
    });
  });
}

}  // namespace troupe
