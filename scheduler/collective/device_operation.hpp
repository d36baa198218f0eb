// One rank's part in a collective whose tensors go from device to device (devices/collective/communicator.hpp): the
// ranks only agree here when to start.
//
//   every rank   tells all others that it has begun: its tensor is ready
//   rank 0       once all have, numbers the operation and tells all others
//   every rank   hands it to its communicator, in the order of the numbers
//
// So no device waits for another whose program does something else, or has ended; ranks that disagree get an error
// message, as usual; and operations run in one order on all ranks, regardless of the order in which each began those of
// its channels. There is no cyclic wait: a numbered operation needs only those with smaller numbers, and nothing from
// any program.
#pragma once

#include <optional>

#include <troupe/scheduler/collective/collective_operation.hpp>

namespace troupe {

class DeviceOperation final : public CollectiveOperation {
 public:
  // `local`: as for DeviceCommunicator::run.
  DeviceOperation(CollectiveSpec spec, std::uint32_t rank, std::uint32_t ranks, Tensor local);

  void start(std::vector<CollectiveMessage>& out) override;
  void take(CollectiveMessage message, std::vector<CollectiveMessage>& out) override;

  const CollectiveSpec& spec() const { return spec_; }
  Tensor take_local() { return std::move(local_); }
  bool all_have_begun() const { return missing_words_ == 0; }
  // Its position among the operations between these devices, wrapping after 2^32. None: rank 0 has not numbered it yet.
  std::optional<std::uint32_t> number() const { return number_; }
  // On rank 0, once all have begun.
  void give_number(std::uint32_t number, std::vector<CollectiveMessage>& out);
  // The devices have completed it.
  void ended(std::vector<Tensor> result);

  std::uint64_t have() const override { return need() - missing_words_ - (number_ ? 0 : 1) - (ended_ ? 0 : 1); }
  std::uint64_t need() const override { return ranks_ + 1; }  // signals of the others, a number, the result
  // Until the end: devices need each other throughout.
  bool awaits(std::uint32_t from) const override { return from != rank_ && !ended_; }
  bool owes(std::uint32_t from) const override {
    return from != rank_ && (!begun_[from] || (from == 0 && all_have_begun() && !number_));
  }
  std::string missing() const override;
  std::vector<Tensor> take_result() override { return std::move(result_); }

 private:
  CollectiveSpec spec_;
  std::uint32_t rank_;
  std::uint32_t ranks_;
  Tensor local_;
  std::vector<bool> begun_;  // by rank
  std::uint32_t missing_words_;
  std::optional<std::uint32_t> number_;
  bool ended_ = false;
  std::vector<Tensor> result_;
};

}  // namespace troupe
