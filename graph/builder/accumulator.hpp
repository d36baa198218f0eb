// Conditional accumulators: the gradients of a step, from several steps of sessions or several sessions, which are
// taken together once enough are there. The rules are TensorFlow's.
//
//   ConditionalAccumulator gathered(graph, DType::f32, Shape{10});
//   Output give = gathered.apply_grad(gradient, step);  // a target
//   Output mean = gathered.take_grad(4);                // arrives when 4 have been given
//
// Each take begins the next step of the accumulator: later gradients of earlier steps are dropped without an error.
// Taking waits like Queue::dequeue() (queue.hpp); giving never waits, and fails as resource_exhausted if 1024 gradients
// are there that nobody takes.
#pragma once

#include <string>

#include <troupe/graph/builder/resource.hpp>

namespace troupe {

struct AccumulatorOptions {
  std::string reduction = "mean";  // or "sum"
  Name name{};
  std::string device{};  // a CPU
};

class AccumulatorSteps {
 public:
  // Gradients of steps below `step`, an i64 scalar, are dropped from now on. A target.
  Output set_global_step(IntegersArg step, Name name = {}) const;
  Output num_accumulated(Name name = {}) const;  // i32 scalar
  const Output& handle() const { return handle_; }

 protected:
  AccumulatorSteps(Graph& graph, Name op, DType dtype, Shape shape, AccumulatorOptions options);

  Output handle_;
  DType dtype_;
  Shape shape_;
  std::string reduction_;
};

// Of gradients with one shape and a floating dtype.
class ConditionalAccumulator : public AccumulatorSteps {
 public:
  ConditionalAccumulator(Graph& graph, DType dtype, Shape shape = Shape::unknown_rank(),
                         AccumulatorOptions options = {});
  // Gives a gradient of step `local_step`. Returns a target.
  Output apply_grad(Output gradient, IntegersArg local_step = 0, Name name = {}) const;
  // The mean, or sum, of all that are there, at least `num_required`: added in the order of their arrival, divided at
  // the end.
  Output take_grad(IntegersArg num_required, Name name = {}) const;
};

// Of rows of a variable of this shape: indices i64 [n], values [n, ...].
class SparseConditionalAccumulator : public AccumulatorSteps {
 public:
  SparseConditionalAccumulator(Graph& graph, DType dtype, Shape shape = Shape::unknown_rank(),
                               AccumulatorOptions options = {});
  Output apply_grad(Output indices, Output values, IntegersArg local_step = 0, Name name = {}) const;
  // The rows that gradients touch, ascending: each the mean over those that touch it, or the sum.
  struct Rows {
    Output indices{}, values{};
  };
  Rows take_grad(IntegersArg num_required, Name name = {}) const;
};

}  // namespace troupe
