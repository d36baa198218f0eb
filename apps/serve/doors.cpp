#include "apps/serve/doors.hpp"

#include <fmt/core.h>

#include <future>
#include <nlohmann/json.hpp>
#include <utility>

#include <troupe/actors/http/connections.hpp>
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/devices/storage/file_systems.hpp>

namespace troupe {
namespace {

RestDoor::Options rest_options(const ServeOptions& options, const ServedModels& models, Task& task) {
  RestDoor::Options out;
  out.host = options.host;
  out.port = options.rest_port;
  out.most_bytes = options.most_bytes;
  out.memory = options.memory;
  out.tls = options.door_tls();
  out.tokens = options.tokens;
  out.limits = options.limits;
  out.snapshot = [&task] { return task.introspection().view().snapshot(); };
  out.path_of = models.path_of;
  return out;
}

GrpcDoor::Options grpc_options(const ServeOptions& options) {
  GrpcDoor::Options out;
  out.host = options.host;
  out.port = options.grpc_port;
  out.most_bytes = options.most_bytes;
  out.memory = options.memory;
  out.tls = options.door_tls();
  out.tokens = options.tokens;
  return out;
}

void warn_of_strangers(const ServeOptions& options, ServeReport& report) {
  if (options.host == "localhost" || options.host == "::1" || options.host.starts_with("127.")) return;
  const TlsFiles tls = options.door_tls();
  if (options.tokens.empty() && tls.ca.empty())
    report.note(fmt::format("anybody who reaches {} may ask these models: give a --token", options.host));
  if (tls.certificate.empty())
    report.note("requests, tokens and answers can be read on their way: give --tls-cert and --tls-key");
}

}  // namespace

Doors::Doors(const ServeOptions& options, ServedModels models, Task& task, ServeReport& report)
    : options_(options), task_(task) {
  raise_descriptor_limit();
  warn_of_strangers(options, report);
  models.trace = &task.actors().trace();
  if (!options.request_log.prefix.empty()) {
    log_ = std::make_unique<RequestLog>(file_system_of(options.request_log.prefix), options.request_log);
    models = log_->logged(std::move(models));
  }
  if (options.rest) {
    rest_ = std::make_unique<RestDoor>(models, rest_options(options, models, task));
    const bool encrypted = !options.door_tls().certificate.empty();
    report.note(fmt::format("REST at http{}://{}", encrypted ? "s" : "", rest_->address().to_string()));
  }
  if (options.grpc) {
    grpc_ = std::make_unique<GrpcDoor>(models, grpc_options(options));
    report.note(fmt::format("gRPC at {}", grpc_->address().to_string()));
  }
  if (log_) task.introspection().set_request_log([log = log_.get()] { return log->snapshot(); });
}

Doors::~Doors() {
  if (log_) task_.introspection().set_request_log(nullptr);
}

void Doors::refresh_health(const std::vector<std::string>& models) {
  if (grpc_) grpc_->refresh_health(models);
}

nlohmann::json Doors::ready_event() const {
  nlohmann::json out{{"event", "ready"}};
  if (rest_) out["rest_port"] = rest_->address().port;
  if (grpc_) out["grpc_port"] = grpc_->address().port;
  return out;
}

bool Doors::drain() {
  auto grpc = std::async(std::launch::async, [this] { return !grpc_ || grpc_->drain(options_.drain_timeout); });
  const bool rest = !rest_ || rest_->drain(options_.drain_timeout);
  return grpc.get() && rest;
}

}  // namespace troupe
