// Collectives straight from the memory of one device to that of others, in this task and in others: what a device may
// offer in place of tensors that travel through the host. What comes of them is what collective.hpp says, to the bit,
// unless the device was made to care for speed only (AcceleratorOptions::deterministic).
//
// A group of devices is made in three steps, each by all its ranks: they compare what their devices say (description(),
// identity()), rank 0 makes an id, and every rank joins with it.
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

// One rank's end of a group of devices. Operations run one after the other in the order in which they are given, which
// must be the same on all ranks. They wait for each other on the devices, which nobody sees: who gives one must know
// that all ranks give theirs, and calls abort() when he hears that one does not any more. All methods are thread-safe
// and return at once.
class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;
  // `local`: in the memory of the device, what makes it has ended (Device::hand_over); of a broadcast the root's, of
  // others none. `done` is called once, on a thread of the device or at once: with tensors in its memory, or an error.
  // An all-gather has one of each rank, others have one. A barrier cannot be given.
  using Done = std::function<void(std::vector<Tensor>, Error)>;
  virtual void run(const CollectiveSpec& spec, Tensor local, Done done) = 0;
  // Ends all that runs or is given later with `why`, here; other ranks notice nothing of it.
  virtual void abort(const Error& why) = 0;
  // Nothing more will be given. Every rank has to do so, once all it gave has ended.
  virtual void leave() = 0;
  // Why it is of no use any more; none while it works.
  virtual Error failure() const = 0;
};

using CommunicatorId = std::vector<std::byte>;

struct CommunicatorPlace {
  CommunicatorId id;
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;
};

// Makes communicators of one device. Thread-safe.
class CommunicatorMaker {
 public:
  virtual ~CommunicatorMaker() = default;
  // "NCCL 2.28.9": devices whose descriptions differ cannot work together. Throws unavailable, saying why this one
  // cannot with any.
  virtual std::string description() = 0;
  // Of this very piece of hardware: two ranks of a group must not have the same.
  virtual std::string identity() = 0;
  // For rank 0 of a group, once. Throws.
  virtual CommunicatorId make_id() = 0;
  // Returns at once; `joined` is called once, on a thread of the device: when all ranks have joined, or with an error.
  // There is no deadline: abort() ends a wait for ranks that do not come. Throws what keeps it from beginning.
  virtual std::shared_ptr<DeviceCommunicator> join(const CommunicatorPlace& place,
                                                   std::function<void(Error)> joined) = 0;
};

}  // namespace troupe
