// A group of tasks that run collectives on tensors, each calling the same functions in the same order:
//
//   CollectiveGroup group(task, "job", {{"worker", 0}, {"worker", 1}});
//   Tensor sum = group.all_reduce(gradient, Reduction::mean, "gradient");
//
// Results do not depend on timing (devices/collective/collective.hpp). Ranks that disagree about an operation's name,
// dtype, shape or kind all get an error showing both; the loss of a rank is an error naming it. After an error the
// group is unusable on every rank.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/devices/collective/collective.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

class CommunicatorMaker;
class Contribution;

struct CollectiveGroupOptions {
  // Timeout of each call; for operations of steps, the longest time without progress. 0: none.
  std::chrono::nanoseconds timeout = std::chrono::minutes(2);
  const std::atomic<bool>* stop = nullptr;  // when set, calls soon throw Code::cancelled
};

// Not thread-safe; operations of steps (op Contribute) may run concurrently with its calls.
class CollectiveGroup {
 public:
  // `members`, by rank, are tasks of the cluster that `task` has joined, including `task`. Name and members must be the
  // same on all ranks; several groups with the same ones are matched by order. Throws invalid_argument.
  CollectiveGroup(Task& task, const std::string& name, std::vector<TaskName> members,
                  const CollectiveGroupOptions& options = {});
  // Leaves the group. Later calls on other ranks get an error.
  ~CollectiveGroup();
  CollectiveGroup(const CollectiveGroup&) = delete;
  CollectiveGroup& operator=(const CollectiveGroup&) = delete;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(members_.size()); }
  std::uint64_t id() const { return id_; }

  // Moves tensors from GPU to GPU without the host: joins the first device with communicators
  // (devices/collective/communicator.hpp) of every task. If one task has none that can, all tensors go through the
  // host. All ranks must call it, at the same place. Returns the outcome for people: "tensors go from GPU to GPU over
  // NCCL 2.28.9", "through the host: rank 1 (...) has no GPU"; "" if no task has a GPU. Throws as the calls below, also
  // if capable devices fail to join.
  std::string join_devices();
  // The device whose tensors bypass the host, on all ranks; null: none.
  Device* device() const { return device_; }

  // Each blocks until this rank has the result, and throws Error. On all ranks, tensors are either in host memory or
  // complete in the memory of device() (Device::hand_over); the result is in the same place.
  Tensor all_reduce(Tensor tensor, Reduction reduction, const std::string& name);
  // Returns the root's tensor on every rank; tensors of other ranks only give dtype, shape, and whether they are on
  // device().
  Tensor broadcast(Tensor tensor, std::uint32_t root, const std::string& name);
  std::vector<Tensor> all_gather(Tensor tensor, const std::string& name);  // by rank
  void barrier(const std::string& name);

  // Ends the group on all ranks with this error.
  void fail(const Error& error);

 private:
  std::vector<Tensor> run(const CollectiveSpec& spec, Tensor tensor, bool on_devices);
  std::vector<Tensor> run(std::shared_ptr<Contribution> contribution);
  Device* able_device() const;
  std::vector<std::byte> shared_id(CommunicatorMaker& maker);

  Task& task_;
  const std::vector<TaskName> members_;
  const CollectiveGroupOptions options_;
  std::uint32_t rank_ = 0;
  std::uint64_t id_ = 0;
  Device* device_ = nullptr;
};

}  // namespace troupe
