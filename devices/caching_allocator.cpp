#include "troupe/devices/caching_allocator.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <exception>
#include <mutex>
#include <vector>

#include <troupe/devices/host_pages.hpp>

namespace troupe {
namespace {

// Size classes: powers of two with three steps between, from 64 bytes to 64 GiB.
constexpr std::size_t kLargestClass = std::size_t{1} << 36;
constexpr std::size_t kLargest = std::size_t{1} << 46;
constexpr std::size_t kClasses = 4 * 31;
constexpr std::size_t kShown = 8;  // live tensors named in an error

struct SizeClass {
  std::size_t index;
  std::size_t bytes;
};

SizeClass class_of(std::size_t bytes, std::size_t largest_kept) {
  if (bytes <= 64) return {0, 64};
  if (bytes > std::min(largest_kept, kLargestClass)) return {kClasses, (bytes + 63) / 64 * 64};
  const auto log = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;  // 2^log <= bytes - 1
  const std::size_t step = (std::size_t{1} << log) / 4;
  const std::size_t quarter = (bytes - 1 - (std::size_t{1} << log)) / step;  // 0..3
  const std::size_t size = (std::size_t{1} << log) + (quarter + 1) * step;
  return {(log - 6) * 4 + quarter + 1, (size + 63) / 64 * 64};
}

std::string readable(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  const char* unit = "KiB";
  auto value = static_cast<double>(bytes) / 1024;
  for (const char* next : {"MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.2f} {}", value, unit);
}

// The content of a buffer. Names are copied because a buffer may outlive its plan. Long names lose their middle.
class Contents {
 public:
  void set(std::size_t bytes, DType dtype, const Shape& shape, AllocationLabel label) {
    bytes_ = bytes;
    dtype_ = dtype;
    shape_ = shape;
    op_ = copy(label.op, op_text_);
    node_ = copy(label.node, node_text_);
  }
  LiveBuffer read() const {
    return {.type = dtype_ == DType::invalid ? std::string() : fmt::format("{}{}", name(dtype_), shape_.to_string()),
            .op = std::string(op_text_.data(), op_),
            .node = std::string(node_text_.data(), node_),
            .bytes = bytes_};
  }
  // "f32[1024,1024], 4.00 MiB, of MatMul 'dense/matmul'"
  std::string describe() const {
    const LiveBuffer all = read();
    std::string text = (all.type.empty() ? "memory" : all.type) + ", " + readable(all.bytes);
    if (op_ + node_ > 0) text += fmt::format(", of {} '{}'", all.op, all.node);
    return text;
  }

 private:
  template <std::size_t N>
  static std::uint8_t copy(std::string_view text, std::array<char, N>& into) {
    constexpr std::string_view kGap = "…";
    constexpr std::size_t kFront = N / 3, kEnd = N - kFront - kGap.size();  // the end is more specific
    if (text.size() > N) {
      std::memcpy(into.data(), text.data(), kFront);
      std::memcpy(into.data() + kFront, kGap.data(), kGap.size());
      std::memcpy(into.data() + N - kEnd, text.data() + text.size() - kEnd, kEnd);
      return static_cast<std::uint8_t>(N);
    }
    if (!text.empty()) std::memcpy(into.data(), text.data(), text.size());
    return static_cast<std::uint8_t>(text.size());
  }

  std::size_t bytes_ = 0;
  DType dtype_ = DType::invalid;
  std::uint8_t op_ = 0;  // lengths in bytes
  std::uint8_t node_ = 0;
  Shape shape_;
  std::array<char, 32> op_text_;
  std::array<char, 80> node_text_;
};

class HostMemory final : public MemorySource {
 public:
  void* allocate(std::size_t bytes) override { return allocate_host_pages(bytes); }
  void free(void* data, std::size_t bytes) noexcept override { free_host_pages(data, bytes); }
  MemorySpace space() const override { return {}; }
  std::size_t largest_kept() const override { return std::size_t{1} << 30; }
};

}  // namespace

std::shared_ptr<MemorySource> host_memory() {
  static const auto source = std::make_shared<HostMemory>();
  return source;
}

// Also a node in two lists of the cache: all buffers, and the free buffers of one class.
class CachingAllocator::CachedBuffer final : public Buffer {
 public:
  CachedBuffer(Cache& cache, void* data, SizeClass size);
  ~CachedBuffer() override;

 private:
  friend class Cache;
  void release() override;

  Cache& cache_;
  const std::size_t class_;
  bool live_ = false;
  CachedBuffer* next_free_ = nullptr;
  CachedBuffer* previous_ = nullptr;
  CachedBuffer* next_ = nullptr;
  Contents contents_;
};

class CachingAllocator::Cache {
 public:
  Cache(std::uint64_t limit, std::shared_ptr<MemorySource> source, AllocationLabel (*label)())
      : source_(std::move(source)), label_(label) {
    stats_.limit_bytes = limit;
  }
  MemorySource& source() { return *source_; }

  BufferRef allocate(std::size_t bytes, DType dtype, const Shape& shape) {
    const SizeClass size = class_of(bytes, source_->largest_kept());
    const AllocationLabel label = label_();
    CachedBuffer* to_free = nullptr;
    {
      std::lock_guard lock(mutex_);
      ++stats_.allocations;
      if (CachedBuffer* found = size.index < kClasses ? free_[size.index] : nullptr) {
        free_[size.index] = found->next_free_;
        stats_.cached_bytes -= size.bytes;
        ++stats_.reuses;
        use(*found, size.bytes);
        found->contents_.set(bytes, dtype, shape, label);
        return BufferRef(found);
      }
      to_free = make_room(size.bytes);
      if (!fits(size.bytes)) {
        const Error error = exhausted(bytes, dtype, shape, label);
        free_all(to_free);
        throw error;
      }
      count_in_use(size.bytes);  // counted before it exists, so that others do not take the room
      ++users_;
    }
    free_all(to_free);
    CachedBuffer* fresh = nullptr;
    std::exception_ptr failure;
    try {
      fresh = make(size);
    } catch (...) {  // the device is lost
      failure = std::current_exception();
    }
    std::lock_guard lock(mutex_);
    if (!fresh) {
      stats_.bytes_in_use -= size.bytes;
      --users_;  // the allocator is the other user
      if (failure) std::rethrow_exception(failure);
      throw exhausted(bytes, dtype, shape, label);
    }
    ++stats_.fresh;
    link(*fresh);
    fresh->live_ = true;
    fresh->contents_.set(bytes, dtype, shape, label);
    return BufferRef(fresh);
  }

  void take_back(CachedBuffer& buffer) {
    std::unique_lock lock(mutex_);
    buffer.live_ = false;
    stats_.bytes_in_use -= buffer.size();
    const bool keep = buffer.class_ < kClasses && !closed_;
    if (keep) {
      buffer.reset_count();
      buffer.next_free_ = std::exchange(free_[buffer.class_], &buffer);
      stats_.cached_bytes += buffer.size();
    } else {
      unlink(buffer);
    }
    if (!keep) {
      lock.unlock();
      delete &buffer;  // needs the cache
      lock.lock();
    }
    leave(lock);
  }

  // Called when the allocator is destroyed. Buffers still in use are released later.
  void close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    CachedBuffer* const cached = take_cached(~std::uint64_t{0});
    lock.unlock();
    free_all(cached);  // need the cache
    lock.lock();
    leave(lock);
  }

  void trim() {
    std::unique_lock lock(mutex_);
    CachedBuffer* const cached = take_cached(~std::uint64_t{0});
    lock.unlock();
    free_all(cached);
  }

  AllocatorStats stats() const {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  std::string in_use() const {
    const std::lock_guard lock(mutex_);
    const auto [live, shown] = largest_live(kShown);
    const std::string largest = largest_in_words(shown);
    return fmt::format("{} in {} buffers{}", readable(stats_.bytes_in_use), live,
                       largest.empty() ? "" : fmt::format(" ({})", largest));
  }

  std::vector<LiveBuffer> largest(std::size_t count) const {
    std::lock_guard lock(mutex_);
    std::vector<LiveBuffer> out;
    for (const CachedBuffer* b : largest_live(count).second) out.push_back(b->contents_.read());
    return out;
  }

 private:
  // Everything below except make and free_all requires the mutex.
  void use(CachedBuffer& buffer, std::size_t bytes) {
    buffer.live_ = true;
    count_in_use(bytes);
    ++users_;
  }
  void count_in_use(std::size_t bytes) {
    stats_.bytes_in_use += bytes;
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.bytes_in_use);
  }
  // Removes a user; the last one deletes the cache.
  void leave(std::unique_lock<std::mutex>& lock) {
    const bool last = --users_ == 0;
    lock.unlock();
    if (last) delete this;
  }
  bool fits(std::size_t bytes) const {
    const std::uint64_t limit = stats_.limit_bytes;
    return limit == 0 || (bytes <= limit && stats_.bytes_in_use + stats_.cached_bytes <= limit - bytes);
  }
  // Evicts from the cache until `bytes` fit, if possible. The caller frees the result.
  CachedBuffer* make_room(std::size_t bytes) {
    if (fits(bytes)) return nullptr;
    return take_cached(stats_.bytes_in_use + stats_.cached_bytes + bytes - stats_.limit_bytes);
  }
  // Evicts largest first until `bytes` have been taken.
  CachedBuffer* take_cached(std::uint64_t bytes) {
    CachedBuffer* taken = nullptr;
    std::uint64_t sum = 0;
    for (std::size_t c = kClasses; c-- > 0;)
      while (free_[c] && sum < bytes) {
        CachedBuffer* const buffer = free_[c];
        free_[c] = buffer->next_free_;
        unlink(*buffer);
        sum += buffer->size();
        stats_.cached_bytes -= buffer->size();
        buffer->next_free_ = std::exchange(taken, buffer);
      }
    return taken;
  }
  static void free_all(CachedBuffer* list) {
    while (list) delete std::exchange(list, list->next_free_);
  }
  // Null if the system has no memory even after the cache is freed.
  CachedBuffer* make(SizeClass size) {
    void* data = source_->allocate(size.bytes);
    if (!data) {
      trim();
      data = source_->allocate(size.bytes);
    }
    return data ? new CachedBuffer(*this, data, size) : nullptr;
  }
  void link(CachedBuffer& buffer) {
    buffer.next_ = all_;
    if (all_) all_->previous_ = &buffer;
    all_ = &buffer;
  }
  void unlink(CachedBuffer& buffer) {
    (buffer.previous_ ? buffer.previous_->next_ : all_) = buffer.next_;
    if (buffer.next_) buffer.next_->previous_ = buffer.previous_;
  }

  // The number of buffers in use, and the largest of them.
  std::pair<std::size_t, std::vector<const CachedBuffer*>> largest_live(std::size_t count) const {
    std::vector<const CachedBuffer*> live;
    for (const CachedBuffer* b = all_; b; b = b->next_)
      if (b->live_) live.push_back(b);
    const std::size_t all = live.size(), shown = std::min(all, count);
    std::ranges::partial_sort(live, live.begin() + static_cast<std::ptrdiff_t>(shown), std::ranges::greater(),
                              [](const CachedBuffer* b) { return b->size(); });
    live.resize(shown);
    return {all, std::move(live)};
  }

  std::string largest_in_words(const std::vector<const CachedBuffer*>& shown) const {
    std::string largest;
    for (const CachedBuffer* b : shown)
      largest += fmt::format("{}{}", largest.empty() ? "" : "; ", b->contents_.describe());
    return largest;
  }

  Error exhausted(std::size_t bytes, DType dtype, const Shape& shape, AllocationLabel label) const {
    Contents wanted;
    wanted.set(bytes, dtype, shape, label);
    const auto [live, shown] = largest_live(kShown);
    const std::string largest = largest_in_words(shown);
    const std::string limit = stats_.limit_bytes == 0 ? "no limit is set, but the system is out of memory"
                                                      : fmt::format("the limit is {}", readable(stats_.limit_bytes));
    return Error(
        Code::resource_exhausted,
        fmt::format("out of memory: cannot allocate {}; {} in use in {} buffers, {}{}{}", wanted.describe(),
                    readable(stats_.bytes_in_use), live, limit, largest.empty() ? "" : ". Largest: ", largest));
  }

  const std::shared_ptr<MemorySource> source_;
  AllocationLabel (*const label_)();
  mutable std::mutex mutex_;
  std::array<CachedBuffer*, kClasses> free_{};
  CachedBuffer* all_ = nullptr;
  AllocatorStats stats_;
  std::size_t users_ = 1;  // buffers in use, plus the allocator
  bool closed_ = false;
};

CachingAllocator::CachedBuffer::CachedBuffer(Cache& cache, void* data, SizeClass size)
    : Buffer(data, size.bytes, cache.source().space()), cache_(cache), class_(size.index) {}
CachingAllocator::CachedBuffer::~CachedBuffer() { cache_.source().free(data(), size()); }
void CachingAllocator::CachedBuffer::release() { cache_.take_back(*this); }

CachingAllocator::CachingAllocator(std::uint64_t limit, std::shared_ptr<MemorySource> source,
                                   AllocationLabel (*label)())
    : cache_(new Cache(limit, std::move(source), label)) {}
CachingAllocator::~CachingAllocator() { cache_->close(); }

BufferRef CachingAllocator::allocate(std::size_t bytes, DType dtype, const Shape& shape) {
  if (bytes > kLargest) fail(Code::resource_exhausted, "cannot allocate a buffer of {} bytes", bytes);
  try {
    return cache_->allocate(bytes, dtype, shape);
  } catch (const Error& error) {
    if (error.code() != Code::resource_exhausted) throw;
    const std::string more = cache_->source().also_in_use();  // may lock another cache: not under this lock
    if (more.empty()) throw;
    throw Error(error.code(), fmt::format("{}. In addition: {}", error.message(), more));
  }
}

std::string CachingAllocator::in_use() const { return cache_->in_use(); }

MemorySpace CachingAllocator::space() const { return cache_->source().space(); }
AllocatorStats CachingAllocator::stats() const { return cache_->stats(); }
std::vector<LiveBuffer> CachingAllocator::largest(std::size_t count) const { return cache_->largest(count); }
void CachingAllocator::trim() { cache_->trim(); }

}  // namespace troupe
