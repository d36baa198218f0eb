// What happens to a training job beside its figures: who comes and goes, what is saved, how long it took.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <troupe/messages/device_name.hpp>

namespace troupe {

struct JobEvent {
  // On the coordinator's task: began (training), joined (a worker, for the first time or again), used (the first token
  // of a joined worker is done; seconds since it joined), suspected (a worker has not been heard of for a while), heard
  // (it has again), lost, went_on (the first step complete after a loss; seconds since then), fenced (a message of a
  // worker that is a member no more was refused, the first of it), passed_over (a checkpoint), saved, save_left_out,
  // save_failed, job_ended (counts: of the members). Modes without a coordinator tell of checkpoints where they are
  // written. Mode allreduce, on rank 0: exchange (whether gradients go from GPU to GPU, or why not; not told where no
  // task has a GPU). On each ps task: provenance_failed (no more of it is written), restored (a checkpoint), ended
  // (counts: what its shard has applied and dropped). On any task: waits (the job cannot go on before others are back),
  // goes_on (from a checkpoint), curves_failed (they are not written, or not all), no_test (there are no examples to
  // test with), begins_anew (the optimizer, though the parameters are there), not_finite (the loss of an epoch: told
  // where epochs are).
  std::string kind{};
  TaskName task{};         // whom it is about; without a job: nobody
  std::uint64_t step = 0;  // of the job that is next to be complete
  double seconds = 0;      // how long that took which it tells
  std::string text{};      // for people: what happened, and what is done about it; "": they need not know
  std::map<std::string, std::uint64_t> counts{};
};

}  // namespace troupe
