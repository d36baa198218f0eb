// The provenance of a shard's versions: the gradients applied to each, and those dropped. Only the last versions are
// kept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

enum class Fate : std::uint8_t {
  applied,
  duplicate,    // already staged or applied
  stale,        // its step was already applied
  uncommitted,  // its step used other slots
  fenced,       // its sender was no longer a member
};
std::string_view name(Fate fate);

// Gradients of one worker for one slot (asynchronous: for batch `step`) with the same fate.
struct SlotSource {
  std::uint32_t worker = 0;
  std::uint64_t step = 0;
  std::uint32_t phase = 0;
  std::uint32_t slot = 0;
  Fate fate = Fate::applied;
  std::uint64_t gradients = 0;  // one per slice
};

struct Provenance {
  std::uint64_t version = 0;
  std::vector<SlotSource> sources;  // the applied ones first, in summation order
  std::uint64_t left_out = 0;       // dropped gradients that are not listed
  // "version 7: applied step 6 slot 0 of worker 1 (3 gradients); dropped as stale step 6 slot 0 of worker 2 (1
  // gradient)"
  std::string to_string() const;
};

class ProvenanceBook {
 public:
  explicit ProvenanceBook(std::size_t versions) : limit_(versions) {}

  // Records a source for the version it went into or was meant for. Ignored if the version is too old to be kept.
  void note(std::uint64_t version, const SlotSource& source);
  // Null if the version is not kept.
  const Provenance* find(std::uint64_t version) const;
  // Removes and returns all versions up to `version`, in order.
  std::vector<Provenance> take(std::uint64_t version);
  // Whether this slot went into the version; nullopt if no longer known.
  std::optional<bool> applied(std::uint64_t version, std::uint32_t slot) const;

 private:
  std::size_t limit_;
  std::map<std::uint64_t, Provenance> versions_;
};

}  // namespace troupe
