#include "apps/training_app.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include "apps/ending.hpp"
#include "apps/environment.hpp"
#include "apps/introspection.hpp"
#include "apps/signals.hpp"
#include "apps/training_trace.hpp"
#include <troupe/actors/introspection/trace_recording.hpp>
#include <troupe/actors/training/training_report.hpp>
#include <troupe/devices/storage/file_systems.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

// Called before training, so that a wrong path does not lose the result.
void prepare_save(const std::string& directory) {
  try {
    check_model_directory(file_system_of(directory), directory);
  } catch (const Error& error) {
    throw error.within("--save");
  }
}

// Saves the model where --save says, if it does.
void save(Model& model, const TrainingAppOptions& options, Console& console) {
  if (options.save.empty()) return;
  model.save(options.save);
  console.note(fmt::format("the model is in {}", options.save));
}

// Ctrl-C keeps what was trained, on the task that has it. After a SIGTERM only the checkpoint is left: a job that goes
// on from it saves the model in the end.
void keep(Model& model, const TrainingAppOptions& options, Console& console, const StopSignals& signals) {
  if (signals.exit_code() != 128 + SIGINT) return;
  try {
    save(model, options, console);
  } catch (const Error& error) {
    if (error.code() != Code::failed_precondition) console.note(error.what());  // else: it has no parameters
  }
}

void train(TrainingApp& app, Task& task, Console& console, StopSignals& signals) {
  const TrainingAppOptions& options = app.options();
  Model model = app.make_model(task);
  TrainingOptions training = options.training;
  training.on_event = [&](const JobEvent& event) { console.event(event); };
  if (options.log_placement)
    training.on_placement = [&](const std::string& placement) {
      console.note(placement.substr(0, placement.find_last_not_of('\n') + 1));
    };
  training.on_epoch = [&](const EpochLogs& epoch) {
    console.line(options.json ? app.epoch_json(epoch) : to_string(epoch, options.training.epochs));
  };
  training.on_progress = [&](const StepProgress& at) { console.progress(at, std::chrono::steady_clock::now()); };
  training.stop = &signals.stop();
  TrainingResult result;
  try {
    result = app.fit(model, training);
  } catch (const Error& error) {
    if (error.code() == Code::cancelled) keep(model, options, console, signals);
    throw;
  }
  if (!result.chief) return;
  app.report(model, result, console);
  if (result.skipped_steps > 0)
    console.note(fmt::format("{} of {} steps were skipped because f16 overflowed; the loss scale is now {}",
                             result.skipped_steps, result.steps, result.loss_scale));
  save(model, options, console);
}

// Starts the task; in a cluster, joins the other tasks.
std::unique_ptr<Task> start_task(const std::string& program, const TrainingAppOptions& options,
                                 LaunchHandshake* handshake) {
  TaskOptions wanted = options.task;
  if (!options.in_cluster) {
    options.membership.set(wanted);
    return std::make_unique<Task>(wanted);
  }
  const std::chrono::seconds meeting = options.membership.join_timeout;
  Member member = start_member(options.membership, handshake, wanted, std::chrono::steady_clock::now() + meeting);
  if (const auto warning = token_warning(member.cluster, options.membership.network))
    fmt::print(stderr, "{}: {}\n", program, *warning);
  if (auto problem = cluster_problem(program, member.cluster, options.training.mode)) invalid_argument("{}", *problem);
  // Workers beyond --min-workers may join at any time.
  const ParameterServers* servers = servers_of(options.training.mode);
  const int min_workers = servers ? servers->min_workers : 0;
  member.join_for_training(meeting, min_workers == 0 || min_workers >= member.cluster.count("worker"));
  return std::move(member.task);
}

// Whether the error does not explain itself, so that the flight record may help.
bool is_puzzling(const Error& error) {
  return error.code() != Code::cancelled && error.code() != Code::invalid_argument && error.code() != Code::not_found &&
         error.code() != Code::permission_denied && error.code() != Code::failed_precondition &&
         error.code() != Code::already_exists && error.code() != Code::unauthenticated;
}

int run(TrainingApp& app, LaunchHandshake* handshake, StopSignals& signals, HandledSignal& reports) {
  const std::string program = app.program();
  const TrainingAppOptions& options = app.options();
  Console console(program, options, stdout, stderr, isatty(STDERR_FILENO) != 0);
  if (options.speaks() && !options.save.empty()) prepare_save(options.save);
  const bool traces = options.speaks() && !options.trace.path.empty();
  if (traces) check_trace_path(options.trace.path);
  const std::string what = app.load();
  const std::unique_ptr<Task> task = start_task(program, options, handshake);
  if (options.log_placement) console.note(fmt::format("GPUs: {}", task->accelerators()));
  signals.end_in_order();
  reports.on_signal([&] { write_flight_record(program, *task, Error()); });
  if (options.membership.introspect_port >= 0 &&
      (!options.in_cluster || task->name() == TaskName{"worker", 0} || !handshake))
    tell_introspection(program, *task);
  int code = 0;
  std::optional<TrainingTrace> trace;
  if (traces) {
    TrainingTrace::Options wanted = options.trace;
    if (options.in_cluster) wanted.cluster = task->cluster().name;
    wanted.say = [&](const std::string& text) { console.note(text); };
    trace.emplace(*task, std::move(wanted));
  }
  try {
    console.begin(what);
    train(app, *task, console, signals);
  } catch (const std::exception& error) {
    console.note(error.what());
    code = signals.exit_code() != 0 ? signals.exit_code() : 1;
    if (const Error why = current_error(); is_puzzling(why)) write_flight_record(program, *task, why);
  }
  if (trace && !trace->end() && code == 0) code = 1;
  reports.on_signal(nullptr);
  return end_output(program, end_task(program, *task, code));
}

}  // namespace

int run_training_app(TrainingApp& app, int argc, char** argv) {
  try {
    HandledSignal reports(SIGUSR1);
    StopSignals signals;
    apply_environment();
    auto handshake = LaunchHandshake::from_environment();
    if (const auto exit = app.parse({argv + 1, argv + argc}, handshake.has_value()))
      return end_output(app.program(), finish(*exit));
    return run(app, handshake ? &*handshake : nullptr, signals, reports);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", app.program(), error.what());
    return 1;
  }
}

}  // namespace troupe
