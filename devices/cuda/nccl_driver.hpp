// The NCCL calls that Troupe uses, as an interface: tests run the logic of communicators on simulated GPUs.
//
// A communicator is used by one thread at a time, which must have selected its GPU (CudaDriver::use). No call waits for
// other ranks: longer work continues in the background, and no other call may be made on the communicator until
// settled() returns true. All methods but abort() throw unavailable with the call, NCCL's name of the error and its
// text; a communicator that threw can only be aborted.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include <troupe/devices/collective/collective.hpp>
#include <troupe/devices/cuda/cuda_driver.hpp>

struct ncclComm;

namespace troupe {

using NcclHandle = ncclComm*;  // an ncclComm_t
using NcclId = std::array<std::byte, 128>;

class NcclDriver {
 public:
  virtual ~NcclDriver() = default;

  // "2.28.9". The first call opens the library; throws unavailable if none is usable. Must be called before all others.
  virtual std::string version() = 0;
  virtual NcclId make_id() = 0;
  // Begins to join the ranks with the same id.
  virtual NcclHandle join(int ranks, int rank, const NcclId& id) = 0;
  // Whether the last call has completed. Throws its error, and later asynchronous ones: of the network, of other ranks.
  virtual bool settled(NcclHandle comm) = 0;

  // Operations, in stream order. Those between start_group() and end_group() form one operation and run concurrently.
  virtual void start_group() = 0;
  virtual void end_group() = 0;
  virtual void send(const void* from, std::size_t bytes, int to_rank, NcclHandle comm, CudaStreamHandle stream) = 0;
  virtual void receive(void* to, std::size_t bytes, int from_rank, NcclHandle comm, CudaStreamHandle stream) = 0;
  // Each rank's `bytes` are at `all` + rank * bytes, on input and output.
  virtual void all_gather(void* all, int rank, std::size_t bytes, NcclHandle comm, CudaStreamHandle stream) = 0;
  virtual void broadcast(void* data, std::size_t bytes, int root, NcclHandle comm, CudaStreamHandle stream) = 0;
  // Sum or mean of floating-point numbers, in any order.
  virtual void all_reduce(const void* from, void* to, std::size_t count, DType dtype, Reduction reduction,
                          NcclHandle comm, CudaStreamHandle stream) = 0;

  // Releases a communicator whose work has ended on all ranks: finalize(), poll settled() until true, then destroy().
  virtual void finalize(NcclHandle comm) = 0;
  virtual void destroy(NcclHandle comm) = 0;
  // Ends work running on the GPU and releases the communicator. Returns NCCL's error if that failed.
  virtual Error abort(NcclHandle comm) noexcept = 0;
};

// The real NCCL; built without its header, a driver whose version() throws that.
std::shared_ptr<NcclDriver> make_nccl_driver();

}  // namespace troupe
