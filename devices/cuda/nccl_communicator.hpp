// Communicators of a GPU, over NCCL. Each has a stream of its own, which runs beside kernels, and a thread of its own,
// on which all of its calls to NCCL are made. NCCL is told not to block, so that the thread can always be told to
// abort; while something runs on the GPU, it asks now and then whether NCCL has met an error meanwhile.
//
// An all-reduce is made of sends, a kernel and an all-gather, because the order in which NCCL itself adds depends on
// the machine: rank r gets part r of all others, adds up in the order of collective.hpp, and everyone gathers the
// parts. As many bytes travel as around a ring. Small ones gather whole tensors, and everyone adds. Nothing waits for
// the host in between.
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

  // Aborts, unless it was left, and waits for the end of its thread: nothing of the device is touched any more.
  void shutdown();
  // It is of no use any more, and touches nothing of its device from now on.
  bool over() const;

 private:
  struct Operation {
    CollectiveSpec spec;
    Tensor local;
    Done done;
    std::vector<Tensor> results;
    std::vector<Tensor> scratch;  // memory that it needs while it runs
  };

  void main();
  void join();
  bool take(std::shared_ptr<Operation>& next);  // false: it is over
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
  NcclHandle comm_ = nullptr;         // of its thread
  std::optional<CudaStream> stream_;  // likewise
  std::vector<std::shared_ptr<Operation>>
      stranded_;  // failed while NCCL was told of them: it may use their memory until the abort
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Operation>> queue_;
  std::size_t in_flight_ = 0;  // started, and not finished
  Error failure_;
  bool leaving_ = false;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

class NcclMaker final : public CommunicatorMaker {
 public:
  NcclMaker(CudaDevice& device, CudaCollectives with) : device_(device), with_(std::move(with)) {}

  std::string description() override;
  std::string identity() override { return device_.properties().uuid; }
  CommunicatorId make_id() override;
  std::shared_ptr<DeviceCommunicator> join(const CommunicatorPlace& place, std::function<void(Error)> joined) override;
  // Aborts what was not left, and waits for the ends of all.
  void shutdown();

 private:
  CudaDevice& device_;
  const CudaCollectives with_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<NcclCommunicator>> all_;  // whoever lets go of one must not have to wait for its end
  bool closed_ = false;
};

}  // namespace troupe
