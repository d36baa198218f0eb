#include "tests/actors/frame_fuzz.hpp"

#include <gtest/gtest.h>

#include <random>

namespace troupe::wire {
namespace {

TEST(FrameFuzz, SeedsAreReadToTheirEnd) {
  const auto seeds = frame_seeds();
  ASSERT_GT(seeds.size(), 4u);
  EXPECT_EQ(read_as_peer(seeds[0]), 1u);
  EXPECT_EQ(read_as_peer(seeds[1]), 9u);
  EXPECT_EQ(read_as_peer(seeds[2]), 9u);
  EXPECT_EQ(read_as_peer(seeds[3]), 10u);
  std::string without_hello = seeds[1];
  without_hello[0] = 0;
  EXPECT_EQ(read_as_peer(without_hello), 0u);
  for (std::size_t i = 4; i < seeds.size(); ++i) EXPECT_EQ(read_as_peer(seeds[i]), 1u) << i;
}

TEST(FrameFuzz, RandomBytesDoNoMoreThanFail) {
  std::mt19937 random(4);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes(random() % 300, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    (void)read_as_peer(bytes);
  }
}

// Well-formed streams in which some bytes are other ones, some are left out, and some come twice.
TEST(FrameFuzz, DamagedFramesDoNoMoreThanFail) {
  const auto seeds = frame_seeds();
  std::mt19937 random(5);
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = seeds[random() % seeds.size()];
    for (unsigned damage = 1 + random() % 3; damage > 0; --damage) {
      // Most of what matters stands in front; payloads are long.
      const std::size_t at =
          1 + random() % (random() % 4 == 0 ? bytes.size() - 1 : std::min<std::size_t>(bytes.size() - 1, 120));
      switch (random() % 5) {
        case 0:
          bytes.erase(at, 1 + random() % 8);
          break;
        case 1:
          bytes.insert(at, bytes.substr(at, 1 + random() % 40));
          break;
        case 2:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
          break;
        default:
          bytes[at] = static_cast<char>(random());
          break;
      }
      if (bytes.size() < 2) break;
    }
    (void)read_as_peer(bytes);
  }
}

}  // namespace
}  // namespace troupe::wire
