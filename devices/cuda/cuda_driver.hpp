// What Troupe asks of CUDA's runtime, as an interface: the logic of the device is tested with one that only acts as if
// there were a GPU.
//
// All methods are thread-safe. Those that fail throw: resource_exhausted where memory is short, else unavailable with
// the call and CUDA's name and text of the error. An error of a kernel that has run comes out of any later call; the
// GPU is lost to the process then (fatal()). Those that give something back (noexcept) ignore what CUDA says: they can
// fail only after such an error, which the next of the others tells.
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
  std::string uuid;  // 32 hexadecimal digits: of this very GPU
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
  std::size_t shared_bytes_per_block = 0;  // that a kernel can ask for
};

class CudaDriver {
 public:
  virtual ~CudaDriver() = default;

  // 0 where there is no GPU or no driver; `why_none` says which.
  virtual int device_count(std::string* why_none) = 0;
  virtual CudaProperties properties(int ordinal) = 0;
  // Makes it the one that the calling thread's calls go to. Cheap if it is so already.
  virtual void use(int ordinal) = 0;
  // After an error: is the device lost for good?
  virtual bool fatal(const Error& error) const = 0;

  // Null if there is no memory.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* data) noexcept = 0;
  virtual void* allocate_pinned(std::size_t bytes) = 0;  // host memory that copies go straight to
  virtual void free_pinned(void* data) noexcept = 0;

  virtual CudaStreamHandle make_stream() = 0;
  virtual void destroy(CudaStreamHandle stream) noexcept = 0;
  virtual CudaEventHandle make_event() = 0;  // those who wait for it sleep
  virtual void destroy(CudaEventHandle event) noexcept = 0;
  virtual void record(CudaEventHandle event, CudaStreamHandle stream) = 0;
  virtual void await(CudaEventHandle event) = 0;  // blocks the calling thread
  virtual void wait(CudaStreamHandle stream,
                    CudaEventHandle event) = 0;  // later work of the stream comes after the event

  // From and to any memory that CUDA knows, and pageable host memory, in the order of the stream.
  virtual void copy(void* to, const void* from, std::size_t bytes, CudaStreamHandle stream) = 0;
  // Sets bytes of a GPU to 0, in the order of the stream.
  virtual void clear(void* at, std::size_t bytes, CudaStreamHandle stream) = 0;
  virtual void copy_peer(void* to, int to_ordinal, const void* from, int from_ordinal, std::size_t bytes,
                         CudaStreamHandle stream) = 0;
  // What the calling thread launches on the stream is kept from now on, and does not run. No other thread uses the
  // stream. Of the methods above those that allocate and free memory may be called meanwhile, and all for other
  // streams.
  virtual void begin_capture(CudaStreamHandle stream) = 0;
  // What was kept, to be launched as a whole. If it throws, it is dropped.
  virtual CudaGraphHandle end_capture(CudaStreamHandle stream) = 0;
  virtual void drop_capture(CudaStreamHandle stream) noexcept = 0;
  virtual void launch(CudaGraphHandle graph, CudaStreamHandle stream) = 0;
  // It may run still.
  virtual void destroy(CudaGraphHandle graph) noexcept = 0;

  // Lets kernels and copies of `ordinal` reach the memory of `peer`; false if the machine cannot.
  virtual bool enable_peer(int ordinal, int peer) = 0;
};

// CUDA's own.
std::shared_ptr<CudaDriver> make_cuda_driver();

}  // namespace troupe
