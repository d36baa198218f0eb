// A training job: the options that all its tasks must agree on, and its results.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/training/epoch_logs.hpp>
#include <troupe/actors/training/job_event.hpp>
#include <troupe/actors/training/job_mode.hpp>
#include <troupe/graph/training/sparse_mean.hpp>
#include <troupe/scheduler/data/batch_source.hpp>

namespace troupe {

class Callback;
class TrainingHook;

// Limits what a task spends on batches ahead of the training, as a worker that reads them itself or as an input task;
// changes no batch. Each task has its own.
struct ReadAhead {
  // Bytes of batches that are made before they are wanted, or kept until their step is complete. Two batches may be
  // larger; 0: none is made ahead.
  std::uint64_t memory = 24 << 20;
  // That make batches at a time, at most; 0: the task's share of the machine's cores.
  int threads = 0;
};

struct TrainingOptions {
  JobMode mode = LocalMode{};
  int epochs = 5;
  int batch = 32;                       // examples per slot
  int evaluation_batch = 500;           // examples per batch of an evaluation
  LastStep last_step = LastStep::drop;  // of examples that do not fill the last step of an epoch
  ReadAhead read_ahead{};
  // Equal parts of a slot's batch, computed one after the other. Takes the memory of one part, plus the gradients once
  // more.
  int micro_batches = 1;
  // Computes all objectives of a program on the same values, instead of one phase after the other.
  bool simultaneous = false;
  // Divisor of the rows of sparse gradients.
  SparseMean sparse_mean = SparseMean::all_slots;
  std::uint64_t seed = 0;
  // Checkpoints: a directory that all ps tasks see (mode allreduce: worker 0); "": none. The job resumes from the
  // newest intact one in it, which must be of a job with the same options (the number of tasks may differ, the epochs
  // may be fewer), and saves while it trains and at the end. checkpoint_every: steps between saves; 0: about one epoch.
  std::string checkpoint{};
  std::uint64_t checkpoint_every = 0;
  int checkpoints_kept = 3;
  // Publishes the trained model for servers, as the next version of this directory; "": does not. Conditions on the
  // figures of the last epoch, like "val_accuracy >= stable - 0.005", all have to hold (actors/model/publication.hpp).
  // A version with the same bits as the newest is not published again.
  std::string publish{};
  std::vector<std::string> publish_gates{};
  // A directory for TensorBoard event files ("": none): the figures of each epoch and histograms of the parameters
  // after it, loss and learning rate every tensorboard_every steps, and the model's graph. Written by the task that
  // reports to the user: the chief, or rank 0. In cluster modes the loss covers only the batches computed by that task.
  std::string tensorboard{};
  std::uint64_t tensorboard_every = 100;
  // fit() prints nothing. Otherwise, without on_event or on_epoch, it prints a line to stderr for each such call; and
  // without on_progress the chief shows how far it is: a bar on a terminal, a line every ten seconds elsewhere.
  bool quiet = false;
  // Called for events other than the figures: lost tasks and how the job handles that, checkpoints. Runs on threads of
  // the runtime, possibly several at once.
  std::function<void(const JobEvent&)> on_event{};
  // SessionOptions::on_placement of the training sessions.
  std::function<void(const std::string&)> on_placement{};
  // Called on the chief after each epoch, on the training thread.
  std::function<void(const EpochLogs&)> on_epoch{};
  // Decide by the figures of epochs how the training goes on, or do something after each
  // (actors/training/callback.hpp). All tasks must have the same ones.
  std::vector<std::shared_ptr<Callback>> callbacks{};
  // Code around the steps that this task computes (actors/training/hook.hpp).
  std::vector<std::shared_ptr<TrainingHook>> hooks{};
  // Called after each step that this task computed, on the training thread.
  std::function<void(const StepProgress&)> on_progress{};
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

  // With TrainingOptions::publish: the version, and 0 with the reason if it was not published.
  std::int64_t published = 0;
  Error not_published{};

  // Throws not_found, naming the figures there are.
  double operator[](std::string_view figure) const { return find_figure(figures, figure); }
};

}  // namespace troupe
