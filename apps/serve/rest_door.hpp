// The REST API of a server of models: TensorFlow Serving's and the Open Inference Protocol's (rest_route.hpp), whose
// bodies are in json_tensors.hpp and inference_json.hpp.
//
//   RestDoor door(ServedModels::of(server), {.port = 8501});
//
// Errors are {"error": "..."} with TensorFlow Serving's HTTP statuses; with 503, Retry-After says when to ask again. A
// request is computed until its deadline: the header X-Request-Timeout in seconds, or the parameter "timeout" of the
// Open Inference Protocol in microseconds. A client that closes its connection cancels its request. A request with the
// header traceparent (trace_context.hpp) is answered with one of the same trace.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "apps/serve/json_limits.hpp"
#include "apps/serve/served_models.hpp"
#include <troupe/actors/base/snapshot.hpp>
#include <troupe/actors/network/cluster_spec.hpp>
#include <troupe/actors/wire/tls_files.hpp>

namespace troupe {

class RestDoor {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;                       // 0: any free port
    std::size_t most_bytes = 256 << 20;           // of a body
    std::size_t memory = std::size_t{1} << 30;    // bytes of all bodies
    unsigned threads = 2;                         // that read and answer requests
    TlsFiles tls{};                               // without `ca`, clients need no certificate
    std::map<std::string, std::string> tokens{};  // that a model's requests must show; "": those of all others
    JsonLimits limits{};
    std::chrono::milliseconds request_deadline{60000};  // for a request to arrive
    std::function<ClusterSnapshot()> snapshot{};        // of the page at / and of /metrics; null: there are none
    // Of a model, whose files others may read then (shared_files.hpp); throws not_found. Null: nobody may.
    std::function<std::string(const std::string& model)> path_of{};
  };
  // Listens at once. Throws unavailable, naming the address, and errors of the TLS files.
  RestDoor(ServedModels models, Options options);
  ~RestDoor();  // requests without an answer get 503
  RestDoor(const RestDoor&) = delete;
  RestDoor& operator=(const RestDoor&) = delete;

  HostPort address() const;
  // Is not ready any more, refuses connections, and finishes requests in flight; false: not all within `timeout`.
  bool drain(std::chrono::nanoseconds timeout);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// TensorFlow Serving's status for an error (model_servers/http_server.cc).
int rest_status_of(Code code);

}  // namespace troupe
