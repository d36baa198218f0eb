// Snapshots in Prometheus' text format 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/).
#pragma once

#include <string>
#include <vector>

#include <troupe/actors/base/snapshot.hpp>

namespace troupe {

inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

// Metrics of all tasks that have answered; troupe_up shows for each task whether it has.
std::string to_metrics(const ClusterSnapshot& snapshot);

}  // namespace troupe
