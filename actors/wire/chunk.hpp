// Chunks, the units of a connection. A frame travels as one or more chunks of one class; chunks of different classes
// interleave, so that a small frame does not wait for the end of a large one.
//
//   chunk    u8 class, u8 flags (1: first of its frame, 2: last), u16 zero, u32 length (1 .. kMaxChunk); content
//
// Order. Classes have strict priority: control before small before bulk. Frames of one class arrive in the order sent.
// Put frames of one (session, edge), and Push frames of one (worker, slice), arrive in the order sent regardless of
// size: a small one waits behind a bulk one of the same edge (it joins the bulk class), and a bulk one never passes a
// small one. Otherwise a control frame may overtake anything and a small one may overtake bulk: an abort or a token may
// arrive before tensors sent earlier.
#pragma once

#include <cstddef>
#include <cstdint>

#include <troupe/messages/codec.hpp>
#include <troupe/messages/overloaded.hpp>

namespace troupe::wire {

enum class FrameClass : std::uint8_t { control = 0, small = 1, bulk = 2 };
inline constexpr std::size_t kFrameClasses = 3;

inline constexpr std::size_t kChunkHeaderBytes = 8;
inline constexpr std::size_t kMaxChunk = 256 << 10;     // content bytes
inline constexpr std::size_t kSmallPayload = 64 << 10;  // largest payload of class small
inline constexpr std::uint8_t kFirstChunk = 1;
inline constexpr std::uint8_t kLastChunk = 2;

// The class of a frame if nothing of its edge is queued. Put, Push, BatchMade and a CollectivePart without an error
// carry tensors, ControlBytes graphs; everything else is control.
inline FrameClass classify(const Frame& frame, std::uint64_t payload_bytes) {
  if (payload_bytes > kSmallPayload) return FrameClass::bulk;
  const Overloaded carries_data{[](const Put&) { return true; },
                                [](const Push&) { return true; },
                                [](const ControlBytes&) { return true; },
                                [](const BatchMade&) { return true; },
                                [](const CollectivePart& part) { return !part.error; },
                                [](const auto&) { return false; }};
  return std::visit(carries_data, frame) ? FrameClass::small : FrameClass::control;
}

// True if a frame may arrive in chunks of this class: its own, or bulk for a small frame queued behind others of its
// edge.
inline bool may_travel_as(FrameClass frame_class, const Frame& frame, std::uint64_t payload_bytes) {
  const FrameClass own = classify(frame, payload_bytes);
  return frame_class == own || (frame_class == FrameClass::bulk && own == FrameClass::small);
}

// Frames with the same nonzero key must not pass each other. If two edges share a key by chance, a small frame only
// waits a little.
inline std::uint64_t order_key(const Frame& frame) {
  const auto mix = [](std::uint64_t a, std::uint64_t b) -> std::uint64_t {
    const std::uint64_t h = (a ^ (a >> 31)) * 0x9e3779b97f4a7c15ull + b;
    return ((h ^ (h >> 29)) * 0xbf58476d1ce4e5b9ull) | 1;
  };
  return std::visit(Overloaded{[&](const Put& put) { return mix(put.key.session.value, put.key.edge.value); },
                               [&](const Push& push) { return mix(~std::uint64_t{push.worker}, push.slice); },
                               [](const auto&) { return std::uint64_t{0}; }},
                    frame);
}

}  // namespace troupe::wire
