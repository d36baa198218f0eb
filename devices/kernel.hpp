// Kernels: the code of ops. A kernel is a functor that reads its inputs and makes its outputs through a KernelContext;
// it never sees an actor. The functor is made once per node, when the plan is built, from the node's attributes. Its
// captures are constant: several steps may run it at once.
//
// Registration is explicit: one `void register_<family>(KernelRegistry&)` per file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <troupe/devices/device.hpp>
#include <troupe/messages/attributes.hpp>
#include <troupe/messages/ids.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// The store of a variable: owned by (session, device), accessed only by kernels of its device's compute stream. Readers
// hold the tensor they read: an update writes in place only if no reader does (see writable()).
class Variable {
 public:
  Variable(std::string name, DType dtype, Shape shape) : name_(std::move(name)), dtype_(dtype), shape_(shape) {}
  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  bool initialized() const { return value_.valid(); }
  // Throws failed_precondition if the variable has no value yet.
  const Tensor& value() const;
  // Throws invalid_argument for another dtype or shape.
  void assign(Tensor value);
  // The value, to be written in place: copied first if a reader shares its memory.
  Tensor& writable(Allocator& allocator);
  // The same for memory that only `copy` can copy.
  using CopyBytes = FunctionRef<void(void* to, const void* from, std::size_t bytes)>;
  Tensor& writable(Allocator& allocator, CopyBytes copy);
  // While fixed, operations that would change its memory throw failed_precondition and leave the value unchanged.
  void set_fixed(bool fixed) { fixed_ = fixed; }
  // Number of assignments and calls of writable().
  std::uint64_t changes() const { return changes_; }

 private:
  void check_not_fixed() const;
  std::string name_;
  DType dtype_;
  Shape shape_;
  Tensor value_;
  bool fixed_ = false;
  std::uint64_t changes_ = 0;
};

// A kernel's view of one execution. Inputs that are variables (DType::resource) come through variable().
class KernelContext {
 public:
  virtual ~KernelContext() = default;

  virtual int num_inputs() const = 0;
  virtual const Tensor& input(int index) const = 0;
  // The variable at input `index`.
  virtual Variable& variable(int index) = 0;
  virtual void set_output(int index, Tensor&& value) = 0;
  void set_output(int index, const Tensor& value) { set_output(index, Tensor(value)); }

  // The input's memory, if this node is its last user and it is not shared: may be written in place and set as an
  // output. Otherwise an invalid tensor. After a success input(index) must not be read again.
  virtual Tensor take_input(int index) = 0;

  virtual Device& device() = 0;
  // Key of this node in this step: (seed, step, slot) and a hash of the node's original name.
  virtual RandomKey random_key() const = 0;
  virtual std::uint64_t node_hash() const = 0;
  // The slot of random_key() if the node has a fixed one in every step, else negative.
  virtual std::int64_t random_slot() const { return -1; }

  // Allocator of outputs and temporaries: memory that the plan reserves for this node, else the device's.
  virtual Allocator& allocator() { return device().allocator(); }
  Parallelism& parallelism() { return device().parallelism(); }
  Tensor allocate(DType dtype, const Shape& shape) { return allocator().tensor(dtype, shape); }
  // Memory for an elementwise output: that of input `index` if it can be taken and fits, else new memory.
  Tensor take_or_allocate(int index, DType dtype, const Shape& shape);
};

using Kernel = std::function<void(KernelContext&)>;

// The inputs of a kernel's factory.
struct KernelInit {
  std::string_view node_name{};  // for messages
  const Attributes& attributes;
  std::span<const DType> input_types{};
  std::span<const DType> output_types{};
  // Values of inputs that are the same in every run, null for the others; empty if none is known. Valid only during the
  // factory's call: a kernel that keeps one copies the Tensor.
  std::span<const Tensor* const> constants = {};

  const Tensor* constant(std::size_t index) const { return index < constants.size() ? constants[index] : nullptr; }
};
using KernelFactory = std::function<Kernel(const KernelInit&)>;

// A kernel's use of its inputs' memory, for memory planning (scheduler/plan/memory_plan.hpp).
enum class Reuse : std::uint8_t {
  none,
  in_place,  // output 0 takes over the first takeable input of its dtype and shape (take_input)
  view,      // output 0 is a view of input 0
};

// One row: the op's kernel on one type of device, for these values of the op's type attribute (OpDef::kernel_type).
struct KernelDef {
  std::string op{};
  std::string device_type{};
  std::vector<DType> dtypes{};  // empty: the op has no type attribute, or the kernel takes any dtype
  KernelFactory make{};
  // Launches the same work in every step for inputs of the same dtypes and shapes, whatever the values: may be recorded
  // (recording.hpp). Throws if recording turns out to be impossible.
  bool recordable = false;
};

class KernelRegistry {
 public:
  // Throws already_exists for a duplicate (op, device type, dtype).
  void add(KernelDef def);
  // Null if there is none.
  const KernelFactory* find(std::string_view op, std::string_view device_type, DType dtype) const;
  // Throws unimplemented, naming the device types and dtypes that exist.
  const KernelFactory& get(std::string_view op, std::string_view device_type, DType dtype) const;
  // Throws not_found for an op without kernels on that type of device.
  void set_reuse(std::string_view op, std::string_view device_type, Reuse reuse);
  Reuse reuse(std::string_view op, std::string_view device_type) const;
  bool recordable(std::string_view op, std::string_view device_type, DType dtype) const;
  bool supports(std::string_view op, std::string_view device_type, DType dtype) const {
    return find(op, device_type, dtype) != nullptr;
  }
  // "MatMul:f32" for every kernel of a type of device, "NoOp" for kernels of any dtype; sorted.
  std::vector<std::string> list(std::string_view device_type) const;

 private:
  struct Entry {
    std::string device_type;
    DType dtype;  // invalid: any
    KernelFactory make;
    bool recordable = false;
    Reuse reuse = Reuse::none;
  };
  const Entry* entry(std::string_view op, std::string_view device_type, DType dtype) const;
  std::unordered_map<std::string, std::vector<Entry>> by_op_;
};

}  // namespace troupe
