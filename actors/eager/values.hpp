// The values of eager outputs: tensors and variables.
#pragma once

#include <memory>
#include <utility>

#include <troupe/actors/eager/op_results.hpp>
#include <troupe/devices/kernel.hpp>
#include <troupe/graph/eager_value.hpp>
#include <troupe/graph/graph.hpp>

namespace troupe {

class EagerTensor : public EagerValue {
 public:
  const Node& source() const override { return *source_; }
  // Of a tensor that a device computes, or has: null for a HostTensor.
  OpResults* results() const { return results_; }

 protected:
  EagerTensor(DType dtype, std::shared_ptr<const Node> source, OpResults* results)
      : EagerValue(dtype), source_(std::move(source)), results_(results) {}

 private:
  const std::shared_ptr<const Node> source_;
  OpResults* const results_;
};

// On the host.
class HostTensor final : public EagerTensor {
 public:
  HostTensor(Tensor tensor, std::shared_ptr<const Node> source)
      : EagerTensor(tensor.dtype(), std::move(source), nullptr), tensor_(std::move(tensor)) {}
  const Shape& shape() const override { return tensor_.shape(); }
  const Tensor& value() const override { return tensor_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  const Tensor tensor_;
};

// An output of an op whose caller has gone on.
class ComputedTensor final : public EagerTensor {
 public:
  ComputedTensor(DType dtype, Shape shape, std::shared_ptr<const Node> source, std::shared_ptr<OpResults> results,
                 std::size_t output)
      : EagerTensor(dtype, std::move(source), results.get()),
        shape_(std::move(shape)),
        results_(std::move(results)),
        output_(output) {}
  ~ComputedTensor() override { results_->forget(output_); }
  const Shape& shape() const override { return shape_; }
  const Tensor& value() const override { return results_->on_host(output_); }
  std::size_t output() const { return output_; }

 private:
  const Shape shape_;
  const std::shared_ptr<OpResults> results_;
  const std::size_t output_;
};

// Ends with its last Output.
class EagerVariable : public EagerValue {
 public:
  EagerVariable(std::shared_ptr<const Node> source, std::shared_ptr<Variable> variable)
      : EagerValue(DType::resource), source_(std::move(source)), variable_(std::move(variable)) {}
  const Shape& shape() const override { return variable_->shape(); }
  const Tensor& value() const override {
    fail(Code::failed_precondition, "'{}' is a variable: read it", variable_->name());
  }
  const Node& source() const override { return *source_; }
  // Used on the thread that has the stream of its device.
  Variable& variable() const { return *variable_; }
  const std::shared_ptr<Variable>& shared() const { return variable_; }

 private:
  const std::shared_ptr<const Node> source_;
  const std::shared_ptr<Variable> variable_;
};

// Of a value that is not a variable.
inline const EagerTensor& tensor_of(const EagerPtr& value) { return static_cast<const EagerTensor&>(*value); }

}  // namespace troupe
