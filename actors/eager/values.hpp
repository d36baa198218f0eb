// The values of eager outputs: tensors and variables.
#pragma once

#include <memory>
#include <utility>

#include <troupe/devices/kernel.hpp>
#include <troupe/graph/eager_value.hpp>
#include <troupe/graph/graph.hpp>

namespace troupe {

class EagerTensor final : public EagerValue {
 public:
  EagerTensor(Tensor tensor, std::shared_ptr<const Node> source)
      : EagerValue(tensor.dtype()), tensor_(std::move(tensor)), source_(std::move(source)) {}
  const Shape& shape() const override { return tensor_.shape(); }
  const Tensor& value() const override { return tensor_; }
  const Node& source() const override { return *source_; }

 private:
  const Tensor tensor_;
  const std::shared_ptr<const Node> source_;
};

// Ends with its last Output.
class EagerVariable final : public EagerValue {
 public:
  explicit EagerVariable(std::unique_ptr<const Node> source)
      : EagerValue(DType::resource),
        source_(std::move(source)),
        variable_(source_->name, source_->attributes.dtype("T"), source_->attributes.shape("shape")) {}
  const Shape& shape() const override { return variable_.shape(); }
  const Tensor& value() const override {
    fail(Code::failed_precondition, "'{}' is a variable: read it", variable_.name());
  }
  const Node& source() const override { return *source_; }
  // Used on the thread that has the stream of its device.
  Variable& variable() const { return variable_; }

 private:
  const std::unique_ptr<const Node> source_;
  mutable Variable variable_;
};

}  // namespace troupe
