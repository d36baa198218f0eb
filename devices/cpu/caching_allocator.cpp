#include "devices/cpu/caching_allocator.hpp"

#include <bit>
#include <cstdlib>

namespace troupe {
namespace {

// Classes: powers of two with three steps between, from 64 bytes; above 1 GiB nothing is kept.
constexpr std::size_t kLargestCached = std::size_t{1} << 30;
constexpr std::size_t kClasses = 4 * 32;

struct SizeClass {
  std::size_t index;
  std::size_t bytes;
};

SizeClass class_of(std::size_t bytes) {
  if (bytes <= 64) return {0, 64};
  const auto log = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;  // 2^log <= bytes - 1
  const std::size_t step = (std::size_t{1} << log) / 4;
  const std::size_t quarter = (bytes - 1 - (std::size_t{1} << log)) / step;  // 0..3
  const std::size_t size = (std::size_t{1} << log) + (quarter + 1) * step;
  return {(log - 6) * 4 + quarter + 1, (size + 63) / 64 * 64};
}

}  // namespace

class CachingAllocator::Cache {
 public:
  ~Cache();
  std::mutex mutex;
  std::array<std::vector<CachedBuffer*>, kClasses> free;
  AllocatorStats stats;
};

class CachingAllocator::CachedBuffer final : public Buffer {
 public:
  CachedBuffer(void* data, SizeClass size) : Buffer(data, size.bytes, MemorySpace{}), class_(size.index) {}
  ~CachedBuffer() override { std::free(data()); }

  void lend(std::shared_ptr<Cache> cache) {
    cache_ = std::move(cache);
    reset_count();
  }

 private:
  void release() override {
    const std::shared_ptr<Cache> cache = std::move(cache_);
    {
      std::lock_guard lock(cache->mutex);
      cache->stats.bytes_in_use -= size();
      if (size() <= kLargestCached) {
        cache->free[class_].push_back(this);
        return;
      }
    }
    delete this;
  }

  std::size_t class_;
  std::shared_ptr<Cache> cache_;
};

CachingAllocator::Cache::~Cache() {
  for (auto& list : free)
    for (CachedBuffer* buffer : list) delete buffer;
}

CachingAllocator::CachingAllocator() : cache_(std::make_shared<Cache>()) {}
CachingAllocator::~CachingAllocator() = default;

BufferRef CachingAllocator::allocate(std::size_t bytes) {
  if (bytes > (std::size_t{1} << 46)) fail(Code::resource_exhausted, "a buffer of {} bytes cannot be allocated", bytes);
  const SizeClass size = class_of(bytes);
  CachedBuffer* buffer = nullptr;
  {
    std::lock_guard lock(cache_->mutex);
    auto& stats = cache_->stats;
    ++stats.allocations;
    if (size.index < kClasses && !cache_->free[size.index].empty()) {
      buffer = cache_->free[size.index].back();
      cache_->free[size.index].pop_back();
      ++stats.reuses;
    }
  }
  if (!buffer) {
    void* data = std::aligned_alloc(kBufferAlignment, size.bytes);
    if (!data) fail(Code::resource_exhausted, "a buffer of {} bytes cannot be allocated", bytes);
    buffer = new CachedBuffer(data, size);
  }
  {
    std::lock_guard lock(cache_->mutex);
    auto& stats = cache_->stats;
    stats.bytes_in_use += buffer->size();
    stats.peak_bytes = std::max(stats.peak_bytes, stats.bytes_in_use);
  }
  buffer->lend(cache_);
  return BufferRef(buffer);
}

AllocatorStats CachingAllocator::stats() const {
  std::lock_guard lock(cache_->mutex);
  return cache_->stats;
}

}  // namespace troupe
