// Constant operands in the layout that products want.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe {

// An operand that is the same in every run, in the layout that its kernel wants: made by the first run instead of by
// each. Thread-safe.
class KeptLayout {
 public:
  // The operand in layout `key`, which `make` writes into so many bytes if it is new; null if other layouts were wanted
  // before: an operand is kept in one.
  const void* get(const std::vector<std::int64_t>& key, std::size_t bytes, const std::function<void(void* to)>& make);

 private:
  std::mutex mutex_;
  std::vector<std::int64_t> key_;
  Tensor made_;
};

}  // namespace troupe
