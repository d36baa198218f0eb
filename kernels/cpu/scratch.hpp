// Scratch memory for kernels, separate from tensors: each thread keeps the blocks it has used, so that running a kernel
// again allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe {

// Memory of the calling thread for the lifetime of this object; must be destroyed by the same thread, in reverse order
// of construction. Aligned to kBufferAlignment, not cleared. Throws resource_exhausted. Blocks up to 64 MiB are kept by
// the thread until it ends.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_;
};

// `count` elements of T.
template <class T>
class ScratchArray {
 public:
  explicit ScratchArray(std::int64_t count) : memory_(static_cast<std::size_t>(count) * sizeof(T)) {}
  T* data() const { return memory_.as<T>(); }
  T& operator[](std::int64_t i) const { return data()[i]; }

 private:
  Scratch memory_;
};

}  // namespace troupe
