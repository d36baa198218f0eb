#include "troupe/actors/introspection/serving_metrics.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include <troupe/actors/base/latency_histogram.hpp>

namespace troupe {
namespace {

// Up to the end of every other bucket, a power of two of microseconds: as many as dashboards need. `unit`: nanoseconds.
std::vector<MetricFamilies::Bucket> cumulative(const LatencySnapshot& took, double unit) {
  std::vector<MetricFamilies::Bucket> out;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i + 1 < LatencyHistogram::kBuckets; ++i) {
    if (i < took.buckets.size()) below += took.buckets[i];
    if (i % 2 == 0)
      out.push_back({fmt::format("{:.9g}", static_cast<double>(LatencyHistogram::upper_end(i)) / unit), below});
  }
  out.push_back({"+Inf", took.count});
  return out;
}

std::uint64_t microseconds(const ServableSnapshot& servable, const char* stage) {
  const auto found = servable.stages.find(stage);
  return found == servable.stages.end() ? 0 : static_cast<std::uint64_t>(found->second.sum_ns / kMicrosecond);
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

// https://www.tensorflow.org/tfx/serving/serving_config#monitoring_configuration, with the version as a label.
void add_tensorflow_names(MetricFamilies& f, const ServableSnapshot& s) {
  const std::string version = std::to_string(s.version);
  for (const auto& [outcome, count] : s.requests)
    f.add(":tensorflow:serving:request_count", "counter", "Requests, by model and status.",
          {{"model_name", s.model}, {"status", upper(outcome)}, {"version", version}}, count);
  if (const auto total = s.stages.find("total"); total != s.stages.end())
    f.add_histogram(":tensorflow:serving:request_latency", "Microseconds that requests took, by model.",
                    {{"model_name", s.model}, {"API", "predict"}, {"version", version}},
                    cumulative(total->second, kMicrosecond), static_cast<double>(total->second.sum_ns) / kMicrosecond);
  if (const auto run = s.stages.find("run"); run != s.stages.end())
    f.add_histogram(":tensorflow:serving:runtime_latency", "Microseconds that steps of requests took, by model.",
                    {{"model_name", s.model}, {"API", "predict"}, {"version", version}},
                    cumulative(run->second, kMicrosecond), static_cast<double>(run->second.sum_ns) / kMicrosecond);
}

// Triton's docs/user_guide/metrics.md.
void add_triton_names(MetricFamilies& f, const ServableSnapshot& s) {
  const MetricLabels labels{{"model", s.model}, {"version", std::to_string(s.version)}};
  std::uint64_t good = 0, bad = 0, steps = 0;
  for (const auto& [outcome, count] : s.requests) (outcome == "ok" ? good : bad) += count;
  for (const std::uint64_t batches : s.batches) steps += batches;
  f.add("nv_inference_request_success", "counter", "Requests that were answered.", labels, good);
  f.add("nv_inference_request_failure", "counter", "Requests that ended with an error.", labels, bad);
  f.add("nv_inference_count", "counter", "Rows of batches, and requests that are a step of their own.", labels,
        steps > 0 ? s.batch_rows : good);
  f.add("nv_inference_exec_count", "counter", "Steps of requests.", labels, steps > 0 ? steps : good);
  f.add("nv_inference_pending_request_count", "gauge", "Requests that have not ended.", labels, s.in_flight);
  f.add("nv_inference_request_duration_us", "counter", "Microseconds of all requests that were answered.", labels,
        microseconds(s, "total"));
  f.add("nv_inference_queue_duration_us", "counter", "Microseconds that they waited for a batch.", labels,
        microseconds(s, "queue"));
  f.add("nv_inference_compute_input_duration_us", "counter", "Microseconds of making their tensors.", labels,
        microseconds(s, "parse") + microseconds(s, "batch"));
  f.add("nv_inference_compute_infer_duration_us", "counter", "Microseconds of their steps.", labels,
        microseconds(s, "run"));
  f.add("nv_inference_compute_output_duration_us", "counter", "Microseconds of making their answers.", labels,
        microseconds(s, "serialise"));
}

void add_request_log(MetricFamilies& f, const std::string& task, const RequestLogSnapshot& log) {
  const MetricLabels labels{{"task", task}};
  f.add("troupe_request_log_requests_total", "counter", "Requests written to the request log.", labels, log.written);
  f.add("troupe_request_log_bytes_total", "counter", "Bytes of requests written to the request log.", labels,
        log.bytes);
  for (const auto& [reason, count] : log.left_out)
    f.add("troupe_request_log_left_out_total", "counter", "Requests chosen for the request log but not written.",
          {{"task", task}, {"reason", reason}}, count);
  f.add("troupe_request_log_errors_total", "counter",
        "Errors of writing the request log: after one, nothing more is written.", labels, log.errors);
}

}  // namespace

void add_serving_metrics(MetricFamilies& f, const TaskSnapshot& task) {
  for (const ServableSnapshot& s : task.servables) {
    const MetricLabels labels{{"task", task.task}, {"model", s.model}, {"version", std::to_string(s.version)}};
    const auto with = [&](const char* name, const std::string& value) {
      MetricLabels out = labels;
      out.emplace_back(name, value);
      return out;
    };
    f.add("troupe_servable_state", "gauge", "1: the version's state.", with("state", s.state), std::uint64_t{1});
    f.add("troupe_servable_bytes", "gauge", "Memory of the version.", labels, s.bytes);
    f.add("troupe_servable_requests_in_flight", "gauge", "Requests that have not ended.", labels, s.in_flight);
    f.add("troupe_servable_rows_waiting", "gauge", "Rows that wait for a batch.", labels, s.waiting_rows);
    for (const auto& [outcome, count] : s.requests)
      f.add("troupe_servable_requests_total", "counter", "Requests that have ended, by outcome.",
            with("outcome", outcome), count);
    for (const auto& [stage, took] : s.stages)
      f.add_histogram("troupe_servable_stage_seconds", "What requests that were answered took, by stage.",
                      with("stage", stage), cumulative(took, static_cast<double>(kSecond)),
                      static_cast<double>(took.sum_ns) / static_cast<double>(kSecond));
    if (!s.batches.empty()) {
      std::vector<MetricFamilies::Bucket> sizes;
      std::uint64_t below = 0;
      for (std::size_t i = 0; i < s.batches.size(); ++i) {
        below += s.batches[i];
        sizes.push_back({std::to_string(std::uint64_t{1} << i), below});
      }
      sizes.push_back({"+Inf", below});
      f.add_histogram("troupe_servable_batch_rows", "Rows of batches.", labels, sizes,
                      static_cast<double>(s.batch_rows));
    }
    add_tensorflow_names(f, s);
    add_triton_names(f, s);
  }
  if (task.request_log) add_request_log(f, task.task, *task.request_log);
}

}  // namespace troupe
