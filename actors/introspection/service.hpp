// The introspector's socket: inspection of a task over HTTP.
//
//   GET /          the page: a picture of the cluster, live       GET /task      this task, as JSON (TaskSnapshot)
//   GET /snapshot  all tasks, as JSON (ClusterSnapshot)           GET /metrics   this task, for Prometheus
//   GET /why       explains the waits in the cluster, as text; with ?json the causes too
//   GET /flight    the last messages of the task's actors         GET /healthz   200, or 503 and why; needs no token
//                  or, with ?task=NAME, the flight record of that task
//   POST, GET /trace   records the task's activity (task_trace.hpp)
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <troupe/actors/http/server.hpp>
#include <troupe/actors/introspection/cluster_view.hpp>
#include <troupe/actors/introspection/introspector.hpp>

namespace troupe {

std::string to_json(const WaitAnalysis& analysis);

class IntrospectionService {
 public:
  using Route = HttpServer::Handler;
  struct Config {
    HttpServer::Options http;    // without open_paths
    Introspector& introspector;  // must outlive the service
    ClusterView& view;
    std::map<std::string, Route> more;  // in addition to the paths above
  };
  // Starts listening. Throws unavailable.
  explicit IntrospectionService(Config config);

  HostPort address() const { return server_.address(); }
  void set_token(std::string token) { server_.set_token(std::move(token)); }

 private:
  HttpAnswer answer(const HttpRequest& request) const;
  HttpAnswer health() const;
  std::string flight_record(const HttpRequest& request) const;
  static HttpServer::Options open(HttpServer::Options options);

  const Config config_;
  HttpServer server_;  // last: its threads use the members above
};

}  // namespace troupe
