#include "tools/bench/bench_ops.hpp"

#include <algorithm>
#include <chrono>

#include <troupe/devices/kernel.hpp>

namespace troupe::bench {
namespace {

void add_kernels(KernelRegistry& kernels, Tally& tally) {
  const auto add = [&](std::string op, KernelFactory make) {
    kernels.add({.op = std::move(op), .device_type = "CPU", .dtypes = {}, .make = std::move(make)});
  };
  add("BenchNull", [&tally](const KernelInit&) -> Kernel { return [&tally](KernelContext&) { tally.add(); }; });
  add("BenchJoin", [&tally](const KernelInit&) -> Kernel {
    return [&tally](KernelContext& context) {
      tally.add();
      context.set_output(0, context.input(0));
    };
  });
  add("BenchSpin", [&tally](const KernelInit& init) -> Kernel {
    return [&tally, iterations = init.attributes.integer("iterations")](KernelContext&) {
      tally.add();
      spin(iterations);
    };
  });
}

}  // namespace

std::uint64_t Tally::total() const {
  std::uint64_t sum = 0;
  for (const Counter& counter : counters_) sum += counter.value.load(std::memory_order_relaxed);
  return sum;
}

std::size_t Tally::index_of_new_thread() {
  static std::atomic<std::size_t> next{0};
  return thread_index = std::min(next.fetch_add(1, std::memory_order_relaxed), kShared);
}

void spin(std::int64_t iterations) {
  std::uint64_t x = 1;
  for (std::int64_t i = 0; i < iterations; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(x));  // prevents computation in advance
  }
}

std::int64_t spin_iterations(double seconds) {
  constexpr std::int64_t kProbe = 100000;
  double fastest = 1;
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    spin(kProbe);
    fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return static_cast<std::int64_t>(seconds / fastest * kProbe);
}

std::shared_ptr<const OpRegistry> bench_ops() {
  auto ops = std::make_shared<OpRegistry>(standard_ops());
  ops->add(Op("BenchNull").stateful());
  ops->add(Op("BenchJoin")
               .input("a", DType::f32)
               .input("b", DType::f32)
               .output("out", DType::f32)
               .shape([](ShapeContext& c) { c.set_output(0, c.input(0)); })
               .stateful());
  ops->add(Op("BenchSpin").attr("iterations", AttrType::integer).stateful());
  return ops;
}

TaskOptions bench_task(int threads, Tally& tally) {
  TaskOptions options{.gpus = {.count = 0}};
  options.threads = threads;
  options.ops = bench_ops();
  options.register_kernels = [&tally](KernelRegistry& kernels) { add_kernels(kernels, tally); };
  return options;
}

}  // namespace troupe::bench
