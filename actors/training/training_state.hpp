// The training state of a model: its parameters, and where the next fit() continues.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/training/parameters.hpp>
#include <troupe/actors/training/row_draws.hpp>
#include <troupe/scheduler/training/job_state.hpp>
#include <troupe/scheduler/training/shard_state.hpp>

namespace troupe {

// Values of a parameter shard between two updates: handles, which take no memory until the shard writes.
struct ShardValues {
  struct Slice {
    Tensor numbers;  // of a slice on demand: the rows that the others have
    Tensor value;
    std::vector<Tensor> slots;  // of the optimizer
    std::int64_t skipped = 0;   // updates skipped
  };
  std::map<std::uint32_t, Slice> slices;  // by id
  ShardState::Cut cut;
};

struct TrainingState {
  // The model's; empty: none yet. In modes with parameter servers: on the chief.
  Parameters parameters;
  // First values of those on demand, by name (params_sha256); the tables that are not among `parameters`, as they
  // stayed on the shards.
  std::map<std::string, RowDraws> draws{};
  std::vector<std::string> on_shards{};
  // Returns the current parameters; for callbacks of a running training, on their thread. Null: no training is running.
  std::function<Parameters()> read;

  // Where a training ended, so that another with the same settings continues as if they were one.
  struct Ended {
    JobState at;
    std::map<std::string, Tensor> variables;   // all of the graph; modes local and allreduce
    std::shared_ptr<const ShardValues> shard;  // of a ps task
  };
  std::optional<Ended> ended;
  std::string settings;  // of `ended`
};

// Sets `state.read` during its lifetime.
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
