// Plans for the shapes that calls are fed, against the general plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "tests/actors/session/drawn.hpp"
#include "tests/error_of.hpp"
#include "tests/patience.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/actors/session/shape_classes.hpp>
#include <troupe/devices/kernel.hpp>
#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/builder/variable.hpp>
#include <troupe/kernels/cpu/kept_layout.hpp>

namespace troupe {
namespace {

using testing::drawn;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;

// The lines about shapes that have got plans.
class ShapeLines {
 public:
  InferencePasses passes(std::size_t most = 8) {
    return {.shape_classes = most, .on_shapes = [this](const std::string& line) {
              const std::lock_guard lock(mutex_);
              lines_.push_back(line);
              wake_.notify_all();
            }};
  }
  // Waits for line `number`, the first is 0.
  std::string line(std::size_t number) {
    std::unique_lock lock(mutex_);
    if (!wake_.wait_for(lock, testing::kPatience, [&] { return lines_.size() > number; })) return "none came";
    return lines_[number];
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::string> lines_;
};

void expect_same_bits(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.dtype(), expected.dtype());
  ASSERT_EQ(actual.shape(), expected.shape());
  EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), expected.num_bytes()), 0);
}

struct ShapedModel {
  Graph graph;
  Output x, y;
};

// Runs inputs of each shape until it has a plan, and then again. Returns what is explained at the end.
std::string check_shapes(const ShapedModel& model, const std::vector<Shape>& shapes) {
  ShapeLines lines;
  Session general(model.graph, {.inference = InferencePasses{.switched_off = {"shape_classes"}}});
  Session shaped(model.graph, {.inference = lines.passes()});
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    SCOPED_TRACE(shapes[i].to_string());
    const Feeds feeds{{model.x, drawn(shapes[i], i + 1, -1, 1)}};
    const Tensor expected = general.run(feeds, model.y);
    for (std::uint64_t step = 0; step < ShapeClasses<int>::kRepeats; ++step)
      expect_same_bits(shaped.run(feeds, model.y), expected);
    EXPECT_EQ(lines.line(i), fmt::format("x f32{}: has a plan of its own", shapes[i].to_string()));
    for (int step = 0; step < 2; ++step) expect_same_bits(shaped.run(feeds, model.y), expected);
  }
  const std::string text = shaped.explain({model.x}, {model.y});
  EXPECT_THAT(text, HasSubstr(fmt::format("shape classes: {} have plans, at most 8\n", shapes.size())));
  for (const Shape& shape : shapes)
    EXPECT_THAT(text, HasSubstr(fmt::format("for x f32{}: 2 steps\n", shape.to_string())));
  EXPECT_THAT(general.explain({model.x}, {model.y}), Not(HasSubstr("shape classes")));
  return text.substr(text.find("shape classes: "));
}

Output dimension_of(const Output& x, std::int64_t axis) {
  const Output at = constant(*x.graph, Tensor::vector<std::int64_t>({axis}));
  return gather(shape_of(x), at);
}
Output one_number(Graph& g, std::int64_t value) { return constant(g, Tensor::vector<std::int64_t>({value})); }

// Attention, normalisation and gelu of a batch of any size and length, in the parts that exports have.
void make_transformer(ShapedModel& m) {
  Graph& g = m.graph;
  constexpr std::int64_t kWidth = 16, kHeads = 2;
  m.x = placeholder(g, DType::f32, Shape{kUnknown, kUnknown, kWidth}, "x");
  const auto dense = [&](const Output& x, std::int64_t in, std::int64_t out, std::uint64_t seed) {
    return matmul(x, constant(g, drawn({in, out}, seed, -0.4f, 0.4f))) + constant(g, drawn({out}, seed + 1, -1, 1));
  };
  const auto heads = [&](const Output& x) {
    const Output shape =
        concat({dimension_of(m.x, 0), dimension_of(m.x, 1), one_number(g, kHeads), one_number(g, kWidth / kHeads)}, 0);
    return transpose(reshape(x, shape), {0, 2, 1, 3});
  };
  const auto normalised = [&](const Output& x, std::uint64_t seed) {
    const Output off = x - mean(x, {-1}, {.keep_dims = true});
    const Output variance = mean(pow(off, constant(g, 2.0f)), {-1}, {.keep_dims = true});
    return off / sqrt(variance + 1e-5) * constant(g, drawn({kWidth}, seed, 0.5f, 2)) +
           constant(g, drawn({kWidth}, seed + 1, -1, 1));
  };
  // A place sees those before it.
  const Output length = squeeze(dimension_of(m.x, 1));
  const Output places = range(length);
  const Output sees = greater_equal(expand_dims(places, {1}), expand_dims(places, {0}));
  const Output mask = select(sees, constant(g, 0.0f), constant(g, -1e9f));
  const Output keys = transpose(heads(dense(m.x, kWidth, kWidth, 3)), {0, 1, 3, 2});
  const Output scores = matmul(heads(dense(m.x, kWidth, kWidth, 1)), keys) / std::sqrt(8.0) + mask;
  const Output read = transpose(matmul(softmax(scores), heads(dense(m.x, kWidth, kWidth, 5))), {0, 2, 1, 3});
  const Output joined = reshape(read, concat({dimension_of(m.x, 0), dimension_of(m.x, 1), one_number(g, kWidth)}, 0));
  const Output first = normalised(dense(joined, kWidth, kWidth, 7) + m.x, 9);
  m.y = normalised(dense(gelu(dense(first, kWidth, 32, 11)), 32, kWidth, 13) + first, 15);
}

TEST(ShapePlans, ATransformerHasTheSameBits) {
  ShapedModel m;
  make_transformer(m);
  const std::string text = check_shapes(m, {{1, 5, 16}, {3, 7, 16}, {1, 1, 16}, {2, 40, 16}});
  EXPECT_THAT(text, HasSubstr("; 0 slots of unknown size"));
  EXPECT_THAT(text, Not(HasSubstr("; 1 slots of unknown size")));
  EXPECT_THAT(text, HasSubstr("folded "));
  for (const char* op : {"Shape ", "Gather ", "Concat ", "Range ", "Select "}) EXPECT_THAT(text, Not(HasSubstr(op)));
}

TEST(ShapePlans, LstmsOfBothDirectionsHaveTheSameBits) {
  ShapedModel m;
  m.x = placeholder(m.graph, DType::f32, Shape{kUnknown, kUnknown, 20}, "x");
  const Output w = constant(m.graph, drawn({2, 4 * 12, 20}, 1, -0.3f, 0.3f));
  const Output r = constant(m.graph, drawn({2, 4 * 12, 12}, 2, -0.3f, 0.3f));
  m.y = lstm(m.x, w, r, {.direction = Direction::bidirectional}).y;
  check_shapes(m, {{7, 1, 20}, {7, 3, 20}, {2, 8, 20}});
}

TEST(ShapePlans, AConvolutionalNetworkHasTheSameBits) {
  ShapedModel m;
  Graph& g = m.graph;
  m.x = placeholder(g, DType::f32, Shape{kUnknown, kUnknown, kUnknown, 8}, "x");
  const auto conv = [&](const Output& x, std::int64_t size, std::uint64_t seed) {
    return bias_add(conv2d(x, constant(g, drawn({size, size, 8, 8}, seed, -0.3f, 0.3f))),
                    constant(g, drawn({8}, seed + 1, -1, 1)));
  };
  const Output block = relu(conv(relu(conv(m.x, 3, 1)), 3, 3) + m.x);
  m.y = matmul(mean(block, {1, 2}), constant(g, drawn({8, 5}, 5, -1, 1)));
  check_shapes(m, {{1, 9, 8, 8}, {2, 9, 8, 8}, {2, 5, 12, 8}});
}

TEST(ShapePlans, ABranchThatAShapeDecidesIsCut) {
  ShapedModel m;
  Graph& g = m.graph;
  m.x = placeholder(g, DType::f32, Shape{kUnknown, 4}, "x");
  const Output large = greater(squeeze(dimension_of(m.x, 0)), constant(g, std::int64_t{2}));
  m.y = if_else(
      large, {m.x}, [](Graph&, const Outputs& in) { return Outputs{tanh(in[0]) * 2.0}; },
      [](Graph&, const Outputs& in) { return Outputs{in[0] - 1.0}; }, "branch")[0];
  const std::string text = check_shapes(m, {{2, 4}, {3, 4}});
  EXPECT_THAT(text, HasSubstr("cut 'branch': always its else"));
  EXPECT_THAT(text, HasSubstr("cut 'branch': always its then"));
}

// A call of y = x * 2 with x [?].
struct DoubledTest : ::testing::Test {
  std::vector<Tensor> feed(std::int64_t size) const { return {drawn(Shape{size}, 1, -1, 1)}; }
  void run(Callable& call, std::int64_t size, std::uint64_t steps = ShapeClasses<int>::kRepeats) const {
    for (std::uint64_t i = 0; i < steps; ++i) ASSERT_EQ(call(feed(size))[0].shape(), Shape{size});
  }
  std::string classes(Session& session) {
    const std::string text = session.explain({x}, {y});
    const auto at = text.find("shape classes: ");
    return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
  }

  Graph graph;
  Output x = placeholder(graph, DType::f32, Shape{kUnknown}, "x");
  Output y = x * 2.0;
  ShapeLines lines;
};

TEST_F(DoubledTest, AsManyShapesAsAllowedHavePlans) {
  Session session(graph, {.inference = lines.passes(2)});
  EXPECT_EQ(classes(session), "shape classes: at most 2; the call has not been made");
  Callable call = session.callable({x}, {y});
  for (const std::int64_t size : {1, 2}) {
    run(call, size);
    lines.line(static_cast<std::size_t>(size) - 1);
  }
  EXPECT_EQ(classes(session), "shape classes: 2 have plans, at most 2");
  run(call, 3);
  EXPECT_EQ(lines.line(2), "x f32[3]: has a plan of its own");
  EXPECT_EQ(classes(session), "shape classes: 2 have plans, at most 2");
  EXPECT_THAT(session.explain({x}, {y}), Not(HasSubstr("for x f32[1]")));
}

TEST_F(DoubledTest, SwitchedOffOrWithoutPassesThereAreNone) {
  Session none(graph, {.inference = lines.passes(0)}), plain(graph),
      off(graph, {.inference = InferencePasses{.switched_off = {"shape_classes"}}}),
      arithmetic(graph, {.inference = InferencePasses{.switched_off = {"shape_classes", "shape_arithmetic"}}}),
      unoptimized(graph, {.optimize = false, .inference = lines.passes()});
  for (Session* session : {&none, &plain, &off, &arithmetic, &unoptimized}) {
    Callable call = session->callable({x}, {y});
    run(call, 3, 10);
    EXPECT_EQ(classes(*session), "");
  }
}

TEST_F(DoubledTest, StepsWithADeadlineRunTheSamePlan) {
  Session session(graph, {.inference = lines.passes()});
  Callable call = session.callable({x}, {y});
  run(call, 3);
  lines.line(0);
  const Tensor expected = call(feed(3))[0];
  expect_same_bits(call(feed(3), {.timeout = testing::kPatience})[0], expected);
  EXPECT_THAT(session.explain({x}, {y}), HasSubstr("for x f32[3]: 2 steps"));
}

TEST_F(DoubledTest, OnlyThePlanUsedLastKeepsMemory) {
  Task task({.threads = 1});
  Session session(task, graph, {.inference = lines.passes()});
  Callable call = session.callable({x}, {y});
  constexpr std::int64_t kSize = 1 << 20;
  std::uint64_t first = 0;
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::vector<Tensor> kept = feed(kSize + i);  // the product is not written over it
    for (std::uint64_t step = 0; step < ShapeClasses<int>::kRepeats; ++step) call(kept);
    lines.line(static_cast<std::size_t>(i));
    call(kept);
    const std::uint64_t used = task.device().allocator().stats().bytes_in_use;
    if (i == 0) first = used;
    EXPECT_GE(used, 4 * static_cast<std::uint64_t>(kSize));
    EXPECT_LT(used, first + 4 * static_cast<std::uint64_t>(kSize));
  }
}

TEST_F(DoubledTest, ShapesThatDoNotFitEachOtherKeepTheGeneralPlanAndItsError) {
  const Output other = placeholder(graph, DType::f32, Shape{kUnknown}, "other");
  const Output sum = x + other;
  Session session(graph, {.inference = lines.passes()});
  std::string first;
  for (std::uint64_t i = 0; i < 2 * ShapeClasses<int>::kRepeats; ++i) {
    const std::string message = error_of([&] { session.run({{x, feed(3)[0]}, {other, feed(2)[0]}}, sum); }).message();
    if (i == 0) first = message;
    EXPECT_EQ(message, first);
    if (i + 1 == ShapeClasses<int>::kRepeats) {
      EXPECT_THAT(lines.line(0), HasSubstr("x f32[3], other f32[2]: keeps the general plan: "));
    }
  }
  EXPECT_THAT(first, HasSubstr("Add"));
}

TEST_F(DoubledTest, PlansShareConstantsAndTheirLayoutsAndLeaveNoneBehind) {
  const Tensor all = Tensor::zeros(DType::f32, {3 * 3 * 16 * 16 + 1, 1});
  for (const bool aligned : {true, false}) {
    SCOPED_TRACE(aligned);
    Graph g;
    const Shape shape{3, 3, 16, 16};
    const Tensor filter = aligned ? drawn(shape, 1, -1, 1) : all.rows(1, all.shape()[0]).reshaped(shape);
    const Output images = placeholder(g, DType::f32, Shape{kUnknown, 8, 8, 16}, "x"), weights = constant(g, filter);
    const Output convolved = conv2d(images, weights);
    ShapeLines told;
    Session session(g, {.inference = told.passes(1)});
    Callable call = session.callable({images}, {convolved, weights});
    const auto run_images = [&](std::int64_t count) { return call({drawn(Shape{count, 8, 8, 16}, 1, -1, 1)})[1]; };
    const Tensor used = run_images(1);
    EXPECT_EQ(used.buffer().get() == filter.buffer().get(), aligned);
    const auto layouts = KeptLayout::of(&used);
    const auto general = layouts.use_count();
    EXPECT_GT(general, 1);
    run_images(2);
    for (std::uint64_t i = 1; i < ShapeClasses<int>::kRepeats; ++i) run_images(2);
    told.line(0);
    EXPECT_EQ(run_images(2).buffer().get(), used.buffer().get());
    const auto with_one = layouts.use_count();
    EXPECT_GT(with_one, general);
    for (std::uint64_t i = 0; i < ShapeClasses<int>::kRepeats; ++i) run_images(3);
    told.line(1);
    EXPECT_TRUE(testing::eventually([&] { return layouts.use_count() == with_one; })) << "of the plan dropped";
    session.close();
    call = Callable();
    EXPECT_TRUE(testing::eventually([&] { return layouts.use_count() == 1; }));
  }
}

TEST(ShapePlans, StepsStayInTheOrderTheyWereStarted) {
  Graph g;
  VariableRef v = variable(g, {.name = "v", .initial_value = constant(g, 0.0f)});
  const Output x = placeholder(g, DType::f32, Shape{kUnknown}, "x");
  const Output next = v.assign(v.read() * 0.5 + mean(x));
  const Output init = initializer(g);
  ShapeLines lines;
  Session session(g, {.inference = lines.passes(2)});
  session.run_targets({init});
  const Callable call = session.callable({x}, {next});
  ASSERT_TRUE(call.in_order());
  constexpr int kSteps = 2000;
  const auto fed = [](int step) { return drawn(Shape{1 + step % 3}, static_cast<std::uint64_t>(step), -1, 1); };
  std::vector<std::future<std::vector<Tensor>>> steps;
  for (int i = 0; i < kSteps; ++i) {
    if (i == kSteps / 2) lines.line(1);
    steps.push_back(call.async({fed(i)}));
  }
  Session plain(g);
  plain.run_targets({init});
  for (int i = 0; i < kSteps; ++i)
    ASSERT_EQ(steps[static_cast<std::size_t>(i)].get()[0].item<float>(), plain.run({{x, fed(i)}}, next).item<float>())
        << i;
}

// A task with an op that says that it runs and waits to be let through.
class GatedPlans : public ::testing::Test {
 protected:
  static std::shared_ptr<const OpRegistry> ops() {
    auto ops = std::make_shared<OpRegistry>(standard_ops());
    ops->add(Op("Gate")
                 .input("x", DType::f32)
                 .output("y", DType::f32)
                 .shape([](ShapeContext& c) { c.set_output(0, c.input(0)); })
                 .stateful());
    return ops;
  }
  void add_kernel(KernelRegistry& kernels) {
    kernels.add({.op = "Gate", .device_type = "CPU", .dtypes = {}, .make = [this](const KernelInit&) -> Kernel {
                   return [this](KernelContext& c) {
                     if (c.input(0).data<float>()[0] < 0) {
                       inside.set_value();
                       gate.get_future().wait();
                     }
                     c.set_output(0, c.input(0));
                   };
                 }});
  }
  static Tensor rows(std::int64_t count, float value) {
    Tensor out(DType::f32, Shape{count});
    std::ranges::fill(out.mutable_values<float>(), value);
    return out;
  }
  std::future<StepResult> start(const Tensor& fed, StepId* step = nullptr) {
    auto promise = std::make_shared<std::promise<StepResult>>();
    auto future = promise->get_future();
    const StepId id = call.start({fed}, {}, [promise](StepResult r) { promise->set_value(std::move(r)); });
    if (step) *step = id;
    return future;
  }
  // Runs steps until the shape has a plan, the `number`th.
  void make_plan(std::int64_t count, std::size_t number) {
    for (std::uint64_t i = 0; i < ShapeClasses<int>::kRepeats; ++i) call({rows(count, 1)});
    EXPECT_THAT(lines.line(number), HasSubstr("has a plan of its own"));
  }

  std::promise<void> inside, gate;
  ShapeLines lines;
  std::shared_ptr<const OpRegistry> registry = ops();
  Task task{{.threads = 1, .ops = registry, .register_kernels = [this](KernelRegistry& k) { add_kernel(k); }}};
  Graph graph{*registry};
  Output x = placeholder(graph, DType::f32, Shape{kUnknown}, "x");
  Output y = add_op("Gate", {x}) + 1.0;
  std::unique_ptr<Session> session =
      std::make_unique<Session>(task, graph, SessionOptions{.inference = lines.passes(1)});
  Callable call = session->callable({x}, {y});
};

TEST_F(GatedPlans, APlanIsDroppedWhileItRuns) {
  make_plan(2, 0);
  auto running = start(rows(2, -3));
  inside.get_future().wait();
  std::vector<std::future<StepResult>> others;
  for (std::uint64_t i = 0; i < ShapeClasses<int>::kRepeats; ++i) others.push_back(start(rows(5, 1)));
  EXPECT_THAT(lines.line(1), HasSubstr("x f32[5]: has a plan of its own"));
  EXPECT_THAT(session->explain({x}, {y}), Not(HasSubstr("for x f32[2]")));
  gate.set_value();
  EXPECT_EQ(running.get().fetches.at(0).data<float>()[1], -2);
  for (auto& other : others) EXPECT_EQ(other.get().fetches.at(0).data<float>()[4], 2);
}

TEST_F(GatedPlans, AStepOfAPlanIsCancelled) {
  make_plan(2, 0);
  StepId step;
  auto running = start(rows(2, -3), &step);
  inside.get_future().wait();
  session->cancel(step);
  gate.set_value();
  EXPECT_EQ(running.get().error.code(), Code::cancelled);
}

TEST_F(GatedPlans, ClosingTheSessionEndsStepsOfPlans) {
  make_plan(2, 0);
  auto running = start(rows(2, -3));
  inside.get_future().wait();
  session->close();
  gate.set_value();
  EXPECT_EQ(running.get().error.message(), "the session was closed");
}

}  // namespace
}  // namespace troupe
