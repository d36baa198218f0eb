#include "troupe/kernels/cuda/fused_compiler.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include <troupe/kernels/common/elementwise.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

static_assert(kMaxFusedInputs >= kMaxElementwiseInputs && kMaxFusedSteps >= 3 * kMaxElementwiseSteps);
// Every kept value must be used by a remaining step, and each step uses at most three.
static_assert(4 * kMaxFusedPlaces >= 3 * kMaxElementwiseSteps);

#define TROUPE_ROW(NAME) {#NAME, FusedOp::NAME},
FusedOp op_of(std::string_view name) {
  static const std::map<std::string_view, FusedOp> table = {
      TROUPE_ROW(Div) TROUPE_ROW(ReluGrad) TROUPE_ROW(Select) TROUPE_ROW(Cast)  //
      TROUPE_UNARY_OPS(TROUPE_ROW)                                              //
      TROUPE_ARITHMETIC_OPS(TROUPE_ROW)                                         //
      TROUPE_FLOAT_GRADIENT_OPS(TROUPE_ROW)                                     //
      TROUPE_COMPARISON_OPS(TROUPE_ROW)                                         //
  };
  const auto found = table.find(name);
  if (found == table.end()) fail(Code::unimplemented, "'{}': unsupported in programs on a GPU", name);
  return found->second;
}
#undef TROUPE_ROW

// `wide`: the program computes in f64.
FusedRounding rounding_to(DType dtype, bool wide) {
  switch (dtype) {
    case DType::f16:
      return FusedRounding::f16;
    case DType::bf16:
      return FusedRounding::bf16;
    case DType::f32:
      return wide ? FusedRounding::f32 : FusedRounding::none;
    default:
      return FusedRounding::none;
  }
}

class Compiler {
 public:
  Compiler(std::span<const ElementwiseStep> steps, std::span<const DType> inputs)
      : steps_(steps), inputs_(inputs), last_use_(steps.size(), 0), place_(steps.size(), kFusedNone) {
    for (std::size_t s = 0; s < steps.size(); ++s)
      for (const ElementwiseOperand& o : steps[s].operands)
        if (!o.is_input) last_use_[static_cast<std::size_t>(o.index)] = s;
  }

  FusedProgram run() {
    program_.dtype = steps_.back().dtype;
    if (!is_floating(program_.dtype))
      fail(Code::unimplemented, "programs with a result of {} are not supported on a GPU", name(program_.dtype));
    program_.wide = std::ranges::count(inputs_, DType::f64) > 0 ||
                    std::ranges::any_of(steps_, [](const ElementwiseStep& s) { return s.dtype == DType::f64; });
    for (now_ = 0; now_ < steps_.size(); ++now_) add_step();
    return std::move(program_);
  }

 private:
  void add_step() {
    const ElementwiseStep& step = steps_[now_];
    const auto& operands = step.operands;
    FusedStep made{.op = op_of(step.op),
                   .rounding = rounding_to(step.dtype, program_.wide),
                   .wide = operand_type(operands.back(), steps_, inputs_) == DType::f64};
    if (made.op == FusedOp::Select) {
      add({.op = FusedOp::mask, .source = in_x(operands[0]) ? kFusedSame : source(operands[0])});
      place_pair(made, operands[1], operands[2]);
      made.rounding = FusedRounding::none;
    } else if (operands.size() == 2) {
      place_pair(made, operands[0], operands[1]);
    } else if (!in_x(operands[0])) {
      add({.op = FusedOp::load, .source = source(operands[0])});
    }
    release();
    if (last_use_[now_] > now_ + 1) made.keep = place_[now_] = free_place();
    add(made);
  }

  // Places the operands of `made` in x and y.
  void place_pair(FusedStep& made, const ElementwiseOperand& left, const ElementwiseOperand& right) {
    made.swapped = in_x(right) && !in_x(left);
    if (!in_x(left) && !in_x(right)) add({.op = FusedOp::load, .source = source(left)});
    made.source = left == right ? kFusedSame : source(made.swapped ? left : right);
    if (made.swapped) turn(made);
  }
  // Replaces a swapped op by its mirror image if it has one: kernels implement few swapped ops.
  static void turn(FusedStep& made) {
#define TROUPE_CASE(NAME) case FusedOp::NAME:
    switch (made.op) {
      TROUPE_COMMUTATIVE_OPS(TROUPE_CASE)
      TROUPE_EQUALITY_OPS(TROUPE_CASE)
      break;
      case FusedOp::Less:
        made.op = FusedOp::Greater;
        break;
      case FusedOp::Greater:
        made.op = FusedOp::Less;
        break;
      case FusedOp::LessEqual:
        made.op = FusedOp::GreaterEqual;
        break;
      case FusedOp::GreaterEqual:
        made.op = FusedOp::LessEqual;
        break;
      default:
        return;
    }
    made.swapped = false;
  }

  // True if `o` is the result of the previous step, which is still in x.
  bool in_x(const ElementwiseOperand& o) const { return !o.is_input && static_cast<std::size_t>(o.index) + 1 == now_; }
  std::uint8_t source(const ElementwiseOperand& o) const {
    if (o.is_input) return static_cast<std::uint8_t>(kFusedInput + o.index);
    return place_[static_cast<std::size_t>(o.index)];
  }

  // Releases the places of values last used by this step.
  void release() {
    for (std::size_t s = 0; s < now_; ++s)
      if (last_use_[s] == now_ && place_[s] != kFusedNone) free_.push_back(place_[s]);
  }
  std::uint8_t free_place() {
    if (free_.empty()) {
      if (program_.places == kMaxFusedPlaces)
        fail(Code::internal, "a program keeps more than {} values at once", kMaxFusedPlaces);
      return static_cast<std::uint8_t>(program_.places++);
    }
    const std::uint8_t place = free_.back();
    free_.pop_back();
    return place;
  }

  void add(const FusedStep& step) { program_.steps.push_back(step); }

  std::span<const ElementwiseStep> steps_;
  std::span<const DType> inputs_;
  std::vector<std::size_t> last_use_;
  std::vector<std::uint8_t> place_;
  std::vector<std::uint8_t> free_;
  std::size_t now_ = 0;
  FusedProgram program_;
};
#undef TROUPE_CASE

}  // namespace

FusedProgram compile_fused(std::span<const ElementwiseStep> steps, std::span<const DType> inputs) {
  return Compiler(steps, inputs).run();
}

}  // namespace troupe
