// The command line of troupe-serve.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/serve/json_limits.hpp"
#include "apps/serve/request_log.hpp"
#include <troupe/actors/cluster/membership.hpp>
#include <troupe/actors/serving/model_server.hpp>
#include <troupe/actors/wire/tls_files.hpp>
#include <troupe/messages/command_line.hpp>
#include <troupe/scheduler/serving/request_router.hpp>

namespace troupe {

struct ServeOptions {
  std::vector<ServedModel> models{};  // of --model
  std::string config{};               // a file; "": none
  std::optional<BatchQueue::Options> batching{};
  std::string batching_file{};  // "": none
  ModelServerOptions server{};
  std::chrono::duration<double> poll{1};  // seconds between looks at directories

  std::string host = "127.0.0.1";
  std::uint16_t rest_port = 8501;
  std::uint16_t grpc_port = 8500;
  bool rest = true, grpc = true;
  bool share = false;                             // files of models
  std::string client_ca{};                        // "": clients need no certificate
  std::map<std::string, std::string> tokens{};    // by model; "": of all others
  std::uint64_t most_bytes = 256 << 20;           // of a request
  std::uint64_t memory = std::uint64_t{1} << 30;  // bytes of all requests
  JsonLimits limits{};

  std::chrono::seconds drain_timeout{30};
  bool json = false;
  Membership membership{};            // with the certificates of the doors, too
  RequestLog::Options request_log{};  // without a prefix: none
  RequestRouter::Options router{};

  TlsFiles door_tls() const { return {membership.network.tls.certificate, membership.network.tls.key, client_ca}; }
};

// `launched`: this process was started by troupe-launch.
std::variant<ServeOptions, EarlyExit> parse_serve_options(const std::vector<std::string>& arguments, bool launched);

}  // namespace troupe
