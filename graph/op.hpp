// Ops: what kinds of operation a graph may hold. An op is a row of data: its inputs, outputs and attributes, what it
// makes of shapes, and how to differentiate it. Kernels are registered elsewhere (devices/kernel.hpp).
//
//   registry.add(Op("MatMul").input("a", "T").input("b", "T").output("product", "T")
//                    .type("T", kFloatTypes).attr("transpose_a", false).attr("transpose_b", false)
//                    .shape(matmul_shape).gradient(matmul_gradient));
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/messages/attributes.hpp>

namespace troupe {

class Graph;
struct Node;
class GradientContext;  // graph/gradients/autodiff.hpp

// An input or output. Its dtype is `fixed`, or the value of attribute `type_attr`. It may be a list: of one dtype, as
// long as attribute `count_attr` says, or of the dtypes in attribute `types_attr`. These attributes are deduced from
// inputs.
struct ArgDef {
  std::string name{};
  DType fixed = DType::invalid;
  std::string type_attr{};
  std::string count_attr{};
  std::string types_attr{};
};

struct AttrDef {
  std::string name{};
  AttrType type;
  std::optional<AttrValue> default_value{};  // none: required (or deduced)
  std::vector<DType> allowed{};              // of a dtype attribute; empty: any
};

// What a shape function sees. It throws invalid_argument without naming the node: the graph adds that.
class ShapeContext {
 public:
  virtual ~ShapeContext() = default;
  virtual int num_inputs() const = 0;
  virtual const Shape& input(int index) const = 0;
  virtual DType input_dtype(int index) const = 0;
  // The value of input `index`, if it is a Const node; else null.
  virtual const Tensor* constant(int index) const = 0;
  virtual const Attributes& attributes() const = 0;
  virtual int num_outputs() const = 0;
  virtual void set_output(int index, Shape shape) = 0;  // outputs not set have unknown rank
};

using ShapeFn = std::function<void(ShapeContext&)>;
using GradientFn = std::function<void(GradientContext&)>;

enum class OpKind : std::uint8_t {
  plain,      // outputs depend on inputs and attributes alone: may be folded and shared
  stateful,   // random, or reads or writes a variable: neither folded nor shared
  arrival,    // asynchronous: its output comes from elsewhere (Recv, Pull); a segment boundary
  departure,  // hands its inputs to elsewhere and goes on (Send, Push)
};

struct OpDef {
  OpDef();
  OpDef(const OpDef& other);
  OpDef(OpDef&& other) noexcept;
  OpDef& operator=(const OpDef& other);
  OpDef& operator=(OpDef&& other) noexcept;
  ~OpDef();

  std::string name{};
  std::vector<ArgDef> inputs{};
  std::vector<ArgDef> outputs{};
  std::vector<AttrDef> attrs{};
  ShapeFn shape{};
  GradientFn gradient{};     // null: not differentiable
  bool no_gradient = false;  // differentiates to "nothing flows" instead of an error (Shape, ArgMax, StopGradient)
  OpKind kind = OpKind::plain;
  std::string kernel_type{};  // the attribute that selects the kernel; "" if the op has none

  const AttrDef* find_attr(std::string_view name) const;
};

// Builds an OpDef.
class Op {
 public:
  explicit Op(std::string name) { def_.name = std::move(name); }
  Op& input(std::string name, std::string type_attr);
  Op& input(std::string name, DType fixed);
  Op& input_list(std::string name, std::string type_attr, std::string count_attr);
  Op& input_list(std::string name, DType fixed, std::string count_attr);
  Op& input_types(std::string name, std::string types_attr);  // a list of mixed dtypes
  Op& output(std::string name, std::string type_attr);
  Op& output(std::string name, DType fixed);
  Op& output_list(std::string name, std::string type_attr, std::string count_attr);
  Op& output_types(std::string name, std::string types_attr);
  // A dtype attribute. The first one declared selects the kernel. Deduced from inputs where it can be.
  Op& type(std::string name, std::vector<DType> allowed = {}, std::optional<DType> default_value = std::nullopt);
  Op& kernel_type(std::string attr);
  Op& attr(std::string name, AttrType required);
  Op& attr(std::string name, AttrValue default_value);
  Op& shape(ShapeFn fn);
  Op& gradient(GradientFn fn);
  Op& no_gradient();
  Op& kind(OpKind kind);
  OpDef build() const { return def_; }

 private:
  OpDef def_;
};

inline const std::vector<DType> kFloatTypes = {DType::f32, DType::f64, DType::f16, DType::bf16};
inline const std::vector<DType> kRealTypes = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,
                                              DType::u8,  DType::i16, DType::i32, DType::i64};
inline const std::vector<DType> kIndexTypes = {DType::i32, DType::i64};

class OpRegistry {
 public:
  void add(const Op& op);  // throws already_exists, or invalid_argument for an inconsistent definition
  const OpDef* find(std::string_view name) const;
  const OpDef& get(std::string_view name) const;  // throws not_found, with similar names
  std::vector<std::string> names() const;

 private:
  std::map<std::string, OpDef, std::less<>> ops_;
};

// All ops of Troupe; built once from the list in graph/ops/all.cpp, constant afterwards.
const OpRegistry& standard_ops();

}  // namespace troupe
