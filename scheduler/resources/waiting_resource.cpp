#include "troupe/scheduler/resources/waiting_resource.hpp"

#include <algorithm>
#include <array>

namespace troupe {
namespace {

constexpr std::array<std::string_view, 12> kOperations = {
    "enqueue", "dequeue",   "dequeue_many",   "dequeue_up_to", "close",           "close_and_cancel",
    "size",    "is_closed", "apply_gradient", "take_gradient", "set_global_step", "num_accumulated"};
static_assert(kOperations.size() == static_cast<std::size_t>(ResourceOperation::num_accumulated) + 1);

}  // namespace

ResourceOperation parse_operation(std::string_view text) {
  const auto found = std::ranges::find(kOperations, text);
  if (found == kOperations.end()) invalid_argument("'{}' is no operation of a queue or an accumulator", text);
  return static_cast<ResourceOperation>(found - kOperations.begin());
}

std::string_view name(ResourceOperation operation) { return kOperations[static_cast<std::size_t>(operation)]; }

std::int64_t number_of_call(const ResourceCall& call, std::size_t index, std::int64_t low, std::string_view what) {
  const Tensor* given = index < call.values.size() ? &call.values[index] : nullptr;
  if (!given || given->num_elements() != 1 || (given->dtype() != DType::i32 && given->dtype() != DType::i64))
    invalid_argument("{} must be one i32 or i64, not {}", what, given ? given->to_string() : "missing");
  const std::int64_t number = given->dtype() == DType::i32 ? given->item<std::int32_t>() : given->item<std::int64_t>();
  if (number < low) invalid_argument("{} is {}, but must be at least {}", what, number, low);
  return number;
}

}  // namespace troupe
