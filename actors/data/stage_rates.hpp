// How busy the stages of a pipeline have been lately.
#pragma once

#include <cstdint>
#include <vector>

#include <troupe/actors/base/snapshot.hpp>
#include <troupe/scheduler/data/stage_figures.hpp>

namespace troupe {

class StageRates {
 public:
  static constexpr std::int64_t kInterval = 1'000'000'000;  // ns between samples
  // Takes a sample, if the last is old enough. Cheap when it is not: call it often.
  template <class Figures>
  void sample(std::int64_t now_ns, Figures&& figures) {
    if (!samples_.empty() && now_ns - samples_.back().at_ns < kInterval) return;
    if (samples_.size() > 1) samples_.erase(samples_.begin());
    samples_.push_back({now_ns, figures()});
  }
  // `figures`: now.
  std::vector<StageSnapshot> show(std::int64_t now_ns, const std::vector<StageFigures>& figures) const;

 private:
  struct Sample {
    std::int64_t at_ns;
    std::vector<StageFigures> stages;
  };
  std::vector<Sample> samples_;  // at most two: the earlier is one to two intervals old while there is work
};

}  // namespace troupe
