// One rank's part in a collective: takes the local tensor and messages from other ranks, produces messages to send, and
// finally the result. A plain class without time or threads; messages may arrive in any order.
//
//   all_reduce, large   around the ring. Part p starts at rank p. On hops 0 .. N-2 each rank adds its own; the last of
//                       them has the result, which continues around the ring on hops N-1 .. 2N-3.
//   all_reduce, small;  every rank sends everything to every other, and all compute the same.
//   all_gather; barrier
//   broadcast           from the root around the ring, one signal if there are no elements; the last rank confirms to
//                       the root that it has arrived.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <troupe/messages/codec.hpp>
#include <troupe/scheduler/collective/collective_operation.hpp>

namespace troupe {

class RankOperation final : public CollectiveOperation {
 public:
  // `local`: this rank's tensor, with the spec's dtype and shape (barrier: none; broadcast: used at the root only). If
  // nothing else holds it, it becomes the result. `allocate` provides memory for results. The spec must have been
  // checked.
  RankOperation(CollectiveSpec spec, std::uint32_t rank, std::uint32_t ranks, Tensor local, TensorAllocator allocate);

  void start(std::vector<CollectiveMessage>& out) override;
  // Throws for a message from the wrong rank, with another dtype or size, or received before. Adds into the message's
  // tensor if nothing else holds it.
  void take(CollectiveMessage message, std::vector<CollectiveMessage>& out) override;

  const CollectiveSpec& spec() const { return spec_; }
  std::uint64_t have() const override { return have_; }  // messages received
  std::uint64_t need() const override { return need_; }
  bool awaits(std::uint32_t from) const override { return missing_[from] > 0; }
  bool owes(std::uint32_t from) const override;
  std::string missing() const override { return fmt::format("{} of {} messages", need_ - have_, need_); }
  std::vector<Tensor> take_result() override { return std::move(result_); }

 private:
  bool is_direct() const;
  std::uint32_t broadcast_pieces() const { return std::max(cut_.pieces(0), 1u); }
  void expect(std::uint32_t from, std::uint64_t messages);
  std::size_t slot_of(const CollectiveMessage& message) const;
  void check(const CollectiveMessage& message, std::size_t slot) const;
  std::uint32_t previous() const { return (rank_ + ranks_ - 1) % ranks_; }
  std::uint32_t next() const { return (rank_ + 1) % ranks_; }
  // This rank's distance around the ring from another.
  std::uint32_t distance(std::uint32_t from) const { return (rank_ + ranks_ - from) % ranks_; }
  void send(std::vector<CollectiveMessage>& out, std::uint32_t to, std::uint32_t hop, std::uint32_t part,
            std::uint32_t piece, Tensor tensor) const;
  void take_sum(CollectiveMessage message, std::vector<CollectiveMessage>& out);
  // Keeps a piece of the result, or the signal of one without elements, and forwards it.
  void take_result_piece(const CollectiveMessage& message, std::vector<CollectiveMessage>& out);
  void take_whole(const CollectiveMessage& message);
  void reduce_directly();
  void finish();

  CollectiveSpec spec_;
  std::uint32_t rank_;
  std::uint32_t ranks_;
  CollectiveCut cut_;
  TensorAllocator allocate_;
  Tensor local_;                        // flat
  Tensor total_;                        // flat, for a ring
  std::vector<Tensor> wholes_;          // flat, by rank: for exchanges between all ranks
  std::vector<bool> seen_;              // by slot_of
  std::vector<std::size_t> first_;      // by part: its first slot
  std::vector<std::uint64_t> missing_;  // messages, by sender
  std::uint64_t have_ = 0;
  std::uint64_t need_ = 0;
  std::vector<Tensor> result_;
};

}  // namespace troupe
