#include "troupe/scheduler/training/gradient.hpp"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

namespace troupe {
namespace {

template <class... Args>
Error wrong(const SliceSpec& slice, fmt::format_string<Args...> format, Args&&... args) {
  return Error(Code::invalid_argument, fmt::format("gradient of slice {} ({}): {}", slice.id, slice.name,
                                                   fmt::format(format, std::forward<Args>(args)...)));
}

Error check_rows(const SliceSpec& slice, const PushedGradient& gradient) {
  const Tensor& indices = gradient.indices;
  if (slice.shape.rank() == 0) return wrong(slice, "a scalar has no rows");
  if (indices.dtype() != DType::i64 || indices.shape().rank() != 1 || !indices.space().on_host())
    return wrong(slice, "row numbers must be i64 [n] in host memory, not {}{}", name(indices.dtype()),
                 indices.shape().to_string());
  const Shape expected = Shape{indices.num_elements()}.concatenated(slice.shape.sub(1, slice.shape.rank()));
  if (!(gradient.values.shape() == expected))
    return wrong(slice, "its rows have shape {}, expected {}", gradient.values.shape().to_string(),
                 expected.to_string());
  for (const std::int64_t row : indices.values<std::int64_t>())
    if (row < 0 || row >= slice.shape[0]) return wrong(slice, "row {} of {}", row, slice.shape[0]);
  return {};
}

// Half and BFloat16 are summed as float, the others in their own type (i64 as unsigned: wraps).
template <class T>
struct Sum {
  using type = std::conditional_t<std::is_same_v<T, double>, double, float>;
};
template <>
struct Sum<std::int64_t> {
  using type = std::uint64_t;
};

template <class T>
T divided(typename Sum<T>::type sum, std::int64_t n) {
  if constexpr (std::is_same_v<T, std::int64_t>)
    return static_cast<std::int64_t>(sum) / n;
  else
    return static_cast<T>(sum / static_cast<typename Sum<T>::type>(n));
}

// Elements per block, which stays in the L1 cache while all slots are added.
constexpr std::int64_t kBlock = 1024;

template <class T>
Tensor dense_mean(std::vector<PushedGradient>& gradients) {
  const Tensor& first = gradients.front().values;
  // Writing into an input is safe: a block is read from all inputs before it is written.
  const auto own = std::ranges::find_if(gradients, [](const PushedGradient& g) { return g.values.unique(); });
  Tensor result = own != gradients.end() ? own->values : Tensor(first.dtype(), first.shape());
  T* out = result.mutable_data<T>();
  std::array<typename Sum<T>::type, kBlock> sum;
  for (std::int64_t begin = 0; begin < result.num_elements(); begin += kBlock) {
    const std::int64_t n = std::min(kBlock, result.num_elements() - begin);
    const T* in = first.data<T>() + begin;
    for (std::int64_t i = 0; i < n; ++i) sum[i] = static_cast<typename Sum<T>::type>(in[i]);
    for (std::size_t slot = 1; slot < gradients.size(); ++slot) {
      in = gradients[slot].values.data<T>() + begin;
      for (std::int64_t i = 0; i < n; ++i) sum[i] += static_cast<typename Sum<T>::type>(in[i]);
    }
    const auto slots = static_cast<std::int64_t>(gradients.size());
    for (std::int64_t i = 0; i < n; ++i) out[begin + i] = divided<T>(sum[i], slots);
  }
  return result;
}

template <class T>
Tensor joined_rows(const std::vector<PushedGradient>& gradients, std::int64_t rows, SparseMean sparse_mean) {
  std::vector<std::int64_t> divisors(static_cast<std::size_t>(rows), static_cast<std::int64_t>(gradients.size()));
  if (sparse_mean == SparseMean::touching_slots) {
    std::vector<std::span<const std::int64_t>> indices;
    for (const PushedGradient& gradient : gradients) indices.push_back(gradient.indices.values<std::int64_t>());
    divisors = slots_touching(indices);
  }
  Shape shape = gradients.front().values.shape();
  shape.set_dim(0, rows);
  Tensor result(gradients.front().values.dtype(), shape);
  const std::int64_t width = rows == 0 ? 0 : result.num_elements() / rows;
  T* out = result.mutable_data<T>();
  auto divisor = divisors.begin();
  for (const PushedGradient& gradient : gradients) {
    const T* in = gradient.values.data<T>();
    for (std::int64_t row = 0; row < gradient.indices.num_elements(); ++row, ++divisor)
      for (std::int64_t i = 0; i < width; ++i) *out++ = divided<T>(static_cast<typename Sum<T>::type>(*in++), *divisor);
  }
  return result;
}

Tensor joined_indices(const std::vector<PushedGradient>& gradients, std::int64_t rows) {
  Tensor result(DType::i64, Shape{rows});
  std::int64_t* out = result.mutable_data<std::int64_t>();
  for (const PushedGradient& gradient : gradients) {
    const auto indices = gradient.indices.values<std::int64_t>();
    out = std::copy(indices.begin(), indices.end(), out);
  }
  return result;
}

template <class T>
PushedGradient mean_as(std::vector<PushedGradient>& gradients, SparseMean sparse_mean) {
  if (!gradients.front().sparse()) return {dense_mean<T>(gradients), {}};
  std::int64_t rows = 0;
  for (const PushedGradient& gradient : gradients) rows += gradient.indices.num_elements();
  return {joined_rows<T>(gradients, rows, sparse_mean), joined_indices(gradients, rows)};
}

}  // namespace

bool is_gradient_dtype(DType dtype) { return is_floating(dtype) || dtype == DType::i64; }

Error check_gradient(const SliceSpec& slice, const PushedGradient& gradient) {
  const Tensor& values = gradient.values;
  if (!values.valid()) return wrong(slice, "no values");
  if (values.dtype() != slice.dtype)
    return wrong(slice, "its dtype is {}, expected {}", name(values.dtype()), name(slice.dtype));
  if (!values.space().on_host()) return wrong(slice, "its values are not in host memory");
  if (gradient.sparse()) return check_rows(slice, gradient);
  if (!(values.shape() == slice.shape))
    return wrong(slice, "its shape is {}, expected {}", values.shape().to_string(), slice.shape.to_string());
  return {};
}

PushedGradient mean_of(std::vector<PushedGradient> gradients, SparseMean sparse_mean) {
  if (gradients.size() == 1) return std::move(gradients.front());
  switch (gradients.front().values.dtype()) {
    case DType::f32:
      return mean_as<float>(gradients, sparse_mean);
    case DType::f64:
      return mean_as<double>(gradients, sparse_mean);
    case DType::f16:
      return mean_as<Half>(gradients, sparse_mean);
    case DType::bf16:
      return mean_as<BFloat16>(gradients, sparse_mean);
    case DType::i64:
      return mean_as<std::int64_t>(gradients, sparse_mean);
    default:
      invalid_argument("gradients of dtype {} cannot be averaged", name(gradients.front().values.dtype()));
  }
}

}  // namespace troupe
