#include "tools/top/web.hpp"

#include <troupe/actors/introspection/metrics.hpp>
#include <troupe/actors/introspection/page.hpp>

namespace troupe::top {

WebServer::WebServer(Observer::Options target, std::uint16_t port)
    : observer_(std::move(target)),
      server_({.port = port, .headers = kIntrospectionHeaders},
              [this](const HttpRequest& request) { return answer(request); }) {}

std::string WebServer::url() const { return HttpTarget{.address = server_.address()}.url(); }

HttpAnswer WebServer::answer(const HttpRequest& request) {
  constexpr const char* kText = "text/plain; charset=utf-8";
  if (request.post) fail(Code::unimplemented, "{} is read-only", request.path);
  if (request.path == "/") return {.type = "text/html; charset=utf-8", .body = std::string(introspection_page())};
  if (request.path == "/snapshot") return {.body = to_json(observer_.snapshot())};
  if (request.path == "/why" && request.parameters.contains("json")) return {.body = observer_.get("/why?json")};
  if (const auto task = request.parameters.find("task"); request.path == "/flight" && task != request.parameters.end())
    return {.type = kText, .body = observer_.flight_record(task->second)};
  if (request.path == "/why" || request.path == "/flight") return {.type = kText, .body = observer_.get(request.path)};
  if (request.path == "/metrics") return {.type = kMetricsType, .body = to_metrics(observer_.snapshot())};
  if (request.path == "/healthz") {
    static_cast<void>(observer_.snapshot());
    return {.body = R"({"status":"ok"})"};
  }
  fail(Code::not_found, "no such page {}; use /, /snapshot, /why, /metrics, /flight or /healthz", request.path);
}

}  // namespace troupe::top
