// The figures of an epoch.
#pragma once

#include <cstdint>

#include <troupe/messages/fields.hpp>
#include <troupe/messages/named_sums.hpp>
#include <troupe/messages/receiver.hpp>

namespace troupe {

// The decision after an epoch: how the job goes on (scheduler/training/epoch_control.hpp).
struct EpochDecision {
  bool stop = false;      // it was the last
  bool keep = false;      // training ends with the values of now, unless a later epoch is kept
  double rate_scale = 1;  // factor of all learning rates in later epochs
  TROUPE_FIELDS(stop, keep, rate_scale)
  bool operator==(const EpochDecision&) const = default;
};

// Figures of a finished epoch, sent by the coordinator to every worker. Times exclude evaluation, except `seconds`.
struct EpochDone {
  static constexpr Receiver kReceiver = Receiver::worker;
  std::uint32_t epoch = 0;
  std::uint32_t chief = 0;         // the lowest worker of the job: it reports to the user
  NamedSums training;              // over the accepted slots, in the order of steps, phases and slots
  NamedSums evaluation;            // over the evaluated batches, in order
  std::uint64_t examples = 0;      // trained on in this epoch
  double examples_per_second = 0;  // in this epoch
  std::uint64_t steps = 0;         // so far
  double seconds = 0;              // so far
  EpochDecision decision;          // what follows from the figures of this and earlier epochs
  std::uint64_t job = 0;
  TROUPE_FIELDS(epoch, chief, training, evaluation, examples, examples_per_second, steps, seconds, decision, job)
};

}  // namespace troupe
