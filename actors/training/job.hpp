// A training job: the options that all its tasks must agree on, and its results.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/training/epoch_logs.hpp>
#include <troupe/actors/training/job_event.hpp>
#include <troupe/graph/training/sparse_mean.hpp>
#include <troupe/scheduler/data/batch_source.hpp>

namespace troupe {

class Callback;
class TrainingHook;

// How a job trains. `local`: one process computes all slots (towers). `sync`, `ssp` and `async` need a cluster with at
// least one ps task, `allreduce` a cluster of workers only.
enum class JobMode : std::uint8_t { local, sync, async, allreduce, ssp };
std::string_view name(JobMode mode);

struct TrainingOptions {
  JobMode mode = JobMode::local;
  int epochs = 5;
  int batch = 32;                       // examples per slot
  int evaluation_batch = 500;           // examples per batch of an evaluation
  LastStep last_step = LastStep::drop;  // of examples that do not fill the last step of an epoch
  int slots = 0;  // N per step; 0: 1 if local, the number of workers less the backups if sync, ssp or allreduce
  // Modes sync and ssp: extra slots per step. A step uses the first N that arrive, so slow workers do not hold it up.
  // Which ones depends on timing, and so do the parameters.
  int backups = 0;
  int staleness = 0;  // mode ssp: maximum staleness of a step's parameters, in steps
  // Mode async: batches per update, which applies their mean. An incomplete last group is dropped.
  int aggregate = 1;
  // Mode async: divides an update's learning rate by the staleness of its batches: the number of updates since the
  // parameters they were computed on (Zhang et al., "Staleness-aware Async-SGD", IJCAI 2016).
  bool staleness_aware = false;
  // Equal parts of a slot's batch, computed one after the other. Takes the memory of one part, plus the gradients once
  // more.
  int micro_batches = 1;
  // Computes all objectives of a program on the same values, instead of one phase after the other.
  bool simultaneous = false;
  // Divisor of the rows of sparse gradients.
  SparseMean sparse_mean = SparseMean::all_slots;
  std::uint64_t seed = 0;
  std::chrono::nanoseconds join_timeout = std::chrono::seconds(60);
  // Cluster modes: how long training may make no progress before it fails on every task, naming the missing ones. 0: no
  // limit.
  std::chrono::nanoseconds step_timeout = std::chrono::minutes(10);
  // Modes with parameter servers: training starts when this many workers have joined; the others may join at any time.
  // 0: all, or those present at the join timeout unless on_loss is fail.
  int min_workers = 0;
  // Modes with parameter servers: what the loss of a task does. fail: ends the job. shrink: a worker's tokens go to the
  // others, and it may rejoin at any time. wait: its tokens are kept for rejoin_timeout, then go to the others. With
  // shrink and wait, when a ps task is lost, all others wait for it to return and resume with it from where the job can
  // continue. The final parameters are those of an undisturbed job.
  enum class OnLoss : std::uint8_t { fail, shrink, wait } on_loss = OnLoss::shrink;
  // How long to wait for a lost task.
  std::chrono::nanoseconds rejoin_timeout = std::chrono::seconds(10);
  // Checkpoints: a directory that all ps tasks see (mode allreduce: worker 0); "": none. The job resumes from the
  // newest intact one in it, which must be of a job with the same options (the number of tasks may differ, the epochs
  // may be fewer), and saves while it trains and at the end. checkpoint_every: steps between saves; 0: about one epoch.
  std::string checkpoint{};
  std::uint64_t checkpoint_every = 0;
  int checkpoints_kept = 3;
  // A directory for the history of the parameters; "": none. Each ps task writes a file that lists for every version
  // the gradients (worker, step, slot) applied and those dropped (ProvenanceLog); with backup slots the coordinator
  // writes the file `commits`, which lists the slots that each step used.
  std::string provenance{};
  // Modes sync and ssp with backups: a file `commits`. Its steps use the same slots again and so give the same bits.
  std::string replay{};
  // A directory for TensorBoard event files ("": none): the figures of each epoch and histograms of the parameters
  // after it, loss and learning rate every tensorboard_every steps, and the model's graph. Written by the task that
  // reports to the user: the chief, or rank 0. In cluster modes the loss covers only the batches computed by that task.
  std::string tensorboard{};
  std::uint64_t tensorboard_every = 100;
  // fit() prints nothing. Otherwise, without on_event or on_epoch, it prints a line to stderr for each such call.
  bool quiet = false;
  // Called for events other than the figures: lost tasks and how the job handles that, checkpoints. Runs on threads of
  // the runtime, possibly several at once.
  std::function<void(const JobEvent&)> on_event{};
  // SessionOptions::on_placement of the training sessions.
  std::function<void(const std::string&)> on_placement{};
  // Called on the chief after each epoch, on the training thread.
  std::function<void(const EpochLogs&)> on_epoch{};
  // What follows from the figures of epochs, and what is done after each (actors/training/callback.hpp). All tasks must
  // have the same ones.
  std::vector<std::shared_ptr<Callback>> callbacks{};
  // Code around the steps that this task computes (actors/training/hook.hpp).
  std::vector<std::shared_ptr<TrainingHook>> hooks{};
  // Called now and then on each worker: steps done and total steps of the epoch (0: unknown).
  std::function<void(std::uint32_t epoch, std::uint64_t step, std::uint64_t steps)> on_progress{};
  // Set by a signal handler: training stops soon and throws Code::cancelled. With checkpoints it saves first; so do the
  // other tasks, if the job cannot go on without this one.
  const std::atomic<bool>* stop = nullptr;
};

struct TrainingResult {
  bool chief = false;  // only the chief has the figures below
  Figures figures{};   // of the last epoch
  std::uint64_t steps = 0;
  double seconds = 0;  // training time, without evaluation
  double examples_per_second = 0;
  std::string params_sha256{};
  // With a scaled loss: steps skipped because a gradient was not finite, and the final scale.
  std::uint64_t skipped_steps = 0;
  double loss_scale = 0;  // 0: the loss was not scaled

  // Throws not_found, naming the figures there are.
  double operator[](std::string_view figure) const { return find_figure(figures, figure); }
};

}  // namespace troupe
