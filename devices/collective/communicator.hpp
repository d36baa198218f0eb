// Collectives directly between the memory of devices, in this task and in others: an optional alternative to tensors
// that travel through the host. Results are bit-identical to those defined in collective.hpp, unless the device was
// made non-deterministic (AcceleratorOptions::deterministic).
//
// Making a group takes three steps, each by all ranks: they compare their devices' description() and identity(), rank 0
// makes an id, and every rank joins with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/devices/collective/collective.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// One rank's end of a group of devices. Operations run one after the other in the order they are submitted, which must
// be the same on all ranks. They wait for each other on the devices, invisibly to the host: the caller must ensure that
// all ranks submit theirs, and call abort() on learning that one will not. All methods are thread-safe and return at
// once.
class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;
  // `local`: in device memory, and already computed (Device::hand_over); for a broadcast, only the root passes one.
  // `done` is called once, on a thread of the device or before the call returns: with tensors in device memory, or an
  // error. An all-gather returns one tensor per rank, other operations one. Barriers are not supported.
  using Done = std::function<void(std::vector<Tensor>, Error)>;
  virtual void run(const CollectiveSpec& spec, Tensor local, Done done) = 0;
  // Fails all current and later operations on this rank with `why`; other ranks are not notified.
  virtual void abort(const Error& why) = 0;
  // Ends submission. Every rank must call it once all its operations have ended.
  virtual void leave() = 0;
  // Why the communicator is unusable; none while it works.
  virtual Error failure() const = 0;
};

using CommunicatorId = std::vector<std::byte>;

struct CommunicatorPlace {
  CommunicatorId id;
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;
};

// Makes communicators for one device. Thread-safe.
class CommunicatorMaker {
 public:
  virtual ~CommunicatorMaker() = default;
  // "NCCL 2.28.9": devices with different descriptions cannot work together. Throws unavailable with the reason if this
  // device cannot take part in any group.
  virtual std::string description() = 0;
  // Identifies the physical device: the ranks of a group must all differ.
  virtual std::string identity() = 0;
  // Called once, by rank 0 of a group. Throws.
  virtual CommunicatorId make_id() = 0;
  // Returns at once. `joined` is called once, on a thread of the device: when all ranks have joined, or with an error.
  // There is no deadline: abort() ends the wait for missing ranks. Throws if joining cannot begin.
  virtual std::shared_ptr<DeviceCommunicator> join(const CommunicatorPlace& place,
                                                   std::function<void(Error)> joined) = 0;
};

}  // namespace troupe
