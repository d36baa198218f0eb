#include "troupe/scheduler/data/feed_requests.hpp"

#include <algorithm>

#include <troupe/scheduler/data/batch_desk.hpp>

namespace troupe {

void FeedRequests::up(std::uint32_t input, Requests& out) {
  if (input >= up_.size()) return;
  up_[input] = true;
  for (auto& [batch, asked] : wanted_) {
    if (asked) continue;
    asked = input_for(batch);
    out.push_back({*asked, batch});
  }
}

void FeedRequests::down(std::uint32_t input, Requests& out) {
  if (input >= up_.size()) return;
  up_[input] = false;
  for (auto& [batch, asked] : wanted_) {
    if (asked != input) continue;
    asked = input_for(batch);
    if (asked) out.push_back({*asked, batch});
  }
}

bool FeedRequests::any_up() const {
  return std::ranges::any_of(up_, [](bool up) { return up; });
}

void FeedRequests::want(const BatchName& batch, Requests& out) {
  const auto [wanted, is_new] = wanted_.try_emplace(batch, input_for(batch));
  if (is_new && wanted->second) out.push_back({*wanted->second, batch});
}

std::optional<std::uint32_t> FeedRequests::input_for(const BatchName& batch) const {
  const auto inputs = static_cast<std::uint32_t>(up_.size());
  if (inputs == 0) return std::nullopt;
  const std::uint32_t first = BatchDesk::share_of(batch, slots_, inputs);
  for (std::uint32_t i = 0; i < inputs; ++i)
    if (const std::uint32_t input = (first + i) % inputs; up_[input]) return input;
  return std::nullopt;
}

}  // namespace troupe
