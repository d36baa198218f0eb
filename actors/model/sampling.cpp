#include "troupe/actors/model/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

void check_sampling(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    invalid_argument("the temperature is {}, but must be 0 or more", options.temperature);
  if (options.top_k < 0) invalid_argument("top_k is {}, but must not be negative", options.top_k);
  if (!(options.top_p > 0 && options.top_p <= 1)) invalid_argument("top_p is {}, but must be in (0, 1]", options.top_p);
}

// Tokens, the most probable first.
std::vector<std::size_t> by_logit(std::span<const float> logits) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  return order;
}

}  // namespace

std::vector<double> sampling_probabilities(std::span<const float> logits, const SamplingOptions& options) {
  check_sampling(options);
  if (logits.empty()) invalid_argument("there are no logits to choose from");
  std::vector<double> out(logits.size());
  const std::vector<std::size_t> order = by_logit(logits);
  if (options.temperature == 0) {
    out[order.front()] = 1;
    return out;
  }
  const std::size_t most =
      options.top_k == 0 ? logits.size() : std::min(logits.size(), static_cast<std::size_t>(options.top_k));
  double total = 0;
  for (std::size_t i = 0; i < most; ++i) {
    const double distance = static_cast<double>(logits[order[i]]) - static_cast<double>(logits[order.front()]);
    total += out[order[i]] = std::exp(distance / options.temperature);
  }
  double kept = 0;
  for (const std::size_t token : order) {
    if (kept >= options.top_p * total) out[token] = 0;
    kept += out[token];
  }
  for (double& p : out) p /= kept;
  return out;
}

std::int64_t token_at(std::span<const double> probabilities, double uniform) {
  double sum = 0;
  std::int64_t last = 0;  // rounding may leave the sum below 1
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] == 0) continue;
    last = static_cast<std::int64_t>(i);
    sum += probabilities[i];
    if (sum > uniform) break;
  }
  return last;
}

std::vector<double> log_probabilities(std::span<const float> logits) {
  const double greatest = *std::ranges::max_element(logits);
  double total = 0;
  for (const float x : logits) total += std::exp(static_cast<double>(x) - greatest);
  std::vector<double> out;
  for (const float x : logits) out.push_back(static_cast<double>(x) - greatest - std::log(total));
  return out;
}

}  // namespace troupe
