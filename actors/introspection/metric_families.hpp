// Metric families with their samples, in Prometheus' text format: the samples of a name must be contiguous.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

class MetricFamilies {
 public:
  // `type`: "gauge", "counter".
  void add(const std::string& name, const char* type, const char* help, const MetricLabels& labels, double value);
  void add(const std::string& name, const char* type, const char* help, const MetricLabels& labels,
           std::uint64_t value);
  void add_seconds(const std::string& name, const char* type, const char* help, const MetricLabels& labels,
                   std::int64_t ns);
  // The samples of a histogram: `counts` up to and including the end of each bucket, the last for all.
  struct Bucket {
    std::string end;  // "0.001", "+Inf"
    std::uint64_t count = 0;
  };
  void add_histogram(const std::string& name, const char* help, const MetricLabels& labels,
                     const std::vector<Bucket>& buckets, double sum);
  std::string text() const;

 private:
  void sample(const std::string& family, const std::string& name, const char* type, const char* help,
              const MetricLabels& labels, const std::string& value);

  std::map<std::string, std::string> families_;
};

}  // namespace troupe
