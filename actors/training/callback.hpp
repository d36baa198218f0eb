// Callbacks: what a training does after each epoch, besides going on with the next.
//
//   model.fit(train, validation, {.epochs = 100,
//                                 .callbacks = {callbacks::early_stopping({.patience = 5}),
//                                               callbacks::reduce_on_plateau({.patience = 2}),
//                                               callbacks::csv_log("log.csv")}});
//
// A callback has two parts. What it decides (to stop, to keep the values of now, to change learning rates) is a
// function of the figures of the epochs so far: it is computed where epochs end, which in modes with parameter servers
// is ps task 0, and again when a job resumes from a checkpoint. So it has the same effect in all modes, whatever is
// lost meanwhile. What it does (write, print, evaluate) is called on the task that reports, on its training thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/training/epoch_logs.hpp>
#include <troupe/messages/epoch_done.hpp>
#include <troupe/scheduler/training/epoch_control.hpp>

namespace troupe {

class Callback {
 public:
  virtual ~Callback() = default;
  // For the settings of a job, which all tasks must have alike: "early_stopping(val_loss, patience 5)".
  virtual std::string describe() const = 0;
  // Adds to the decision after an epoch: sets `stop` or `keep`, multiplies `rate_scale`, which is 1. Each call makes a
  // new one, without history. Null: it decides nothing.
  using Decide = std::function<void(const EpochLogs& logs, EpochDecision& decision)>;
  virtual Decide decision() const { return nullptr; }
  // Called after each epoch on the task that reports; what it throws ends the training.
  virtual void epoch_end(const EpochLogs&) {}
};
using CallbackPtr = std::shared_ptr<Callback>;
using Callbacks = std::vector<CallbackPtr>;

bool decides(const Callbacks& callbacks);
std::string describe(const Callbacks& callbacks);  // "none"
// The decisions of all; null if none decides. `results`: of the figures.
EpochControl control_of(const Callbacks& callbacks, const std::map<std::string, FigureResult>& results);
void epoch_end(const Callbacks& callbacks, const EpochLogs& logs);

namespace callbacks {

// Which of two numbers of a figure is better. automatic: the higher one for names that end in accuracy, auc, precision,
// recall, f1, score, similarity, correlation or iou; else the lower one.
enum class Better { automatic, lower, higher };

struct EarlyStoppingOptions {
  std::string figure = "val_loss";
  Better better = Better::automatic;
  double min_delta = 0;          // an epoch is better if it is by more than this
  std::uint32_t patience = 0;    // epochs without a better one before it stops: with 0, the first that is not
  std::uint32_t from_epoch = 0;  // earlier ones do not count
  bool keep_best = true;         // training ends with the values of the best epoch
};
// Stops when a figure gets no better. A figure that does not exist, or is no number, is never better.
CallbackPtr early_stopping(EarlyStoppingOptions options = {});

struct ReduceOnPlateauOptions {
  std::string figure = "val_loss";
  Better better = Better::automatic;
  double factor = 0.1;  // of learning rates, each time
  std::uint32_t patience = 10;
  double min_delta = 1e-4;
  std::uint32_t cooldown = 0;  // epochs after a reduction that do not count
  double least = 0;            // the scale of rates stays at least this
};
CallbackPtr reduce_on_plateau(ReduceOnPlateauOptions options = {});

// Multiplies learning rates of epoch e, from the second on, by scale(e). `name`: it is the same on all tasks.
CallbackPtr learning_rates(std::string name, std::function<double(std::uint32_t epoch)> scale);
// Stops after an epoch whose loss is not finite.
CallbackPtr stop_on_nan();

// Write a line for each epoch: epoch, figures, examples_per_second, seconds. A job that resumes appends. Throw
// unavailable, naming the file, if it cannot be written.
CallbackPtr csv_log(std::string path);
CallbackPtr json_log(std::string path);  // {"epoch":1,"loss":0.5,...}

// One's own: what is done after each epoch.
CallbackPtr each_epoch(std::function<void(const EpochLogs&)> what);

// Whether `now` is better than `best` by more than `min_delta`; of a first one, NaN, everything but NaN is.
bool is_better(const std::string& figure, Better better, double now, double best, double min_delta = 0);

}  // namespace callbacks
}  // namespace troupe
