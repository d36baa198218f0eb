// What a model has of its training: the parameters, and from one fit to the next where that goes on.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/training/parameters.hpp>
#include <troupe/scheduler/training/job_state.hpp>
#include <troupe/scheduler/training/shard_state.hpp>

namespace troupe {

// Values of a parameter shard, between two updates: handles, which cost no memory until the shard writes.
struct ShardValues {
  struct Slice {
    Tensor value;
    std::vector<Tensor> slots;  // of the optimizer
    std::int64_t skipped = 0;   // updates that were none
  };
  std::map<std::uint32_t, Slice> slices;  // by id
  ShardState::Cut cut;
};

struct TrainingState {
  // Of the model; empty: none yet. In modes of parameter servers: on the chief.
  Parameters parameters;
  // While callbacks of a training run, on their thread: the parameters of now. Null: nobody trains.
  std::function<Parameters()> read;

  // Where a training has ended, for another of the same settings that goes on as if they were one.
  struct Ended {
    JobState at;
    std::map<std::string, Tensor> variables;   // all of the graph; modes local and allreduce
    std::shared_ptr<const ShardValues> shard;  // of a ps task
  };
  std::optional<Ended> ended;
  std::string settings;  // of `ended`
};

// `state.read` while it lives.
class ReadableState {
 public:
  ReadableState(TrainingState& state, std::function<Parameters()> read) : state_(state) {
    state_.read = std::move(read);
  }
  ~ReadableState() { state_.read = nullptr; }
  ReadableState(const ReadableState&) = delete;
  ReadableState& operator=(const ReadableState&) = delete;

 private:
  TrainingState& state_;
};

}  // namespace troupe
