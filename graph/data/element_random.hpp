// Random numbers for functions of a pipeline's elements. They follow from the seed and the element's epoch and number
// alone, so they are the same on any task and thread:
//
//   pipeline.map("noise", schema, [](const Element& e, const ElementContext& context) {
//     data::ElementRandom random(7, context);
//     ... random.uniform(-1, 1) ...
//   });
#pragma once

#include <cstdint>

#include <troupe/graph/data/pipeline.hpp>
#include <troupe/messages/philox.hpp>

namespace troupe::data {

// The words of a Philox stream of (seed, epoch, number), one after the other. Functions of one pipeline that have the
// same seed draw the same numbers: give each another one.
class ElementRandom {
 public:
  ElementRandom(std::uint64_t seed, const ElementContext& context)
      : stream_{.key = seed, .stream = mix64(mix64(context.epoch) ^ context.number)} {}

  // In [0, 1), a multiple of 2^-53.
  double uniform() {
    const std::uint32_t high = word();
    return uniform_double(high, word());
  }
  // From low to high.
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  // In [0, n), each equally likely but for a part of 2^-53; n is from 1 to 2^53.
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(uniform() * static_cast<double>(n)); }
  // True with this probability.
  bool chance(double probability) { return uniform() < probability; }

 private:
  std::uint32_t word() {
    if (used_ == words_.size()) {
      words_ = stream_.block(next_++);
      used_ = 0;
    }
    return words_[used_++];
  }

  PhiloxStream stream_;
  PhiloxBlock words_{};
  std::size_t used_ = words_.size();
  std::uint64_t next_ = 0;
};

}  // namespace troupe::data
