#include "troupe/actors/introspection/metric_families.hpp"

#include <fmt/core.h>

namespace troupe {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

}  // namespace

void MetricFamilies::sample(const std::string& family, const std::string& name, const char* type, const char* help,
                            const MetricLabels& labels, const std::string& value) {
  std::string& text = families_[family];
  if (text.empty()) text = fmt::format("# HELP {} {}\n# TYPE {} {}\n", family, help, family, type);
  text += name;
  for (std::size_t i = 0; i < labels.size(); ++i)
    text += fmt::format("{}{}=\"{}\"", i == 0 ? "{" : ",", labels[i].first, escaped(labels[i].second));
  text += fmt::format("{} {}\n", labels.empty() ? "" : "}", value);
}

void MetricFamilies::add(const std::string& name, const char* type, const char* help, const MetricLabels& labels,
                         double value) {
  sample(name, name, type, help, labels, fmt::format("{}", value));
}

void MetricFamilies::add(const std::string& name, const char* type, const char* help, const MetricLabels& labels,
                         std::uint64_t value) {
  sample(name, name, type, help, labels, fmt::format("{}", value));
}

void MetricFamilies::add_seconds(const std::string& name, const char* type, const char* help,
                                 const MetricLabels& labels, std::int64_t ns) {
  sample(name, name, type, help, labels, fmt::format("{:.9f}", static_cast<double>(ns) * 1e-9));
}

void MetricFamilies::add_histogram(const std::string& name, const char* help, const MetricLabels& labels,
                                   const std::vector<Bucket>& buckets, double sum) {
  for (const Bucket& bucket : buckets) {
    MetricLabels own = labels;
    own.emplace_back("le", bucket.end);
    sample(name, name + "_bucket", "histogram", help, own, std::to_string(bucket.count));
  }
  sample(name, name + "_sum", "histogram", help, labels, fmt::format("{}", sum));
  sample(name, name + "_count", "histogram", help, labels, std::to_string(buckets.empty() ? 0 : buckets.back().count));
}

std::string MetricFamilies::text() const {
  std::string out;
  for (const auto& [name, family] : families_) out += family;
  return out;
}

}  // namespace troupe
