// Ops: the kinds of operation a graph may hold. An op is a row of data: inputs, outputs and attributes, its shape and
// gradient functions, and its traits. Kernels are registered elsewhere (devices/kernel.hpp).
//
// Passes, placement and plans recognise an op by its traits. They do not compare names, except in the pattern tables
// that a few of them have (graph/op_table.hpp).
//
//   registry.add(Op("MatMul").input("a", "T").input("b", "T").output("product", "T")
//                    .type("T", kRealTypes).attr("transpose_a", false).attr("transpose_b", false)
//                    .shape(matmul_shape).gradient(matmul_gradient));
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/messages/attributes.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe {

class Graph;
struct Node;
class GradientContext;  // graph/gradients/autodiff.hpp
class ValueContext;     // graph/known_values.hpp
struct KnownIntegers;

// An input or output. Its dtype is `fixed`, or the value of attribute `type_attr`. It may be a list: of one dtype, with
// its length in attribute `count_attr`, or of the dtypes in attribute `types_attr`. These attributes are deduced from
// inputs. Of a `shape_only` input the op reads the shape and no element.
struct ArgDef {
  std::string name{};
  DType fixed = DType::invalid;
  std::string type_attr{};
  std::string count_attr{};
  std::string types_attr{};
  bool shape_only = false;
};

struct AttrDef {
  std::string name{};
  AttrType type;
  std::optional<AttrValue> default_value{};  // none: required (or deduced)
  std::vector<DType> allowed{};              // for a dtype attribute; empty: any
};

// The view a shape function has of its node. It throws invalid_argument without naming the node: the graph adds that.
class ShapeContext {
 public:
  virtual ~ShapeContext() = default;
  virtual int num_inputs() const = 0;
  virtual const Shape& input(int index) const = 0;
  virtual DType input_dtype(int index) const = 0;
  // The value of input `index`, null or none if it is not known (graph/known_values.hpp): of a Const node, or the
  // integers of a scalar or vector as far as they are known.
  virtual const Tensor* constant(int index) const = 0;
  virtual std::optional<KnownIntegers> integers(int index) const = 0;
  virtual const Attributes& attributes() const = 0;
  virtual int num_outputs() const = 0;
  virtual void set_output(int index, Shape shape) = 0;  // outputs not set have unknown rank
};

using ShapeFn = std::function<void(ShapeContext&)>;
using GradientFn = std::function<void(GradientContext&)>;
using ValueFn = std::function<std::optional<KnownIntegers>(ValueContext&)>;

// The role of an op's nodes. Kernels are looked up by the op's name; the runtime itself implements all other roles.
enum class OpRole : std::uint8_t {
  kernel,
  // Sources: their values exist before any node runs.
  constant,     // attribute "value"
  variable,     // the handle of a store that outlives steps
  placeholder,  // stands for a value to be fed; never runs
  feed,         // a value fed by the client
  argument,     // of a function; only in its body
  // Hands a value to the client.
  fetch,
  // Arrivals: the value comes from elsewhere during the step. Each begins a segment of the plan.
  receive,  // from a Send on another device
  pull,     // a slice of a variable, from its shard
  collect,  // the result of a collective operation
  // Departures: hand their inputs over without waiting.
  send,         // to a Receive on another device
  push,         // a gradient, to the shard of its variable
  push_sparse,  // the same for some rows
  ask_rows,     // row numbers, to the shard that answers with these rows of a slice
  contribute,   // to a collective operation
  // Control flow, by functions of the graph:
  branch,  // runs one of two
  loop,    // runs one again and again
};

// How mixed precision treats an op (graph/passes/mixed_precision.hpp).
enum class PrecisionClass : std::uint8_t {
  sensitive,  // keeps f32
  follower,   // in 16 bits where its operands are
  narrow,     // a product: always in 16 bits, with sums in f32 internally
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
  GradientFn gradient{};      // null: not differentiable
  ValueFn value{};            // of output 0, or all of a list, before the graph runs; null: never known
  bool no_gradient = false;   // has no gradient by design, instead of an error (Shape, ArgMax, StopGradient)
  std::string kernel_type{};  // the attribute that selects the kernel; "" if the op has none

  OpRole role = OpRole::kernel;
  PrecisionClass precision = PrecisionClass::sensitive;
  bool stateful = false;     // random, or reads or writes a variable: neither computed early nor shared
  bool reads_only = false;   // modifies none of the variables among its inputs
  bool has_effects = false;  // does more than compute outputs and change variables: prints, checks, calls the program
  bool forwards = false;     // output 0 is input 0, and likewise their gradients (Identity)
  bool update_rule = false;  // updates variable 0 by a gradient, possibly on the variable's shard (ApplyAdam)
  std::string many{};        // the update rule that does the same for several variables in one sweep; "" if none

  const AttrDef* find_attr(std::string_view name) const;

  bool has_kernel() const { return role == OpRole::kernel; }
  bool is_control_flow() const { return role == OpRole::branch || role == OpRole::loop; }
  bool is_source() const { return role >= OpRole::constant && role <= OpRole::argument; }
  bool is_arrival() const { return role >= OpRole::receive && role <= OpRole::collect; }
  bool is_departure() const { return role >= OpRole::send && role <= OpRole::contribute; }
  // Belongs to a partition, never to a function body: crosses the partition's boundary, or is a variable.
  bool is_boundary() const { return is_client_side() || is_arrival() || is_departure() || role == OpRole::variable; }
  // Where values enter from the client and leave to it.
  bool is_client_side() const { return role == OpRole::feed || role == OpRole::fetch; }
  // Outputs depend only on inputs and attributes: passes may compute it early, or once for several nodes.
  bool is_pure() const { return has_kernel() && !stateful && !outputs.empty(); }
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
  Op& input_shape(std::string name, std::string type_attr);   // ArgDef::shape_only
  Op& output(std::string name, std::string type_attr);
  Op& output(std::string name, DType fixed);
  Op& output_list(std::string name, std::string type_attr, std::string count_attr);
  Op& output_types(std::string name, std::string types_attr);
  // A dtype attribute, deduced from inputs where possible. The first one declared selects the kernel.
  Op& type(std::string name, std::vector<DType> allowed = {}, std::optional<DType> default_value = std::nullopt);
  Op& kernel_type(std::string attr);
  Op& attr(std::string name, AttrType required);
  Op& attr(std::string name, AttrValue default_value);
  Op& shape(ShapeFn fn);
  Op& gradient(GradientFn fn);
  Op& value(ValueFn fn);
  Op& no_gradient();
  Op& role(OpRole role);
  Op& precision(PrecisionClass precision);
  Op& stateful();
  Op& reads_only();
  Op& has_effects();
  Op& forwards();
  Op& update_rule(std::string many = {});
  OpDef build() const { return def_; }

 private:
  OpDef def_;
};

inline const std::vector<DType> kFloatTypes = dtypes_of(FloatTypes{});
// For ops without 16-bit kernels.
inline const std::vector<DType> kWideFloatTypes = dtypes_of(WideFloatTypes{});
inline const std::vector<DType> kIntegerTypes = dtypes_of(IntegerTypes{});
inline const std::vector<DType> kRealTypes = dtypes_of(RealTypes{});
inline const std::vector<DType> kDataTypes = dtypes_of(DataTypes{});
// All but variable handles.
inline const std::vector<DType> kTensorTypes = dtypes_of(ElementTypes{});
inline const std::vector<DType> kIndexTypes = dtypes_of(IndexTypes{});

class OpRegistry {
 public:
  void add(const Op& op);  // throws already_exists, or invalid_argument for an inconsistent definition
  const OpDef* find(std::string_view name) const;
  const OpDef& get(std::string_view name) const;  // throws not_found, with similar names
  std::vector<std::string> names() const;

 private:
  std::map<std::string, OpDef, std::less<>> ops_;
};

// All ops of Troupe; built once from the list in graph/ops/all.cpp, then constant.
const OpRegistry& standard_ops();

}  // namespace troupe
