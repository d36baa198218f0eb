// How a shard trains (shard_state.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include <troupe/graph/training/sparse_mean.hpp>
#include <troupe/scheduler/training/batch_set.hpp>
#include <troupe/scheduler/training/outgoing.hpp>
#include <troupe/scheduler/training/turns.hpp>

namespace troupe {

// Guards that tests disable to prove that they detect their absence.
struct ShardGuards {
  bool dedupe = true;       // a gradient of a slot, or a batch, counts once
  bool stale = true;        // a gradient of an earlier step is dropped; else it counts for this step
  bool versions = true;     // a gradient must be computed on the version of its step
  bool fence = true;        // a push or pull must be from a member
  bool own_updates = true;  // asynchronous: a worker's pull sees its earlier pushes
  bool commit = true;       // the coordinator chooses among backup slots; else the shard takes the first
  bool rows = true;         // a pull of rows at an earlier version gets them from before later updates
};

struct ShardOptions {
  TrainingMode mode = TrainingMode::synchronous;
  std::uint32_t shard = 0;      // its index
  std::uint32_t workers = 1;    // worker indices are below this
  std::uint32_t slots = 1;      // N; 1 if asynchronous
  std::uint32_t backups = 0;    // slots per turn beyond N; not asynchronous
  std::uint32_t phases = 1;     // of a step
  std::uint64_t staleness = 0;  // bounded_staleness only, in steps
  SparseMean sparse_mean = SparseMean::all_slots;
  std::uint64_t version = 0;  // of the initial values
  BatchSet applied;           // asynchronous: turns in the initial values, see own_turn()
  // Synchronous: keeps the values before the last update, for pulls of exactly that version. Needed when tokens of lost
  // workers are reassigned: the new worker may find one shard a step ahead of another, and must see the values its
  // predecessor saw. Costs the memory of the values once more, twice during an update (of slices that are updated by
  // rows: of these rows). Without it, a pull of an already updated slice waits for the next version.
  bool keep_previous = true;
  // Number of these: JobOptions::lookahead + 1, and those of turns passed over.
  std::uint32_t keep_versions = 1;
  // Asynchronous: number of batches averaged into one update of a phase. Batches left over at the end of training are
  // not applied.
  std::uint32_t accumulate = 1;
  // Asynchronous: scale the learning rate by 1 / staleness (Zhang et al., "Staleness-aware Async-SGD", IJCAI
  // 2016).
  bool scale_by_staleness = false;
  // Asynchronous: maximum number of incomplete turns per worker.
  std::size_t max_open_batches = 16;
  // Number of last versions with recorded provenance.
  std::size_t provenance = 1024;
  bool keep_history = false;  // record all versions for take_history()
  // Maximum number of parked pulls; further ones are refused.
  std::size_t max_parked = 1 << 16;
  ShardGuards guards;
};

}  // namespace troupe
