#include "apps/serve/rest_door.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>

#include "apps/serve/inference_json.hpp"
#include "apps/serve/json_tensors.hpp"
#include "apps/serve/rest_documents.hpp"
#include "apps/serve/rest_route.hpp"
#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/http/server.hpp>
#include <troupe/actors/serving/model_server.hpp>
#include <troupe/actors/wire/authentication.hpp>

namespace troupe {
namespace {

using RestKind = RestRoute::Kind;

constexpr const char* kTimeoutHeader = "X-Request-Timeout";
constexpr double kLongestTimeout = 1e6;  // seconds

HttpAnswer rest_error(const Error& error, std::int64_t retry_after_ms = 0) {
  HttpAnswer out{.status = rest_status_of(error.code()), .body = json_text({{"error", error.message()}})};
  if (error.code() == Code::unavailable)
    out.headers["Retry-After"] = std::to_string(std::max<std::int64_t>((retry_after_ms + 999) / 1000, 1));
  return out;
}

std::string header_of(const HttpRequest& request, const char* name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

Nanoseconds deadline_in(double seconds) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::nanoseconds(now).count() + static_cast<Nanoseconds>(std::min(seconds, kLongestTimeout) * 1e9);
}

Nanoseconds deadline_of(const HttpRequest& request) {
  const std::string text = header_of(request, kTimeoutHeader);
  if (text.empty()) return BatchQueue::kNever;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds > 0) || seconds > kLongestTimeout)
    invalid_argument("{}: '{}', where seconds above 0 are expected", kTimeoutHeader, text);
  return deadline_in(seconds);
}

std::optional<std::size_t> json_bytes_of(const HttpRequest& request) {
  const std::string text = header_of(request, kInferenceHeaderLength);
  if (text.empty()) return std::nullopt;
  std::size_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size())
    invalid_argument("{}: '{}', where a number of bytes is expected", kInferenceHeaderLength, text);
  return out;
}

// Starts the request; what `print` makes of its outputs is the answer.
void start_request(const ServableHandle& servable, ServingRequest request, HttpReply& reply,
                   std::function<HttpAnswer(const ServingResult&)> print) {
  const auto shared = std::make_shared<HttpReply>(std::move(reply));
  std::shared_ptr<ServingCall> call;
  const auto done = [shared, servable, print = std::move(print)](const ServingResult& result) {
    HttpAnswer answer;
    try {
      answer = result.error ? rest_error(result.error, result.retry_after_ms) : print(result);
    } catch (...) {
      answer = rest_error(current_error());
    }
    shared->send(std::move(answer));
  };
  try {
    call = servable->start(std::move(request), done);
  } catch (...) {
    return shared->send(rest_error(current_error()));
  }
  if (call) shared->on_gone([call = std::move(call)] { call->cancel(); });
}

}  // namespace

int rest_status_of(Code code) {
  switch (code) {
    case Code::cancelled:
      return 499;
    case Code::resource_exhausted:
      return 429;
    case Code::failed_precondition:
      return 400;
    default:
      return http_status_of(code);
  }
}

ServedModels ServedModels::of(const ModelServer& server) {
  return {.find = [&server](std::string_view model, const auto& wanted) { return server.find(model, wanted); },
          .status = [&server](const std::string& model) { return server.status(model); },
          .ready = [&server] { return server.ready(); }};
}

class RestDoor::Impl {
 public:
  Impl(ServedModels given, Options with)
      : models(std::move(given)),
        options(std::move(with)),
        server({.name = "the REST door",
                .host = options.host,
                .port = options.port,
                .tls = options.tls,
                .any_host = true,
                .client_certificates = !options.tls.ca.empty(),
                .request_headers = {"Authorization", "Content-Encoding", kInferenceHeaderLength, kTimeoutHeader},
                .threads = options.threads,
                .max_body = options.most_bytes,
                .memory = options.memory,
                .connection_memory = 64 << 10,
                .request_deadline = options.request_deadline},
               [this](HttpRequest request, HttpReply reply) { handle(std::move(request), std::move(reply)); }) {}

  void handle(HttpRequest request, HttpReply reply) {
    try {
      const RestRoute route = parse_rest_path(request.path);
      check(route, request);
      const bool reads = request.method == "GET" || request.method == "HEAD";
      if (route.posts() ? request.method != "POST" : !reads)
        return reply.send({.status = 405, .body = json_text({{"error", route.posts() ? "send POST" : "send GET"}})});
      if (route.kind == RestKind::v1_predict) return predict(route, std::move(request), reply);
      if (route.kind == RestKind::v2_infer) return infer(route, std::move(request), reply);
      reply.send(describe(route));
    } catch (...) {
      reply.send(rest_error(current_error()));
    }
  }

  void check(const RestRoute& route, const HttpRequest& request) const {
    if (!route.open()) check_token(route.model, request);
    if (const std::string coded = header_of(request, "Content-Encoding"); !coded.empty() && coded != "identity")
      fail(Code::unimplemented, "Content-Encoding: {}: bodies must be sent as they are", coded);
  }

  void check_token(const std::string& model, const HttpRequest& request) const {
    auto wanted = options.tokens.find(model);
    if (wanted == options.tokens.end()) wanted = options.tokens.find("");
    if (wanted == options.tokens.end()) return;
    constexpr std::string_view kBearer = "Bearer ";
    const std::string given = header_of(request, "Authorization");
    if (!given.starts_with(kBearer) || !wire::equal_secrets(given.substr(kBearer.size()), wanted->second))
      fail(Code::unauthenticated, "{} needs a token: Authorization: Bearer TOKEN", request.path);
  }

  bool ready() const { return !draining && models.ready(); }

  HttpAnswer describe(const RestRoute& route) const {
    switch (route.kind) {
      case RestKind::v1_status:
        return {.body = model_status_json(status_of(route))};
      case RestKind::v1_metadata:
        return {.body = model_metadata_json(*models.find(route.model, route.wanted))};
      case RestKind::v2_server:
        return {.body = inference_server_json()};
      case RestKind::v2_model:
        return {.body = inference_metadata_json(*models.find(route.model, route.wanted), models.status(route.model))};
      case RestKind::v2_model_ready:
        static_cast<void>(models.find(route.model, route.wanted));
        return {.body = R"({"ready":true})"};
      case RestKind::live:
        return {.body = R"({"live":true})"};
      case RestKind::ready:
        if (!ready()) fail(Code::unavailable, "{}", draining ? "the server is ending" : "not all models are ready");
        return {.body = R"({"ready":true})"};
      case RestKind::metrics:
        if (!options.metrics) fail(Code::not_found, "this server has no metrics");
        return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = options.metrics()};
      default:
        fail(Code::unimplemented, "classify and regress take tf.Example: send the features to :predict");
    }
  }

  std::vector<ServableManager::Status> status_of(const RestRoute& route) const {
    std::vector<ServableManager::Status> out = models.status(route.model);
    std::optional<std::int64_t> version = route.wanted.version;
    if (!route.wanted.label.empty()) version = models.find(route.model, route.wanted)->id().version;
    if (!version) return out;
    std::erase_if(out, [&](const ServableManager::Status& one) { return one.id.version != *version; });
    if (out.empty()) fail(Code::not_found, "model '{}' has no version {}", route.model, *version);
    return out;
  }

  void predict(const RestRoute& route, HttpRequest request, HttpReply& reply) const {
    const ServableHandle servable = models.find(route.model, route.wanted);
    ServingRequest serving{.deadline = deadline_of(request)};
    PredictBody body = parse_predict(
        std::move(request.body),
        [&](const std::string& name) -> const ModelSignature& {
          return servable->signatures().at(servable->signature_named(name));
        },
        options.limits);
    serving.signature = std::move(body.signature);
    serving.inputs = std::move(body.inputs);
    start_request(servable, std::move(serving), reply,
                  [format = body.format](const ServingResult& result) -> HttpAnswer {
                    return {.body = print_predictions(result.outputs, format)};
                  });
  }

  void infer(const RestRoute& route, HttpRequest request, HttpReply& reply) const {
    const ServableHandle servable = models.find(route.model, route.wanted);
    ServingRequest serving{.deadline = deadline_of(request)};
    const std::optional<std::size_t> json_bytes = json_bytes_of(request);
    InferenceRequest body = parse_inference(std::move(request.body), json_bytes, options.limits);
    if (body.timeout_us > 0)
      serving.deadline = std::min(serving.deadline, deadline_in(static_cast<double>(body.timeout_us) * 1e-6));
    serving.inputs = std::move(body.inputs);
    serving.outputs = body.outputs;
    start_request(servable, std::move(serving), reply,
                  [body = std::move(body), id = servable->id()](const ServingResult& result) {
                    return inference_answer(id, body, result);
                  });
  }

  static HttpAnswer inference_answer(const ServableId& id, const InferenceRequest& request,
                                     const ServingResult& result) {
    InferenceAnswer printed = print_inference(id.model, id.version, request, result.outputs);
    HttpAnswer out{.body = std::move(printed.body)};
    if (printed.json_bytes) {
      out.type = "application/octet-stream";
      out.headers[kInferenceHeaderLength] = std::to_string(*printed.json_bytes);
    }
    return out;
  }

  const ServedModels models;
  const Options options;
  std::atomic<bool> draining{false};
  HttpServer server;  // last: its threads use the members above
};

RestDoor::RestDoor(ServedModels models, Options options)
    : impl_(std::make_unique<Impl>(std::move(models), std::move(options))) {}
RestDoor::~RestDoor() = default;
HostPort RestDoor::address() const { return impl_->server.address(); }

bool RestDoor::drain(std::chrono::nanoseconds timeout) {
  impl_->draining = true;
  return impl_->server.drain(timeout);
}

}  // namespace troupe
