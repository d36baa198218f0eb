// troupe-serve: serves models over gRPC and REST.
#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "apps/ending.hpp"
#include "apps/introspection.hpp"
#include "apps/serve/grpc_door.hpp"
#include "apps/serve/options.hpp"
#include "apps/serve/rest_door.hpp"
#include "apps/serve/serving_config.hpp"
#include "apps/signals.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/messages/error.hpp>

namespace {

using namespace troupe;
using nlohmann::json;

constexpr const char* kProgram = "troupe-serve";
constexpr std::chrono::seconds kFirstWord{5};  // between words about models that are still being loaded

// What people and programs are told. Thread-safe.
class ServeReport {
 public:
  explicit ServeReport(bool json) : json_(json) {}

  void note(const std::string& text) {
    const std::lock_guard lock(mutex_);
    fmt::print(stderr, "{}: {}\n", kProgram, text);
  }
  void event(const json& event) {
    if (!json_) return;
    const std::lock_guard lock(mutex_);
    if (!ready_ && event.at("event") != "ready") return later_.push_back(event);
    print(event);
    ready_ = true;
    for (const auto& one : std::exchange(later_, {})) print(one);
  }
  void state(const ServableManager::Status& status) {
    const std::string who = status.id.to_string();
    json out{{"event", "version"},
             {"model", status.id.model},
             {"version", status.id.version},
             {"state", name(status.state)}};
    if (status.error) out["error"] = status.error.message();
    event(out);
    if (status.state == ServableState::ready)
      note(fmt::format("{} is ready, {:.1f} MiB", who, static_cast<double>(status.bytes) / (1 << 20)));
    else if (status.state == ServableState::unloaded)
      note(fmt::format("{} is unloaded", who));
    else if (status.error)
      note(fmt::format("{} is {}: {}", who, name(status.state), status.error.message()));
  }

 private:
  static void print(const json& event) {
    fmt::print("{}\n", json_text(event));
    std::fflush(stdout);
  }

  const bool json_;
  std::mutex mutex_;
  bool ready_ = false;
  std::vector<json> later_;  // than the first line
};

std::vector<ServedModel> with_batching(std::vector<ServedModel> models, const ServeOptions& options) {
  std::optional<BatchQueue::Options> batching = options.batching;
  if (!options.batching_file.empty()) batching = read_batching_parameters(options.batching_file);
  for (ServedModel& model : models)
    if (!model.batching) model.batching = batching;
  return models;
}

std::vector<ServedModel> models_of(const ServeOptions& options) {
  return with_batching(options.config.empty() ? options.models : read_serving_config(options.config), options);
}

void warn_of_strangers(const ServeOptions& options, ServeReport& report) {
  const bool local = options.host == "localhost" || options.host == "::1" || options.host.starts_with("127.");
  if (local) return;
  if (options.tokens.empty() && options.tls.ca.empty())
    report.note(fmt::format("anybody who reaches {} may ask these models: give a --token", options.host));
  if (options.tls.certificate.empty())
    report.note("requests, tokens and answers can be read on their way: give --tls-cert and --tls-key");
}

RestDoor::Options rest_options(const ServeOptions& options, Task& task) {
  RestDoor::Options out;
  out.host = options.host;
  out.port = options.rest_port;
  out.most_bytes = options.most_bytes;
  out.memory = options.memory;
  out.tls = options.tls;
  out.tokens = options.tokens;
  out.limits = options.limits;
  out.snapshot = [&task] { return task.introspection().view().snapshot(); };
  return out;
}

GrpcDoor::Options grpc_options(const ServeOptions& options) {
  GrpcDoor::Options out;
  out.host = options.host;
  out.port = options.grpc_port;
  out.most_bytes = options.most_bytes;
  out.memory = options.memory;
  out.tls = options.tls;
  out.tokens = options.tokens;
  return out;
}

// A server of models and its doors.
class Serving {
 public:
  Serving(const ServeOptions& options, Task& task, ServeReport& report)
      : options_(options), report_(report), server_(task, server_options()) {
    server_.configure(models_of(options));
    ServedModels models = ServedModels::of(server_);
    models.configure = [this](std::vector<ServedModel> given) { configure(std::move(given)); };
    if (options.rest) rest_ = std::make_unique<RestDoor>(models, rest_options(options, task));
    if (options.grpc) {
      auto door = std::make_unique<GrpcDoor>(models, grpc_options(options));
      const std::lock_guard lock(mutex_);
      grpc_ = std::move(door);
    }
    tell_health();
    if (rest_)
      report.note(
          fmt::format("REST at http{}://{}", options.tls.certificate.empty() ? "" : "s", rest_->address().to_string()));
    if (grpc_) report.note(fmt::format("gRPC at {}", grpc_->address().to_string()));
  }

  ~Serving() {
    const std::lock_guard lock(mutex_);
    ending_ = true;  // versions that go tell nobody
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  // Until all models have a version, or a reason why not.
  void await_models(const std::atomic<bool>& stop) {
    while (!stop && !server_.await_decided(kFirstWord))
      for (const std::string& why : troubles()) report_.note(fmt::format("waits: {}", why));
    for (const std::string& why : troubles()) report_.note(why);
  }
  void tell_ready() {
    json ready{{"event", "ready"}};
    if (rest_) ready["rest_port"] = rest_->address().port;
    if (grpc_) ready["grpc_port"] = grpc_->address().port;
    report_.event(ready);
  }
  void read_again() {
    try {
      configure(options_.config.empty() ? options_.models : read_serving_config(options_.config));
      report_.note(fmt::format("{} is read again", options_.config.empty() ? "the command line" : options_.config));
    } catch (const std::exception& error) {
      report_.note(fmt::format("the models stay as they are: {}", error.what()));
    }
  }
  // False: requests were cut off.
  bool drain() {
    auto grpc = std::async(std::launch::async, [this] { return !grpc_ || grpc_->drain(options_.drain_timeout); });
    const bool rest = !rest_ || rest_->drain(options_.drain_timeout);
    return grpc.get() && rest;
  }

 private:
  ModelServerOptions server_options() {
    ModelServerOptions out = options_.server;
    out.on_state = [this](const ServableManager::Status& status) {
      report_.state(status);
      tell_health();
    };
    return out;
  }
  void configure(std::vector<ServedModel> models) {
    server_.configure(with_batching(std::move(models), options_));
    tell_health();
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
  void tell_health() {
    const std::lock_guard lock(mutex_);
    if (!grpc_ || ending_) return;
    std::vector<std::string> names;
    for (const ServedModel& model : server_.models()) names.push_back(model.name);
    grpc_->refresh_health(names);
  }

  const ServeOptions& options_;
  ServeReport& report_;
  std::mutex mutex_;  // guards the pointer to the gRPC door until it is there, and:
  bool ending_ = false;
  ModelServer server_;
  std::unique_ptr<RestDoor> rest_;
  std::unique_ptr<GrpcDoor> grpc_;
};

int serve(const ServeOptions& options, StopSignals& signals, HandledSignal& reports, HandledSignal& reloads) {
  ServeReport report(options.json);
  TaskOptions task_options{.name = {"serve", 0}, .threads = 1};
  task_options.gpus.count = 0;
  options.membership.set(task_options);
  Task task(std::move(task_options));
  reports.on_signal([&] { write_flight_record(kProgram, task, Error()); });
  if (options.membership.introspect_port >= 0) tell_introspection(kProgram, task);
  warn_of_strangers(options, report);
  int code = 0;
  {
    Serving serving(options, task, report);
    signals.end_in_order();
    reloads.on_signal([&] { serving.read_again(); });
    serving.await_models(signals.stop());
    serving.tell_ready();
    signals.wait();
    reloads.on_signal(nullptr);
    report.note("ends once the requests that it has are answered");
    if (!serving.drain()) {
      report.note(fmt::format("requests were cut off {} s after the signal", options.drain_timeout.count()));
      code = 1;
    }
  }
  reports.on_signal(nullptr);
  return end_output(kProgram, end_task(kProgram, task, code));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    HandledSignal reports(SIGUSR1), reloads(SIGHUP);
    StopSignals signals;
    const auto parsed = parse_serve_options({argv + 1, argv + argc});
    if (const auto* exit = std::get_if<EarlyExit>(&parsed)) return end_output(kProgram, finish(*exit));
    return serve(std::get<ServeOptions>(parsed), signals, reports, reloads);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", kProgram, error.what());
    return 1;
  }
}
