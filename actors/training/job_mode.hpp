// How a job trains: one struct for each mode, with the options that this mode has.
//
//   model.fit(data, {.mode = SyncMode{.slots = 4, .backups = 1, .servers = {.on_loss = OnLoss::wait}}, .epochs = 5});
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace troupe {

// Says how a job takes the loss of a task. fail: ends the job. shrink: a worker's tokens go to the others, and it may
// rejoin at any time. wait: its tokens are kept for rejoin_timeout, then go to the others. With shrink and wait, when a
// ps task is lost, all others wait for it to return and resume with it from where the job can continue. The final
// parameters are those of an undisturbed job.
enum class OnLoss : std::uint8_t { fail, shrink, wait };

// Of the modes that need a cluster with at least one ps task.
struct ParameterServers {
  std::chrono::nanoseconds join_timeout = std::chrono::seconds(60);
  // How long training may make no progress before it fails on every task, naming the missing ones. 0: no limit.
  std::chrono::nanoseconds step_timeout = std::chrono::minutes(10);
  // Training starts when this many workers have joined; the others may join at any time. 0: all, or those present at
  // the join timeout unless on_loss is fail.
  int min_workers = 0;
  OnLoss on_loss = OnLoss::shrink;
  std::chrono::nanoseconds rejoin_timeout = std::chrono::seconds(10);  // how long to wait for a lost task
  // A directory for the history of the parameters; "": none. Each ps task writes a file that lists for every version
  // the gradients (worker, step, slot) applied and those dropped (ProvenanceLog); with backup slots the coordinator
  // writes the file `commits`, which lists the slots that each step used.
  std::string provenance{};
};

// One process computes all slots (towers).
struct LocalMode {
  static constexpr std::string_view kName = "local";
  int slots = 1;  // N per step
};

// Applies the mean of the slots of a step, in their order.
struct SyncMode {
  static constexpr std::string_view kName = "sync";
  int slots = 0;  // N per step; 0: the number of workers less the backups
  // Extra slots per step. A step uses the first N that arrive, so slow workers do not hold it up. Which ones depends on
  // timing, and so do the parameters.
  int backups = 0;
  // With backups: a file `commits`. Its steps use the same slots again and so give the same bits.
  std::string replay{};
  ParameterServers servers{};
};

// The same, with workers that may be some steps ahead.
struct SspMode {
  static constexpr std::string_view kName = "ssp";
  int staleness = 1;  // at most, of a step's parameters, in steps; 0: as SyncMode
  int slots = 0;
  int backups = 0;
  std::string replay{};
  ParameterServers servers{};
};

// Applies each batch when it arrives.
struct AsyncMode {
  static constexpr std::string_view kName = "async";
  int aggregate = 1;  // batches per update, which applies their mean. An incomplete last group is dropped.
  // Divides an update's learning rate by the staleness of its batches: the number of updates since the parameters they
  // were computed on (Zhang et al., "Staleness-aware Async-SGD", IJCAI 2016).
  bool staleness_aware = false;
  ParameterServers servers{};
};

// A cluster of workers only, each with all parameters and one slot per step.
struct AllReduceMode {
  static constexpr std::string_view kName = "allreduce";
  std::chrono::nanoseconds step_timeout = std::chrono::minutes(10);  // as ParameterServers::step_timeout
};

using JobMode = std::variant<LocalMode, SyncMode, SspMode, AsyncMode, AllReduceMode>;

inline std::string_view name(const JobMode& mode) {
  return std::visit([]<class Mode>(const Mode&) { return Mode::kName; }, mode);
}

// Null if the mode has none.
inline const ParameterServers* servers_of(const JobMode& mode) {
  return std::visit(
      []<class Mode>(const Mode& m) -> const ParameterServers* {
        if constexpr (requires { m.servers; })
          return &m.servers;
        else
          return nullptr;
      },
      mode);
}

}  // namespace troupe
