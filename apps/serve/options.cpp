#include "apps/serve/options.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "apps/serve/report.hpp"
#include "apps/serve/serving_config.hpp"
#include <troupe/actors/cluster/membership_options.hpp>
#include <troupe/devices/storage/file_systems.hpp>

namespace troupe {
namespace {

constexpr const char* kServeUsage = "--model NAME=DIR | --config FILE [OPTIONS]";
constexpr const char* kServeDescription =
    R"(Serves models over gRPC and REST: the APIs of TensorFlow Serving and of the Open Inference Protocol (KServe,
Triton), so that their clients work unchanged.

A model's directory has numbered versions, or is itself a model: of Troupe, of TensorFlow (SavedModel), or of ONNX.
  troupe-mnist --save digits/1
  troupe-serve --model digits=digits --batch

  curl -d '{"instances": [...]}' http://localhost:8501/v1/models/digits:predict
  curl http://localhost:8501/v1/models/digits/metadata

A new version in the directory is loaded while the others answer, and gets the requests once it is ready. Many models,
and which of their versions, in TensorFlow Serving's file, which is read again on SIGHUP:
  troupe-serve --config models.txt

  model_config_list {
    config { name: "digits" base_path: "digits" model_version_policy { latest { num_versions: 2 } } }
  }

Other machines reach it with --host, for example 0.0.0.0; then give tokens, and certificates.

Three replicas of it behind a router, which has the doors: when one is lost, its requests go to the others.
  troupe-launch --serve 3 --restart 100 -- troupe-serve --model digits=models/digits

Prints on stderr where it listens, and each version that is ready, or why it is not. On SIGTERM or SIGINT it is not
ready any more, finishes the requests that it has, and ends. Exit code: 0 after that, 1 on failure or if requests were
cut off, 2 on wrong usage.)";

std::pair<std::string, std::string> parse_named(const std::string& text, const char* form) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
    invalid_argument("expected {}, not '{}'", form, text);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// Of a command line, which all on this machine can read, or of a file.
std::string parse_token(const std::string& text) {
  if (!text.starts_with('@')) {
    if (text.empty()) invalid_argument("expected a token");
    return text;
  }
  const std::string path = text.substr(1);
  std::string token = read_file(file_system_of(path), path, 64 << 10);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.empty()) invalid_argument("{} has no token", path);
  return token;
}

CommandOption model_option(std::vector<ServedModel>& models) {
  return {"--model", "NAME=DIR", "", "A model to serve and the directory of its versions. May be given several times",
          [&models](const std::string& text) {
            auto [name, path] = parse_named(text, "NAME=DIR");
            models.push_back({.name = std::move(name), .path = std::move(path)});
          }};
}

CommandOption token_option(std::map<std::string, std::string>& tokens) {
  return {"--token", "TOKEN", "",
          "Token that requests must show, as Authorization: Bearer TOKEN; @FILE: what the file FILE has",
          [&tokens](const std::string& text) { tokens[""] = parse_token(text); }};
}

CommandOption model_token_option(std::map<std::string, std::string>& tokens) {
  return {"--model-token", "NAME=TOKEN", "",
          "Token of requests for one model, in place of --token. May be given several times",
          [&tokens](const std::string& text) {
            const auto [name, token] = parse_named(text, "NAME=TOKEN");
            tokens[name] = parse_token(token);
          }};
}

// The command line's spelling of BatchQueue::Options.
struct BatchChoice {
  bool batch = false;
  BatchQueue::Options options{};
  std::int64_t timeout_us = options.timeout / kMicrosecond;
  std::int64_t above_us = kBatchAbove / kMicrosecond;
};

std::vector<CommandOption> batch_options(BatchChoice& chosen, ServeOptions& options) {
  BatchQueue::Options& queue = chosen.options;
  return {flag("--batch", chosen.batch, "Compute requests of several clients together"),
          whole_option("--batch-rows", "N", queue.most_rows, 1, 1'000'000, "Rows of a batch, at most"),
          whole_option("--batch-timeout", "US", chosen.timeout_us, 0, 60'000'000,
                       "Microseconds that the first request of a batch waits for others"),
          whole_option("--batch-above", "US", chosen.above_us, 0, 60'000'000,
                       "Microseconds: requests of models whose step, by itself, takes less are not joined, which would "
                       "take longer"),
          {"--batch-sizes", "N,N...", "",
           "Sizes of batches, ascending: smaller ones are padded. For models that are compiled for each (default: any)",
           [&queue](const std::string& text) {
             queue.allowed_sizes.clear();
             for (std::size_t at = 0; at <= text.size();) {
               const std::size_t comma = std::min(text.find(',', at), text.size());
               queue.allowed_sizes.push_back(parse_whole(text.substr(at, comma - at), 1, 1'000'000));
               at = comma + 1;
             }
             queue.most_rows = queue.allowed_sizes.back();
           }},
          whole_option("--batch-queue", "ROWS", queue.most_waiting, 1, 1'000'000'000,
                       "Rows that may wait: a request beyond them is refused at once"),
          text_option("--batching-file", "FILE", options.batching_file,
                      "TensorFlow Serving's file of batching parameters, in place of the options above")};
}

std::vector<CommandOption> version_options(ServeOptions& options, std::uint64_t& model_memory) {
  ServableManager::Options& manager = options.server.manager;
  return {number_option("--poll", "S", options.poll, 0.01, 86400, "Seconds between looks at the directories"),
          choice_option("--transition", manager.transition,
                        {{"availability", ServableManager::Transition::preserve_availability},
                         {"resources", ServableManager::Transition::preserve_resources}},
                        "availability: a version goes when the next is ready; resources: before it is loaded, for "
                        "models that do not fit into memory twice"),
          bytes_option("--model-memory", model_memory, "",
                       "Memory of all versions together: one that does not fit waits (default: no limit)"),
          whole_option("--loads", "N", manager.loads_at_once, 1, 1024, "Versions that are loaded at a time"),
          whole_option("--load-attempts", "N", manager.attempts, 1, 1000,
                       "Attempts to load a version, after pauses that double"),
          whole_option("--threads", "N", options.server.threads, 1, 1024,
                       "Threads of each version (default: one per core)")};
}

std::vector<CommandOption> door_options(ServeOptions& options, bool& no_rest, bool& no_grpc) {
  return {text_option("--host", "HOST", options.host, "Address to listen at"),
          whole_option("--rest-port", "PORT", options.rest_port, 0, 65535, "Port of REST; 0: any free port"),
          whole_option("--grpc-port", "PORT", options.grpc_port, 0, 65535, "Port of gRPC; 0: any free port"),
          flag("--no-rest", no_rest, "No REST"),
          flag("--no-grpc", no_grpc, "No gRPC"),
          token_option(options.tokens),
          model_token_option(options.tokens),
          flag("--share-models", options.share,
               "Let other servers read the files of models, whose --model NAME=http://HOST:8501/v1/models/NAME/files "
               "then follows this server's versions; with tokens http://:TOKEN@HOST..."),
          text_option("--client-ca", "FILE", options.client_ca,
                      "Clients must show a certificate that a CA of this file has signed (PEM); needs --tls-cert")};
}

std::vector<CommandOption> limit_options(ServeOptions& options) {
  return {bytes_option("--max-request", options.most_bytes, "256MiB", "Bytes of a request, at most"),
          bytes_option("--request-memory", options.memory, "1GiB", "Bytes of all requests together, at most"),
          whole_option("--max-elements", "N", options.limits.most_elements, 1, std::int64_t{1} << 40,
                       "Elements of a request of JSON, at most"),
          seconds_option("--drain-timeout", options.drain_timeout,
                         "Seconds that requests have to end after SIGTERM; then they are cut off")};
}

}  // namespace

std::variant<ServeOptions, EarlyExit> parse_serve_options(const std::vector<std::string>& arguments, bool launched) {
  ServeOptions options;
  BatchChoice batching;
  bool no_rest = false, no_grpc = false;
  std::uint64_t model_memory = 0;
  CommandLine line(kServeProgram, kServeUsage, kServeDescription);
  line.add("Models", {model_option(options.models),
                      text_option("--config", "FILE", options.config,
                                  "TensorFlow Serving's file of models, in place of --model; read again on SIGHUP")});
  line.add("Batches", batch_options(batching, options));
  line.add("Versions", version_options(options, model_memory));
  line.add("Doors", door_options(options, no_rest, no_grpc));
  line.add("Limits", limit_options(options));
  line.add("Requests",
           {text_option("--request-log", "PREFIX", options.request_log.prefix,
                        "Write a share of the requests and their answers to files PREFIX-00000.tfrecord, ..., as "
                        "TensorFlow Serving does; each can warm up a model"),
            number_option("--request-log-rate", "SHARE", options.request_log.rate, 0, 1,
                          "Share of the requests that are written")});
  line.add("Output",
           {flag("--json", options.json,
                 R"(Print a line of JSON for each event on stdout; the first is {"event":"ready","rest_port":P,)"
                 R"("grpc_port":P})")});
  line.add("Place in a cluster", membership_options(options.membership));
  if (auto exit = line.parse(arguments)) return *exit;

  const TlsFiles& tls = options.membership.network.tls;
  const bool clustered = launched || options.membership.given();
  if (clustered)
    if (auto problem = options.membership.problem(launched)) return line.wrong(*problem);
  if (clustered && options.membership.job != kServeJob && options.membership.job != kRouterJob)
    return line.wrong(fmt::format("--job {}: a cluster has replicas of job {} and routers of job {}",
                                  options.membership.job, kServeJob, kRouterJob));
  const bool routes = options.membership.job == kRouterJob;
  if (!options.models.empty() && !options.config.empty()) return line.wrong("--model and --config cannot be combined");
  if (options.models.empty() && options.config.empty() && !routes)
    return line.wrong("give a --model NAME=DIR, or a --config FILE");
  if (options.share && (no_rest || clustered))
    return line.wrong("--share-models is for a server with REST that is neither a replica nor a router");
  if (no_rest && no_grpc) return line.wrong("--no-rest and --no-grpc leave nothing that listens");
  if (tls.certificate.empty() != tls.key.empty()) return line.wrong("--tls-cert and --tls-key belong together");
  if (!options.client_ca.empty() && tls.certificate.empty()) return line.wrong("--client-ca needs --tls-cert");
  for (const char* name : {"--batch-rows", "--batch-timeout", "--batch-above", "--batch-sizes", "--batch-queue"})
    if (line.given(name) && !batching.batch) return line.wrong(fmt::format("{} needs --batch", name));
  if (auto problem = line.conflict({"--batch", "--batching-file"})) return line.wrong(*problem);
  if (auto problem = line.conflict({"--batch-rows", "--batch-sizes"})) return line.wrong(*problem);
  options.rest = !no_rest;
  options.grpc = !no_grpc;
  options.server.poll = std::chrono::duration_cast<std::chrono::nanoseconds>(options.poll);
  if (model_memory > 0) options.server.manager.memory = model_memory;
  if (batching.batch) {
    batching.options.timeout = batching.timeout_us * kMicrosecond;
    batching.options.above = batching.above_us * kMicrosecond;
    try {
      static_cast<void>(BatchQueue(batching.options));
    } catch (const Error& error) {
      return line.wrong(error.message());
    }
    options.batching = batching.options;
  }
  return options;
}

}  // namespace troupe
