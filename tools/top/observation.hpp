// The state of a cluster at one moment: its snapshot, its rates, and the analysis of its waits.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/top/rates.hpp"

namespace troupe::top {

struct Observation {
  ClusterSnapshot snapshot;
  ClusterRates rates;
  WaitAnalysis waits;
};

// `before`: the previous snapshot, or null.
Observation observe(ClusterSnapshot snapshot, const ClusterSnapshot* before);

// Shard counters of gradients that were not used, as (key of ShardSnapshot::counts, word).
inline constexpr std::array<std::pair<const char*, const char*>, 6> kDropped = {{{"duplicates", "duplicate"},
                                                                                 {"stale", "stale"},
                                                                                 {"uncommitted", "not committed"},
                                                                                 {"fenced", "fenced"},
                                                                                 {"refused", "refused"},
                                                                                 {"abandoned", "abandoned"}}};

std::uint64_t count_of(const ShardSnapshot& shard, const std::string& key);
std::uint64_t dropped(const ShardSnapshot& shard);

// Totals of the cluster, over the tasks that have answered.
struct Totals {
  std::size_t tasks = 0, silent = 0, failed = 0;
  std::string mode, stage;  // "": not training
  std::uint64_t epoch = 0, epochs = 0, step = 0, steps = 0;
  bool job = false;            // a coordinator reports it
  std::optional<double> loss;  // of the latest step of any worker
  Rate steps_per_second, examples_per_second, bytes_per_second;
  std::map<std::string, std::uint64_t> gradients;  // ShardSnapshot::counts, added up
  std::vector<std::uint64_t> staleness;            // summed likewise
};
Totals totals(const Observation& observation);

// The workers that hold the slots a shard's next version waits for: "slot 1: worker/1". "" if none is missing.
std::string who_is_late(const ClusterSnapshot& snapshot, const ShardSnapshot& shard);

// The name without the prefix shared with its task: "CPU:0", "" for the task itself. Clean.
std::string name_in(const std::string& task, const std::string& name);

}  // namespace troupe::top
