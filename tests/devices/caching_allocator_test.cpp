#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include <troupe/devices/caching_allocator.hpp>

namespace troupe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kMiB = 1 << 20;

class Running final : public AllocationSource {
 public:
  Running(std::string op, std::string node) : op_(std::move(op)), node_(std::move(node)) {}
  AllocationLabel allocating() const override { return {op_, node_}; }

 private:
  std::string op_;
  std::string node_;
};

std::string refusal(CachingAllocator& allocator, std::size_t bytes) {
  try {
    allocator.allocate(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::resource_exhausted);
    return error.message();
  }
  return "it was allocated";
}

TEST(CachingAllocator, BuffersAreAlignedAndLargeEnough) {
  CachingAllocator allocator;
  std::vector<BufferRef> held;
  for (std::size_t bytes = 1; bytes <= 8 * kMiB; bytes = bytes * 5 / 3 + 1) {
    held.push_back(allocator.allocate(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(held.back()->data()) % kBufferAlignment, 0u) << bytes;
    EXPECT_GE(held.back()->size(), bytes) << bytes;
    EXPECT_LE(held.back()->size(), bytes + bytes / 4 + 64) << bytes;
    std::memset(held.back()->data(), 0x5a, held.back()->size());
  }
  for (const BufferRef& buffer : held)
    EXPECT_EQ(static_cast<char*>(buffer->data())[buffer->size() - 1], 0x5a) << buffer->size();
}

TEST(CachingAllocator, CountsWhatIsInUseCachedReusedAndFresh) {
  CachingAllocator allocator;
  {
    const BufferRef a = allocator.allocate(1024);
    const BufferRef b = allocator.allocate(1000);  // of the same class
    EXPECT_EQ(allocator.stats().bytes_in_use, 2048u);
    EXPECT_EQ(allocator.stats().cached_bytes, 0u);
  }
  EXPECT_EQ(allocator.stats().bytes_in_use, 0u);
  EXPECT_EQ(allocator.stats().cached_bytes, 2048u);
  const BufferRef c = allocator.allocate(1001);
  const AllocatorStats stats = allocator.stats();
  EXPECT_EQ(stats.bytes_in_use, 1024u);
  EXPECT_EQ(stats.cached_bytes, 1024u);
  EXPECT_EQ(stats.peak_bytes, 2048u);
  EXPECT_EQ(stats.allocations, 3u);
  EXPECT_EQ(stats.fresh, 2u);
  EXPECT_EQ(stats.reuses, 1u);
  EXPECT_EQ(stats.limit_bytes, 0u);
  allocator.trim();
  EXPECT_EQ(allocator.stats().cached_bytes, 0u);
  EXPECT_EQ(allocator.stats().bytes_in_use, 1024u);
}

TEST(CachingAllocator, WhatIsLargerThanItKeepsGoesBackAtOnce) {
  CachingAllocator allocator;
  { const BufferRef huge = allocator.allocate((std::size_t{1} << 30) + 1); }  // its pages are never touched
  EXPECT_EQ(allocator.stats().cached_bytes, 0u);
  EXPECT_EQ(allocator.stats().bytes_in_use, 0u);
}

TEST(CachingAllocator, AtTheLimitTheCacheIsGivenBackFirst) {
  CachingAllocator allocator(16 * kMiB);
  {
    const BufferRef a = allocator.allocate(6 * kMiB), b = allocator.allocate(5 * kMiB),
                    c = allocator.allocate(4 * kMiB);
  }
  EXPECT_EQ(allocator.stats().cached_bytes, 15 * kMiB);
  const BufferRef fits = allocator.allocate(7 * kMiB);  // 1 MiB is free: the largest cached one makes room
  EXPECT_EQ(allocator.stats().cached_bytes, 9 * kMiB);
  const BufferRef more = allocator.allocate(8 * kMiB);
  EXPECT_EQ(allocator.stats().cached_bytes, 0u);
  EXPECT_EQ(allocator.stats().bytes_in_use, 15 * kMiB);
  EXPECT_EQ(allocator.stats().fresh, 5u);
  EXPECT_EQ(allocator.stats().limit_bytes, 16 * kMiB);
}

TEST(CachingAllocator, AboveTheLimitTheErrorNamesTheLargestLiveTensors) {
  CachingAllocator allocator(16 * kMiB);
  std::vector<Tensor> small;
  {
    const Running node("Relu", "dense/relu");
    const AllocationScope scope(node);
    for (int i = 0; i < 20; ++i) small.push_back(allocator.tensor(DType::f32, Shape{64}));
  }
  std::optional<Tensor> large;
  {
    const Running outer("If", "choose"), inner("MatMul", "dense/matmul");
    const AllocationScope scope(outer);
    const AllocationScope nested(inner);
    large = allocator.tensor(DType::f32, Shape{1024, 2048});
  }
  const BufferRef plain = allocator.allocate(kMiB);
  const Running node("Conv2D", "tower/" + std::string(100, 'x') + "conv/2");
  const AllocationScope scope(node);
  std::string message;
  try {
    allocator.tensor(DType::f64, Shape{1024, 1024});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::resource_exhausted);
    message = error.message();
  }
  EXPECT_THAT(
      message,
      AllOf(HasSubstr("out of memory: cannot allocate f64[1024,1024], 8.00 MiB, of Conv2D 'tower/xxx"),
            HasSubstr("xx…xx"), HasSubstr("xconv/2'; "),
            HasSubstr("9.00 MiB in use in 22 buffers, the limit is 16.00 MiB. Largest: f32[1024,2048], 8.00 MiB, "
                      "of MatMul 'dense/matmul'; memory, 1.00 MiB; f32[64], 256 B, of Relu 'dense/relu'; ")));
  std::size_t named = 0;
  for (std::size_t at = 0; (at = message.find("dense/", at)) != std::string::npos; ++at) ++named;
  EXPECT_EQ(named, 7u) << message;  // eight are listed, one of them without a name

  large.reset();
  EXPECT_THAT(refusal(allocator, 16 * kMiB), Not(HasSubstr("MatMul")));  // what was released is not live any more
  EXPECT_NO_THROW(allocator.tensor(DType::f64, Shape{1024, 1024}));
}

TEST(CachingAllocator, SizesThatCannotBeAreRefused) {
  CachingAllocator allocator(1000);
  EXPECT_THAT(refusal(allocator, ~std::size_t{0}), HasSubstr("cannot allocate a buffer of 18446744073709551615 bytes"));
  EXPECT_THAT(refusal(allocator, std::size_t{1} << 46),
              HasSubstr("64.00 TiB; 0 B in use in 0 buffers, the limit is 1000 B"));
  CachingAllocator unlimited;
  EXPECT_THAT(refusal(unlimited, std::size_t{1} << 46), HasSubstr("the system is out of memory"));
  EXPECT_EQ(unlimited.stats().bytes_in_use, 0u);
}

TEST(CachingAllocator, BuffersMayOutliveIt) {
  auto allocator = std::make_unique<CachingAllocator>();
  BufferRef first = allocator->allocate(100);
  Tensor second = allocator->tensor(DType::i32, Shape{5 * static_cast<std::int64_t>(kMiB)});
  allocator.reset();
  std::memset(first->data(), 1, first->size());
  std::memset(second.mutable_raw(), 1, second.num_bytes());
  first = BufferRef();
}

TEST(AllocatorStats, AreAddedButForTheLimitThatIsOne) {
  const AllocatorStats one{.bytes_in_use = 10,
                           .peak_bytes = 60,
                           .cached_bytes = 20,
                           .limit_bytes = 100,
                           .allocations = 3,
                           .reuses = 1,
                           .fresh = 2};
  AllocatorStats both;
  for (int i = 0; i < 2; ++i) both += one;
  EXPECT_EQ(both.bytes_in_use, 20u);
  EXPECT_EQ(both.cached_bytes, 40u);
  EXPECT_EQ(both.limit_bytes, 100u);
  EXPECT_EQ(both.peak_bytes, 100u) << "more than the limit never was";
  EXPECT_EQ(both.allocations, 6u);
  EXPECT_EQ(both.reuses, 2u);
  EXPECT_EQ(both.fresh, 4u);
}

TEST(CachingAllocator, ThreadsShareIt) {
  CachingAllocator allocator(64 * kMiB);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&allocator, t] {
      std::vector<BufferRef> held(16);
      for (unsigned i = 0; i < 4000; ++i) {
        BufferRef& place = held[(i * 7 + t) % held.size()];
        place = allocator.allocate(std::size_t{64} << (i % 9));
        std::memset(place->data(), static_cast<int>(t), place->size());
        const BufferRef& other = held[i % held.size()];
        if (other) {
          EXPECT_EQ(*static_cast<unsigned char*>(other->data()), t);
        }
      }
    });
  for (auto& thread : threads) thread.join();
  const AllocatorStats stats = allocator.stats();
  EXPECT_EQ(stats.bytes_in_use, 0u);
  EXPECT_EQ(stats.allocations, 16000u);
  EXPECT_EQ(stats.reuses + stats.fresh, 16000u);
}

}  // namespace
}  // namespace troupe
