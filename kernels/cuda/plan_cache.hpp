// A cache of plans by key: recurring shapes reuse their plan.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <utility>

namespace troupe {

// Not thread-safe: each cache belongs to one device's thread. References are valid until the next get().
template <class Key, class Plan>
class PlanCache {
 public:
  // Drops all plans when there are `limit`: that many mean shapes that never recur.
  explicit PlanCache(std::size_t limit = 4096) : limit_(limit) {}

  // Returns the plan for `key`, calling make() if there is none. If make() throws, nothing is cached.
  template <class Make>
  Plan& get(const Key& key, Make make) {
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    Plan plan = make();
    if (plans_.size() >= limit_) plans_.clear();
    return plans_.emplace(key, std::move(plan)).first->second;
  }
  void clear() { plans_.clear(); }
  std::size_t size() const { return plans_.size(); }

 private:
  std::size_t limit_;
  std::unordered_map<Key, Plan> plans_;
};

}  // namespace troupe
