#include "troupe/actors/introspection/service.hpp"

#include <nlohmann/json.hpp>

#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/introspection/metrics.hpp>
#include <troupe/actors/introspection/page.hpp>

namespace troupe {
namespace {

constexpr const char* kText = "text/plain; charset=utf-8";
constexpr std::chrono::seconds kFlightPatience{2};  // for another task: a single answer, requested by a user

}  // namespace

std::string to_json(const WaitAnalysis& analysis) {
  auto causes = nlohmann::json::array();
  for (const RootCause& cause : analysis.causes)
    causes.push_back({{"kind", name(cause.kind)},
                      {"text", cause.text},
                      {"things", cause.things},
                      {"waiters", cause.waiters},
                      {"for_ns", cause.for_ns}});
  return json_text({{"text", analysis.text}, {"causes", std::move(causes)}});
}

HttpServer::Options IntrospectionService::open(HttpServer::Options options) {
  options.open_paths = options.prompt_paths = {"/healthz"};
  // Public: the page shows nothing until it has sent its token.
  options.pages = {{"/", {.type = "text/html; charset=utf-8", .body = std::string(introspection_page())}}};
  options.headers = kIntrospectionHeaders;
  return options;
}

IntrospectionService::IntrospectionService(Config config)
    : config_(std::move(config)),
      server_(open(config_.http), [this](const HttpRequest& request) { return answer(request); }) {}

HttpAnswer IntrospectionService::health() const {
  const std::string failure = config_.introspector.failure();
  nlohmann::json body{{"status", failure.empty() ? "ok" : "failed"},
                      {"task", config_.introspector.task()},
                      {"uptime_seconds", static_cast<double>(config_.introspector.uptime_ns()) * 1e-9}};
  if (!failure.empty()) body["error"] = failure;
  return {failure.empty() ? 200 : 503, "application/json", json_text(body)};
}

// Forwards without `task`: a request is forwarded only once.
std::string IntrospectionService::flight_record(const HttpRequest& request) const {
  const auto wanted = request.parameters.find("task");
  const std::string own = config_.introspector.task();
  if (wanted == request.parameters.end()) return config_.introspector.flight_record();
  std::vector<KnownTask> tasks = config_.view.others();
  tasks.push_back({.task = own});
  const KnownTask& task = find_task(tasks, wanted->second);
  return task.task == own ? config_.introspector.flight_record() : ask_task(task, "/flight", kFlightPatience);
}

HttpAnswer IntrospectionService::answer(const HttpRequest& request) const {
  if (const auto found = config_.more.find(request.path); found != config_.more.end()) return found->second(request);
  if (request.post) fail(Code::unimplemented, "{} is read-only: use GET", request.path);
  if (request.path == "/healthz") return health();
  if (request.path == "/task") return {.body = to_json(config_.introspector.snapshot())};
  if (request.path == "/snapshot") return {.body = to_json(config_.view.snapshot())};
  if (request.path == "/why") {
    const WaitAnalysis why = config_.view.why();
    if (request.parameters.contains("json")) return {.body = to_json(why)};
    return {.type = kText, .body = why.text};
  }
  if (request.path == "/metrics") {
    ClusterSnapshot only;
    TaskSnapshot task = config_.introspector.snapshot();
    only.tasks.push_back({.task = task.task, .answered = true, .snapshot = std::move(task)});
    return {.type = kMetricsType, .body = to_metrics(only)};
  }
  if (request.path == "/flight") return {.type = kText, .body = flight_record(request)};
  fail(Code::not_found, "no page {}; there are /, /snapshot, /task, /why, /metrics, /flight, /trace, /healthz",
       request.path);
}

}  // namespace troupe
