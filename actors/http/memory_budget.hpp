// A number of bytes that many may take parts of. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

namespace troupe {

class MemoryBudget {
 public:
  explicit MemoryBudget(std::size_t bytes) : left_(bytes) {}

  // Memory taken from the budget. Gives it back when destroyed; must not outlive the budget.
  class Share {
   public:
    Share() = default;
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share() {
      if (budget_) budget_->left_ += bytes_;
    }
    std::size_t bytes() const { return bytes_; }
    // Takes what is missing to `bytes`. False, and nothing changes, if that is more than is left.
    bool grow(MemoryBudget& budget, std::size_t bytes) {
      if (bytes <= bytes_) return true;
      if (!budget.take(bytes - bytes_)) return false;
      budget_ = &budget;
      bytes_ = bytes;
      return true;
    }

   private:
    MemoryBudget* budget_ = nullptr;
    std::size_t bytes_ = 0;
  };

 private:
  bool take(std::size_t bytes) {
    std::size_t left = left_.load();
    do {
      if (bytes > left) return false;
    } while (!left_.compare_exchange_weak(left, left - bytes));
    return true;
  }
  std::atomic<std::size_t> left_;
};

}  // namespace troupe
