// Plans by what they were made for: shapes that come back find the plan that they had.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <utility>

namespace troupe {

// Not thread-safe: one belongs to one device's thread. References hold until the next get().
template <class Key, class Plan>
class PlanCache {
 public:
  // More than `limit` plans mean shapes that never come back: then all are dropped.
  explicit PlanCache(std::size_t limit = 4096) : limit_(limit) {}

  // The plan for `key`; make() makes it if there is none. What make() throws goes on, and nothing is kept.
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
