// Troupe from Python: what an op, a call of a traced function, a training step and an import cost there.
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/cases.hpp"
#include "tools/bench/compared_step.hpp"
#include "tools/bench/compared_training.hpp"
#include "tools/bench/kernel_step.hpp"

namespace troupe::bench {
namespace {

// Both sides are scripts: eager_peer.py with the name of a framework, "troupe" among them.
Contest scripts(const Settings& settings, const Shape& shape, const std::string& what, double scale,
                const std::vector<std::string>& frameworks) {
  const auto files = std::make_shared<TensorFiles>();
  const Tensor a = random_tensor(shape, 1), b = random_tensor(shape, 2);
  files->write("a", a);
  files->write("b", b);
  Tensor sum(DType::f32, shape);
  for (std::size_t i = 0; i < sum.values<float>().size(); ++i)
    sum.mutable_data<float>()[i] = a.values<float>()[i] + b.values<float>()[i];
  const auto check = [&] { check_close(sum, files->read("sum", shape).data<float>(), 0); };
  const auto side = [&](const std::string& framework) {
    return python_peer(settings, "eager_peer.py", {files->directory(), framework, what}, check, scale);
  };
  const std::optional<Peer> ours = side("troupe");
  if (!ours) fail(Code::unavailable, "{} cannot import troupe, which is built for Python 3.11", settings.python);
  Contest contest{.troupe = [files, measure = ours->measure] { return measure(); }, .peers = {}};
  for (const std::string& framework : frameworks)
    if (auto peer = side(framework)) contest.peers.push_back(std::move(*peer));
  return contest;
}

Contest training(const Settings& settings, const std::string& ours_name, const std::vector<std::string>& peers) {
  const auto files = std::make_shared<TensorFiles>();
  const std::vector<float> losses = write_perceptron(*files);
  const std::optional<Peer> ours = training_peer(ours_name, *files, losses, settings, kMicro);
  if (!ours) fail(Code::unavailable, "{} cannot import troupe, which is built for Python 3.11", settings.python);
  Contest contest{.troupe = [files, measure = ours->measure] { return measure(); }, .peers = {}};
  for (const std::string& name : peers)
    if (auto peer = training_peer(name, *files, losses, settings, kMicro)) contest.peers.push_back(std::move(*peer));
  return contest;
}

}  // namespace

void add_python_cases(std::vector<Case>& cases) {
  cases.push_back({.bench = "python",
                   .name = "add-64x64",
                   .unit = "ns/op",
                   .measures = "a + b of two f32 matrices of 64x64 from Python; 1 thread",
                   .peer = "PyTorch (1 is asked), jax (6 is asked)",
                   .ratio_target = 1,
                   .prepare = [](const Settings& settings) {
                     return scripts(settings, Shape{64, 64}, "add", kNano, {"torch", "jax", "tensorflow"});
                   }});
  cases.push_back(
      {.bench = "python",
       .name = "function-call",
       .unit = "ns/call",
       .measures = "a call of a traced function that adds two f32 scalars, from Python; 1 thread",
       .peer = "jax, jit",
       .ratio_target = 2.5,
       .prepare = [](const Settings& settings) { return scripts(settings, Shape{}, "function", kNano, {"jax"}); }});
  cases.push_back({.bench = "python",
                   .name = "import",
                   .unit = "ms",
                   .measures = "a process of Python that imports troupe and ends, less one that imports nothing",
                   .peer = "the same with tensorflow",
                   .ratio_target = 20,
                   .value_target = 150,
                   .prepare = [](const Settings& settings) {
                     return scripts(settings, Shape{}, "import", kMilli, {"tensorflow"});
                   }});
  const std::string step = "a training step of the perceptron of troupe-mnist, batch 32, Adam, ";
  cases.push_back({.bench = "python",
                   .name = "mlp",
                   .unit = "us/step",
                   .measures = step + "op by op, from Python; 1 thread",
                   .peer = "TensorFlow (4 is asked) and PyTorch, eager",
                   .ratio_target = 1.5,
                   .prepare = [](const Settings& settings) {
                     return training(settings, "mlp-troupe", {"mlp-tensorflow", "mlp-torch"});
                   }});
  cases.push_back(
      {.bench = "python",
       .name = "function-mlp",
       .unit = "us/step",
       .measures = step + "traced, from Python; 1 thread",
       .peer = "jax, jit",
       .ratio_target = 1.2,
       .prepare = [](const Settings& settings) { return training(settings, "mlp-troupe-function", {"mlp-jax"}); }});
}

}  // namespace troupe::bench
