// Eager mode: what an op costs that runs when it is called.
#include <memory>
#include <string>

#include "tools/bench/cases.hpp"
#include "tools/bench/compared_step.hpp"
#include "tools/bench/kernel_step.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/eager/eager.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe::bench {
namespace {

struct Sum {
  explicit Sum(const Shape& shape) {
    const Tensor left = random_tensor(shape, 1), right = random_tensor(shape, 2);
    files.write("a", left);
    files.write("b", right);
    a = constant(eager.graph(), left);
    b = constant(eager.graph(), right);
  }
  Output operator()() const { return a + b; }

  TensorFiles files;
  Task task{{.threads = 1, .gpus = {.count = 0}}};
  Eager eager{task};
  Output a, b;
};

Contest sums(const Settings& settings, const Shape& shape) {
  const auto sum = std::make_shared<Sum>(shape);
  constexpr int kOps = 1000;  // between two looks at the clock
  Contest contest{.troupe =
                      [sum, slice = settings.slice_seconds()] {
                        return kNano / kOps * seconds_per_call(slice, [&] {
                                 for (int i = 0; i < kOps; ++i) (*sum)();
                               });
                      },
                  .peers = {}};
  for (const std::string framework : {"jax", "tensorflow", "torch"}) {
    const auto check = [&] { check_close((*sum)().value(), sum->files.read("sum", shape).data<float>(), 0); };
    if (auto peer = python_peer(settings, "eager_peer.py", {sum->files.directory(), framework}, check, kNano))
      contest.peers.push_back(std::move(*peer));
  }
  return contest;
}

}  // namespace

void add_eager_cases(std::vector<Case>& cases) {
  const std::string peer = "jax, TensorFlow and PyTorch, eager, from Python";
  cases.push_back({.bench = "eager",
                   .name = "add-scalars",
                   .unit = "ns/op",
                   .measures = "the sum of two f32 scalars, at once, from C++; 1 thread",
                   .peer = peer,
                   .ratio_target = 15,
                   .value_target = 400,
                   .prepare = [](const Settings& settings) { return sums(settings, Shape{}); }});
  cases.push_back({.bench = "eager",
                   .name = "add-64x64",
                   .unit = "ns/op",
                   .measures = "the sum of two f32 matrices of 64x64, at once, from C++; 1 thread",
                   .peer = peer,
                   .ratio_target = 10,
                   .value_target = 800,
                   .prepare = [](const Settings& settings) {
                     return sums(settings, Shape{64, 64});
                   }});
}

}  // namespace troupe::bench
