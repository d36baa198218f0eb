// What the fuzzer (frame_fuzzer.cpp) and the test of random bytes (fuzz_test.cpp) do with bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::wire {

// Reads `input` as a connection would read it from a peer, and takes down the process if a promise of ChunkReader and
// FrameDecoder is broken: what is wrong throws Error and nothing else, no allocation exceeds the limits, and a frame
// that is let in can be sent on and arrives as the same bytes. Returns how many frames came.
//
// Its first byte says how to read: bit 0, the peer has said Hello before; bits 1 to 7, the cuts in which the rest
// comes.
std::size_t read_as_peer(std::string_view input);

// Inputs that are well-formed: streams of frames of many kinds.
std::vector<std::string> frame_seeds();

}  // namespace troupe::wire
