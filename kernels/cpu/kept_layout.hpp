// Constant operands in the layouts that products want.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <troupe/messages/tensor.hpp>

namespace troupe {

// An operand that is the same in every run, in the layouts that kernels want: made by the first run that wants one
// instead of by each. Plans that share the memory of a constant share its layouts. Thread-safe.
class KeptLayout {
 public:
  // Of a constant, as long as anybody has it; null for null. It keeps the constant's memory.
  static std::shared_ptr<KeptLayout> of(const Tensor* constant);

  explicit KeptLayout(const Tensor& constant) : constant_(constant) {}
  // The operand in layout `key`, which tells all that the bytes depend on: what the constant's memory means, too, as
  // others may read it as another operand. `make` writes it into so many bytes if it is new. Null if that would be one
  // layout too many: an operand has few.
  const void* get(const std::vector<std::int64_t>& key, std::size_t bytes, const std::function<void(void* to)>& make);

 private:
  struct Layout {
    std::vector<std::int64_t> key;
    std::shared_ptr<void> memory;
  };
  const Tensor constant_;
  std::mutex mutex_;
  std::vector<Layout> layouts_;
};

// A part of an operand that has layouts of its own, or none at all.
struct KeptPart {
  KeptLayout* operand = nullptr;
  std::int64_t part = 0;
};

}  // namespace troupe
