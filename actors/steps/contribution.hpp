// What the client, the devices and the collective actor of one task hand to each other about collectives. In-process
// only.
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

// This task's place in a group that is to be opened.
class GroupPlace final : public LocalWork {
 public:
  std::string name;
  std::vector<TaskName> members;        // by rank, the same on all of them
  std::chrono::nanoseconds timeout{0};  // for how long nothing may come while an operation waits; 0: for ever
};

struct CollectiveResult {
  Error error;
  std::vector<Tensor> tensors;  // RankOperation::take_result
};

// A task's part in one operation. One that is dropped on its way, because its task has shut down, is answered too.
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
  // Without a number the operation is the next of its channel.
  std::uint32_t channel = 0;
  std::optional<std::uint64_t> sequence;
  CollectiveSpec spec;
  Tensor tensor;
  // The tensor is in the memory of the device that the group has joined, made already; so is the result. The same on
  // all ranks.
  bool on_devices = false;
  // With a spec that is a barrier: this rank's device joins those of the others, with this id.
  CommunicatorMaker* joins = nullptr;
  CommunicatorId id;
  // Where the result is wanted: at a rendezvous key (of an all-reduce or a broadcast), or by `done`, which is called
  // once, on a thread of the runtime or of the client: short, and throws nothing.
  std::optional<RendezvousKey> key;
  std::function<void(CollectiveResult)> done;
};

}  // namespace troupe
