// The additions of an all-reduce between GPUs, by the kernel's own code, against those of the ring.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/kernels/emulated_cuda/emulated_memory.hpp"
#include <troupe/devices/collective/reduce.hpp>
#include <troupe/kernels/cuda/parts_sum_launch.hpp>

namespace troupe {
namespace {

using emulated_cuda::MemoryAccess;

constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64};

Tensor random_tensor(DType dtype, std::int64_t n, std::mt19937& engine) {
  Tensor t(dtype, Shape{n});
  const auto fill = [&]<class T>(T) {
    for (T& v : t.mutable_values<T>()) {
      const float drawn = std::uniform_real_distribution<float>(-1000, 1000)(engine);
      if constexpr (std::is_integral_v<T>)
        v = static_cast<T>(engine()) * static_cast<T>(engine());  // wraps when added
      else
        v = static_cast<T>(drawn);
    }
  };
  switch (dtype) {
    case DType::f32:
      fill(float{});
      break;
    case DType::f64:
      fill(double{});
      break;
    case DType::f16:
      fill(Half{});
      break;
    case DType::bf16:
      fill(BFloat16{});
      break;
    case DType::i32:
      fill(std::int32_t{});
      break;
    default:
      fill(std::int64_t{});
      break;
  }
  return t;
}

// Of all elements, from rank `first` on around the ring.
Tensor reduced(const std::vector<Tensor>& ranks, std::size_t first, Reduction reduction) {
  Tensor sum = ranks[first].clone();
  for (std::size_t k = 1; k < ranks.size(); ++k)
    combine(reduction, sum, ranks[(first + k) % ranks.size()],
            reduction == Reduction::mean && k + 1 == ranks.size() ? static_cast<std::uint32_t>(ranks.size()) : 1, sum);
  return sum;
}

// The first `elements` that the kernel writes; `memory`: the ranks' tensors as they lie on the GPU, `first` apart if it
// is valid.
Tensor run(PartsSum plan, const Tensor& memory, const Tensor& first) {
  const auto copied = [](const Tensor& t) {
    void* const data = emulated_cuda::allocate(std::max<std::size_t>(t.num_bytes(), 1));
    const MemoryAccess access;
    std::memcpy(data, t.raw(), t.num_bytes());
    return data;
  };
  Tensor out(plan.dtype, Shape{plan.elements});
  void* const others = copied(memory);
  void* const apart = first.valid() ? copied(first) : nullptr;
  void* const to = emulated_cuda::allocate(out.num_bytes());
  plan.others = others;
  plan.first = apart;
  plan.out = to;
  EXPECT_EQ(launch_parts_sum(plan, nullptr), cudaSuccess);
  {
    const MemoryAccess access;
    std::memcpy(out.mutable_raw(), to, out.num_bytes());
  }
  for (void* data : {others, apart, to})
    if (data) emulated_cuda::release(data);
  return out;
}

// `stride` elements for each rank, one after the other.
Tensor gathered(const std::vector<Tensor>& ranks, std::int64_t stride) {
  Tensor all = Tensor::zeros(ranks[0].dtype(), Shape{stride * static_cast<std::int64_t>(ranks.size())});
  for (std::size_t r = 0; r < ranks.size(); ++r)
    std::memcpy(all.mutable_raw() + r * static_cast<std::size_t>(stride) * size_of(all.dtype()), ranks[r].raw(),
                ranks[r].num_bytes());
  return all;
}

PartsSum plan_of(DType dtype, Reduction reduction, std::size_t ranks, std::int64_t elements, std::int64_t stride) {
  return {.dtype = dtype,
          .maximum = reduction == Reduction::max,
          .divisor = reduction == Reduction::mean ? static_cast<std::uint32_t>(ranks) : 1,
          .ranks = static_cast<std::uint32_t>(ranks),
          .elements = elements,
          .stride = stride};
}

class PartsSums : public ::testing::TestWithParam<std::tuple<int, std::int64_t, Reduction>> {};

// Each rank's tensor whole: a part begins with the rank of its number.
TEST_P(PartsSums, OfWholeTensorsAreThoseOfTheRing) {
  const auto [count, n, reduction] = GetParam();
  const auto ranks = static_cast<std::size_t>(count);
  std::mt19937 engine(1);
  for (const DType dtype : kTypes) {
    std::vector<Tensor> tensors;
    for (std::size_t r = 0; r < ranks; ++r) tensors.push_back(random_tensor(dtype, n, engine));
    const CollectiveCut cut(n, size_of(dtype), static_cast<std::uint32_t>(ranks));
    Tensor expected(dtype, Shape{n});
    for (std::uint32_t p = 0; p < ranks; ++p) {
      const ElementRange part = cut.part(p);
      const std::size_t at = static_cast<std::size_t>(part.begin) * size_of(dtype);
      std::memcpy(expected.mutable_raw() + at, reduced(tensors, p, reduction).raw() + at,
                  static_cast<std::size_t>(part.size()) * size_of(dtype));
    }
    const std::int64_t stride = (n + 63) / 64 * 64;
    PartsSum plan = plan_of(dtype, reduction, ranks, n, stride);
    plan.per_part = cut.part(0).size();
    EXPECT_TRUE(bitwise_equal(run(plan, gathered(tensors, stride), Tensor()), expected)) << name(dtype);
  }
}

// One part of all: this rank's own lies apart, the others' in the order in which they are added.
TEST_P(PartsSums, OfOnePartAreThoseOfTheRing) {
  const auto [count, n, reduction] = GetParam();
  const auto ranks = static_cast<std::size_t>(count);
  std::mt19937 engine(2);
  for (const DType dtype : kTypes) {
    std::vector<Tensor> tensors;
    for (std::size_t r = 0; r < ranks; ++r) tensors.push_back(random_tensor(dtype, n, engine));
    const std::vector<Tensor> others(tensors.begin() + 1, tensors.end());
    EXPECT_TRUE(bitwise_equal(run(plan_of(dtype, reduction, ranks, n, n), gathered(others, n), tensors[0]),
                              reduced(tensors, 0, reduction)))
        << name(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PartsSums,
                         ::testing::Combine(::testing::Values(2, 3, 5), ::testing::Values(1, 63, 64, 1000),
                                            ::testing::Values(Reduction::sum, Reduction::mean, Reduction::max)));

}  // namespace
}  // namespace troupe
