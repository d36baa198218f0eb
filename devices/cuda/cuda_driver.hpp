// The CUDA runtime calls that Troupe uses, as an interface: tests run the device's logic on a simulated GPU.
//
// All methods are thread-safe. On failure they throw: resource_exhausted if memory is short, else unavailable with the
// call and CUDA's name and text of the error. An error of a kernel that has run is reported by any later call; the GPU
// is then lost to the process (fatal()). Methods that release something (noexcept) ignore CUDA's result: they can fail
// only after such an error, which the next throwing call reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <troupe/messages/error.hpp>

struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

namespace troupe {

using CudaStreamHandle = CUstream_st*;    // a cudaStream_t
using CudaEventHandle = CUevent_st*;      // a cudaEvent_t
using CudaGraphHandle = CUgraphExec_st*;  // a cudaGraphExec_t

struct CudaProperties {
  std::string name;  // "NVIDIA H200"
  std::string uuid;  // 32 hexadecimal digits, unique to the device
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
  std::size_t shared_bytes_per_block = 0;  // maximum a kernel can request
};

class CudaDriver {
 public:
  virtual ~CudaDriver() = default;

  // 0 without a GPU or a driver; `why_none` then says which.
  virtual int device_count(std::string* why_none) = 0;
  virtual CudaProperties properties(int ordinal) = 0;
  // Selects the GPU for the calling thread's calls. Cheap if already selected.
  virtual void use(int ordinal) = 0;
  // Whether the device is lost for good after `error`.
  virtual bool fatal(const Error& error) const = 0;

  // Null if there is no memory.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* data) noexcept = 0;
  virtual void* allocate_pinned(std::size_t bytes) = 0;  // host memory that the GPU copies from and to directly
  virtual void free_pinned(void* data) noexcept = 0;

  virtual CudaStreamHandle make_stream() = 0;
  virtual void destroy(CudaStreamHandle stream) noexcept = 0;
  virtual CudaEventHandle make_event() = 0;  // threads that wait for it sleep
  virtual void destroy(CudaEventHandle event) noexcept = 0;
  virtual void record(CudaEventHandle event, CudaStreamHandle stream) = 0;
  virtual void await(CudaEventHandle event) = 0;  // blocks the calling thread
  virtual void wait(CudaStreamHandle stream,
                    CudaEventHandle event) = 0;  // later work of the stream comes after the event

  // From and to any memory that CUDA knows, and pageable host memory, in stream order.
  virtual void copy(void* to, const void* from, std::size_t bytes, CudaStreamHandle stream) = 0;
  // Zeroes GPU memory, in stream order.
  virtual void clear(void* at, std::size_t bytes, CudaStreamHandle stream) = 0;
  virtual void copy_peer(void* to, int to_ordinal, const void* from, int from_ordinal, std::size_t bytes,
                         CudaStreamHandle stream) = 0;
  // Captures the calling thread's launches on the stream from now on instead of running them. No other thread may use
  // the stream. Of the methods above, those that allocate and free memory may be called during a capture, and all
  // methods for other streams.
  virtual void begin_capture(CudaStreamHandle stream) = 0;
  // Returns the captured work, to be launched as a whole. If it throws, the work is dropped.
  virtual CudaGraphHandle end_capture(CudaStreamHandle stream) = 0;
  virtual void drop_capture(CudaStreamHandle stream) noexcept = 0;
  virtual void launch(CudaGraphHandle graph, CudaStreamHandle stream) = 0;
  // The graph may still be running.
  virtual void destroy(CudaGraphHandle graph) noexcept = 0;

  // Lets kernels and copies of `ordinal` access the memory of `peer`; false if the machine does not support it.
  virtual bool enable_peer(int ordinal, int peer) = 0;
};

// The real CUDA runtime.
std::shared_ptr<CudaDriver> make_cuda_driver();

}  // namespace troupe
