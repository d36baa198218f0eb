// What the stages of a source of batches have done.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace troupe {

struct StageFigures {
  std::string name{};
  std::uint64_t elements = 0;         // made; of sources: read; of shuffle and the like: passed on
  std::uint64_t busy_ns = 0;          // of all threads, without the stage's inputs; an estimate
  std::uint64_t held_bytes = 0;       // in buffers of readers that are open, and in caches
  std::uint64_t skipped_records = 0;  // damaged, left out
};

struct SlowestStage {
  std::string name{};
  double share = 0;  // of the busy time of all stages
};

// nullopt: no time was measured.
std::optional<SlowestStage> slowest_stage(std::span<const StageFigures> stages);

}  // namespace troupe
