// The gRPC API of a server of models: TensorFlow Serving's PredictionService and ModelService, the Open Inference
// Protocol's GRPCInferenceService, grpc.health.v1 and reflection.
//
//   GrpcDoor door(ServedModels::of(server), {.port = 8500});
//
// Errors have gRPC's codes; unavailable comes with the trailing metadata grpc-retry-pushback-ms. A request is computed
// until the deadline of its call, and no longer than its client waits.
//
// Health: "" and the names of the services are SERVING while all models are ready and no drain has begun; a model's
// name while that model is.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "apps/serve/served_models.hpp"
#include <troupe/actors/network/cluster_spec.hpp>
#include <troupe/actors/wire/tls_files.hpp>

namespace troupe {

class GrpcDoor {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;                               // 0: any free port
    std::size_t most_bytes = 256 << 20;                   // of a message
    std::size_t memory = std::size_t{1} << 30;            // bytes of all messages, and of connections
    int most_streams = 1024;                              // requests at once on a connection
    TlsFiles tls{};                                       // without `ca`, clients need no certificate
    std::map<std::string, std::string> tokens{};          // that a model's requests must show; "": those of all others
    std::chrono::milliseconds handshake_deadline{10000};  // for a connection to become one of gRPC
    std::chrono::milliseconds idle{300000};               // then a connection without requests is closed
  };
  // Listens at once. Throws unavailable, naming the address, and errors of reading the TLS files.
  GrpcDoor(ServedModels models, Options options);
  ~GrpcDoor();  // cuts off requests
  GrpcDoor(const GrpcDoor&) = delete;
  GrpcDoor& operator=(const GrpcDoor&) = delete;

  HostPort address() const;
  // Tells those that watch health what has changed: call it when a version comes or goes, or models do.
  void refresh_health(const std::vector<std::string>& models);
  // Is not ready any more, refuses connections, and finishes requests in flight; false: not all within `timeout`, the
  // others were cut off.
  bool drain(std::chrono::nanoseconds timeout);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
