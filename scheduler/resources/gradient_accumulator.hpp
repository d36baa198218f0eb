// Conditional accumulators: gradients of a step gather until enough are there to be taken together. The rules are
// TensorFlow's (ConditionalAccumulator, SparseConditionalAccumulator): a gradient of a step before the accumulator's
// own is dropped, and each take begins the next step. Averages are computed by those who take (kernels/cpu).
#pragma once

#include <deque>

#include <troupe/scheduler/resources/waiting_resource.hpp>

namespace troupe {

struct AccumulatorRules {
  DType dtype = DType::f32;
  Shape shape = Shape::unknown_rank();  // of the gradients; of a sparse one's variable
  bool sparse = false;                  // a gradient is (indices i64 [n], values [n,...])
};

class GradientAccumulator final : public WaitingResource {
 public:
  // Gradients that nobody takes would fill the memory: one more is refused with resource_exhausted. No take may require
  // more.
  static constexpr std::size_t kMostGradients = 1024;

  GradientAccumulator(std::string name, std::string declaration, AccumulatorRules rules)
      : WaitingResource(std::move(name), std::move(declaration)), rules_(std::move(rules)) {}
  void call(CallId id, ResourceCall call, CallAnswers& answers) override;
  void drop(std::span<const CallId> ids, CallAnswers& answers) override;
  std::string describe() const override;
  std::size_t num_bytes() const override;

  std::size_t size() const { return gradients_.size(); }
  std::int64_t global_step() const { return global_step_; }
  std::size_t calls_waiting() const { return takers_.size(); }

 private:
  using Gradient = std::vector<Tensor>;
  struct Taker {
    CallId call = 0;
    std::int64_t required = 1;
  };

  void apply(ResourceCall call);
  void take(CallId id, std::int64_t required);
  void check(const Gradient& gradient) const;
  void settle(CallAnswers& answers);

  const AccumulatorRules rules_;
  std::vector<Gradient> gradients_;
  std::deque<Taker> takers_;  // oldest first
  std::int64_t global_step_ = 0;
};

}  // namespace troupe
