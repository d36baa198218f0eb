// One rank's part in a collective, as its group sees it: takes messages from other ranks, produces messages to send,
// and finally a result. Subclasses implement the protocol: RankOperation, DeviceOperation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/devices/collective/collective.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// A message between ranks. The tensor is flat; none: a signal without data.
struct CollectiveMessage {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t hop = 0;
  std::uint32_t part = 0;
  std::uint32_t piece = 0;
  Tensor tensor;
};

class CollectiveOperation {
 public:
  virtual ~CollectiveOperation() = default;

  // Adds the messages that this rank sends without waiting for anyone. Call once, first.
  virtual void start(std::vector<CollectiveMessage>& out) = 0;
  // Takes a message for this rank. Throws invalid_argument, without any change, for an impossible one.
  virtual void take(CollectiveMessage message, std::vector<CollectiveMessage>& out) = 0;

  virtual std::uint64_t have() const = 0;  // of the messages and events needed
  virtual std::uint64_t need() const = 0;
  bool done() const { return have() == need(); }
  // Whether anything is still needed from that rank.
  virtual bool awaits(std::uint32_t from) const = 0;
  // Whether something is missing that the rank sends without waiting for others. If so, it has not begun this
  // operation, or is stuck in it.
  virtual bool owes(std::uint32_t from) const = 0;
  // What is missing, in words that "of" the operation may follow: "2 of 4 messages".
  virtual std::string missing() const = 0;
  // Call once, when done: all_gather has a tensor per rank, a barrier none, others one.
  virtual std::vector<Tensor> take_result() = 0;
};

}  // namespace troupe
