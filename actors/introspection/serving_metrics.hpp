// Metrics of served models and of the log of their requests: Troupe's own, and those of TensorFlow Serving and Triton
// that dashboards know.
#pragma once

#include <troupe/actors/base/snapshot.hpp>
#include <troupe/actors/introspection/metric_families.hpp>

namespace troupe {

void add_serving_metrics(MetricFamilies& f, const TaskSnapshot& task);

}  // namespace troupe
