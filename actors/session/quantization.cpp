#include "troupe/actors/session/quantization.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/graph/passes/fold.hpp>
#include <troupe/graph/passes/fold_batch_norm.hpp>
#include <troupe/graph/rewrite.hpp>
#include <troupe/scheduler/run/single_kernel.hpp>

namespace troupe {
namespace {

using NamedTensors = std::map<std::string, Tensor>;

// Copies all that these nodes need.
std::unique_ptr<Graph> pruned(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<int> pending;
  for (const std::string& name : names) pending.push_back(graph.get(name).id);
  std::vector<bool> keep(static_cast<std::size_t>(graph.size()), false);
  while (!pending.empty()) {
    const int id = pending.back();
    pending.pop_back();
    if (keep[static_cast<std::size_t>(id)]) continue;
    keep[static_cast<std::size_t>(id)] = true;
    for (const Endpoint e : graph.node(id).inputs) pending.push_back(e.node);
    for (const int c : graph.node(id).controls) pending.push_back(c);
  }
  return copy_subset(graph, keep);
}

// Copies all that the outputs need. An Identity reads each, so that rewriting keeps track of them.
std::unique_ptr<Graph> needed(const Graph& frozen, const Outputs& outputs, std::vector<std::string>& marks) {
  const auto marked = frozen.clone();
  for (const Output& output : outputs)
    marks.push_back(identity({marked.get(), output.node, output.index}).source().name);
  return pruned(*marked, marks);
}

// Convolutions that a normalisation was folded into have the names of those that they replace.
std::unique_ptr<Graph> with_old_names(const Graph& graph, const Graph& old) {
  Rewriter rewriter(graph);
  for (const int id : graph.topological_order()) {
    Node node = graph.node(id);
    const std::string name = node.name.substr(0, node.name.rfind('_'));
    const Node* replaced = old.find(node.name) ? nullptr : old.find(name);
    if (replaced && replaced->op == node.op && !graph.find(name) && !rewriter.to().find(name)) node.name = name;
    rewriter.copy(node, rewriter.mapped(node.inputs), rewriter.mapped_controls(node));
  }
  return rewriter.finish();
}

// Batch normalisations folded, and constants computed: filters of any size.
std::unique_ptr<Graph> folded(Task& task, const Graph& graph, const std::vector<std::string>& marks) {
  constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
  const auto evaluate = [&](const Node& node, std::span<const Tensor> inputs) -> std::vector<Tensor> {
    Device& device = task.device();
    const std::string& type = device.attributes().type;
    if (!device.attributes().synchronous || !task.kernels().supports(node.op->name, type, node.kernel_type()))
      return {};
    return run_single_kernel(node, inputs, task.kernels(), device);
  };
  PassNotes notes;
  const auto constants = fold_constants(graph, evaluate);
  const auto without = fold_constants(*fold_batch_norm(*constants, kAny, notes), evaluate, kAny);
  return with_old_names(*pruned(*without, marks), graph);
}

std::vector<Tensor> run_batch(Session& session, Graph& graph, const NamedTensors& batch,
                              const std::vector<std::string>& names) {
  Feeds feeds;
  for (const auto& [name, value] : batch)
    if (graph.find(name)) feeds.emplace_back(graph.output(name), value);
  Outputs fetches;
  for (const std::string& name : names) fetches.push_back(graph.output(name));
  return session.run(feeds, fetches);
}

LayerQuantization compared(const QuantizedLayer& layer, const Tensor& exact, const Tensor& actual) {
  LayerQuantization out{.layer = layer};
  double signal = 0, noise = 0, sum = 0;
  for (std::int64_t i = 0; i < exact.num_elements(); ++i) {
    const double x = static_cast<double>(exact.data<float>()[i]),
                 error = std::abs(x - static_cast<double>(actual.data<float>()[i]));
    signal += x * x;
    noise += error * error;
    sum += error;
    out.greatest_error = std::max(out.greatest_error, error);
  }
  out.mean_error = exact.num_elements() == 0 ? 0 : sum / static_cast<double>(exact.num_elements());
  out.sqnr = noise > 0 ? 10 * std::log10(signal / noise) : std::numeric_limits<double>::infinity();
  return out;
}

// The tensor that a layer multiplies by its weights.
std::string input_of(const Graph& graph, const QuantizedLayer& layer) {
  const Endpoint input = graph.get(layer.name).inputs[0];
  return output_name(graph, input);
}

// Seconds of the least of some runs of a layer, given its input.
double time_of(Session& session, Graph& graph, const QuantizedLayer& layer, const std::string& input,
               const Tensor& value, int runs) {
  using Clock = std::chrono::steady_clock;
  const Callable call = session.callable({graph.output(input)}, {graph.output(layer.result)});
  static_cast<void>(call({value}));  // lays out weights
  auto least = Clock::duration::max();
  for (int run = 0; run < runs; ++run) {
    const auto begin = Clock::now();
    static_cast<void>(call({value}));
    least = std::min(least, Clock::now() - begin);
  }
  return std::chrono::duration<double>(least).count();
}

void time_layers(Task& task, const Graph& graph, const Graph& quantized, const std::map<std::string, Tensor>& inputs,
                 int runs, QuantizationReport& report) {
  const auto before = graph.clone(), after = quantized.clone();
  const SessionOptions options{.inference = InferencePasses{}};
  Session plain(task, *before, options), bytes(task, *after, options);
  for (LayerQuantization& l : report.layers) {
    const std::string input = input_of(graph, l.layer);
    if (!quantized.find(graph.node(graph.get(l.layer.name).inputs[0].node).name)) continue;
    l.seconds_before = time_of(plain, *before, l.layer, input, inputs.at(input), runs);
    l.seconds_after = time_of(bytes, *after, l.layer, input, inputs.at(input), runs);
  }
}

}  // namespace

void ValueHistogram::add(const Tensor& values) {
  float low = low_, high = high_;
  std::int64_t finite = 0;
  for (const float x : values.values<float>()) {
    if (!std::isfinite(x)) continue;
    low = count_ + static_cast<std::uint64_t>(finite) == 0 ? x : std::min(low, x);
    high = count_ + static_cast<std::uint64_t>(finite) == 0 ? x : std::max(high, x);
    ++finite;
  }
  if (finite == 0) return;
  low_ = low;
  high_ = high;
  const double most = std::max({static_cast<double>(-low), static_cast<double>(high), 1e-30});
  if (bins_.empty()) {
    bins_.assign(kBins, 0);
    limit_ = std::exp2(std::floor(std::log2(most)) + 1);
  }
  for (; limit_ <= most; limit_ *= 2) {  // two bins become one
    std::vector<std::uint64_t> wider(kBins, 0);
    for (std::size_t i = 0; i < kBins; ++i) wider[kBins / 4 + i / 2] += bins_[i];
    bins_ = std::move(wider);
  }
  for (const float x : values.values<float>()) {
    if (!std::isfinite(x)) continue;
    const double place = (static_cast<double>(x) / limit_ + 1) * (kBins / 2);
    ++bins_[std::min(kBins - 1, static_cast<std::size_t>(std::max(place, 0.0)))];
  }
  count_ += static_cast<std::uint64_t>(finite);
}

ValueRange ValueHistogram::range(double percentile) const {
  if (count_ == 0) return {};
  const double outside = static_cast<double>(count_) * (100 - percentile) / 200;
  const double width = 2 * limit_ / kBins;
  double below = 0, above = 0;
  std::size_t first = 0, last = kBins - 1;
  while (first < last && below + static_cast<double>(bins_[first]) <= outside)
    below += static_cast<double>(bins_[first++]);
  while (last > first && above + static_cast<double>(bins_[last]) <= outside)
    above += static_cast<double>(bins_[last--]);
  return {std::max(low_, static_cast<float>(static_cast<double>(first) * width - limit_)),
          std::min(high_, static_cast<float>(static_cast<double>(last + 1) * width - limit_))};
}

std::string QuantizationReport::to_string() const {
  std::size_t widest = 5;
  for (const LayerQuantization& l : layers) widest = std::max(widest, l.layer.name.size());
  std::string out = fmt::format("{:<{}}  {:<6}  {:>10}  {:>10}  {:>10}  {:>10}  {:>7}  {:>8}  {:>8}\n", "layer", widest,
                                "op", "f32 bytes", "i8 bytes", "mean error", "max error", "SQNR dB", "f32 us", "i8 us");
  const auto row = [&](const LayerQuantization& l, const std::string& errors) {
    out +=
        fmt::format("{:<{}}  {:<6}  {:>10}  {:>10}  {}  {:>8.1f}  {:>8.1f}\n", l.layer.name, widest, l.layer.op,
                    l.layer.bytes_before, l.layer.bytes_after, errors, l.seconds_before * 1e6, l.seconds_after * 1e6);
  };
  LayerQuantization all{.layer = {.name = "all"}};
  for (const LayerQuantization& l : layers) {
    row(l, fmt::format("{:>10.3g}  {:>10.3g}  {:>7.1f}", l.mean_error, l.greatest_error, l.sqnr));
    all.layer.bytes_before += l.layer.bytes_before;
    all.layer.bytes_after += l.layer.bytes_after;
    all.seconds_before += l.seconds_before;
    all.seconds_after += l.seconds_after;
  }
  row(all, std::string(31, ' '));
  return out;
}

QuantizedModel quantize(Task& task, const Graph& frozen, const Outputs& outputs, const CalibrationBatches& batches,
                        const QuantizationOptions& options) {
  if (!(options.percentile > 50 && options.percentile <= 100))
    invalid_argument("the percentile must be above 50 and at most 100, not {}", options.percentile);
  const bool dynamic = options.method == QuantizationOptions::Method::dynamic;
  std::vector<std::string> marks;
  const auto graph = folded(task, *needed(frozen, outputs, marks), marks);
  Session session(task, *graph);
  const auto names = dynamic ? std::vector<std::string>{} : tensors_to_calibrate(*graph, options.layers);
  std::optional<NamedTensors> first;
  std::map<std::string, ValueHistogram> seen;
  while (const auto batch = batches()) {
    if (!first) first = batch;
    if (names.empty()) break;
    const std::vector<Tensor> values = run_batch(session, *graph, *batch, names);
    for (std::size_t i = 0; i < names.size(); ++i) seen[names[i]].add(values[i]);
  }
  if (!first) invalid_argument("there are no batches to find the ranges of activations with");
  ValueRanges ranges;
  for (const auto& [name, histogram] : seen) ranges[name] = histogram.range(options.percentile);

  QuantizedModel out;
  out.graph = dynamic ? quantize_dynamic(*graph, options.layers) : quantize_static(*graph, ranges, options.layers);
  for (const std::string& mark : marks) {
    const Endpoint read = out.graph->get(mark).inputs[0];
    out.outputs.push_back({out.graph.get(), read.node, read.index});
  }
  const auto layers = dynamic ? dynamic_layers(*graph, options.layers) : static_layers(*graph, options.layers);
  std::vector<std::string> results;
  for (const QuantizedLayer& layer : layers) results.push_back(layer.result);
  const std::size_t count = results.size();
  Session quantized(task, *out.graph);
  std::map<std::string, Tensor> inputs;
  {
    const std::vector<Tensor> actual = run_batch(quantized, *out.graph, *first, results);
    for (const QuantizedLayer& layer : layers) results.push_back(input_of(*graph, layer));
    const std::vector<Tensor> exact = run_batch(session, *graph, *first, results);
    for (std::size_t i = 0; i < count; ++i) {
      out.report.layers.push_back(compared(layers[i], exact[i], actual[i]));
      inputs[results[count + i]] = exact[count + i];
    }
  }
  if (options.timed_runs > 0) time_layers(task, *graph, *out.graph, inputs, options.timed_runs, out.report);
  return out;
}

}  // namespace troupe
