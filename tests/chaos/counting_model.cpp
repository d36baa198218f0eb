#include "tests/chaos/counting_model.hpp"

#include <chrono>
#include <cmath>
#include <thread>

#include <troupe/graph/builder/builder.hpp>
#include <troupe/graph/gradients/autodiff.hpp>

namespace troupe::chaos {
namespace {

constexpr int kClasses = 2;
// What has left a step is written before such a node runs (scheduler/plan/departures.hpp).
const Attributes kSlow{{"_cost_ns", std::int64_t{1'000'000}}};

void rest(double milliseconds) {
  if (milliseconds > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
}

class CountExamples final : public Layer {
 public:
  explicit CountExamples(std::int64_t examples) : examples_(examples) {}
  Output apply(LayerContext& context, Output x) const override {
    const WeightSpec spec{.dtype = DType::f32, .shape = Shape{examples_}};
    const Output a = context.weight("a", spec, initializers::zeros()).read();
    const Output b = context.weight("b", spec, initializers::zeros()).read();
    return add_op("CountExamples", {a, b, x}, kSlow);
  }
  std::string kind() const override { return "count"; }

 private:
  std::int64_t examples_;
};

void count_into(Tensor& gradient, const Tensor& x) {
  const auto pixels = x.values<float>();
  for (std::size_t i = 0; i + 1 < pixels.size(); i += 2) {
    const auto id = std::lround(pixels[i] * 255) + 256 * std::lround(pixels[i + 1] * 255);
    gradient.mutable_values<float>()[static_cast<std::size_t>(id)] -= 1;
  }
}

}  // namespace

std::shared_ptr<const OpRegistry> counting_ops() {
  auto ops = std::make_shared<OpRegistry>(standard_ops());
  ops->add(Op("CountExamples")
               .input("a", DType::f32)
               .input("b", DType::f32)
               .input("x", DType::f32)
               .output("logits", DType::f32)
               .shape([](ShapeContext& c) {
                 c.set_output(0, Shape{c.input(2)[0], kClasses});
               })
               .gradient([](GradientContext& c) {
                 const Output first = add_op("CountExamplesGradient", {c.input(0), c.input(2)}, kSlow);
                 c.set(0, first);
                 c.set(1, add_op("CountExamplesAgain", {first}, kSlow));
               })
               .stateful());
  ops->add(Op("CountExamplesGradient")
               .input("variable", DType::f32)
               .input("x", DType::f32)
               .output("gradient", DType::f32)
               .shape([](ShapeContext& c) { c.set_output(0, c.input(0)); })
               .stateful());
  ops->add(Op("CountExamplesAgain")
               .input("gradient", DType::f32)
               .output("copy", DType::f32)
               .shape([](ShapeContext& c) { c.set_output(0, c.input(0)); })
               .stateful());
  return ops;
}

std::function<void(KernelRegistry&)> counting_kernels(StepTime time) {
  return [time](KernelRegistry& kernels) {
    kernels.add(
        {.op = "CountExamples", .device_type = "CPU", .dtypes = {}, .make = [time](const KernelInit&) -> Kernel {
           return [time](KernelContext& context) {
             rest(time.after);
             context.set_output(0, Tensor::zeros(DType::f32, Shape{context.input(2).shape()[0], kClasses}));
           };
         }});
    kernels.add({.op = "CountExamplesGradient",
                 .device_type = "CPU",
                 .dtypes = {},
                 .make = [time](const KernelInit&) -> Kernel {
                   return [time](KernelContext& context) {
                     rest(time.before);
                     Tensor gradient = Tensor::zeros(DType::f32, context.input(0).shape());
                     count_into(gradient, context.input(1));
                     context.set_output(0, std::move(gradient));
                   };
                 }});
    kernels.add(
        {.op = "CountExamplesAgain", .device_type = "CPU", .dtypes = {}, .make = [time](const KernelInit&) -> Kernel {
           return [time](KernelContext& context) {
             rest(time.between);
             context.set_output(0, context.input(0).clone());
           };
         }});
  };
}

Sequential counting_model(std::int64_t examples) { return Sequential({std::make_shared<CountExamples>(examples)}); }

DataSplits numbered_examples(std::int64_t examples) {
  const auto make = [](std::int64_t n) {
    Dataset out{Tensor::zeros(DType::u8, Shape{n}.concatenated(kCountedShape)), Tensor::zeros(DType::i32, Shape{n})};
    for (std::int64_t i = 0; i < n; ++i) {
      out.images.mutable_values<std::uint8_t>()[static_cast<std::size_t>(2 * i)] = static_cast<std::uint8_t>(i % 256);
      out.images.mutable_values<std::uint8_t>()[static_cast<std::size_t>(2 * i + 1)] =
          static_cast<std::uint8_t>(i / 256);
    }
    return out;
  };
  return {make(examples), make(1)};
}

}  // namespace troupe::chaos
