// The value of an output in eager mode, where ops run at once (graph/op_runner.hpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <troupe/messages/tensor.hpp>

namespace troupe {

struct Node;

// Freed with the last Output that holds it. Thread-safe.
class EagerValue {
 public:
  explicit EagerValue(DType dtype) : dtype_(dtype) {}
  EagerValue(const EagerValue&) = delete;
  EagerValue& operator=(const EagerValue&) = delete;
  virtual ~EagerValue() = default;

  DType dtype() const { return dtype_; }
  virtual const Shape& shape() const = 0;
  // The tensor, once it has been computed. Throws the error of its op, and failed_precondition for a variable.
  virtual const Tensor& value() const = 0;
  // The op that has made it, with its attributes, device and outputs. Nodes of the same op, attributes, dtypes and
  // shapes share it: it has no name, and its inputs say only how many there are.
  virtual const Node& source() const = 0;

 private:
  friend class EagerPtr;
  const DType dtype_;
  mutable std::atomic<std::uint32_t> references_{1};
};

// Holds a value, or none.
class EagerPtr {
 public:
  EagerPtr() = default;
  explicit EagerPtr(const EagerValue* made) : value_(made) {}  // adopts it
  EagerPtr(const EagerPtr& other) : value_(other.value_) { hold(); }
  EagerPtr(EagerPtr&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  EagerPtr& operator=(EagerPtr other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~EagerPtr() {
    if (value_ && is_last()) delete value_;
  }
  const EagerValue* get() const { return value_; }
  const EagerValue* operator->() const { return value_; }
  const EagerValue& operator*() const { return *value_; }
  explicit operator bool() const { return value_ != nullptr; }
  bool operator==(const EagerPtr&) const = default;

 private:
  // The only holder need not lock the count.
  bool is_last() const {
    std::atomic<std::uint32_t>& references = value_->references_;
    return references.load(std::memory_order_acquire) == 1 || references.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  void hold() const {
    if (value_) value_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  const EagerValue* value_ = nullptr;
};

}  // namespace troupe
