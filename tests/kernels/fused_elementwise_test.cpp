// FusedElementwise has the bits of the ops of its program one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "tests/kernels/evaluate_graph.hpp"
#include "tests/kernels/random_tensors.hpp"
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/elementwise_program.hpp>
#include <troupe/graph/elementwise_vocabulary.hpp>
#include <troupe/graph/passes/callable.hpp>
#include <troupe/graph/passes/optimize.hpp>

namespace troupe {
namespace {

using namespace troupe::testing;

// Random values, and those that need care.
Tensor special_tensor(DType dtype, const Shape& shape, std::mt19937_64& engine) {
  Tensor t = random_tensor(dtype, shape, engine);
  const auto put = [&]<class T>(T) {
    const float inf = std::numeric_limits<float>::infinity();
    const float values[] = {0.0f, -0.0f, inf, -inf, std::nanf(""), 1.0f, 1e-30f, -3.5f};
    auto elements = t.mutable_values<T>();
    for (std::size_t i = 0; i < elements.size(); i += 3) elements[i] = static_cast<T>(values[i / 3 % 8]);
  };
  if (dtype == DType::f32) put(float{});
  if (dtype == DType::f64) put(double{});
  if (dtype == DType::f16) put(Half{});
  if (dtype == DType::bf16) put(BFloat16{});
  return t;
}

Tensor bools(const Shape& shape) {
  Tensor t(DType::boolean, shape);
  for (std::int64_t i = 0; i < t.num_elements(); ++i) t.mutable_data<bool>()[i] = i % 3 == 0;
  return t;
}

Tensor bytes(const Shape& shape) {
  Tensor t(DType::u8, shape);
  for (std::int64_t i = 0; i < t.num_elements(); ++i)
    t.mutable_data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 37 % 256);
  return t;
}

// Equal to the bit, but for NaN, which is any NaN: which of two operands gives it its sign is the compiler's choice.
bool same_numbers(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  const auto same = [](double x, double y) {
    return (x != x && y != y) || std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  };
  return std::ranges::equal(doubles(a), doubles(b), same);
}

// The value of a node of `op`, and of a program of it alone: followed by Neg, for programs return no bools.
void expect_same_bits(const KernelRegistry& registry, const std::string& op, DType result, std::vector<Tensor> inputs) {
  SCOPED_TRACE(fmt::format("{} {}", op, name(result)));
  const auto device = test_device();
  const DType from = inputs.back().dtype();
  Attributes attributes;
  if (op == "Cast") attributes = {{"SrcT", from}, {"DstT", result}};
  Tensor wanted = run_kernel(registry, *device, {op, from, inputs, attributes})[0];
  std::vector<DType> types;
  ElementwiseStep step{op, result, {}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    types.push_back(inputs[i].dtype());
    step.operands.push_back({true, static_cast<int>(i)});
  }
  ASSERT_TRUE(elementwise_rule(op, types, result));
  std::vector<ElementwiseStep> steps{step};
  if (result == DType::boolean) {
    steps.push_back({"Cast", DType::f32, {{false, 0}}});
    wanted = run_kernel(registry, *device,
                        {"Cast", DType::boolean, {wanted}, {{"SrcT", DType::boolean}, {"DstT", DType::f32}}})[0];
  }
  const DType last = steps.back().dtype;
  const Tensor got = run_every_way(
      registry, {"FusedElementwise", last, inputs, {{"T", last}, {"Tin", types}, {"program", to_strings(steps)}}})[0];
  // A GPU has one NaN for all that it rounds, and keeps those that it moves.
  EXPECT_TRUE(kernel_target().on_host() ? bitwise_equal(got, wanted) : same_numbers(got, wanted))
      << got.to_string() << " is not " << wanted.to_string();
}

#define TROUPE_NAME(NAME) #NAME,

TEST(FusedElementwise, EveryOpHasTheBitsOfItsOwnKernel) {
  const KernelRegistry registry = all_kernels();
  std::mt19937_64 engine(5);
  const Shape full{37, 61}, row{61}, column{37, 1}, one{};
  for (DType dtype : kFloats) {
    const auto draw = [&](const Shape& shape) { return special_tensor(dtype, shape, engine); };
    for (const char* op : {TROUPE_UNARY_OPS(TROUPE_NAME)}) expect_same_bits(registry, op, dtype, {draw(full)});
    for (const char* op : {TROUPE_ARITHMETIC_OPS(TROUPE_NAME) "Div"})
      for (const auto& [a, b] : {std::pair{full, full},
                                 {full, one},
                                 {one, full},
                                 {full, row},
                                 {column, full},
                                 {column, row},
                                 {one, one},
                                 {Shape{0, 3}, Shape{3}}})
        expect_same_bits(registry, op, dtype, {draw(a), draw(b)});
    for (const char* op : {TROUPE_FLOAT_GRADIENT_OPS(TROUPE_NAME) "ReluGrad"})
      expect_same_bits(registry, op, dtype, {draw(full), draw(full)});
    for (const char* op : {TROUPE_COMPARISON_OPS(TROUPE_NAME)})
      for (const auto& [a, b] : {std::pair{full, full}, {full, one}, {row, column}})
        expect_same_bits(registry, op, DType::boolean, {draw(a), draw(b)});
    for (const auto& [c, a, b] : {std::tuple{full, full, full}, {full, one, full}, {row, full, one}, {one, row, full}})
      expect_same_bits(registry, "Select", dtype, {bools(c), draw(a), draw(b)});
    for (DType to : kFloats) expect_same_bits(registry, "Cast", to, {draw(full)});
    expect_same_bits(registry, "Cast", dtype, {bools(full)});
    expect_same_bits(registry, "Cast", dtype, {bytes(full)});
  }
}
#undef TROUPE_NAME

// Runs `fetch` with and without the pass.
class Compared {
 public:
  Compared(Graph& graph, Output fetch, std::vector<Output> fed) {
    Signature signature{.fetches = {fetch.name()}};
    for (const Output& o : fed) signature.feeds.push_back(o.name());
    for (bool on : {true, false}) {
      OptimizeOptions options;
      if (!on) options.switched_off = {"fuse_elementwise"};
      options.report = [this](const PassReport& r) {
        if (r.pass == "fuse_elementwise") notes = r.notes;
      };
      graphs_[on] = optimize(make_callable_graph(graph, signature), options);
    }
  }
  void run(const std::vector<Tensor>& values) {
    Tensor results[2];
    for (bool on : {true, false}) results[on] = value(*graphs_[on], values);
    EXPECT_TRUE(same_numbers(results[0], results[1])) << results[0].to_string() << " " << results[1].to_string();
  }
  const Graph& fused() const { return *graphs_[true]; }
  PassNotes notes;

 private:
  static Tensor value(const Graph& graph, const std::vector<Tensor>& values) {
    GraphEvaluator evaluator(3);
    Feeds feeds;
    Endpoint wanted;
    for (int id = 0; id < graph.size(); ++id) {
      const Node& node = graph.node(id);
      if (node.op->name == "Feed") feeds[{id, 0}] = values[static_cast<std::size_t>(node.attributes.integer("index"))];
      if (node.op->name == "Fetch") wanted = node.inputs[0];
    }
    return evaluator.run(graph, feeds, {wanted})[0];
  }
  std::unique_ptr<Graph> graphs_[2];
};

// `cheap`: only ops whose values can stay in registers (kernels/cpu/fused_chain.hpp).
Output grow(std::mt19937& engine, std::vector<Output> values, int size, bool cheap) {
  const std::vector<unsigned> choices = cheap ? std::vector<unsigned>{0, 4, 5, 7, 8, 9, 10, 11}
                                              : std::vector<unsigned>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const auto pick = [&] {
    return values[values.size() - 1 - std::min(engine() % values.size(), engine() % values.size())];
  };
  for (int i = 0; i < size; ++i) {
    const Output a = pick(), b = pick();
    switch (choices[engine() % choices.size()]) {
      case 0:
        values.push_back(relu(a));
        break;
      case 1:
        values.push_back(tanh(a));
        break;
      case 2:
        values.push_back(select(less(a, b), b, a));
        break;
      case 3:
        values.push_back(cast(cast(a, engine() % 2 ? DType::bf16 : DType::f64), DType::f32));
        break;
      case 4:
        values.push_back(a * 0.37);
        break;
      case 5:
        values.push_back(add_n({a, a, a * 2}));
        break;
      case 6:
        values.push_back(add_op("SigmoidGrad", {a, a}));
        break;
      case 7:
        values.push_back(square(a));
        break;
      case 8:
        values.push_back(maximum(a, b));
        break;
      case 9:
        values.push_back(a / b);
        break;
      default:
        values.push_back(engine() % 2 ? a + b : a - b);
    }
  }
  return values.back();
}

// In registers from the bytes on, also beside other inputs, kept for later, and in the rest of a block.
TEST(FusedElementwise, BytesAreConvertedOnTheWay) {
  for (const Shape& shape : {Shape{32, 784}, Shape{3, 61}, Shape{5}}) {
    Graph g;
    const Output x = placeholder(g, DType::u8, shape), y = placeholder(g, DType::f32, shape);
    const Output floats = cast(x, DType::f32);
    const Output sum = y * 0.5 + cast(x, DType::f32) / 255.0;
    std::mt19937_64 draws(7);
    Compared scaled(g, {floats * (1 / 255.0) - 0.5}, {x}), both(g, {square(sum) - sum}, {x, y});
    EXPECT_FALSE(scaled.notes.empty());
    scaled.run({bytes(shape)});
    both.run({bytes(shape), special_tensor(DType::f32, shape, draws)});
  }
}

TEST(FusedElementwise, ALargeResultIsWrittenPastTheCaches) {
  Graph g;
  const std::int64_t elements = (8 << 20) / 4 + 77;
  const Output x = placeholder(g, DType::f32, {elements});
  const Output row = placeholder(g, DType::f32, {elements});
  std::mt19937_64 draws(5);
  Compared compared(g, {minimum(square(relu(x * 1.5 + 0.25)) - row, constant(g, 2.0f))}, {x, row});
  compared.run({special_tensor(DType::f32, {elements}, draws), special_tensor(DType::f32, {elements}, draws)});
}

TEST(FusedElementwise, RandomGraphsHaveTheSameBits) {
  std::size_t fired = 0;
  for (std::uint32_t seed = 0; seed < 400 && !HasFailure(); ++seed) {
    const std::int64_t width = seed % 3 == 0 ? 80 : 81;
    const std::vector<Shape> shapes{{40, width}, {40, width}, {width}, {40, 1}, {}};
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 engine(seed);
    std::mt19937_64 draws(seed);
    Graph g;
    std::vector<Output> fed;
    std::vector<Tensor> values;
    for (const Shape& shape : shapes) {
      Shape known = shape;
      if (shape.rank() == 2 && engine() % 2) known.set_dim(0, kUnknown);
      fed.push_back(placeholder(g, DType::f32, known));
      values.push_back(special_tensor(DType::f32, shape, draws));
    }
    Compared compared(g, grow(engine, fed, 3 + static_cast<int>(engine() % 40), seed % 2), fed);
    fired += compared.notes.size();
    compared.run(values);
  }
  EXPECT_GT(fired, 400u);  // else the test proves nothing
}

// What the bench measures, in place.
TEST(FusedElementwise, WritesOverAnInputThatNobodyElseNeeds) {
  TROUPE_CPU_ONLY("looks at where tensors lie");
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const std::vector<std::string> program{"Mul:f32 i0 i1", "Add:f32 r0 i0"};
  const Kernel kernel = registry.get("FusedElementwise", "CPU", DType::f32)(
      {"test", {{"T", DType::f32}, {"program", program}}, std::vector<DType>{DType::f32, DType::f32}, {}});
  Tensor x(DType::f32, {5000});
  for (float& v : x.mutable_values<float>()) v = 2;
  const std::byte* memory = x.raw();
  DirectContext context(*device, {std::move(x), Tensor::scalar(3.0f)}, {}, 1);
  kernel(context);
  EXPECT_EQ(context.outputs[0].raw(), memory);
  for (float v : context.outputs[0].values<float>()) ASSERT_EQ(v, 8.0f);
}

TEST(FusedElementwise, RefusesWhatTheOpsWouldRefuse) {
  const KernelRegistry registry = all_kernels();
  const auto device = test_device();
  const auto run = [&](std::vector<std::string> program, std::vector<Tensor> inputs) {
    return message_of(Code::invalid_argument, [&] {
      run_kernel(registry, *device, {"FusedElementwise", DType::f32, std::move(inputs), {{"program", program}}});
    });
  };
  const Tensor two = Tensor::vector<float>({1, 2}), three = Tensor::vector<float>({1, 2, 3});
  EXPECT_EQ(run({"Neg:f32 i0", "ReluGrad:f32 r0 i1"}, {two, Tensor::scalar(1.0f)}),
            "gradient shape [2] differs from value shape []");
  EXPECT_NE(run({"Neg:f32 i0", "Add:f32 r0 i1"}, {two, three}), "");
  EXPECT_EQ(run({"Neg:f32 r0"}, {two}), "program line 'Neg:f32 r0': 'r0' is not one of the 0 operands available");
  EXPECT_EQ(run({"Neg:f32 i1"}, {two}), "program line 'Neg:f32 i1': 'i1' is not one of the 1 operands available");
  EXPECT_EQ(run({"Neg:f64 i0"}, {two}), "program line 'Neg:f64 i0' cannot be computed element by element");
  EXPECT_EQ(run({"MatMul:f32 i0 i0"}, {two}), "program line 'MatMul:f32 i0 i0' cannot be computed element by element");
  EXPECT_EQ(run({"Neg i0"}, {two}), "program line 'Neg i0' must begin with OP:DTYPE");
  EXPECT_EQ(run({"Neg:f99 i0"}, {two}), "program line 'Neg:f99 i0': unknown dtype");
  EXPECT_EQ(run({"Neg:f32 x0"}, {two}), "program line 'Neg:f32 x0': operands must be iN or rN");
  EXPECT_EQ(run({}, {two}), "a program has 1 to 32 steps and at most 16 inputs, not 0 and 1");
}

}  // namespace
}  // namespace troupe
