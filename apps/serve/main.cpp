// troupe-serve: serves models over gRPC and REST; alone, or as a replica or router of a cluster.
#include <fmt/core.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "apps/ending.hpp"
#include "apps/introspection.hpp"
#include "apps/serve/doors.hpp"
#include "apps/serve/options.hpp"
#include "apps/serve/report.hpp"
#include "apps/serve/serving_config.hpp"
#include "apps/signals.hpp"
#include <troupe/actors/cluster/membership.hpp>
#include <troupe/actors/serving/replica.hpp>
#include <troupe/actors/serving/router.hpp>
#include <troupe/messages/error.hpp>

namespace {

using namespace troupe;

constexpr std::chrono::seconds kWord{5};      // between words about what is waited for
constexpr std::chrono::seconds kFarewell{1};  // that a replica goes on for routers that end, too

struct Signals {
  StopSignals& stop;
  HandledSignal& reports;
  HandledSignal& reloads;
};

std::vector<ServedModel> with_batching(std::vector<ServedModel> models, const ServeOptions& options) {
  std::optional<BatchQueue::Options> batching = options.batching;
  if (!options.batching_file.empty()) batching = read_batching_parameters(options.batching_file);
  for (ServedModel& model : models)
    if (!model.batching) model.batching = batching;
  return models;
}

// Of --config or --model. Throws errors of reading the file.
std::vector<ServedModel> given_models(const ServeOptions& options) {
  return options.config.empty() ? options.models : read_serving_config(options.config);
}

void tell_read_again(const ServeOptions& options, ServeReport& report, const Error& error) {
  if (error) return report.note(fmt::format("the models stay as they are: {}", error.message()));
  report.note(fmt::format("{} is read again", options.config.empty() ? "the command line" : options.config));
}

// Models in this process, and who is told of their changes.
class Models {
 public:
  Models(const ServeOptions& options, Task& task, ServeReport& report)
      : options_(options), report_(report), server_(task, server_options()) {
    server_.configure(with_batching(given_models(options_), options_));
  }
  ~Models() { on_change(nullptr); }
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  ModelServer& server() { return server_; }
  // Called with the names of the models; null: no more, and once this returns no call goes on.
  void on_change(std::function<void(const std::vector<std::string>&)> call) {
    const std::lock_guard lock(mutex_);
    on_change_ = std::move(call);
    tell();
  }
  ServedModels served() {
    ServedModels out = ServedModels::of(server_);
    if (options_.share) out.path_of = [this](const std::string& model) { return path_of(model); };
    out.configure = [this](std::vector<ServedModel> models, const auto& done) {
      try {
        configure(with_batching(std::move(models), options_));
      } catch (...) {
        return done(current_error());
      }
      done({});
    };
    return out;
  }
  void read_again() {
    try {
      configure(with_batching(given_models(options_), options_));
      tell_read_again(options_, report_, {});
    } catch (...) {
      tell_read_again(options_, report_, current_error());
    }
  }
  // Until all versions are ready, or have a reason why not.
  void await(const std::atomic<bool>& stop) {
    while (!stop && !server_.await_decided(kWord))
      for (const std::string& why : troubles()) report_.note(fmt::format("waits: {}", why));
    for (const std::string& why : troubles()) report_.note(why);
  }

 private:
  ModelServerOptions server_options() {
    ModelServerOptions out = options_.server;
    out.on_state = [this](const ServableManager::Status& status) {
      report_.state(status);
      const std::lock_guard lock(mutex_);
      tell();
    };
    return out;
  }
  void configure(std::vector<ServedModel> models) {
    server_.configure(std::move(models));
    const std::lock_guard lock(mutex_);
    tell();
  }
  std::string path_of(const std::string& model) const {
    for (const ServedModel& served : server_.models())
      if (served.name == model) return served.path;
    fail(Code::not_found, "no model '{}' is served", model);
  }
  void tell() {  // needs mutex_
    if (!on_change_) return;
    std::vector<std::string> names;
    for (const ServedModel& model : server_.models()) names.push_back(model.name);
    on_change_(names);
  }
  std::vector<std::string> troubles() const {
    std::vector<std::string> out;
    for (const ServedModel& model : server_.models()) try {
        static_cast<void>(server_.find(model.name));
      } catch (const Error& why) {
        out.push_back(why.message());
      }
    return out;
  }

  const ServeOptions& options_;
  ServeReport& report_;
  std::mutex mutex_;
  std::function<void(const std::vector<std::string>&)> on_change_;
  ModelServer server_;  // last: its threads use the members above
};

// Returns the exit code.
int drain(Doors& doors, const ServeOptions& options, ServeReport& report) {
  report.note("ends once the requests that it has are answered");
  if (doors.drain()) return 0;
  report.note(fmt::format("requests were cut off {} s after the signal", options.drain_timeout.count()));
  return 1;
}

int serve_alone(const ServeOptions& options, Task& task, ServeReport& report, Signals& signals) {
  Models models(options, task, report);
  Doors doors(options, models.served(), task, report);
  models.on_change([&](const auto& names) { doors.refresh_health(names); });
  signals.stop.end_in_order();
  signals.reloads.on_signal([&] { models.read_again(); });
  models.await(signals.stop.stop());
  report.ready(doors.ready_event());
  signals.stop.wait();
  signals.reloads.on_signal(nullptr);
  const int code = drain(doors, options, report);
  models.on_change(nullptr);  // before the doors go
  return code;
}

int serve_replica(const ServeOptions& options, Member& member, ServeReport& report, Signals& signals) {
  Models models(options, *member.task, report);
  Replica replica(*member.task, models.server(),
                  [&](std::vector<ServedModel> given) { return with_batching(std::move(given), options); });
  models.on_change([&](const auto&) { replica.refresh(); });
  signals.stop.end_in_order();
  signals.reloads.on_signal([&] {
    if (!replica.change([&] { models.read_again(); }))
      report.note("the models stay as they are: a router has configured them: send SIGHUP to the router");
  });
  models.await(signals.stop.stop());
  member.task->join(member.cluster, options.membership.join_timeout, std::string(kRouterJob));
  report.note(fmt::format("{} is ready", member.task->name().to_string()));
  report.ready({{"event", "ready"}});
  signals.stop.wait();
  signals.reloads.on_signal(nullptr);
  models.on_change(nullptr);
  report.note("ends once the requests that it has are answered");
  const bool done = replica.drain(kFarewell, options.drain_timeout);
  if (!done) report.note(fmt::format("requests were cut off {} s after the signal", options.drain_timeout.count()));
  return done ? 0 : 1;
}

// For all replicas.
void read_again(const ServeOptions& options, Router& router, ServeReport& report) {
  try {
    const std::vector<ServedModel> models = given_models(options);
    if (models.empty()) invalid_argument("this router has no models to read again: start it with --config FILE");
    router.configure(models, [&](const Error& error) {
      if (error) return report.note(fmt::format("the replicas have not all taken the models: {}", error.message()));
      tell_read_again(options, report, {});
    });
  } catch (...) {
    tell_read_again(options, report, current_error());
  }
}

int serve_router(const ServeOptions& options, Member& member, ServeReport& report, Signals& signals) {
  std::mutex mutex;
  std::function<void()> on_change;
  Router router(
      *member.task, options.router,
      [&] {
        const std::lock_guard lock(mutex);
        if (on_change) on_change();
      },
      [&](const std::string& trouble) { report.note(trouble); });
  member.task->join(member.cluster, options.membership.join_timeout, std::string(kRouterJob));
  Doors doors(options, ServedModels::of(router), *member.task, report);
  const auto set = [&](std::function<void()> call) {
    const std::lock_guard lock(mutex);
    on_change = std::move(call);
    if (on_change) on_change();
  };
  set([&] { doors.refresh_health(router.models()); });
  signals.stop.end_in_order();
  signals.reloads.on_signal([&] { read_again(options, router, report); });
  while (!signals.stop.stop() && !router.await_ready(kWord)) report.note("waits for replicas with the models");
  report.ready(doors.ready_event());
  if (!signals.stop.stop()) report.note("is ready");
  signals.stop.wait();
  signals.reloads.on_signal(nullptr);
  const int code = drain(doors, options, report);
  set(nullptr);
  return code;
}

int run(const ServeOptions& options, LaunchHandshake* handshake, Signals& signals) {
  ServeReport report(options.json);
  TaskOptions task_options{.name = {"serve", 0}, .threads = 1};
  task_options.gpus.count = 0;
  Member member;
  const bool clustered = handshake != nullptr || options.membership.given();
  if (clustered) {
    const auto deadline = std::chrono::steady_clock::now() + options.membership.join_timeout;
    member = start_member(options.membership, handshake, task_options, deadline);
    if (const auto warning = token_warning(member.cluster, options.membership.network)) report.note(*warning);
  } else {
    options.membership.set(task_options);
    member.task = std::make_unique<Task>(std::move(task_options));
  }
  Task& task = *member.task;
  signals.reports.on_signal([&] { write_flight_record(kServeProgram, task, Error()); });
  if (options.membership.introspect_port >= 0) tell_introspection(kServeProgram, task);
  const int code = !clustered                      ? serve_alone(options, task, report, signals)
                   : task.name().job == kRouterJob ? serve_router(options, member, report, signals)
                                                   : serve_replica(options, member, report, signals);
  signals.reports.on_signal(nullptr);
  return end_output(kServeProgram, end_task(kServeProgram, task, code));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    HandledSignal reports(SIGUSR1), reloads(SIGHUP);
    StopSignals stop;
    Signals signals{stop, reports, reloads};
    auto handshake = LaunchHandshake::from_environment();
    const auto parsed = parse_serve_options({argv + 1, argv + argc}, handshake.has_value());
    if (const auto* exit = std::get_if<EarlyExit>(&parsed)) return end_output(kServeProgram, finish(*exit));
    return run(std::get<ServeOptions>(parsed), handshake ? &*handshake : nullptr, signals);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", kServeProgram, error.what());
    return 1;
  }
}
