// Training: steps per second of the whole loop, from examples in memory to updated parameters. One thread everywhere.
#include "tools/bench/cases.hpp"
#include "tools/bench/mnist_contest.hpp"

namespace troupe::bench {
namespace {

void add_training(std::vector<Case>& cases, const Training& t, std::optional<double> target, const std::string& suffix,
                  const std::string& script, const std::string& peer) {
  cases.push_back(
      {.bench = "mnist",
       .name = fmt::format("{}-{}{}", t.model, t.batch, suffix),
       .unit = "steps/s",
       .more_is_better = true,
       .measures = fmt::format("training {}, batches of {}, Adam, {} built-in digits in memory, 1 thread: shuffling, "
                               "gathering, step and running figures",
                               t.model, t.batch, t.images),
       .peer = peer,
       .ratio_target = target,
       .prepare = [t, script](const Settings& s) {
         return mnist_contest(t, {.threads = 1, .gpus = {.count = 0}}, {{script, {}}}, s);
       }});
}

}  // namespace

void add_model_cases(std::vector<Case>& cases) {
  const Training mlp32{.model = "mlp", .batch = 32, .images = 12000, .epochs = 2, .rounds = 1};
  const Training mlp128{.model = "mlp", .batch = 128, .images = 12000, .epochs = 4, .rounds = 1};
  const Training cnn32{.model = "cnn", .batch = 32, .images = 2048, .epochs = 1, .rounds = 1};
  const char* torch =
      "PyTorch 1.13.1 of Debian (python3-torch), the same model and optimizer, 1 thread; its images are already floats";
  add_training(cases, mlp32, 5, "", "mnist_torch.py", torch);
  add_training(cases, mlp128, 4, "", "mnist_torch.py", torch);
  add_training(cases, cnn32, 2.5, "", "mnist_torch.py", torch);
  const char* jax = "jax, jitted: one call for a step, whose loss is read at the end of an epoch; 1 thread";
  add_training(cases, mlp32, 1.6, "-jax", "mnist_jax.py", jax);
  add_training(cases, mlp128, 1.25, "-jax", "mnist_jax.py", jax);
  const char* tensorflow = "TensorFlow if Python has it, in the same way";
  for (const Training& t : {mlp32, mlp128, cnn32})
    add_training(cases, t, std::nullopt, "-tensorflow", "mnist_tensorflow.py", tensorflow);
}

}  // namespace troupe::bench
