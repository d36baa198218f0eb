// troupe-model run and bench.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "tools/model/run_batches.hpp"
#include "tools/model/runner.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/model/values.hpp>

namespace troupe::model_tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUps = 3;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// "12.3 ms".
std::string duration_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

// Of sorted values: what a part of them does not exceed.
double percentile(const std::vector<double>& sorted, double part) {
  const auto at = static_cast<std::size_t>(part * static_cast<double>(sorted.size()));
  return sorted[std::min(at, sorted.size() - 1)];
}

// As the first input's first dimension says.
std::int64_t examples_of(const NamedTensors& inputs) {
  return inputs.empty() || inputs.begin()->second.shape().rank() == 0 ? 1 : inputs.begin()->second.shape()[0];
}

}  // namespace

int run(FileSystem& files, const Options& options) {
  if (in_batches(options)) return run_batches(files, options);
  const AnyModel model = read_any_model(files, options.paths[0]);
  Task task({.threads = options.threads});
  const Runner runner(task, model, options.signature);
  if (options.inputs.empty() && !runner.signature().inputs.empty())
    invalid_argument("pass --inputs: a file .npz or .safetensors with {}", specs_text(runner.signature().inputs));
  print_outputs(files, runner.run(inputs_of(files, options, runner, 1)), options);
  return 0;
}

void print_outputs(FileSystem& files, const NamedTensors& outputs, const Options& options) {
  if (!options.outputs.empty()) save_values(files, options.outputs, outputs);
  for (const auto& [key, value] : outputs) {
    if (options.json)
      fmt::print("{}\n", json_text({{"event", "output"},
                                    {"name", key},
                                    {"dtype", name(value.dtype())},
                                    {"shape", value.shape().dims()},
                                    {"value", value.to_string()}}));
    else
      fmt::print("{}: {}\n", key, value.to_string());
  }
}

int bench(FileSystem& files, const Options& options) {
  const AnyModel model = read_any_model(files, options.paths[0]);
  Task task({.threads = options.threads});
  const Runner runner(task, model, options.signature, true);
  const NamedTensors inputs = inputs_of(files, options, runner, options.batch > 0 ? options.batch : 1);
  const std::int64_t batch = examples_of(inputs);
  for (int i = 0; i < kWarmUps; ++i) static_cast<void>(runner.run(inputs));
  std::vector<double> times;
  {
    const Stage stage(fmt::format("measuring for {:g} s", options.seconds));
    const Clock::time_point begin = Clock::now();
    do {
      const Clock::time_point one = Clock::now();
      static_cast<void>(runner.run(inputs));
      times.push_back(seconds_since(one));
    } while (seconds_since(begin) < options.seconds);
  }
  double sum = 0;
  for (const double t : times) sum += t;
  std::ranges::sort(times);
  const double p50 = percentile(times, 0.5), p90 = percentile(times, 0.9), p99 = percentile(times, 0.99);
  const double rate = static_cast<double>(batch) * static_cast<double>(times.size()) / sum;
  if (options.json)
    fmt::print("{}\n", json_text({{"event", "bench"},
                                  {"model", options.paths[0]},
                                  {"signature", runner.signature_name()},
                                  {"batch", batch},
                                  {"threads", options.threads},
                                  {"runs", times.size()},
                                  {"p50_s", p50},
                                  {"p90_s", p90},
                                  {"p99_s", p99},
                                  {"examples_per_s", rate}}));
  else
    fmt::print(
        "{} runs of signature '{}', batches of {}, {} threads\nlatency     p50 {}, p90 {}, p99 {}\nexamples/s  "
        "{:.1f}\n",
        times.size(), runner.signature_name(), batch, options.threads, duration_text(p50), duration_text(p90),
        duration_text(p99), rate);
  return 0;
}

}  // namespace troupe::model_tool
