// Quantises a model of f32 to 8 bits, with the ranges that its activations have on examples, and tells what that does
// to each layer.
//
//   const auto frozen = freeze(graph, values);
//   QuantizedModel q = quantize(task, *frozen, {y}, batches);   // batches: feeds, by the names of placeholders
//   Session session(task, *q.graph, {.inference = InferencePasses{}});
//   fmt::print("{}", q.report.to_string());
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/graph/builder/core.hpp>
#include <troupe/graph/passes/quantize.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

class Task;

// Calls return the feeds of one batch after the other, by the names of the graph's nodes, and then none.
using CalibrationBatches = std::function<std::optional<std::map<std::string, Tensor>>()>;

struct QuantizationOptions {
  enum class Method : std::uint8_t {
    fixed,    // steps of activations from the batches: products and convolutions
    dynamic,  // steps of activations from each run: matrix products; the batches serve the report alone
  };
  Method method = Method::fixed;
  QuantizeGraphOptions layers{};
  // Of a tensor's values, the part that its range covers, in percent: 100 is the least to the greatest. The rest is
  // clipped, half of it at each end.
  double percentile = 100;
  // Of each layer, alone, before and after: for the report. 0: times are not measured.
  int timed_runs = 3;
};

// Compares a quantised layer: its result in the quantised model against that of the f32 model on the first batch, with
// the errors of the layers before it.
struct LayerQuantization {
  QuantizedLayer layer{};
  double mean_error = 0;  // absolute
  double greatest_error = 0;
  // On its input of the first batch, the least of the runs, with what turns reals to bytes and back. 0: not measured.
  double seconds_before = 0, seconds_after = 0;
  double sqnr = 0;  // 10 log10 of the signal's power by the error's, in dB; infinite without an error
};
struct QuantizationReport {
  std::vector<LayerQuantization> layers{};
  std::string to_string() const;  // a table
};

struct QuantizedModel {
  std::unique_ptr<Graph> graph{};
  Outputs outputs{};  // of `graph`, for those that were asked for
  QuantizationReport report{};
};

// `outputs` are of `frozen`, whose variables are constants (graph/passes/freeze.hpp). Batch normalisations behind
// convolutions are folded first, and only what the outputs need remains. Throws invalid_argument without a batch, or
// for a percentile that is not above 50 and at most 100, and what quantize_static() throws.
QuantizedModel quantize(Task& task, const Graph& frozen, const Outputs& outputs, const CalibrationBatches& batches,
                        const QuantizationOptions& options = {});

// Values of a tensor, in bins that grow with them.
class ValueHistogram {
 public:
  void add(const Tensor& values);  // f32; values that are not finite do not count
  // The range of this part of the values, in percent; {0, 0} without values.
  ValueRange range(double percentile) const;

 private:
  static constexpr std::size_t kBins = 4096;  // over [-limit_, limit_)
  double limit_ = 0;                          // a power of 2
  float low_ = 0, high_ = 0;
  std::vector<std::uint64_t> bins_{};
  std::uint64_t count_ = 0;
};

}  // namespace troupe
