// NCCL between simulated GPUs of this process: operations meet on the streams of all ranks, and wait there for each
// other as the real ones do. Also what goes wrong: ranks that never join, errors that show up later, operations that
// never end.
#pragma once

#include <map>

#include "tests/devices/simulated_cuda.hpp"
#include <troupe/devices/cuda/cuda_device.hpp>
#include <troupe/devices/cuda/nccl_driver.hpp>

namespace troupe::testing {

class SimulatedNccl final : public NcclDriver {
 public:
  explicit SimulatedNccl(std::shared_ptr<SimulatedCuda> cuda);
  ~SimulatedNccl() override;

  // From now on: there is no library; calls fail.
  void remove(bool removed) { removed_ = removed; }
  // What the next question whether a call of any communicator has ended is answered with, instead.
  void break_network(const std::string& error);
  // Operations begin, and do not end before they are let go or aborted.
  void hold(bool held);

  struct Counts {
    std::size_t ids = 0, joins = 0, sends = 0, gathers = 0, broadcasts = 0, all_reduces = 0, aborts = 0, destroys = 0;
  };
  Counts counts() const;

  std::string version() override;
  NcclId make_id() override;
  NcclHandle join(int ranks, int rank, const NcclId& id) override;
  bool settled(NcclHandle comm) override;
  void start_group() override;
  void end_group() override;
  void send(const void* from, std::size_t bytes, int to_rank, NcclHandle comm, CudaStreamHandle stream) override;
  void receive(void* to, std::size_t bytes, int from_rank, NcclHandle comm, CudaStreamHandle stream) override;
  void all_gather(void* all, int rank, std::size_t bytes, NcclHandle comm, CudaStreamHandle stream) override;
  void broadcast(void* data, std::size_t bytes, int root, NcclHandle comm, CudaStreamHandle stream) override;
  void all_reduce(const void* from, void* to, std::size_t count, DType dtype, Reduction reduction, NcclHandle comm,
                  CudaStreamHandle stream) override;
  void finalize(NcclHandle comm) override;
  void destroy(NcclHandle comm) override;
  Error abort(NcclHandle comm) noexcept override;

 private:
  // What a rank brings to an operation: memory that others copy from, and where it wants theirs.
  struct Bring {
    struct Piece {
      int peer;
      std::byte* data;
      std::size_t bytes;
    };
    std::string what;  // the same for all
    std::vector<Piece> gives, wants;
    std::function<void(const std::map<int, Bring>&)> then;  // once all are there, instead of copies
  };
  struct Clique;
  struct Comm;
  static Comm& of(NcclHandle comm) { return *reinterpret_cast<Comm*>(comm); }
  void meet(NcclHandle comm, CudaStreamHandle stream, Bring bring);
  void call(const char* name, NcclHandle comm) const;

  std::shared_ptr<SimulatedCuda> cuda_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<NcclId, std::shared_ptr<Clique>> cliques_;
  std::vector<std::unique_ptr<Comm>> comms_;
  std::string broken_;
  Counts counts_;
  std::atomic<bool> removed_{false};
  bool held_ = false;
};

// What adds up on simulated GPUs: as the kernel does, by the host.
SumParts simulated_sum(std::shared_ptr<SimulatedCuda> cuda);

}  // namespace troupe::testing
