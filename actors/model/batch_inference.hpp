// Predictions for a whole source of examples, batch after batch, on all devices of a cluster's workers.
//
//   Task task({.name = {"client", 0}, .networked = true});
//   task.join(ClusterSpec::read("nodes.json"), std::chrono::seconds(60), "worker");
//   const LoadedModel model = load_model("digits", {.task = &task});
//   Tensor scores = model.predict("predict", source, {.batch = 256}).at("logits");
//
// Each device has a replica of the model's graph, which is sent there once with the model's values. Batches go to
// whatever replica is free. A lost worker loses nothing but time: its batches are computed by others, and it computes
// again once it is back. Results come in the order of the source, each example exactly once, with the bits that one
// device of the same kind comes to. Memory is bounded: at most `window` batches are there at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

struct BatchInferenceProgress {
  std::uint64_t batches = 0, examples = 0;      // whose results have been handed out
  std::optional<std::uint64_t> all_examples{};  // of the source; nullopt: unknown
  std::size_t devices = 0, all_devices = 0;     // those that compute now, and with those that are lost
  std::uint64_t started_again = 0;              // batches of lost devices
};

struct BatchInferenceOptions {
  std::int64_t batch = 0;  // examples; 0: as many as the source or the model says, else 32
  // Whose devices compute: the GPUs, or else the CPU devices, of the tasks of this job that the model's task has met;
  // of the model's task itself if that is in no cluster.
  std::string job = "worker";
  std::size_t in_flight = 2;  // batches that a device has at a time
  std::size_t window = 0;     // batches that are read and not handed out; 0: twice those in flight on all devices
  bool repeat_slow = true;    // idle devices compute batches that slower ones have not finished, too
  // How long to wait for a device if all are lost. Then the call fails with unavailable, and says how far it came.
  std::chrono::nanoseconds rejoin_timeout = std::chrono::seconds(60);
  // A batch that so many devices have had when they were lost fails the call: it may be what ends them.
  int losses_of_batch = 5;
  // Called by the calling thread for each batch that is done and each device that comes or is lost; what it throws ends
  // the call.
  std::function<void(const BatchInferenceProgress&)> on_progress{};
  // Likewise, with what happens to devices, for people; and while all are lost, every `wait_word`. Default: a line on
  // stderr.
  std::function<void(const std::string&)> on_event = write_wait;
  std::chrono::nanoseconds wait_word = std::chrono::seconds(5);
};

// The results of a batch.
struct PredictedBatch {
  std::uint64_t number = 0, first_example = 0;
  std::int64_t examples = 0;
  std::map<std::string, Tensor> outputs{};
};
// Takes one after the other, in the order of the source; what it throws ends the call.
using TakePredictions = std::function<void(PredictedBatch&&)>;

}  // namespace troupe
