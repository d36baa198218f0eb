// A group of tasks that work on tensors together, each calling the same functions in the same order:
//
//   CollectiveGroup group(task, "job", {{"worker", 0}, {"worker", 1}});
//   Tensor sum = group.all_reduce(gradient, Reduction::mean, "gradient");
//
// What comes of it does not depend on timing (devices/collective/collective.hpp). Ranks that do not agree about name,
// dtype, shape or kind of an operation all get an error that shows both; the loss of a rank is an error that names it.
// After an error the group is of no use any more, on any rank.
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
  // Of each call; of operations of steps, for how long nothing may come. 0: none.
  std::chrono::nanoseconds timeout = std::chrono::minutes(2);
  const std::atomic<bool>* stop = nullptr;  // set: calls throw Code::cancelled soon
};

// For one thread at a time; operations of steps (op Contribute) may be under way beside it.
class CollectiveGroup {
 public:
  // `members`, by rank, are tasks of the cluster that `task` has joined, itself among them. The same name and members
  // on all of them; several groups of the same are told apart by their order. Throws invalid_argument.
  CollectiveGroup(Task& task, const std::string& name, std::vector<TaskName> members,
                  const CollectiveGroupOptions& options = {});
  // Leaves. Other ranks get an error if they call on.
  ~CollectiveGroup();
  CollectiveGroup(const CollectiveGroup&) = delete;
  CollectiveGroup& operator=(const CollectiveGroup&) = delete;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(members_.size()); }
  std::uint64_t id() const { return id_; }

  // Lets tensors go from GPU to GPU, past the host: the first device of each task that has communicators
  // (devices/collective/communicator.hpp) joins those of the others. If one of them cannot, none does, and all goes on
  // through the host. All ranks call it, at the same place. Returns what has come of it, for people: "tensors go from
  // GPU to GPU over NCCL 2.28.9", "through the host: rank 1 (...) has no GPU"; "" if no task has a GPU. Throws as the
  // calls below, also if devices that should be able to do it fail.
  std::string join_devices();
  // Whose tensors go past the host, on all ranks; null: none do.
  Device* device() const { return device_; }

  // Each blocks until this rank has the result, and throws Error. Tensors are in host memory, on all ranks, or in that
  // of device(), on all ranks and then whole (Device::hand_over): so is the result.
  Tensor all_reduce(Tensor tensor, Reduction reduction, const std::string& name);
  // Everyone gets the root's tensor; that of others only says dtype, shape, and whether it is device()'s.
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
