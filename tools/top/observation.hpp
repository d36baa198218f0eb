// What is known of a cluster at an instant: its snapshot, how fast it goes, and why what waits in it waits.
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

// `before`: the snapshot before this one, or null.
Observation observe(ClusterSnapshot snapshot, const ClusterSnapshot* before);

// Counters of shards that count gradients which were not used, as (key of ShardSnapshot::counts, word).
inline constexpr std::array<std::pair<const char*, const char*>, 6> kDropped = {{{"duplicates", "duplicate"},
                                                                                 {"stale", "stale"},
                                                                                 {"uncommitted", "not committed"},
                                                                                 {"fenced", "fenced"},
                                                                                 {"refused", "refused"},
                                                                                 {"abandoned", "abandoned"}}};

std::uint64_t count_of(const ShardSnapshot& shard, const std::string& key);
std::uint64_t dropped(const ShardSnapshot& shard);

// Of the whole cluster, from the tasks that have answered.
struct Totals {
  std::size_t tasks = 0, silent = 0, failed = 0;
  std::string mode, stage;  // "": nothing is trained
  std::uint64_t epoch = 0, epochs = 0, step = 0, steps = 0;
  bool job = false;            // a coordinator tells of it
  std::optional<double> loss;  // of the last step that anybody has done
  Rate steps_per_second, examples_per_second, bytes_per_second;
  std::map<std::string, std::uint64_t> gradients;  // ShardSnapshot::counts, added up
  std::vector<std::uint64_t> staleness;            // likewise
};
Totals totals(const Observation& observation);

// Which workers hold the slots that a shard's next version waits for: "slot 1: worker/1". "" if none is missing.
std::string who_is_late(const ClusterSnapshot& snapshot, const ShardSnapshot& shard);

// The name without what it shares with its task: "CPU:0", "" for the name of the task itself. Clean.
std::string name_in(const std::string& task, const std::string& name);

}  // namespace troupe::top
