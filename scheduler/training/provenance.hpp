// Where the versions of a shard come from: what went into each, and what came for it and did not. The last versions are
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
  duplicate,    // had been staged or applied
  stale,        // its step was applied already
  uncommitted,  // its step used other slots
  fenced,       // its sender was no member any more
};
std::string_view name(Fate fate);

// Gradients of one worker for one slot (asynchronous: of batch `step`) that had the same fate.
struct SlotSource {
  std::uint32_t worker = 0;
  std::uint64_t step = 0;
  std::uint32_t slot = 0;
  Fate fate = Fate::applied;
  std::uint64_t gradients = 0;  // one for each slice
};

struct Provenance {
  std::uint64_t version = 0;
  std::vector<SlotSource> sources;  // the applied ones first, in the order in which they were added up
  std::uint64_t left_out = 0;       // gradients that were dropped and are not listed
  // "version 7: applied step 6 slot 0 of worker 1 (3 gradients); dropped as stale step 6 slot 0 of worker 2 (1
  // gradient)"
  std::string to_string() const;
};

class ProvenanceBook {
 public:
  explicit ProvenanceBook(std::size_t versions) : limit_(versions) {}

  // Of the version that the source was meant for, or went into. Too old a version is forgotten at once.
  void note(std::uint64_t version, const SlotSource& source);
  // Null if it is not kept.
  const Provenance* find(std::uint64_t version) const;
  // Takes out all versions up to `version`, in their order.
  std::vector<Provenance> take(std::uint64_t version);
  // Did this slot go into the version? None: it is not known any more.
  std::optional<bool> applied(std::uint64_t version, std::uint32_t slot) const;

 private:
  std::size_t limit_;
  std::map<std::uint64_t, Provenance> versions_;
};

}  // namespace troupe
