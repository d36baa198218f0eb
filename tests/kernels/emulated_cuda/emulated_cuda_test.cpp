// The emulation itself: that threads see what threads of a GPU would see, and that what a GPU does not allow ends the
// process.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <cub/device/device_radix_sort.cuh>
#include <numeric>
#include <vector>

#include "tests/kernels/emulated_cuda/emulated_memory.hpp"
#include <troupe/kernels/cuda/launch.cuh>

namespace troupe::emulated_cuda {
namespace {

// Memory of the emulated GPU for `count` values.
template <class T>
class Values {
 public:
  explicit Values(std::size_t count) : count_(count), data_(static_cast<T*>(allocate(count * sizeof(T)))) {}
  ~Values() { release(data_); }
  T* data() const { return data_; }
  std::vector<T> read() const {
    const MemoryAccess access;
    return {data_, data_ + count_};
  }

 private:
  std::size_t count_;
  T* data_;
};

__global__ void number(unsigned* out) {
  out[(blockIdx.y * gridDim.x + blockIdx.x) * 6 + threadIdx.y * blockDim.x + threadIdx.x] =
      blockIdx.y * 1000 + threadIdx.y;
}

TEST(EmulatedCuda, RunsEveryThreadOfEveryBlock) {
  const Values<unsigned> out(36);
  ASSERT_EQ(device::launch(number, dim3(3, 2), dim3(2, 3), nullptr, out.data()), cudaSuccess);
  const auto seen = out.read();
  for (unsigned i = 0; i < 36; ++i) EXPECT_EQ(seen[i], i / 18 * 1000 + i % 6 / 2) << i;
}

__global__ void reverse(int* values, int rounds) {
  __shared__ int room[70];
  for (int r = 0; r < rounds; ++r) {
    room[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = room[blockDim.x - 1 - threadIdx.x] + 1;
    __syncthreads();
  }
}

TEST(EmulatedCuda, ThreadsOfABlockWaitForEachOther) {
  const Values<int> values(70);
  {
    const MemoryAccess access;
    std::iota(values.data(), values.data() + 70, 0);
  }
  for (int launches = 0; launches < 2; ++launches)
    ASSERT_EQ(device::launch(reverse, 1, 70, nullptr, values.data(), 3), cudaSuccess) << "launch " << launches;
  const auto seen = values.read();
  for (int i = 0; i < 70; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i + 6);
}

__global__ void sum_of_warp(double* out) {
  double sum = threadIdx.x;
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  out[threadIdx.x] = sum;
}

TEST(EmulatedCuda, LanesExchangeValues) {
  const Values<double> out(64);
  ASSERT_EQ(device::launch(sum_of_warp, 1, 64, nullptr, out.data()), cudaSuccess);
  const auto seen = out.read();
  EXPECT_EQ(seen[5], 31 * 16);
  EXPECT_EQ(seen[40], 31 * 16 + 32 * 32);
}

__global__ void all_below(unsigned limit, int* out) { *out = __syncthreads_and(threadIdx.x < limit); }

TEST(EmulatedCuda, ABlockVotes) {
  const Values<int> out(1);
  ASSERT_EQ(device::launch(all_below, 1, 50, nullptr, 50u, out.data()), cudaSuccess);
  EXPECT_EQ(out.read()[0], 1);
  ASSERT_EQ(device::launch(all_below, 1, 50, nullptr, 49u, out.data()), cudaSuccess);
  EXPECT_EQ(out.read()[0], 0);
}

__global__ void nothing() {}

TEST(EmulatedCuda, RefusesGridsThatCudaRefuses) {
  EXPECT_EQ(device::launch(nothing, 1, 1024, nullptr), cudaSuccess);
  EXPECT_EQ(device::launch(nothing, 1, 1025, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(device::launch(nothing, 0, 32, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(device::launch(nothing, 1, dim3(1, 1, 65), nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(device::launch(nothing, dim3(1, 65536), 32, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(device::launch_sharing(48 * 1024, nothing, 1, 32, nullptr), cudaSuccess);
  EXPECT_EQ(device::launch_sharing(48 * 1024 + 1, nothing, 1, 32, nullptr), cudaErrorInvalidConfiguration);
}

TEST(EmulatedCuda, SortsByTheBitsThatItIsToldAndKeepsTheOrderOfEqualKeys) {
  const Values<std::uint32_t> keys(5), sorted(5), places(5), moved(5);
  {
    const MemoryAccess access;
    for (std::uint32_t i = 0; i < 5; ++i) {
      keys.data()[i] = std::vector<std::uint32_t>{9, 2, 1, 10, 3}[i];
      places.data()[i] = i;
    }
  }
  std::size_t bytes = 0;
  ASSERT_EQ(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys.data(), sorted.data(), places.data(), moved.data(), 5,
                                            0, 3, nullptr),
            cudaSuccess);
  const Values<char> scratch(bytes);
  ASSERT_EQ(cub::DeviceRadixSort::SortPairs(scratch.data(), bytes, keys.data(), sorted.data(), places.data(),
                                            moved.data(), 5, 0, 3, nullptr),
            cudaSuccess);
  EXPECT_EQ(moved.read(), (std::vector<std::uint32_t>{0, 2, 1, 3, 4}));
  EXPECT_EQ(sorted.read(), (std::vector<std::uint32_t>{9, 1, 2, 10, 3}));
}

// ---- what ends the process

__global__ void part_of_a_block_waits(int part) {
  if (static_cast<int>(threadIdx.x) < part)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void part_of_a_warp_gives() {
  if (threadIdx.x < 16)
    __shfl_xor_sync(0xffffffffu, 1, 1);
  else
    __syncthreads();
}
__global__ void takes_from_the_end(int* out) {
  if (threadIdx.x < 20) *out = __shfl_xor_sync(0xffffffffu, 1, 16);
}
__global__ void takes_past_the_end(int* out) { *out = __shfl_xor_sync(0xffffffffu, 1, 16); }
__global__ void writes_behind(char* data, int count) { data[count] = 1; }

using EmulatedCudaDeathTest = ::testing::Test;

TEST(EmulatedCudaDeathTest, ThreadsThatWaitInDifferentPlaces) {
  EXPECT_DEATH(device::launch(part_of_a_block_waits, 1, 64, nullptr, 32), "different places");
  EXPECT_DEATH(device::launch(part_of_a_warp_gives, 1, 32, nullptr), "different places");
}

TEST(EmulatedCudaDeathTest, ALaneThatNobodyFills) {
  const Values<int> out(1);
  EXPECT_DEATH(device::launch(takes_from_the_end, 1, 32, nullptr, out.data()), "which has ended");
  EXPECT_DEATH(device::launch(takes_past_the_end, 1, 20, nullptr, out.data()), "which is not there");
}

TEST(EmulatedCudaDeathTest, WritingBehindATensor) {
  EXPECT_DEATH(
      {
        const Values<char> data(100);
        static_cast<void>(device::launch(writes_behind, 1, 1, nullptr, data.data(), 100));
      },
      "wrote behind|AddressSanitizer");
}

TEST(EmulatedCudaDeathTest, CopyingBehindATensorOrFromOneThatIsReleased) {
  std::array<char, 128> host{};
  const Values<char> data(100);
  EXPECT_DEATH(copy(host.data(), data.data() + 1, 100), "not in use");
  EXPECT_DEATH(fill(data.data(), 0, 101), "not in use");
  const char* released = Values<char>(64).data();
  EXPECT_DEATH(copy(host.data(), released, 1), "not in use");
  fill(data.data(), 7, 100);
  copy(host.data(), data.data() + 99, 1);
  EXPECT_EQ(host[0], 7);
}

TEST(EmulatedCudaDeathTest, TheHostReadingMemoryOfTheGpu) {
  const Values<char> data(100);
  EXPECT_DEATH(std::printf("%c", *static_cast<volatile char*>(data.data())), "");
}

}  // namespace
}  // namespace troupe::emulated_cuda
