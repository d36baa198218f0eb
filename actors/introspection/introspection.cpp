#include "troupe/actors/introspection/introspection.hpp"

#include <unistd.h>

#include <troupe/actors/introspection/introspection_token.hpp>
#include <troupe/actors/trace/task_trace.hpp>
#include <troupe/devices/storage/file_system.hpp>

namespace troupe {

Introspection::Introspection(Config config)
    : config_(std::move(config)),
      introspector_({.task = config_.task,
                     .registry = config_.registry,
                     .training = training_,
                     .client = client_,
                     .devices = config_.devices,
                     .failure = config_.failure,
                     .links = [this] { return links(); },
                     .meeting = [this] { return meeting(); }}),
      view_([this] { return introspector_.snapshot(); }, [this] { return others(); }) {}

Introspection::~Introspection() { leave(); }

void Introspection::listen(HttpServer::Options http, const std::string& token) {
  http.token = introspection_token(token, "");
  const std::lock_guard lock(mutex_);
  token_ = token;
  http_ = http;
  const auto trace = [&trace = config_.registry.trace(), task = config_.task.to_string()](const HttpRequest& request) {
    return HttpAnswer{.body = answer_trace(trace, task, request.post, request.parameters)};
  };
  service_ = std::make_unique<IntrospectionService>(IntrospectionService::Config{
      .http = std::move(http), .introspector = introspector_, .view = view_, .more = {{"/trace", trace}}});
}

void Introspection::joined(Cluster cluster) {
  introspector_.joined(cluster.name, cluster.incarnation);
  const std::lock_guard lock(mutex_);
  token_ = cluster.token;
  if (service_) service_->set_token(introspection_token(token_, cluster.name));
  cluster_ = std::move(cluster);
}

void Introspection::leave() {
  std::unique_ptr<IntrospectionService> service;
  {
    const std::lock_guard lock(mutex_);
    service = std::move(service_);
  }
  service = nullptr;  // its handlers may be in links() or others()
  const std::lock_guard lock(mutex_);
  cluster_.links = nullptr;
  cluster_.tasks = nullptr;
  cluster_.meeting = nullptr;
}

std::vector<LinkSnapshot> Introspection::links() const {
  const std::lock_guard lock(mutex_);
  return cluster_.links ? cluster_.links() : std::vector<LinkSnapshot>();
}

Waiting Introspection::meeting() const {
  const std::lock_guard lock(mutex_);
  return cluster_.meeting ? cluster_.meeting() : Waiting();
}

std::vector<KnownTask> Introspection::others() const {
  const std::lock_guard lock(mutex_);
  return cluster_.tasks ? cluster_.tasks() : std::vector<KnownTask>();
}

std::optional<HttpTarget> Introspection::target() const {
  const std::lock_guard lock(mutex_);
  if (!service_) return {};
  return HttpTarget{
      .address = service_->address(), .token = introspection_token(token_, cluster_.name), .tls = http_.tls};
}

std::string Introspection::write_flight_record(const Error& why) {
  if (config_.flight_directory.empty()) return "";
  const std::string path = fmt::format("{}/troupe-flight-{}-{}-{}.txt", config_.flight_directory, config_.task.job,
                                       config_.task.index, getpid());
  std::string text = introspector_.flight_record();
  if (why) text = fmt::format("{}\n\n{}", why.message(), text);
  text += "\nWaits in the cluster:\n" + view_.why().text + "\n";
  replace_file(posix_file_system(), path, text, std::to_string(getpid()));
  return path;
}

}  // namespace troupe
