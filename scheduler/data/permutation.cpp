#include "troupe/scheduler/data/permutation.hpp"

#include <limits>
#include <numeric>
#include <utility>

#include <troupe/messages/error.hpp>
#include <troupe/messages/philox.hpp>

namespace troupe {
namespace {

class Words {
 public:
  explicit Words(PhiloxStream stream) : stream_(stream) {}

  // Uniform in [0, bound), bound > 0.
  std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = std::uint64_t{next()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t threshold = (0u - bound) % bound;
      while (static_cast<std::uint32_t>(product) < threshold) product = std::uint64_t{next()} * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  std::uint32_t next() {
    if (used_ == block_.size()) {
      block_ = stream_.block(index_++);
      used_ = 0;
    }
    return block_[used_++];
  }

  PhiloxStream stream_;
  std::uint64_t index_ = 0;
  PhiloxBlock block_{};
  std::size_t used_ = 4;
};

// Keeps the shuffle's stream apart from those of random ops under the same seed.
constexpr std::uint64_t kShuffleDomain = 0x5368756666'6c65ull;

}  // namespace

std::vector<std::uint32_t> permutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t n) {
  if (n > std::numeric_limits<std::uint32_t>::max())
    invalid_argument("cannot permute {} examples: at most 2^32 - 1 are supported", n);
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  Words words(PhiloxStream{seed, mix64(mix64(kShuffleDomain) ^ epoch)});
  for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[words.below(static_cast<std::uint32_t>(i))]);
  return order;
}

}  // namespace troupe
