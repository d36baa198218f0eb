// What tests of kernels share: the registry, devices (those of a CPU have 1 and 3 threads), random tensors.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/kernels/run_kernel.hpp"

namespace troupe::testing {

class KernelTest : public ::testing::Test {
 protected:
  static const KernelRegistry& registry() {
    static const KernelRegistry all = all_kernels();
    return all;
  }

  std::vector<Tensor> run(KernelCall call) { return run_kernel(registry(), *device_, std::move(call)); }
  Tensor run1(std::string op, std::vector<Tensor> inputs, Attributes attributes = {}) {
    const DType dtype = inputs.at(0).dtype();
    return run_as(dtype, std::move(op), std::move(inputs), std::move(attributes));
  }
  Tensor run_as(DType dtype, std::string op, std::vector<Tensor> inputs, Attributes attributes = {}) {
    return run(
        {.op = std::move(op), .dtype = dtype, .inputs = std::move(inputs), .attributes = std::move(attributes)})[0];
  }
  Tensor run_on_three_threads(std::string op, std::vector<Tensor> inputs, Attributes attributes = {}) {
    const DType dtype = inputs.at(0).dtype();
    return run_kernel(
        registry(), *three_threads_,
        {.op = std::move(op), .dtype = dtype, .inputs = std::move(inputs), .attributes = std::move(attributes)})[0];
  }
  // The message of the invalid_argument that the kernel throws; "" if it throws none.
  std::string error_of(std::string op, std::vector<Tensor> inputs, Attributes attributes = {}) {
    try {
      run1(std::move(op), std::move(inputs), std::move(attributes));
    } catch (const Error& e) {
      return e.code() == Code::invalid_argument ? e.message() : "another code: " + e.to_string();
    }
    return "";
  }

  // Values in [low, high); integers too.
  template <class T>
  Tensor random(const Shape& shape, double low = -4, double high = 4) {
    Tensor t(dtype_of<T>, shape);
    for (T& v : t.mutable_values<T>()) {
      const double u = std::uniform_real_distribution<>(low, high)(engine_);
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
        v = T(static_cast<float>(u));
      else
        v = static_cast<T>(std::floor(u) == u || std::is_floating_point_v<T> ? u : std::floor(u));
    }
    return t;
  }
  template <class T>
  static Tensor filled(const Shape& shape, T value) {
    Tensor t(dtype_of<T>, shape);
    for (T& v : t.mutable_values<T>()) v = value;
    return t;
  }
  // The same values in memory that is not aligned.
  static Tensor unaligned(const Tensor& t) {
    std::vector<std::int64_t> dims{1 + t.num_elements()};
    Tensor longer = Tensor::zeros(t.dtype(), Shape(dims));
    std::copy_n(t.raw(), t.num_bytes(), longer.mutable_raw() + size_of(t.dtype()));
    return longer.rows(1, dims[0]).reshaped(t.shape());
  }

  std::mt19937_64 engine_{7};
  std::shared_ptr<Device> device_ = test_device();
  std::shared_ptr<Device> three_threads_ = test_device(3);
};

// Distance from `value` to `exact` in units of the last place of T there; 0 if both are NaN or the same
// infinity.
template <class T>
double ulps(T value, long double exact) {
  const T rounded = static_cast<T>(exact);
  if (std::isnan(rounded) || std::isnan(value)) return std::isnan(rounded) && std::isnan(value) ? 0 : 1e30;
  if (std::isinf(rounded) || std::isinf(value)) {
    if (rounded == value) return 0;
    // Next to overflow, infinity and the greatest value are neighbours.
    return std::abs(value) >= std::numeric_limits<T>::max() && std::abs(rounded) >= std::numeric_limits<T>::max()
               ? 1
               : 1e30;
  }
  const T magnitude = std::max(std::abs(rounded), std::numeric_limits<T>::min());
  const long double unit = std::nextafter(magnitude, std::numeric_limits<T>::infinity()) - magnitude;
  return static_cast<double>(std::abs(static_cast<long double>(value) - exact) / unit);
}

}  // namespace troupe::testing
