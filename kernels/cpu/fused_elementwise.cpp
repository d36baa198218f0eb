// FusedElementwise: runs a program of elementwise ops block by block, so that intermediate values stay in the nearest
// cache. Bit-identical to the ops in sequence: each result depends only on its operands and is rounded to its dtype.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include <troupe/graph/elementwise_program.hpp>
#include <troupe/kernels/common/elementwise.hpp>
#include <troupe/kernels/cpu/elementwise.hpp>
#include <troupe/kernels/cpu/families.hpp>
#include <troupe/kernels/cpu/fused_chain.hpp>
#include <troupe/kernels/cpu/fused_steps.hpp>
#include <troupe/kernels/cpu/scratch.hpp>

namespace troupe {
namespace {

constexpr std::size_t kRegisterBytes = 4096;
// Results this large would evict everything else from the caches and be evicted themselves before they are read.
constexpr std::size_t kStreamedBytes = 8u << 20;
constexpr std::size_t kMaxInputs = kMaxElementwiseInputs;
constexpr std::size_t kMaxSteps = kMaxElementwiseSteps;
static_assert(kElementGrain % kRegisterBytes == 0);

struct Step {
  StepCode code;
  ChainCode chain;
  std::array<ElementwiseOperand, 3> operands;
  std::size_t num_operands;
  std::size_t place;            // its register; for the last step: the output
  bool needed_later = false;    // by a step other than the next
  bool converts_bytes = false;  // u8 to f32: begins a chain
};

struct Program {
  ElementwiseShapes shapes;
  DType dtype;  // of the result
  std::vector<Step> steps;
  std::vector<std::size_t> input_sizes;  // of one element
  std::size_t registers = 0;
  std::int64_t block = 0;  // elements that fit in a register, whatever their dtype
  bool all_f32 = true;     // but for bytes that are converted: may be a chain
};

// Assigns a register to each result, freed after its last use.
void place_results(std::span<const ElementwiseStep> steps, Program& program) {
  std::vector<std::size_t> last_use(steps.size(), 0);
  for (std::size_t s = 0; s < steps.size(); ++s)
    for (const ElementwiseOperand& o : steps[s].operands)
      if (!o.is_input) last_use[static_cast<std::size_t>(o.index)] = s;
  for (std::size_t s = 0; s < steps.size(); ++s) program.steps[s].needed_later = last_use[s] > s + 1;
  std::vector<std::size_t> free;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const auto release = [&](bool same_size) {
      for (std::size_t r = 0; r < s; ++r) {
        const bool fits = size_of(steps[r].dtype) == size_of(steps[s].dtype) && program.steps[s].code.in_place;
        if (last_use[r] == s && fits == same_size) free.push_back(program.steps[r].place);
      }
    };
    release(true);  // this step may write over them
    if (free.empty()) free.push_back(program.registers++);
    program.steps[s].place = free.back();
    free.pop_back();
    release(false);
  }
}

Program compile(const KernelInit& init) {
  const auto steps = parse_elementwise(init.attributes.get<std::vector<std::string>>("program"), init.input_types);
  Program program{.shapes{steps, init.input_types}, .dtype = steps.back().dtype};
  std::size_t widest = 1;
  for (DType t : init.input_types) {
    program.input_sizes.push_back(size_of(t));
    widest = std::max(widest, size_of(t));
    program.all_f32 &= t == DType::f32 || t == DType::u8;
  }
  for (const ElementwiseStep& step : steps) {
    const DType from = operand_type(step.operands.back(), steps, init.input_types);
    Step made{.code = find_step(step.op, from, step.dtype),
              .chain = find_chain(step.op),
              .num_operands = step.operands.size()};
    if (!made.code.run)
      fail(Code::unimplemented, "'{}': unsupported for {} to {}", step.op, name(from), name(step.dtype));
    made.converts_bytes = from == DType::u8 && step.dtype == DType::f32;
    std::ranges::copy(step.operands, made.operands.begin());
    program.steps.push_back(made);
    program.all_f32 &= step.dtype == DType::f32;
    widest = std::max(widest, size_of(step.dtype));
  }
  program.block = static_cast<std::int64_t>(kRegisterBytes / std::max<std::size_t>(widest, sizeof(float)));
  place_results(steps, program);
  return program;
}

// Inputs of one run and how they are traversed.
struct Inputs {
  struct Input {
    const std::byte* data = nullptr;
    bool moves = true;                         // false: a single element
    const BroadcastPlan* stretched = nullptr;  // if set: copied to its own register, block by block
  };
  std::array<Input, kMaxInputs> all;
  std::array<BroadcastPlan, kMaxInputs> plans;
  std::size_t num_stretched = 0;
};

Inputs prepare(const KernelContext& context, const Shape& shape, std::int64_t total) {
  Inputs inputs;
  for (int i = 0; i < context.num_inputs(); ++i) {
    const Tensor& tensor = context.input(i);
    Inputs::Input& input = inputs.all[static_cast<std::size_t>(i)];
    input.data = tensor.raw();
    if (tensor.num_elements() == total) continue;
    if (tensor.num_elements() == 1) {
      input.moves = false;
      continue;
    }
    BroadcastPlan& plan = inputs.plans[inputs.num_stretched++];
    plan = plan_broadcast(shape, {&tensor.shape(), 1});
    input.stretched = &plan;
  }
  return inputs;
}

template <std::size_t kSize>
void fill(const std::byte* value, std::byte* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(out + i * static_cast<std::int64_t>(kSize), value, kSize);
}

void fill(std::size_t size, const std::byte* value, std::byte* out, std::int64_t count) {
  switch (size) {
    case 1:
      return fill<1>(value, out, count);
    case 2:
      return fill<2>(value, out, count);
    case 4:
      return fill<4>(value, out, count);
    default:
      return fill<8>(value, out, count);
  }
}

// Copies elements [begin, end) of a broadcast input.
void stretch(const Inputs::Input& input, std::size_t size, std::int64_t begin, std::int64_t end, std::byte* out) {
  const auto bytes = static_cast<std::int64_t>(size);
  for_each_stretch(*input.stretched, begin, end, [&](std::int64_t at, const auto& offsets, std::int64_t count) {
    const std::byte* from = input.data + offsets[0] * bytes;
    std::byte* to = out + (at - begin) * bytes;
    if (input.stretched->inner_contiguous(0))
      std::memcpy(to, from, static_cast<std::size_t>(count * bytes));
    else
      fill(size, from, to, count);
  });
}

// Runs blocks of a program on one thread.
class BlockRunner {
 public:
  // `num_bytes`: size of the whole result.
  BlockRunner(const Program& program, const Inputs& inputs, std::byte* out, std::size_t num_bytes)
      : program_(program),
        inputs_(inputs),
        out_(out),
        streams_(num_bytes >= kStreamedBytes && reinterpret_cast<std::uintptr_t>(out) % kVectorBytes == 0),
        memory_((program.registers + inputs.num_stretched) * kRegisterBytes) {}

  // Runs elements [begin, begin + count), at most a block.
  void run(std::int64_t begin, std::int64_t count) {
    place_inputs(begin, count);
    std::int64_t done = 0;
    if (count >= kChainElements && chain_at(begin)) {
      done = count / kChainElements * kChainElements;
      run_chain(cells_.data(), done);
      if (done == count) return;
      place_inputs(begin + done, count - done);
    }
    run_steps(begin + done, count - done);
  }

 private:
  static constexpr std::size_t kMaxCells = 3 * kMaxSteps + 1;

  std::byte* place(std::size_t i) const { return memory_.as<std::byte>() + i * kRegisterBytes; }
  std::byte* result_place(std::size_t step, std::int64_t begin) const {
    if (step + 1 < program_.steps.size()) return place(program_.steps[step].place);
    return out_ + begin * static_cast<std::int64_t>(size_of(program_.dtype));
  }

  void place_inputs(std::int64_t begin, std::int64_t count) {
    std::size_t stretched = program_.registers;
    for (std::size_t i = 0; i < program_.input_sizes.size(); ++i) {
      const Inputs::Input& input = inputs_.all[i];
      const std::size_t size = program_.input_sizes[i];
      given_[i] = {input.data + (input.moves ? begin * static_cast<std::int64_t>(size) : 0), input.moves};
      if (!input.stretched) continue;
      given_[i].data = place(stretched);
      stretch(input, size, begin, begin + count, place(stretched++));
    }
  }

  // Runs the whole block step by step.
  void run_steps(std::int64_t begin, std::int64_t count) {
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      const Step& step = program_.steps[s];
      std::array<StepOperand, 3> operands;
      bool moves = false;
      for (std::size_t k = 0; k < step.num_operands; ++k) {
        operands[k] = operand(step.operands[k]);
        moves |= operands[k].moves;
      }
      if (!moves)  // scalars: compute one element anew per block, since registers are reused
        for (StepOperand& o : operands) o.moves = true;
      std::byte* to = result_place(s, begin);
      step.code.run(step.code, operands.data(), to, moves ? count : 1);
      results_[s] = {to, moves};
    }
  }

  StepOperand operand(const ElementwiseOperand& o) const {
    return o.is_input ? given_[static_cast<std::size_t>(o.index)] : results_[static_cast<std::size_t>(o.index)];
  }

  // Prepares the cells for the block at `begin`; returns false if the program is not a chain.
  bool chain_at(std::int64_t begin) {
    if (!program_.all_f32 || (chain_begin_ >= 0 && num_cells_ == 0)) return false;
    if (chain_begin_ < 0) {
      chain_begin_ = begin;
      if (make_chain(begin)) return true;
      num_cells_ = 0;
      return false;
    }
    for (std::size_t i = 0; i < num_cells_; ++i)
      cells_[i].operand = reinterpret_cast<float*>(reinterpret_cast<std::byte*>(cells_[i].operand) +
                                                   advances_[i] * (begin - chain_begin_));
    chain_begin_ = begin;
    return true;
  }

  // The bytes by which the operand's address moves with an element: none for scalars, registers and stretched inputs.
  std::int64_t advances(const ElementwiseOperand& o) const {
    if (!o.is_input) return 0;
    const auto& input = inputs_.all[static_cast<std::size_t>(o.index)];
    const bool moves = input.moves && !input.stretched;
    return moves ? static_cast<std::int64_t>(program_.input_sizes[static_cast<std::size_t>(o.index)]) : 0;
  }

  // Makes cells of the steps; returns false if they are not a chain: a step goes through memory, or has only scalars.
  bool make_chain(std::int64_t begin) {
    const auto add = [&](ChainFunction run, const std::byte* data, std::int64_t advance) {
      cells_[num_cells_] = {run, reinterpret_cast<float*>(const_cast<std::byte*>(data))};
      advances_[num_cells_++] = advance;
      return run != nullptr;
    };
    const auto keep = [&](std::size_t s) {
      results_[s] = {result_place(s, begin), true};
      if (program_.steps[s].needed_later) add(chain_keep(), results_[s].data, 0);
    };
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      const Step& step = program_.steps[s];
      const auto in_registers = [&](std::size_t k) {
        return s > 0 && step.operands[k] == ElementwiseOperand{false, static_cast<int>(s) - 1};
      };
      std::size_t held = 0;  // the operand that is, or will be, in the registers
      if (step.num_operands == 2 && !in_registers(0) && (in_registers(1) || !operand(step.operands[0]).moves)) held = 1;
      if (step.converts_bytes) {
        const StepOperand bytes = operand(step.operands[0]);
        if (!bytes.moves || !add(chain_load_bytes(), bytes.data, advances(step.operands[0]))) return false;
        keep(s);
        continue;
      }
      if (!in_registers(held)) {
        const StepOperand first = operand(step.operands[held]);
        if (!first.moves || !add(chain_load(), first.data, advances(step.operands[held]))) return false;
      }
      if (step.num_operands == 1) {
        if (!add(step.chain[ChainOperand::none], nullptr, 0)) return false;
      } else if (step.operands[0] == step.operands[1]) {
        if (!add(step.chain[ChainOperand::itself], nullptr, 0)) return false;
      } else {
        const StepOperand other = operand(step.operands[1 - held]);
        const ChainOperand kind = held == 0 ? (other.moves ? ChainOperand::right_tensor : ChainOperand::right_scalar)
                                            : (other.moves ? ChainOperand::left_tensor : ChainOperand::left_scalar);
        if (!add(step.chain[kind], other.data, advances(step.operands[1 - held]))) return false;
      }
      keep(s);
    }
    add(chain_store(streams_), results_[program_.steps.size() - 1].data, sizeof(float));
    return true;
  }

  const Program& program_;
  const Inputs& inputs_;
  std::byte* out_;
  bool streams_;
  Scratch memory_;
  std::array<StepOperand, kMaxInputs> given_;
  std::array<StepOperand, kMaxSteps> results_;
  std::array<ChainCell, kMaxCells> cells_;
  std::array<std::int64_t, kMaxCells> advances_;
  std::size_t num_cells_ = 0;
  std::int64_t chain_begin_ = -1;  // start of the block that the cells are ready for
};

void run(const Program& program, KernelContext& context) {
  const Shape shape = program.shapes.result(context);
  const std::int64_t total = shape.num_elements();
  if (total == 0) return context.set_output(0, context.allocate(program.dtype, shape));
  const Inputs inputs = prepare(context, shape, total);
  Tensor out = take_any_or_allocate(context, program.dtype, shape);
  std::byte* to = out.mutable_raw();
  context.parallelism().parallel_for(total, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    BlockRunner runner(program, inputs, to, out.num_bytes());
    for (std::int64_t at = begin; at < end; at += program.block) runner.run(at, std::min(program.block, end - at));
    finish_streams();
  });
  context.set_output(0, std::move(out));
}

}  // namespace

StepCode find_step(std::string_view op, DType from, DType to) {
  const StepCode unary = find_unary_step(op, from, to);
  return unary.run ? unary : find_binary_step(op, from, to);
}

void register_fused_kernels(KernelRegistry& registry) {
  registry.add({"FusedElementwise",
                "CPU",
                {DType::f32, DType::f64, DType::f16, DType::bf16},
                [](const KernelInit& init) -> Kernel {
                  return [program = compile(init)](KernelContext& context) { run(program, context); };
                }});
}

}  // namespace troupe
