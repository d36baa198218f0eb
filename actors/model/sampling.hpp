// The choice of the next token by its logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

struct SamplingOptions {
  double temperature = 1;  // divides the logits; 0: the greatest is chosen
  std::int64_t top_k = 0;  // only the k greatest; 0: all
  // Only the most probable ones, as few as have this probability together (Holtzman et al., "The curious case of neural
  // text degeneration", ICLR 2020). In (0, 1].
  double top_p = 1;
};

// The probability of each token; the sum is 1. Of equal logits at a limit the first are taken. Throws invalid_argument
// for options out of range.
std::vector<double> sampling_probabilities(std::span<const float> logits, const SamplingOptions& options);

// The token where the sum of probabilities exceeds `uniform`, in [0, 1).
std::int64_t token_at(std::span<const double> probabilities, double uniform);

// log(softmax(logits)), in double.
std::vector<double> log_probabilities(std::span<const float> logits);

}  // namespace troupe
