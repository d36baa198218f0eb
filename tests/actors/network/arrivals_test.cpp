#include <gtest/gtest.h>

#include "tests/actors/wire/wire_testing.hpp"
#include <troupe/actors/network/arrivals.hpp>
#include <troupe/devices/cpu/cpu_device.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMebibyte = 1 << 20;

// What a peer sends, to a task whose device has 64 MiB.
class ArrivalsOf64MiB : public ::testing::Test {
 protected:
  static Frame frame_of(std::size_t bytes) {
    return wire::put_of(Tensor(DType::u8, Shape{static_cast<std::int64_t>(bytes)}));
  }
  std::unique_ptr<wire::ChunkReader> reader() const {
    auto out = std::make_unique<wire::ChunkReader>(Limits{}, arrivals);
    out->handshake_done();
    out->allow_bulk(1ull << 40);
    return out;
  }
  void come(wire::ChunkReader& reader, std::string_view bytes, int flags) {
    reader.consume(wire::chunk(wire::FrameClass::bulk, flags, bytes),
                   [&](Frame&& frame) { frames.push_back(std::move(frame)); });
  }
  // The rest never comes.
  std::unique_ptr<wire::ChunkReader> announce(std::size_t bytes) {
    auto out = reader();
    come(*out, encode(frame_of(bytes)).head, wire::kFirstChunk);
    return out;
  }
  std::uint64_t in_use() const { return device->allocator().stats().bytes_in_use; }
  Tensor of_a_kernel(std::size_t bytes) {
    return device->allocator().tensor(DType::u8, Shape{static_cast<std::int64_t>(bytes)});
  }

  std::unique_ptr<Device> device =
      make_cpu_device({.name = DeviceName::of({"ps", 0}, "CPU", 0), .threads = 1, .memory_limit = 64 * kMebibyte});
  const wire::Arrivals arrivals = arrivals_in(device->allocator(), 8 * kMebibyte);
  std::vector<Frame> frames;
};

TEST_F(ArrivalsOf64MiB, WhatIsAnnouncedTakesNoMemoryFromKernels) {
  const auto first = announce(60 * kMebibyte);
  EXPECT_EQ(in_use(), 0u);
  std::vector<std::unique_ptr<wire::ChunkReader>> many;
  for (int i = 0; i < 100; ++i) many.push_back(announce(2 * kMebibyte));
  EXPECT_EQ(in_use(), 0u);
  many.clear();
  EXPECT_NO_THROW(of_a_kernel(56 * kMebibyte));
  EXPECT_EQ(arrivals.announced->load(), 60 * kMebibyte);
}

TEST_F(ArrivalsOf64MiB, ManySmallAnnouncementsTogetherHaveAnEighth) {
  std::vector<std::unique_ptr<wire::ChunkReader>> many;
  for (int i = 0; i < 60; ++i) many.push_back(announce(kMebibyte));
  EXPECT_GT(in_use(), 4 * kMebibyte);
  EXPECT_LE(in_use(), 8 * kMebibyte);
  many.clear();
  EXPECT_EQ(in_use(), 0u);
  EXPECT_EQ(arrivals.announced->load(), 0u);
}

TEST_F(ArrivalsOf64MiB, WhatHasComeCountsAsAnnouncedNoMore) {
  const auto peer = reader();
  for (int i = 0; i < 20; ++i) {
    const std::string bytes = encode_to_string(frame_of(2 * kMebibyte));
    for (std::size_t at = 0; at < bytes.size(); at += wire::kMaxChunk) {
      const auto part = std::string_view(bytes).substr(at, wire::kMaxChunk);
      come(*peer, part, (at == 0 ? wire::kFirstChunk : 0) | (at + part.size() == bytes.size() ? wire::kLastChunk : 0));
    }
  }
  EXPECT_EQ(frames.size(), 20u);
  EXPECT_GE(in_use(), 40 * kMebibyte);
  EXPECT_EQ(arrivals.announced->load(), 0u);
}

}  // namespace
}  // namespace troupe
