// Buffers that kernels on the compute stream may still read when their last owner lets them go.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include <troupe/messages/buffer.hpp>

namespace troupe {

// Holds retired buffers until the compute stream has passed the point at which they were retired: a copy would
// otherwise overwrite memory that an earlier kernel has yet to read. Also holds pinned host memory and plans that
// launched kernels use. Thread-safe.
class RetiredBuffers {
 public:
  // Released at once after close().
  void add(BufferRef buffer);
  // All buffers added since the last call: release them when the compute stream has reached this point.
  std::vector<BufferRef> take();
  // Whether so much is held that take() should be called even if no work ends. True once for each take().
  bool should_take();
  void close();

 private:
  std::mutex mutex_;
  std::vector<BufferRef> buffers_;
  std::size_t bytes_ = 0;
  bool asked_ = false;
  bool closed_ = false;
};

// `memory` as a buffer that retires it on release.
BufferRef retire_on_release(BufferRef memory, std::shared_ptr<RetiredBuffers> retired);

// A buffer without memory that keeps `object` alive.
BufferRef keep_alive(std::shared_ptr<const void> object);

}  // namespace troupe
