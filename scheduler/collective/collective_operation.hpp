// One rank's part in one collective, as its group sees it: what other ranks send goes in, what is to be sent on comes
// out, and in the end there is a result. How it comes to that is the matter of those who derive from this:
// RankOperation, DeviceOperation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <troupe/devices/collective/collective.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// What one rank sends another. The tensor is flat; none: a word that needs no data.
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

  // What this rank sends without waiting for anyone. Call once, first.
  virtual void start(std::vector<CollectiveMessage>& out) = 0;
  // A message for this rank. Throws invalid_argument, without any change, for one that cannot be.
  virtual void take(CollectiveMessage message, std::vector<CollectiveMessage>& out) = 0;

  virtual std::uint64_t have() const = 0;  // of what has to come
  virtual std::uint64_t need() const = 0;
  bool done() const { return have() == need(); }
  // Is anything still needed of that rank?
  virtual bool awaits(std::uint32_t from) const = 0;
  // Is something missing that it sends without waiting for others? Then it has not begun this operation, or is stuck in
  // it.
  virtual bool owes(std::uint32_t from) const = 0;
  // What is missing, in words that "of" the operation may follow: "2 of 4 messages".
  virtual std::string missing() const = 0;
  // Once, when done: all_gather has a tensor of each rank, a barrier none, others one.
  virtual std::vector<Tensor> take_result() = 0;
};

}  // namespace troupe
