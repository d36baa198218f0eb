// The last messages handled by an actor. One or several threads write; any thread reads, even during a write: an entry
// being written may be read as a mix of two, which is transient and harmless.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <troupe/actors/base/message_kind.hpp>

namespace troupe {

struct FlightEntry {
  const MessageKind* kind = nullptr;
  std::int64_t at_ns = 0;  // steady clock
  MessageNote note;
};

class FlightRecord {
 public:
  static constexpr std::size_t kSize = 256;

  // For a single writer at a time; avoids a read-modify-write, which would wait for all earlier stores.
  void add(const MessageKind& kind, std::int64_t at_ns, const MessageNote& note) {
    const std::uint64_t next = next_.load(std::memory_order_relaxed);
    next_.store(next + 1, std::memory_order_relaxed);
    write(places_[next % kSize], kind, at_ns, note);
  }
  // For concurrent writers.
  void add_shared(const MessageKind& kind, std::int64_t at_ns, const MessageNote& note) {
    write(places_[next_.fetch_add(1, std::memory_order_relaxed) % kSize], kind, at_ns, note);
  }
  // Oldest first.
  std::vector<FlightEntry> entries() const;

 private:
  struct Place {
    std::atomic<const MessageKind*> kind{nullptr};
    std::atomic<std::int64_t> at_ns{0};
    std::atomic<std::uint64_t> step{0};
    std::atomic<std::uint64_t> bytes{0};
    std::array<std::atomic<std::uint64_t>, 2> from{};
  };
  static void write(Place& place, const MessageKind& kind, std::int64_t at_ns, const MessageNote& note) {
    constexpr auto relaxed = std::memory_order_relaxed;
    place.kind.store(&kind, relaxed);
    place.at_ns.store(at_ns, relaxed);
    place.step.store(note.step, relaxed);
    place.bytes.store(note.bytes, relaxed);
    place.from[0].store(note.from.bits[0], relaxed);
    place.from[1].store(note.from.bits[1], relaxed);
  }
  std::atomic<std::uint64_t> next_{0};
  std::array<Place, kSize> places_;
};

}  // namespace troupe
