// A training job: what every task of it must agree on, and what it reports.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <troupe/actors/training/job_event.hpp>
#include <troupe/graph/training/sparse_mean.hpp>
#include <troupe/messages/epoch_done.hpp>

namespace troupe {

// How a job trains. `local`: one process computes all slots (towers). `sync`, `ssp` and `async` need a cluster with at
// least one ps task, `allreduce` one of workers alone.
enum class JobMode : std::uint8_t { local, sync, async, allreduce, ssp };
std::string_view name(JobMode mode);

struct TrainingOptions {
  JobMode mode = JobMode::local;
  int epochs = 5;
  int batch = 32;  // examples of a slot
  int slots = 0;   // N; 0: 1 if local, the number of workers, less the backups, if sync, ssp or allreduce
  // Modes sync and ssp: slots of a step beyond N. It uses the N that are there first, and waits for no other: slow
  // workers do not hold it up. Which ones depends on timing, and the parameters on that.
  int backups = 0;
  int staleness = 0;  // mode ssp: a step may begin with parameters that lack the last so many steps
  // Mode async: so many batches make one update, of their mean. Those that are left at the end are not applied.
  int aggregate = 1;
  // Mode async: an update's learning rate is divided by the staleness of its batches, how many updates the parameters
  // that they were computed on were behind (Zhang et al., "Staleness-aware Async-SGD", IJCAI 2016).
  bool staleness_aware = false;
  // A slot's batch is computed in so many equal parts, one after the other: for the memory of one of them, and of the
  // gradients once more.
  int micro_batches = 1;
  // What rows of sparse gradients are divided by.
  SparseMean sparse_mean = SparseMean::all_slots;
  std::uint64_t seed = 0;
  std::chrono::nanoseconds join_timeout = std::chrono::seconds(60);
  // Modes of clusters: how long training may stand still. Then it fails on every task, naming who is missing. 0: for
  // ever.
  std::chrono::nanoseconds step_timeout = std::chrono::minutes(10);
  // Modes of parameter servers: training begins when so many workers have joined, the others may come at any time. 0:
  // all, or those that are there at the join timeout, unless a loss ends the job.
  int min_workers = 0;
  // Modes of parameter servers: what the loss of a task does. fail: it ends the job. shrink: a worker's tokens go to
  // the others, and it may join again at any time. wait: they are kept for it for rejoin_timeout, then they go to the
  // others. With both, when a ps task is lost, all the others wait for it to come again and return with it to where the
  // job can go on. The parameters at the end are those of an undisturbed job.
  enum class OnLoss : std::uint8_t { fail, shrink, wait } on_loss = OnLoss::shrink;
  // How long a lost task is waited for.
  std::chrono::nanoseconds rejoin_timeout = std::chrono::seconds(10);
  // Checkpoints: a directory that all ps tasks see (mode allreduce: worker 0); "": none. The job goes on from the
  // newest whole one in it, if that is of a job with the same options (but for the number of tasks, and fewer epochs),
  // and saves while it trains and at the end. Every so many steps; 0: about once an epoch.
  std::string checkpoint{};
  std::uint64_t checkpoint_every = 0;
  int checkpoints_kept = 3;
  // A directory where the history of the parameters is kept; "": nowhere. Each ps task has a file in it that tells for
  // every version which gradients (worker, step, slot) went into it and which came and were dropped (ProvenanceLog);
  // with backup slots the coordinator's has the file `commits`, which tells what slots each step used.
  std::string provenance{};
  // Modes sync and ssp with backups: such a file `commits`. The steps in it use the same slots again, and so have the
  // same bits.
  std::string replay{};
  // A directory for TensorBoard's event files ("": none): the figures of each epoch and histograms of the parameters
  // after it, the loss and the learning rate every so many steps, and the model's graph. Written by who tells the user:
  // the chief, or rank 0. In modes of clusters the loss is that of the batches which this task has computed.
  std::string tensorboard{};
  std::uint64_t tensorboard_every = 100;
  // fit() writes nothing. Else, where there is no on_event or on_epoch, it writes a line to stderr for what they would
  // be told.
  bool quiet = false;
  // Called with what happens beside the figures: losses and what is done about them, checkpoints. On threads of the
  // runtime, also on several at once.
  std::function<void(const JobEvent&)> on_event{};
  // SessionOptions::on_placement of what training runs.
  std::function<void(const std::string&)> on_placement{};
  // Called on the chief after each epoch, on the training thread.
  std::function<void(const EpochDone&)> on_epoch{};
  // Called now and then on each worker: steps done and to do of the epoch.
  std::function<void(std::uint32_t epoch, std::uint64_t step, std::uint64_t steps)> on_progress{};
  // Set by a signal handler: training stops soon and throws Code::cancelled.
  const std::atomic<bool>* stop = nullptr;
};

struct TrainingResult {
  bool chief = false;  // only the chief has the figures below
  double test_accuracy = 0;
  std::uint64_t steps = 0;
  double seconds = 0;  // of training, without evaluation
  double images_per_second = 0;
  std::string params_sha256{};
  // Of training with a scaled loss: steps that changed nothing because a gradient was not finite, and the scale at the
  // end.
  std::uint64_t skipped_steps = 0;
  double loss_scale = 0;  // 0: the loss was not scaled
};

}  // namespace troupe
