#include "devices/cpu/cpu_device.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

#include "devices/kernel.hpp"

namespace troupe {
namespace {

std::unique_ptr<Device> device(int threads) {
  return make_cpu_device({.name = DeviceName::parse("/job:test/task:0/device:CPU:0"), .threads = threads});
}

TEST(CpuDevice, AStreamRunsWorkInOrder) {
  auto cpu = device(1);
  std::vector<int> order;
  struct Append final : LocalWork {
    Append(std::vector<int>& to, int value) : to(to), value(value) {}
    void run() override { to.push_back(value); }
    std::vector<int>& to;
    int value;
  };
  for (int i = 0; i < 100; ++i) cpu->compute().enqueue(std::make_shared<Append>(order, i));
  std::promise<void> done;
  cpu->compute().record()->on_reached([&done] { done.set_value(); });
  done.get_future().wait();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(CpuDevice, ParallelForCoversEachItemOnceWithFixedParts) {
  for (int threads : {1, 3}) {
    auto cpu = device(threads);
    std::vector<std::atomic<int>> seen(1001);
    std::atomic<int> odd_parts = 0;
    cpu->parallelism().parallel_for(1001, 10, [&](std::int64_t begin, std::int64_t end) {
      if (begin % 10 != 0 || (end - begin != 10 && end != 1001)) ++odd_parts;
      for (auto i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    for (auto& s : seen) EXPECT_EQ(s, 1);
    EXPECT_EQ(odd_parts, 0);
  }
}

TEST(CpuDevice, ParallelForRethrows) {
  auto cpu = device(3);
  EXPECT_THROW(cpu->parallelism().parallel_for(100, 1, [](std::int64_t i, std::int64_t) {
    if (i == 57) invalid_argument("57");
  }), Error);
}

TEST(CpuDevice, TheAllocatorReusesWhatIsReleased) {
  auto cpu = device(1);
  for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{65}, std::size_t{100}, std::size_t{1000}, std::size_t{123456}}) {
    const void* first = nullptr;
    {
      BufferRef b = cpu->allocator().allocate(bytes);
      EXPECT_GE(b->size(), bytes);
      first = b->data();
    }
    EXPECT_EQ(cpu->allocator().allocate(bytes)->data(), first) << bytes;
  }
  EXPECT_EQ(cpu->allocator().stats().bytes_in_use, 0u);
}

TEST(CpuDevice, AMemoryLimitHoldsAndShows) {
  auto cpu = make_cpu_device({.name = DeviceName::parse("/job:test/task:0/device:CPU:0"), .memory_limit = 1 << 20});
  EXPECT_EQ(cpu->attributes().memory_bytes, 1u << 20);
  EXPECT_EQ(cpu->allocator().stats().limit_bytes, 1u << 20);
  const Tensor fits = cpu->allocator().tensor(DType::u8, Shape{1 << 19});
  EXPECT_THROW(cpu->allocator().tensor(DType::u8, Shape{1 << 20}), Error);
}

TEST(Variable, UpdatesDoNotReachTensorsAlreadyRead) {
  auto cpu = device(1);
  Variable v("v", DType::f32, Shape{2});
  EXPECT_THROW(v.value(), Error);
  v.assign(Tensor::vector<float>({1, 2}));
  EXPECT_THROW(v.assign(Tensor::vector<float>({1, 2, 3})), Error);
  const Tensor read = v.value();
  v.writable(cpu->allocator()).mutable_data<float>()[0] = 9;
  EXPECT_EQ(read.data<float>()[0], 1);
  EXPECT_EQ(v.value().data<float>()[0], 9);
}

}  // namespace
}  // namespace troupe
