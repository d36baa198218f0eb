// What elementwise kernels of GPUs work out on the host; no GPU is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include <troupe/kernels/common/movement.hpp>
#include <troupe/kernels/cuda/broadcast_plan.hpp>
#include <troupe/kernels/cuda/copy_plan.hpp>
#include <troupe/kernels/cuda/fused_compiler.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

TEST(FastDivider, DividesAsTheProcessorDoes) {
  std::mt19937 engine(3);
  std::vector<std::uint32_t> divisors{1, 2, 3, 5, 7, 10, 641, 65535, 65536, 65537, 0x7ffffffe, 0x7fffffff, 0x80000000};
  for (int i = 0; i < 2000; ++i) divisors.push_back((engine() >> (engine() % 31)) % 0x7fffffffu + 1);
  for (const std::uint32_t divisor : divisors) {
    const FastDivider divider = make_divider(divisor);
    std::vector<std::uint32_t> values{0, 1, divisor - 1, divisor, divisor + 1, 0x7fffffff};
    for (std::uint32_t q : {2u, 3u, 1000u, 0x7fffffffu / divisor}) {
      values.push_back(q * divisor);
      values.push_back(q * divisor - 1);
    }
    for (int i = 0; i < 50; ++i) values.push_back(engine());
    for (const std::uint32_t value : values)
      ASSERT_EQ(divider.quotient(value & 0x7fffffffu), (value & 0x7fffffffu) / divisor) << divisor;
  }
}

// The place of every element of the operands, as a kernel finds it.
template <int kOperands>
std::vector<std::vector<std::int64_t>> places(const IndexPlan<kOperands>& plan, std::size_t operands) {
  std::vector<std::vector<std::int64_t>> out(operands);
  for (std::int64_t item = 0; item < plan.items; ++item) {
    std::int64_t offsets[kOperands] = {};
    auto left = static_cast<std::uint32_t>(item);
    for (int d = 0; d < plan.rank; ++d) {
      const std::uint32_t quotient = d + 1 < plan.rank ? plan.dividers[d].quotient(left) : 0;
      for (std::size_t o = 0; o < operands; ++o)
        offsets[o] +=
            static_cast<std::int64_t>(left - quotient * static_cast<std::uint32_t>(plan.sizes[d])) * plan.strides[o][d];
      left = quotient;
    }
    for (std::size_t o = 0; o < operands; ++o)
      for (int i = 0; i < plan.width; ++i) out[o].push_back(offsets[o] + (plan.moves[o] ? i : 0));
  }
  for (std::size_t o = 0; o < operands; ++o)
    for (int i = 0; i < plan.rest; ++i) out[o].push_back(plan.moves[o] ? plan.items * plan.width + i : 0);
  return out;
}

// The same by the definition of broadcasting.
std::vector<std::int64_t> broadcast_places(const Shape& out, const Shape& operand) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < out.num_elements(); ++i) {
    std::int64_t left = i, place = 0, step = 1;
    for (int d = out.rank() - 1; d >= 0; --d) {
      const std::int64_t index = left % out.dim(d);
      left /= out.dim(d);
      const int own = d - (out.rank() - operand.rank());
      if (own < 0) continue;
      if (operand.dim(own) != 1) place += index * step;
      step *= operand.dim(own);
    }
    places.push_back(place);
  }
  return places;
}

const std::vector<std::vector<Shape>> kCases = {
    {{}, {}},
    {{1}, {1, 1}},
    {{7}, {7}},
    {{4, 8}, {4, 8}},
    {{4, 8}, {8}},
    {{4, 8}, {4, 1}},
    {{4, 8}, {}},
    {{4, 1}, {1, 8}},
    {{3, 5, 8}, {5, 1}},
    {{3, 1, 8}, {1, 5, 1}},
    {{2, 3, 4, 5}, {2, 3, 1, 1}, {4, 5}},
    {{2, 1, 4, 1, 8}, {3, 1, 5, 1}, {2, 1, 1, 1, 1}},
    {{5, 1}, {6}},
    {{5, 1}, {1, 10}},
    {{1, 1, 16}, {1, 16}, {16}},
    {{2, 1, 3, 1, 2, 1, 3, 4}, {1, 2, 1, 3, 1, 2, 1, 1}},
};

TEST(CudaBroadcastPlan, FindsEveryElementWhateverTheWidth) {
  alignas(64) static const std::byte memory[64] = {};
  for (const auto& shapes : kCases) {
    Shape out = shapes[0];
    for (const Shape& shape : shapes) out = broadcast(out, shape);
    const auto plan = plan_items(out, shapes);
    SCOPED_TRACE(::testing::Message() << "result " << out.to_string());
    EXPECT_EQ(plan.items, out.num_elements());
    for (const int width : {1, 2, 4, 8}) {
      SCOPED_TRACE(::testing::Message() << "width " << width);
      auto wide = plan;
      const std::vector<OperandMemory> operands(shapes.size(), {memory, 4});
      const bool widened = width > 1 && widen_items(wide, width, operands, {memory, 4});
      EXPECT_EQ(wide.width, widened ? width : 1);
      EXPECT_EQ(wide.items * wide.width + wide.rest, out.num_elements());
      const auto found = places(wide, shapes.size());
      for (std::size_t o = 0; o < shapes.size(); ++o)
        EXPECT_EQ(found[o], broadcast_places(out, shapes[o]))
            << out.to_string() << ", operand " << o << ", width " << width;
      const auto two = narrowed<2>(wide);
      const auto of_two = places(two, 2);
      for (std::size_t o = 0; o < 2; ++o) EXPECT_EQ(of_two[o], found[o]) << "operand " << o;
    }
  }
}

TEST(CudaBroadcastPlan, MergesWhatCanBeWalkedAtOnce) {
  const auto rank = [](const Shape& out, const std::vector<Shape>& operands) { return plan_items(out, operands).rank; };
  EXPECT_EQ(rank({2, 3, 4, 5}, {{2, 3, 4, 5}, {2, 3, 4, 5}}), 1);
  EXPECT_EQ(rank({2, 3, 4, 5}, {{2, 3, 4, 5}, {}}), 1);
  EXPECT_EQ(rank({2, 3, 4, 5}, {{2, 3, 4, 5}, {4, 5}}), 2);
  EXPECT_EQ(rank({2, 3, 4, 5}, {{2, 3, 4, 5}, {2, 1, 4, 1}}), 4);
}

TEST(CudaBroadcastPlan, KeepsSingleElementsWhereItemsWouldNotBeAligned) {
  alignas(64) static const std::byte memory[64] = {};
  const auto widens = [](const std::vector<Shape>& shapes, int width, const std::vector<OperandMemory>& operands,
                         const OperandMemory& out) {
    auto plan = plan_items(broadcast(shapes[0], shapes[1]), shapes);
    return widen_items(plan, width, operands, out);
  };
  const OperandMemory good{memory, 4}, shifted{memory + 4, 4}, bytes{memory + 4, 1};
  EXPECT_TRUE(widens({{64}, {64}}, 4, {good, good}, good));
  EXPECT_TRUE(widens({{64}, {64}}, 4, {good, good}, bytes));
  EXPECT_FALSE(widens({{64}, {64}}, 8, {good, good}, bytes));
  EXPECT_FALSE(widens({{64}, {64}}, 4, {shifted, good}, good));
  EXPECT_FALSE(widens({{64}, {64}}, 4, {good, shifted}, good));
  EXPECT_FALSE(widens({{64}, {64}}, 4, {good, good}, shifted));
  EXPECT_TRUE(widens({{64}, {}}, 4, {good, shifted}, good));   // a scalar may lie anywhere
  EXPECT_TRUE(widens({{65}, {65}}, 4, {good, good}, good));    // one is left over
  EXPECT_FALSE(widens({{3}, {3}}, 4, {good, good}, good));     // not one item
  EXPECT_FALSE(widens({{5, 6}, {6}}, 4, {good, good}, good));  // rows of 6
  EXPECT_FALSE(widens({{5, 1}, {6}}, 4, {good, good}, good));
  EXPECT_FALSE(widens({{5, 8}, {5, 1}}, 16, {good, good}, good));
  EXPECT_TRUE(widens({{5, 8}, {5, 1}}, 8, {good, good}, good));  // a stride of 1, but it does not move within an item
  // Rows of 4 of a tensor of rows of 4, but seen across 2 x 1 x 4: its steps are multiples of 4 too.
  EXPECT_TRUE(widens({{2, 3, 4}, {2, 1, 4}}, 4, {good, good}, good));
}

TEST(CudaBroadcastPlan, TellsWhen32BitsDoNotReach) {
  const std::vector<Shape> shapes{{std::int64_t{1} << 31, 2}, {1, 2}};
  auto plan = plan_items(shapes[0], shapes);
  EXPECT_TRUE(plan.wide);
  EXPECT_EQ(plan.items, std::int64_t{1} << 32);
  const std::vector<Shape> half{{(std::int64_t{1} << 30) - 1, 2}, {1, 2}};
  EXPECT_FALSE(plan_items(half[0], half).wide);
  alignas(64) static const std::byte memory[64] = {};
  const std::vector<Shape> flat{{std::int64_t{1} << 32}};
  auto items = plan_items(flat[0], flat);
  EXPECT_TRUE(items.wide);
  ASSERT_TRUE(widen_items(items, 4, std::vector<OperandMemory>{{memory, 4}}, {memory, 4}));
  EXPECT_FALSE(items.wide);
}

TEST(CudaBroadcastPlan, RefusesShapesThatDoNotBroadcast) {
  const std::vector<Shape> wrong{{2, 3}}, longer{{1, 3}};
  EXPECT_THROW(plan_items({2, 4}, wrong), Error);
  EXPECT_THROW(plan_items({3}, longer), Error);
}

TEST(CudaBroadcastPlan, SingleItemsBeginTheRest) {
  alignas(64) static const std::byte memory[64] = {};
  const std::vector<Shape> shapes{{67}, {}};
  auto plan = plan_items({67}, shapes);
  ASSERT_TRUE(widen_items(plan, 4, std::vector<OperandMemory>{{memory, 4}, {memory, 4}}, {memory, 4}));
  EXPECT_EQ(plan.rest, 3);
  const auto rest = single_items(plan, plan.rest);
  EXPECT_EQ(places(rest, 2), (std::vector<std::vector<std::int64_t>>{{0, 1, 2}, {0, 0, 0}}));
  EXPECT_EQ(rest.items, 3);
  EXPECT_EQ(rest.rest, 0);
}

TEST(LaunchGrid, CoversAllItemsAndGivesFewToManyBlocks) {
  for (const std::int64_t items : {std::int64_t{0}, std::int64_t{1}, std::int64_t{63}, std::int64_t{64 * 4 + 1},
                                   std::int64_t{100000}, std::int64_t{1} << 28, std::int64_t{1} << 38})
    for (const int unroll : {1, 4, 16}) {
      SCOPED_TRACE(::testing::Message() << items << " items, unroll " << unroll);
      const LaunchGrid grid = grid_for(items, unroll);
      EXPECT_GE(static_cast<std::int64_t>(grid.blocks) * grid.threads * unroll, items);
      EXPECT_LE((static_cast<std::int64_t>(grid.blocks) - 1) * grid.threads * unroll,
                std::max<std::int64_t>(items - 1, 0));
      EXPECT_GE(grid.blocks, 1u);
      EXPECT_EQ(grid.threads % 32, 0u);
    }
  EXPECT_EQ(grid_for(1 << 28, 4).threads, 256u);
  EXPECT_EQ(grid_for(1000, 4).threads, 64u);
  EXPECT_EQ(grid_for(1 << 28, 4, 32).threads, 32u);
}

// ---- copies

// What the kernels do, byte by byte.
void copy_as_planned(const CopyPlan& copy, const std::byte* source, std::byte* target) {
  const auto bytes = static_cast<std::int64_t>(copy.element_bytes);
  const auto move = [&](std::int64_t from, std::int64_t to) {
    std::copy_n(source + from * bytes, bytes, target + to * bytes);
  };
  const auto& plan = copy.plan;
  for (std::int64_t item = 0; item < plan.items; ++item) {
    std::int64_t left = item, from = 0, to = 0;
    for (int d = 0; d < plan.rank; ++d) {
      const std::int64_t quotient = d + 1 < plan.rank ? plan.dividers[d].quotient(static_cast<std::uint32_t>(left)) : 0;
      from += (left - quotient * plan.sizes[d]) * plan.strides[0][d];
      to += (left - quotient * plan.sizes[d]) * plan.strides[1][d];
      left = quotient;
    }
    switch (copy.kind) {
      case CopyKind::whole:
      case CopyKind::items:
        ASSERT_TRUE(is_multiple(source + from * bytes, static_cast<std::size_t>(bytes))) << "item " << item;
        ASSERT_TRUE(is_multiple(target + to * bytes, static_cast<std::size_t>(bytes))) << "item " << item;
        move(from, to);
        break;
      case CopyKind::same:
        ASSERT_TRUE(plan.width == 1 || is_multiple(target + to * bytes, 16)) << "item " << item;
        for (int i = 0; i < plan.width; ++i) move(from, to + i);
        break;
      case CopyKind::tiles:
        for (std::int64_t r = 0; r < copy.rows; ++r)
          for (std::int64_t c = 0; c < copy.columns; ++c)
            move(from + r + c * copy.source_column, to + r * copy.target_row + c);
    }
  }
  for (int i = 0; i < plan.rest; ++i) move(0, plan.items * plan.width + i);
}

// A copy of `dims` between buffers of bytes, at these places, must do what the definition says, and nothing else.
// Returns how.
CopyPlan check_copy(const std::vector<CopyDim>& dims, std::int64_t bytes, std::int64_t source_at = 0,
                    std::int64_t target_at = 0) {
  std::int64_t source_size = source_at + 1, target_size = target_at + 1;
  for (const CopyDim& d : dims) {
    source_size += (d.size - 1) * d.source_stride;
    target_size += (d.size - 1) * d.target_stride;
  }
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  const auto room = [](std::int64_t count) { return std::vector<Line>(static_cast<std::size_t>(count / 64 + 1)); };
  auto source = room(source_size * bytes), planned = room(target_size * bytes), expected = planned;
  std::mt19937 engine(11);
  const auto begin = [](std::vector<Line>& lines) { return reinterpret_cast<std::byte*>(lines.data()); };
  for (std::int64_t i = 0; i < source_size * bytes; ++i) begin(source)[i] = static_cast<std::byte>(engine() % 251 + 1);
  std::vector<std::int64_t> index(dims.size(), 0);
  for (bool more = true; more;) {
    std::int64_t from = source_at, to = target_at;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      from += index[d] * dims[d].source_stride;
      to += index[d] * dims[d].target_stride;
    }
    std::copy_n(begin(source) + from * bytes, bytes, begin(expected) + to * bytes);
    more = false;
    for (std::size_t d = dims.size(); d-- > 0 && !more;) {
      more = ++index[d] < dims[d].size;
      if (!more) index[d] = 0;
    }
  }
  const std::byte* from = begin(source) + source_at * bytes;
  std::byte* to = begin(planned) + target_at * bytes;
  const CopyPlan plan = plan_copy(merge_loops(dims), static_cast<std::size_t>(bytes), from, to);
  copy_as_planned(plan, from, to);
  EXPECT_TRUE(std::equal(begin(planned), begin(planned) + planned.size() * 64, begin(expected)));
  return plan;
}

TEST(CudaCopyPlan, MovesAsManyBytesAtOnceAsLieRight) {
  const auto rows = [](std::int64_t count, std::int64_t width, std::int64_t source, std::int64_t target) {
    return std::vector<CopyDim>{{count, source, target}, {width, 1, 1}};
  };
  EXPECT_EQ(check_copy({{100, 1, 1}}, 4).kind, CopyKind::whole);
  EXPECT_EQ(check_copy({{100, 1, 1}}, 4).element_bytes, 16);
  EXPECT_EQ(check_copy({}, 4).kind, CopyKind::whole);
  EXPECT_EQ(check_copy(rows(5, 8, 16, 8), 4).element_bytes, 16);
  EXPECT_EQ(check_copy(rows(5, 8, 16, 8), 4).kind, CopyKind::items);
  EXPECT_EQ(check_copy(rows(5, 8, 18, 8), 4).element_bytes, 8);
  EXPECT_EQ(check_copy(rows(5, 7, 16, 8), 4).element_bytes, 4);
  EXPECT_EQ(check_copy(rows(5, 8, 16, 8), 4, 1).element_bytes, 4);
  EXPECT_EQ(check_copy(rows(5, 8, 16, 8), 4, 2).element_bytes, 8);
  EXPECT_EQ(check_copy(rows(5, 8, 16, 24), 4, 0, 3).element_bytes, 4);
  EXPECT_EQ(check_copy(rows(5, 16, 32, 16), 1).element_bytes, 16);
  EXPECT_EQ(check_copy(rows(5, 6, 10, 6), 1).element_bytes, 2);
  EXPECT_EQ(check_copy(rows(5, 3, 4, 3), 8).element_bytes, 8);
}

TEST(CudaCopyPlan, RepeatsOneElement) {
  const CopyPlan all = check_copy({{1000, 0, 1}}, 4);
  EXPECT_EQ(all.kind, CopyKind::same);
  EXPECT_EQ(all.plan.width, 4);
  EXPECT_EQ(check_copy({{1003, 0, 1}}, 2).plan.rest, 1003 % 8);
  EXPECT_EQ(check_copy({{1003, 0, 1}}, 2, 0, 1).plan.width, 1);
  EXPECT_EQ(check_copy({{3, 0, 1}}, 4).plan.width, 1);
  EXPECT_EQ(check_copy({{7, 1, 16}, {16, 0, 1}}, 1).plan.width, 16);
  EXPECT_EQ(check_copy({{7, 1, 12}, {12, 0, 1}}, 2).plan.width, 1);
  EXPECT_EQ(check_copy({{7, 1, 20}, {16, 0, 1}}, 1).plan.width, 1);
}

TEST(CudaCopyPlan, TransposesByTiles) {
  for (const std::int64_t bytes : {1, 2, 4, 8}) {
    SCOPED_TRACE(::testing::Message() << bytes << " bytes");
    EXPECT_EQ(check_copy({{70, 1, 50}, {50, 70, 1}}, bytes).kind, CopyKind::tiles);
    const CopyPlan batch = check_copy({{3, 3500, 3500}, {70, 1, 50}, {50, 70, 1}}, bytes);
    EXPECT_EQ(batch.kind, CopyKind::tiles);
    EXPECT_EQ(batch.plan.items, 3);
    // [a, b, c, d] to [d, b, a, c]
    EXPECT_EQ(check_copy({{9, 1, 280}, {4, 90, 70}, {7, 360, 10}, {10, 9, 1}}, bytes).kind, CopyKind::tiles);
  }
  EXPECT_EQ(check_copy({{3, 1, 50}, {50, 3, 1}}, 4).kind, CopyKind::items);  // not worth a tile
  // The innermost dimension stays: vectors of it are moved.
  const CopyPlan vectors = check_copy({{6, 8, 40}, {5, 48, 8}, {8, 1, 1}}, 4);
  EXPECT_EQ(vectors.kind, CopyKind::items);
  EXPECT_EQ(vectors.element_bytes, 16);
}

TEST(CudaCopyPlan, CopiesWhateverTheLoops) {
  std::mt19937 engine(17);
  for (int round = 0; round < 300; ++round) {
    // A dense target, or one with gaps, in some order of dimensions of the source; some repeat.
    const std::size_t rank = 1 + engine() % 5;
    std::vector<CopyDim> dims(rank);
    std::vector<std::size_t> order(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t sizes[] = {1, 2, 3, 4, 8, 12};
      dims[d].size = sizes[engine() % 6];
      order[d] = d;
    }
    if (engine() % 2 == 0) std::shuffle(order.begin(), order.end(), engine);
    const std::int64_t gap = engine() % 3 == 0 ? 1 + static_cast<std::int64_t>(engine() % 4) : 0;
    std::int64_t target = 1, source = 1;
    for (std::size_t d = rank; d-- > 0;) {
      dims[d].target_stride = target;
      target *= dims[d].size + gap;
      CopyDim& from = dims[order[d]];
      from.source_stride = engine() % 6 == 0 ? 0 : source;
      if (from.source_stride != 0) source *= from.size + (engine() % 4 == 0 ? 4 : 0);
    }
    check_copy(dims, std::int64_t{1} << (engine() % 4), engine() % 3, engine() % 2 == 0 ? 0 : engine() % 5);
    if (HasFatalFailure() || HasNonfatalFailure()) {
      for (const CopyDim& d : dims) ADD_FAILURE() << d.size << " " << d.source_stride << " " << d.target_stride;
      return;
    }
  }
}

// ---- programs

// What the kernel does, for one element. Of exact ops only.
double interpret(const FusedProgram& program, const std::vector<double>& inputs) {
  double x = -1e9, y = -1e9;
  bool bit = false;
  std::map<int, double> kept;
  for (const FusedStep& step : program.steps) {
    if (step.source == kFusedSame)
      y = x;
    else if (step.source >= kFusedInput && step.source != kFusedNone)
      y = inputs.at(step.source - kFusedInput);
    else if (step.source != kFusedNone)
      y = kept.at(step.source);
    if (step.swapped) std::swap(x, y);
    switch (step.op) {
      case FusedOp::load:
        x = y;
        break;
      case FusedOp::mask:
        bit = y != 0;
        break;
      case FusedOp::Select:
        x = bit ? x : y;
        break;
      case FusedOp::Cast:
        break;
      case FusedOp::Neg:
        x = -x;
        break;
      case FusedOp::Sub:
        x = x - y;
        break;
      case FusedOp::Add:
        x = x + y;
        break;
      case FusedOp::Less:
        x = x < y;
        break;
      case FusedOp::Greater:
        x = x > y;
        break;
      default:
        ADD_FAILURE() << "an op that the test does not know";
    }
    if (step.rounding == FusedRounding::f32) x = static_cast<float>(x);
    if (step.rounding == FusedRounding::f16) x = static_cast<double>(static_cast<float>(Half(static_cast<float>(x))));
    if (step.keep != kFusedNone) kept[step.keep] = x;
  }
  return x;
}

FusedProgram compiled(const std::vector<std::string>& lines, const std::vector<DType>& inputs) {
  return compile_fused(parse_elementwise(lines, inputs), inputs);
}

TEST(FusedCompiler, BringsOperandsWhereverTheyAre) {
  const std::vector<DType> f(3, DType::f32);
  const auto value = [&](const std::vector<std::string>& lines) { return interpret(compiled(lines, f), {100, 10, 1}); };
  EXPECT_EQ(value({"Neg:f32 i1"}), -10);
  EXPECT_EQ(value({"Sub:f32 i0 i1"}), 90);
  EXPECT_EQ(value({"Sub:f32 i1 i1"}), 0);
  EXPECT_EQ(value({"Neg:f32 i0", "Sub:f32 r0 i1"}), -110);
  EXPECT_EQ(value({"Neg:f32 i0", "Sub:f32 i1 r0"}), 110);
  EXPECT_EQ(value({"Neg:f32 i0", "Sub:f32 r0 r0"}), 0);
  EXPECT_EQ(value({"Neg:f32 i0", "Neg:f32 i1", "Sub:f32 r0 r1"}), -90);
  EXPECT_EQ(value({"Neg:f32 i0", "Neg:f32 i1", "Sub:f32 r1 r0"}), 90);
  EXPECT_EQ(value({"Neg:f32 i0", "Neg:f32 i1", "Sub:f32 r0 i2", "Add:f32 r1 r2"}), -111);
  EXPECT_EQ(value({"Neg:f32 i0", "Neg:f32 r0", "Sub:f32 r0 r1", "Add:f32 r1 r0", "Sub:f32 r3 r2"}), 200);
}

TEST(FusedCompiler, SelectsWithAnyOfItsOperandsInRegisters) {
  const std::vector<DType> types{DType::f32, DType::f32, DType::f32, DType::boolean};
  const auto value = [&](const std::vector<std::string>& lines, double condition) {
    return interpret(compiled(lines, types), {100, 10, 1, condition});
  };
  for (const double c : {0.0, 1.0}) {
    SCOPED_TRACE(::testing::Message() << "condition " << c);
    EXPECT_EQ(value({"Select:f32 i3 i0 i1"}, c), c != 0 ? 100 : 10);
    EXPECT_EQ(value({"Neg:f32 i0", "Select:f32 i3 r0 i1"}, c), c != 0 ? -100 : 10);
    EXPECT_EQ(value({"Neg:f32 i0", "Select:f32 i3 i1 r0"}, c), c != 0 ? 10 : -100);
    EXPECT_EQ(value({"Neg:f32 i0", "Select:f32 i3 r0 r0"}, c), -100);
    EXPECT_EQ(value({"Neg:f32 i0", "Neg:f32 i1", "Select:f32 i3 r0 r1"}, c), c != 0 ? -100 : -10);
    EXPECT_EQ(value({"Less:bool i0 i1", "Select:f32 r0 i0 i1"}, c), 10);
    EXPECT_EQ(value({"Less:bool i0 i1", "Neg:f32 i0", "Select:f32 r0 i1 r1"}, c), -100);
    EXPECT_EQ(value({"Less:bool i1 i0", "Neg:f32 i0", "Select:f32 r0 r1 i1", "Sub:f32 r2 r1"}, c), 0);
  }
}

// Random programs against their definition.
TEST(FusedCompiler, ComputesWhatTheProgramSays) {
  std::mt19937 engine(5);
  const std::vector<DType> types{DType::f32, DType::f32, DType::f32, DType::boolean};
  for (int round = 0; round < 2000; ++round) {
    const int count = 1 + static_cast<int>(engine() % kMaxElementwiseSteps);
    std::vector<ElementwiseStep> steps;
    const auto operand = [&](bool boolean) {
      for (;;) {
        const int all = 4 + static_cast<int>(steps.size());
        // Recent results more often.
        const auto recent = static_cast<int>(engine() % static_cast<unsigned>(std::min(all, 3)));
        const int at = engine() % 2 == 0 ? all - 1 - recent : static_cast<int>(engine() % static_cast<unsigned>(all));
        const DType type = at < 4 ? types[static_cast<std::size_t>(at)] : steps[static_cast<std::size_t>(at - 4)].dtype;
        if ((type == DType::boolean) == boolean) return ElementwiseOperand{at < 4, at < 4 ? at : at - 4};
      }
    };
    for (int s = 0; s < count; ++s) {
      switch (s + 1 == count ? engine() % 4 : engine() % 5) {
        case 0:
          steps.push_back({"Neg", DType::f32, {operand(false)}});
          break;
        case 1:
          steps.push_back({"Sub", DType::f32, {operand(false), operand(false)}});
          break;
        case 2:
          steps.push_back({"Add", DType::f32, {operand(false), operand(false)}});
          break;
        case 3:
          steps.push_back({"Select", DType::f32, {operand(true), operand(false), operand(false)}});
          break;
        default:
          steps.push_back({"Less", DType::boolean, {operand(false), operand(false)}});
      }
    }
    const std::vector<double> inputs{100, 10, 1, static_cast<double>(engine() % 2)};
    std::vector<double> results;
    for (const ElementwiseStep& step : steps) {
      const auto v = [&](std::size_t k) {
        const ElementwiseOperand& o = step.operands[k];
        return o.is_input ? inputs[static_cast<std::size_t>(o.index)] : results[static_cast<std::size_t>(o.index)];
      };
      results.push_back(step.op == "Neg"      ? -v(0)
                        : step.op == "Sub"    ? v(0) - v(1)
                        : step.op == "Add"    ? v(0) + v(1)
                        : step.op == "Select" ? (v(0) != 0 ? v(1) : v(2))
                                              : v(0) < v(1));
    }
    const FusedProgram program = compile_fused(steps, types);
    ASSERT_LE(program.steps.size(), static_cast<std::size_t>(kMaxFusedSteps))
        << ::testing::PrintToString(to_strings(steps));
    ASSERT_EQ(interpret(program, inputs), results.back()) << ::testing::PrintToString(to_strings(steps));
  }
}

TEST(FusedCompiler, ChainsKeepNothing) {
  const auto program = compiled({"Mul:f32 i0 i1", "Relu:f32 r0", "Add:f32 r1 i2"}, std::vector<DType>(3, DType::f32));
  EXPECT_EQ(program.places, 0);
  EXPECT_EQ(program.steps.size(), 4u);  // a load, and one each
  EXPECT_FALSE(program.wide);
}

TEST(FusedCompiler, PlacesAreUsedAgain) {
  std::vector<std::string> lines{"Neg:f32 i0"};
  for (int i = 0; i + 2 < kMaxElementwiseSteps; i += 2) {
    lines.push_back("Neg:f32 r" + std::to_string(i));
    lines.push_back("Add:f32 r" + std::to_string(i) + " r" + std::to_string(i + 1));
  }
  const std::vector<DType> one(1, DType::f32);
  EXPECT_EQ(compiled(lines, one).places, 1);
}

TEST(FusedCompiler, RoundsToWhatEachStepIs) {
  const auto program = compiled({"Cast:f64 i0", "Neg:f64 r0", "Cast:f32 r1", "Neg:f32 r2", "Cast:f16 r3"},
                                std::vector<DType>{DType::f32});
  EXPECT_TRUE(program.wide);
  EXPECT_EQ(program.dtype, DType::f16);
  std::vector<FusedRounding> roundings;
  std::vector<bool> wide;
  for (const FusedStep& step : program.steps) {
    roundings.push_back(step.rounding);
    wide.push_back(step.wide);
  }
  using enum FusedRounding;
  EXPECT_EQ(roundings, (std::vector<FusedRounding>{none, none, none, f32, f32, f16}));
  EXPECT_EQ(wide, (std::vector<bool>{false, false, true, true, false, false}));
}

TEST(FusedCompiler, RefusesAResultOfBool) {
  EXPECT_THROW(compiled({"Less:bool i0 i1"}, std::vector<DType>(2, DType::f32)), Error);
}

}  // namespace
}  // namespace troupe
