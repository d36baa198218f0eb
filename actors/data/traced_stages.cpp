#include "troupe/actors/data/traced_stages.hpp"

namespace troupe {

void TracedStages::begin() {
  began_ns_ = Trace::now_ns();
  times_.emplace();
}

void TracedStages::end() {
  const TraceSlice& around = *TraceSlice::current();
  TraceEvent event{.kind = TraceKind::work, .step = around.step()};
  event.track = around.track();
  event.begin_ns = began_ns_;
  for (const StageTimes::Entry& stage : times_->entries()) {
    event.end_ns = event.begin_ns + stage.time.count();
    around.trace().add(event, stage.stage);
    event.begin_ns = event.end_ns;
  }
  times_.reset();
}

}  // namespace troupe
