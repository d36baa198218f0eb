#include "tests/chaos/haunting.hpp"

#include <caf/all.hpp>
#include <map>

#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/training/cluster_job.hpp>

namespace troupe::chaos {
namespace {

constexpr float kWrong = -1000;

struct Ghosts {
  std::uint32_t worker = 0;
  std::uint64_t step = 0;
  std::vector<Slice> slices;
  std::atomic<std::uint64_t>* job = nullptr;
  std::map<TaskName, int> links;

  void send(const PeerUp& up) {
    if (up.task.job != "ps" || ++links[up.task] < 2) return;
    for (const Slice& slice : slices) {
      if (slice.shard != up.task.index) continue;
      Tensor gradient = Tensor::zeros(slice.dtype, slice.shape);
      for (float& x : gradient.mutable_values<float>()) x = kWrong;
      caf::anon_send(up.peer, Outbound{Push{.worker = worker,
                                            .step = step,
                                            .slot = 0,
                                            .slice = slice.id,
                                            .pulled_version = 0,
                                            .gradient = gradient,
                                            .indices = {},
                                            .job = *job,
                                            .view = 1}});
    }
  }
};

}  // namespace

void haunt(const TrainingPlan& plan) {
  const ClusterJob job(plan);
  auto ghosts = std::make_shared<Ghosts>();
  ghosts->worker = static_cast<std::uint32_t>(plan.task.name().index);
  ghosts->step = static_cast<std::uint64_t>(plan.options.epochs) *
                     (plan.train.examples().value() / static_cast<std::uint64_t>(plan.options.batch)) -
                 1;
  ghosts->slices = job.map.slices();
  ghosts->job = &plan.task.last_job();
  const PeerObserver actor =
      plan.task.system().spawn([ghosts](PeerObserver::pointer self) -> PeerObserver::behavior_type {
        static_cast<void>(self);
        return {[ghosts](const PeerUp& up) { ghosts->send(up); }, [](const PeerDown&) {}};
      });
  caf::anon_send(plan.task.handles().node, Observe{actor});
}

}  // namespace troupe::chaos
