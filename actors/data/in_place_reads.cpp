#include "troupe/actors/data/in_place_reads.hpp"

#include <troupe/actors/base/actor_record.hpp>

namespace troupe {

void InPlaceReads::begin(bool evaluation, std::int64_t now_ns) {
  Data& data = of(evaluation);
  data.shown.store(true, std::memory_order_relaxed);
  data.reading.store(true, std::memory_order_relaxed);
  if (now_ns - data.sampled_ns < StageRates::kInterval) return;
  data.sampled_ns = now_ns;
  const std::lock_guard lock(data.mutex);
  data.rates.sample(now_ns, [&] { return data.source->stages(); });
}

void InPlaceReads::end(bool evaluation, bool made) {
  Data& data = of(evaluation);
  if (made) data.made.store(data.made.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  data.reading.store(false, std::memory_order_relaxed);
}

void InPlaceReads::leave() {
  training_.shown.store(false, std::memory_order_relaxed);
  evaluation_.shown.store(false, std::memory_order_relaxed);
}

std::vector<PipelineSnapshot> InPlaceReads::show() const {
  std::vector<PipelineSnapshot> out;
  for (const Data* data : {&training_, &evaluation_}) {
    if (!data->shown.load(std::memory_order_relaxed)) continue;
    const auto figures = data->source->stages();
    if (figures.empty()) continue;
    const std::lock_guard lock(data->mutex);
    out.push_back({.data = data->data,
                   .feeds = 1,
                   .made = data->made.load(std::memory_order_relaxed),
                   .making = data->reading.load(std::memory_order_relaxed) ? 1U : 0U,
                   .makers = 1,
                   .stages = data->rates.show(steady_now_ns(), figures)});
  }
  return out;
}

}  // namespace troupe
