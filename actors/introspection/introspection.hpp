// All that lets others look into a task: its introspector, its view of the cluster, their socket, and the file that is
// written when the task fails.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <troupe/actors/introspection/service.hpp>

namespace troupe {

// Thread-safe.
class Introspection {
 public:
  struct Config {
    TaskName task;
    ActorRegistry& registry;  // outlives it, like
    std::vector<Device*> devices;
    std::function<Error()> failure;  // of the task
    std::string flight_directory;    // "": flight records are not written
  };
  explicit Introspection(Config config);
  ~Introspection();

  // Opens the socket. `token`: the cluster's. Throws unavailable.
  void listen(HttpServer::Options http, const std::string& token);
  // The task belongs to a cluster now. The functions may be called until leave().
  struct Cluster {
    std::string name;
    std::string token;
    Incarnation incarnation;
    std::function<std::vector<LinkSnapshot>()> links;
    std::function<std::vector<KnownTask>()> tasks;  // the others
    std::function<Waiting()> meeting;               // for which of them a call waits
  };
  void joined(Cluster cluster);
  // Closes the socket and forgets the links.
  void leave();

  TrainingRecord& training() { return training_; }
  ClientRecord& client() { return client_; }
  ClusterView& view() { return view_; }
  // Where it can be looked into, and with which token; none without a socket.
  std::optional<HttpTarget> target() const;

  // Writes the flight record and why the cluster waits into a file of Config::flight_directory, and returns its path;
  // "" without a directory. Replaces the file of an earlier call. Takes up to a second. Throws what writing a file
  // throws.
  std::string write_flight_record(const Error& why);

 private:
  std::vector<LinkSnapshot> links() const;
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
