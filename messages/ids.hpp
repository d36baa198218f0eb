// Identifiers. Strong types: a step cannot be passed as a session.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace troupe {

template <class Tag, class Integer = std::uint64_t>
struct Id {
  using integer = Integer;
  Integer value = 0;
  auto operator<=>(const Id&) const = default;
};

using SessionId = Id<struct SessionTag>;             // random, unique in a cluster
using GraphId = Id<struct GraphTag, std::uint32_t>;  // a registered graph (callable) of a session
using StepId = Id<struct StepTag>;                   // unique in a session
using EdgeId = Id<struct EdgeTag, std::uint32_t>;    // a tensor that crosses devices, unique in a registered graph
using Incarnation = Id<struct IncarnationTag>;       // random, new at every start of a task

// Random bits from the operating system.
std::uint64_t random_id();

// Names the meeting point of a tensor that crosses devices and its consumer.
struct RendezvousKey {
  SessionId session{};
  StepId step{};
  EdgeId edge{};
  auto operator<=>(const RendezvousKey&) const = default;
};

// Inputs from which random ops of a step derive their values, besides the node's name (docs/design/numerics.md).
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint32_t slot = 0;
  auto operator<=>(const RandomKey&) const = default;
};

}  // namespace troupe

template <class Tag, class Integer>
struct std::hash<troupe::Id<Tag, Integer>> {
  std::size_t operator()(const troupe::Id<Tag, Integer>& id) const noexcept { return std::hash<Integer>{}(id.value); }
};

template <>
struct std::hash<troupe::RendezvousKey> {
  std::size_t operator()(const troupe::RendezvousKey& key) const noexcept {
    std::uint64_t h = key.session.value ^ (key.step.value * 0x9e3779b97f4a7c15ull);
    h = (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9ull + key.edge.value;
    return static_cast<std::size_t>(h ^ (h >> 32));
  }
};
