// Inspection of a task from outside: its introspector, its view of the cluster, the socket, and the file written when
// the task fails.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <troupe/actors/introspection/service.hpp>

namespace troupe {

// Thread-safe.
class Introspection {
 public:
  struct Config {
    TaskName task;
    ActorRegistry& registry;  // outlives it, like
    std::function<std::vector<std::shared_ptr<Device>>()> devices;
    std::function<Error()> failure;  // of the task
    std::string flight_directory;    // "": flight records are not written
  };
  explicit Introspection(Config config);
  ~Introspection();

  // Opens the socket. `token`: the cluster's token. Throws unavailable.
  void listen(HttpServer::Options http, const std::string& token);
  // Call when the task has joined a cluster. The functions may be called until leave().
  struct Cluster {
    std::string name;
    std::string token;
    Incarnation incarnation;
    std::function<std::vector<LinkSnapshot>()> links;
    std::function<std::vector<KnownTask>()> tasks;  // the other tasks
    std::function<Waiting()> meeting;               // tasks that a call waits for
  };
  void joined(Cluster cluster);
  // Closes the socket and drops the links.
  void leave();

  // Introspector::set_request_log().
  void set_request_log(std::function<RequestLogSnapshot()> show) { introspector_.set_request_log(std::move(show)); }

  TrainingRecord& training() { return training_; }
  ClientRecord& client() { return client_; }
  ClusterView& view() { return view_; }
  std::vector<LinkSnapshot> links() const;  // to the other tasks
  // Address and token for inspection; none without a socket.
  std::optional<HttpTarget> target() const;

  // Writes the flight record and the explanation of the cluster's waits to a file in Config::flight_directory, and
  // returns its path; "" without a directory. Replaces the file of an earlier call. Takes up to a second. Throws errors
  // of writing a file.
  std::string write_flight_record(const Error& why);

 private:
  Waiting meeting() const;
  std::vector<KnownTask> others() const;

  const Config config_;
  TrainingRecord training_;
  ClientRecord client_;
  Introspector introspector_;
  ClusterView view_;
  mutable std::mutex mutex_;
  std::string token_;
  HttpServer::Options http_;
  Cluster cluster_;
  std::unique_ptr<IntrospectionService> service_;
};

}  // namespace troupe
