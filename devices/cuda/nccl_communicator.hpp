// Communicators of a GPU, over NCCL. Each has its own stream, which runs beside kernels, and its own thread, which
// makes all of its NCCL calls. NCCL runs in non-blocking mode, so that the thread can abort at any time; while work
// runs on the GPU, the thread polls NCCL for errors.
//
// An all-reduce consists of sends, a kernel and an all-gather, because NCCL's own order of addition depends on the
// machine: rank r receives part r of all others, sums in the order of collective.hpp, and all ranks gather the parts.
// The traffic equals that of a ring. Small all-reduces gather whole tensors, and every rank sums them. Nothing waits
// for the host in between.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include <troupe/devices/collective/communicator.hpp>
#include <troupe/devices/cuda/cuda_device.hpp>
#include <troupe/devices/cuda/cuda_events.hpp>
#include <troupe/devices/cuda/nccl_driver.hpp>

namespace troupe {

class NcclCommunicator final : public DeviceCommunicator {
 public:
  NcclCommunicator(CudaDevice& device, const CudaCollectives& with, const CommunicatorPlace& place,
                   std::function<void(Error)> joined);
  ~NcclCommunicator() override { shutdown(); }

  void run(const CollectiveSpec& spec, Tensor local, Done done) override;
  void abort(const Error& why) override;
  void leave() override;
  Error failure() const override;

  // Aborts, unless this rank has left, and joins its thread: nothing of the device is used afterwards.
  void shutdown();
  // Whether it is unusable and no longer uses its device.
  bool over() const;

 private:
  struct Operation {
    CollectiveSpec spec;
    Tensor local;
    Done done;
    std::vector<Tensor> results;
    std::vector<Tensor> scratch;  // memory used while it runs
  };

  void main();
  void join();
  bool take(std::shared_ptr<Operation>& next);  // false: the communicator is over
  void start(const std::shared_ptr<Operation>& operation);
  void launch(Operation& operation);
  void all_reduce(Operation& operation);
  void reduce_parts(Operation& operation);
  void all_gather(Operation& operation);
  Tensor gathered(Operation& operation, std::int64_t stride);
  void finish(const std::shared_ptr<Operation>& operation);
  void settle(std::chrono::nanoseconds within = std::chrono::nanoseconds::max());
  void end();

  CudaDevice& device_;
  const CudaCollectives with_;
  const CommunicatorPlace place_;
  std::function<void(Error)> joined_;
  NcclHandle comm_ = nullptr;         // used by its thread
  std::optional<CudaStream> stream_;  // likewise
  std::vector<std::shared_ptr<Operation>>
      stranded_;  // failed while NCCL was enqueueing them: it may use their memory until the abort
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Operation>> queue_;
  std::size_t in_flight_ = 0;  // started, not finished
  Error failure_;
  bool leaving_ = false;
  bool over_ = false;
  std::thread thread_;  // last: it uses the other members
};

class NcclMaker final : public CommunicatorMaker {
 public:
  NcclMaker(CudaDevice& device, CudaCollectives with) : device_(device), with_(std::move(with)) {}

  std::string description() override;
  std::string identity() override { return device_.properties().uuid; }
  CommunicatorId make_id() override;
  std::shared_ptr<DeviceCommunicator> join(const CommunicatorPlace& place, std::function<void(Error)> joined) override;
  // Aborts communicators that have not left, and waits for all to end.
  void shutdown();

 private:
  CudaDevice& device_;
  const CudaCollectives with_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<NcclCommunicator>> all_;  // releasing one must not wait for its end
  bool closed_ = false;
};

}  // namespace troupe
