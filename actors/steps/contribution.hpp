// Messages about collectives between the client, the devices and the collective actor of one task. In-process only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/devices/collective/communicator.hpp>
#include <troupe/messages/device_name.hpp>
#include <troupe/messages/ids.hpp>
#include <troupe/messages/local.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// This task's membership in a group to open.
class GroupPlace final : public LocalWork {
 public:
  std::string name;
  std::vector<TaskName> members;        // by rank, identical on all members
  std::chrono::nanoseconds timeout{0};  // longest wait of an operation without progress; 0: unlimited
};

struct CollectiveResult {
  Error error;
  std::vector<Tensor> tensors;  // RankOperation::take_result
};

// A task's part in one operation. Answers with an error if dropped because its task has shut down.
class Contribution final : public LocalWork {
 public:
  Contribution() = default;
  Contribution(const Contribution&) = delete;
  Contribution& operator=(const Contribution&) = delete;
  ~Contribution() override {
    answer(
        {.error = Error(Code::cancelled, "the task has shut down, or its collective actor has failed"), .tensors = {}});
  }

  void answer(CollectiveResult result) {
    if (auto call = std::exchange(done, nullptr)) call(std::move(result));
  }

  std::uint64_t group = 0;
  // Without a sequence number, the operation is the next of its channel.
  std::uint32_t channel = 0;
  std::optional<std::uint64_t> sequence;
  CollectiveSpec spec;
  Tensor tensor;
  // True if the tensor, complete, is in the memory of the device that joined the group; the result goes there too. The
  // same on all ranks.
  bool on_devices = false;
  // With a barrier's spec: connects this rank's device with those of the other ranks, under this id.
  CommunicatorMaker* joins = nullptr;
  CommunicatorId id;
  // Destination of the result: a rendezvous key (all-reduce or broadcast), or `done`, called once on a runtime or
  // client thread: keep it short; it must not throw.
  std::optional<RendezvousKey> key;
  std::function<void(CollectiveResult)> done;
};

}  // namespace troupe
