// The figures of an epoch: a frame, and what users see.
#pragma once

#include <cstdint>

#include <troupe/messages/fields.hpp>
#include <troupe/messages/receiver.hpp>

namespace troupe {

// Figures of a finished epoch, sent by the coordinator to every worker.
struct EpochDone {
  static constexpr Receiver kReceiver = Receiver::worker;
  std::uint32_t epoch = 0;
  std::uint32_t chief = 0;    // the lowest worker of the job: it reports to the user
  double loss = 0;            // mean over the accepted slots
  double train_accuracy = 0;  // mean over the accepted slots
  double test_accuracy = 0;
  double images_per_second = 0;  // excluding evaluation
  std::uint64_t steps = 0;       // so far
  double seconds = 0;            // so far
  std::uint64_t job = 0;
  TROUPE_FIELDS(epoch, chief, loss, train_accuracy, test_accuracy, images_per_second, steps, seconds, job)
};

}  // namespace troupe
