// Tensors for kernel tests: random values, odd alignments, comparison with float64 references.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/kernels/run_kernel.hpp"
#include <troupe/messages/tensor.hpp>

namespace troupe::testing {

// f32, f64, f16 or bf16, uniform in [low, high).
inline Tensor random_tensor(DType dtype, const Shape& shape, std::mt19937_64& engine, double low = -1,
                            double high = 1) {
  std::uniform_real_distribution<double> uniform(low, high);
  Tensor t(dtype, shape);
  for (std::int64_t i = 0; i < t.num_elements(); ++i) {
    const double value = uniform(engine);
    if (dtype == DType::f32)
      t.mutable_data<float>()[i] = static_cast<float>(value);
    else if (dtype == DType::f64)
      t.mutable_data<double>()[i] = value;
    else if (dtype == DType::f16)
      t.mutable_data<Half>()[i] = Half(static_cast<float>(value));
    else
      t.mutable_data<BFloat16>()[i] = BFloat16(static_cast<float>(value));
  }
  return t;
}

// The same values, one element behind an aligned address.
inline Tensor unaligned(const Tensor& t) {
  BufferRef buffer = allocate_host(t.num_bytes() + size_of(t.dtype()));
  Tensor copy(t.dtype(), t.shape(), buffer, size_of(t.dtype()));
  std::copy_n(t.raw(), t.num_bytes(), copy.mutable_raw());
  return copy;
}

// A float64 reference: sums of products, and the sums of their absolute values, which bound rounding errors.
struct Sums {
  explicit Sums(std::int64_t count)
      : value(static_cast<std::size_t>(count)), magnitude(static_cast<std::size_t>(count)) {}
  void add(std::int64_t at, double term) {
    value[static_cast<std::size_t>(at)] += term;
    magnitude[static_cast<std::size_t>(at)] += std::fabs(term);
  }
  std::vector<double> value;
  std::vector<double> magnitude;
};

// f16 and bf16: as floats, and then half a unit of the last place for rounding.
inline void expect_close(const Tensor& got, const Sums& want, const std::string& where) {
  const double tolerance = got.dtype() == DType::f64 ? 1e-14 : 1e-5;
  const double rounding = got.dtype() == DType::f16 ? 0x1p-11 : got.dtype() == DType::bf16 ? 0x1p-8 : 0;
  const double smallest = got.dtype() == DType::f16 ? 0x1p-25 : 0;  // half a subnormal
  const std::vector<double> values = doubles(got);
  ASSERT_EQ(values.size(), want.value.size()) << where;
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_LE(std::fabs(values[i] - want.value[i]),
              tolerance * want.magnitude[i] * (1 + rounding) + rounding * std::fabs(want.value[i]) + smallest)
        << where << " at " << i;
}

// Runs the call on one thread, on three, and with unaligned inputs: all must agree to the bit. Returns the
// outputs.
inline std::vector<Tensor> run_every_way(const KernelRegistry& registry, const KernelCall& call) {
  const auto one = test_device(1), three = test_device(3);
  const std::vector<Tensor> outputs = run_kernel(registry, *one, call);
  KernelCall moved = call;
  for (Tensor& t : moved.inputs) t = unaligned(t);
  const std::vector<Tensor> by_three = run_kernel(registry, *three, call);
  const std::vector<Tensor> by_moved = run_kernel(registry, *one, moved);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(outputs[i], by_three[i])) << call.op << " differs on three threads";
    EXPECT_TRUE(bitwise_equal(outputs[i], by_moved[i]))
        << call.op << " of " << name(call.dtype) << " differs for unaligned inputs";
  }
  return outputs;
}

// Runs `body` and returns the message of the Error it must throw.
template <class Body>
std::string message_of(Code code, Body body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.message();
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace troupe::testing
