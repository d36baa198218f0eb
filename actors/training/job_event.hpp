// Events of a training job other than its figures: members, checkpoints, and how long things took.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <troupe/messages/device_name.hpp>

namespace troupe {

struct JobEvent {
  // On the coordinator's task: began (training), joined (a worker, for the first time or again), used (the first token
  // of a joined worker is complete; seconds since it joined), suspected (a worker has been silent for a while), heard
  // (it is no longer silent), lost, went_on (the first step complete after a loss; seconds since then), fenced (the
  // first message refused from a worker that is no longer a member), passed_over (a checkpoint), saved, save_left_out,
  // save_failed, job_ended (counts: JobCounters). Modes without a coordinator report checkpoints where they are
  // written. Mode allreduce, on rank 0: exchange (whether gradients go from GPU to GPU, or why not; absent if no task
  // has a GPU). On each ps task: provenance_failed (no more is written), restored (a checkpoint), ended (counts:
  // gradients that its shard applied and dropped). On any task: waits (the job cannot continue until other tasks are
  // back), goes_on (from a checkpoint), curves_failed (some or all curves are not written), no_test (no test examples),
  // published, not_published (the trained model), begins_anew (the optimizer, although the parameters are kept),
  // not_finite (the loss of an epoch; on the task that reports epochs).
  std::string kind{};
  TaskName task{};         // the task concerned; without a job: none
  std::uint64_t step = 0;  // the next of the job to be complete
  double seconds = 0;      // duration, where the kind has one
  std::string text{};      // for people: what happened, and what is done about it; "": not worth reporting
  std::map<std::string, std::uint64_t> counts{};
};

}  // namespace troupe
