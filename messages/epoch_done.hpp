// The figures of an epoch: a frame, and what users are told.
#pragma once

#include <cstdint>

#include <troupe/messages/fields.hpp>
#include <troupe/messages/receiver.hpp>

namespace troupe {

// Figures of a finished epoch, coordinator to every worker.
struct EpochDone {
  static constexpr Receiver kReceiver = Receiver::worker;
  std::uint32_t epoch = 0;
  std::uint32_t chief = 0;    // the lowest worker of the job: it tells the user
  double loss = 0;            // mean over the accepted slots
  double train_accuracy = 0;  // likewise
  double test_accuracy = 0;
  double images_per_second = 0;  // without evaluation
  std::uint64_t steps = 0;       // so far
  double seconds = 0;            // so far
  std::uint64_t job = 0;
  TROUPE_FIELDS(epoch, chief, loss, train_accuracy, test_accuracy, images_per_second, steps, seconds, job)
};

}  // namespace troupe
