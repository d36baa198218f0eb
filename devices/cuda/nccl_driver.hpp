// What Troupe asks of NCCL, as an interface: the logic of communicators is tested with one that only acts as if there
// were GPUs.
//
// A communicator is used by one thread at a time, which has chosen its GPU (CudaDriver::use). No call waits for other
// ranks: what takes longer goes on behind settled(), and nothing else may be asked of the communicator until that says
// true. All methods but abort() throw unavailable with the call, NCCL's name for the error and what it says of it; such
// a communicator can only be aborted.
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

  // "2.28.9". The first call opens the library; throws unavailable if there is none that will do. To be called before
  // all others.
  virtual std::string version() = 0;
  virtual NcclId make_id() = 0;
  // Begins to join the ranks that have the same id.
  virtual NcclHandle join(int ranks, int rank, const NcclId& id) = 0;
  // Has what was begun ended? Throws the error of that, and also later ones: of the network, of other ranks.
  virtual bool settled(NcclHandle comm) = 0;

  // Operations, in the order of the stream. Those between start_group() and end_group() are one: they go on side by
  // side.
  virtual void start_group() = 0;
  virtual void end_group() = 0;
  virtual void send(const void* from, std::size_t bytes, int to_rank, NcclHandle comm, CudaStreamHandle stream) = 0;
  virtual void receive(void* to, std::size_t bytes, int from_rank, NcclHandle comm, CudaStreamHandle stream) = 0;
  // Each rank's `bytes` lie at `all` + rank * bytes; there they come to lie for all.
  virtual void all_gather(void* all, int rank, std::size_t bytes, NcclHandle comm, CudaStreamHandle stream) = 0;
  virtual void broadcast(void* data, std::size_t bytes, int root, NcclHandle comm, CudaStreamHandle stream) = 0;
  // In any order, of floating-point numbers: sum or mean.
  virtual void all_reduce(const void* from, void* to, std::size_t count, DType dtype, Reduction reduction,
                          NcclHandle comm, CudaStreamHandle stream) = 0;

  // Lets go of a communicator whose work has ended on all ranks: finalize() until settled(), then destroy().
  virtual void finalize(NcclHandle comm) = 0;
  virtual void destroy(NcclHandle comm) = 0;
  // Ends what runs on the GPU, and lets go of the communicator. Returns what NCCL had to say if that went wrong.
  virtual Error abort(NcclHandle comm) noexcept = 0;
};

// NCCL's own; where Troupe was built without its header, one whose version() says so.
std::shared_ptr<NcclDriver> make_nccl_driver();

}  // namespace troupe
