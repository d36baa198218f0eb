#include "apps/serve/rest_door.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <limits>

#include "apps/serve/inference_json.hpp"
#include "apps/serve/json_tensors.hpp"
#include "apps/serve/json_values.hpp"
#include "apps/serve/model_tokens.hpp"
#include "apps/serve/rest_documents.hpp"
#include "apps/serve/rest_route.hpp"
#include "apps/serve/serving_page.hpp"
#include "apps/serve/shared_files.hpp"
#include "apps/serve/trace_context.hpp"
#include "apps/serve/work_threads.hpp"
#include <troupe/actors/base/actor_record.hpp>
#include <troupe/actors/http/json_text.hpp>
#include <troupe/actors/http/server.hpp>
#include <troupe/actors/introspection/metrics.hpp>
#include <troupe/actors/introspection/page.hpp>
#include <troupe/actors/serving/traced_requests.hpp>

namespace troupe {
namespace {

using RestKind = RestRoute::Kind;

constexpr const char* kTimeoutHeader = "X-Request-Timeout";
constexpr double kLongestTimeout = 1e6;   // seconds
constexpr std::size_t kMostFigures = 16;  // requests for them that wait
constexpr std::size_t kMostFiles = 64;    // likewise

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

// Of programs that read files, which have the token as a password of their URL: RFC 7617.
std::string bearer_of(const std::string& authorization) {
  constexpr std::string_view kBasic = "Basic ";
  if (!authorization.starts_with(kBasic)) return authorization;
  const auto text = decode_base64(std::string_view(authorization).substr(kBasic.size()));
  const std::size_t colon = text ? text->find(':') : std::string::npos;
  return colon == std::string::npos ? "" : "Bearer " + text->substr(colon + 1);
}

using TraceHeaders = std::map<std::string, std::string>;

// The place of a request in traces.
struct RequestTrace {
  TraceHeaders headers;                     // of its answer: its span in the client's trace; none: empty
  std::shared_ptr<TracedRequest> recorded;  // in the task's; null: it is not
};

TraceHeaders trace_headers_of(const HttpRequest& request) {
  const std::string parent = header_of(request, TraceContext::kParent);
  if (parent.empty()) return {};
  const auto caller = TraceContext::parse(parent, header_of(request, TraceContext::kState));
  if (!caller) return {};
  TraceHeaders out{{TraceContext::kParent, caller->child().traceparent()}};
  if (!caller->tracestate().empty()) out[TraceContext::kState] = caller->tracestate();
  return out;
}

std::string traceparent_in(const TraceHeaders& headers) {
  const auto found = headers.find(TraceContext::kParent);
  return found == headers.end() ? "" : found->second;
}

HttpAnswer with_headers(HttpAnswer answer, const RequestTrace& trace) {
  answer.headers.insert(trace.headers.begin(), trace.headers.end());
  return answer;
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

HttpAnswer answer_of(const Servable& servable, const ServingResult& result,
                     const std::function<HttpAnswer(const ServingResult&)>& print) try {
  if (result.error) return rest_error(result.error, result.retry_after_ms);
  const Nanoseconds began = steady_now_ns();
  HttpAnswer out = print(result);
  if (ServingStatistics* statistics = servable.statistics())
    statistics->add(ServingStatistics::Stage::serialise, steady_now_ns() - began);
  return out;
} catch (...) {
  return rest_error(current_error());
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

class RestDoor::Impl {
 public:
  Impl(ServedModels given, Options with)
      : models(std::move(given)),
        options(std::move(with)),
        traced(models.trace, "REST"),
        tokens(options.tokens),
        server(
            {.name = "the REST door",
             .host = options.host,
             .port = options.port,
             .tls = options.tls,
             .any_host = true,
             .client_certificates = !options.tls.ca.empty(),
             .pages = pages(options),
             .request_headers = {"Authorization", "Content-Encoding", "Range", "If-Match", "If-None-Match", "If-Range",
                                 kInferenceHeaderLength, kTimeoutHeader, TraceContext::kParent, TraceContext::kState},
             .threads = options.threads,
             .max_body = options.most_bytes,
             .memory = options.memory,
             .connection_memory = 32 << 10,  // is cleared for each request
             .request_deadline = options.request_deadline},
            [this](HttpRequest request, HttpReply reply) { handle(std::move(request), std::move(reply)); }) {}

  // Public: the page shows nothing until it has sent its token.
  static std::map<std::string, HttpAnswer> pages(const Options& options) {
    if (!options.snapshot) return {};
    HttpAnswer page{.type = "text/html; charset=utf-8", .body = std::string(serving_page())};
    page.headers = kIntrospectionHeaders;
    return {{"/", std::move(page)}};
  }

  void handle(HttpRequest request, HttpReply reply) {
    const RequestTrace trace{.headers = trace_headers_of(request), .recorded = traced.arrival()};
    try {
      const RestRoute route = parse_rest_path(request.path);
      check(route, request);
      const bool reads = request.method == "GET" || request.method == "HEAD";
      if (route.posts() ? request.method != "POST" : !reads)
        return reply.send({.status = 405, .body = json_text({{"error", route.posts() ? "send POST" : "send GET"}})});
      if (route.kind == RestKind::v1_predict) return predict(route, std::move(request), trace, reply);
      if (route.kind == RestKind::v2_infer) return infer(route, std::move(request), trace, reply);
      if (route.kind == RestKind::metrics || route.kind == RestKind::snapshot) {
        if (!options.snapshot) fail(Code::not_found, "this server has no page and no metrics");
        const auto shared = std::make_shared<HttpReply>(std::move(reply));
        if (!figures.post([this, shared, kind = route.kind] { shared->send(snapshot(kind)); }))
          shared->send(rest_error(Error(Code::unavailable, "too many ask for figures: ask again")));
        return;
      }
      if (route.kind == RestKind::v1_files) return send_file(route, request, reply);
      reply.send(describe(route));
    } catch (...) {
      reply.send(with_headers(rest_error(current_error()), trace));
    }
  }

  void check(const RestRoute& route, const HttpRequest& request) const {
    const std::string authorization = header_of(request, "Authorization");
    if (!route.open())
      tokens.check(route.model, route.kind == RestKind::v1_files ? bearer_of(authorization) : authorization);
    if (const std::string coded = header_of(request, "Content-Encoding"); !coded.empty() && coded != "identity")
      fail(Code::unimplemented, "Content-Encoding: {}: bodies must be sent as they are", coded);
  }

  void send_file(const RestRoute& route, const HttpRequest& request, HttpReply& reply) {
    if (!options.path_of)
      fail(Code::not_found, "this server does not share the files of its models: start it with --share-models");
    std::string path = options.path_of(route.model);
    const auto shared = std::make_shared<HttpReply>(std::move(reply));
    SharedFileRequest asked{.name = route.file,
                            .head = request.method == "HEAD",
                            .range = header_of(request, "Range"),
                            .if_match = header_of(request, "If-Match"),
                            .if_none_match = header_of(request, "If-None-Match"),
                            .if_range = header_of(request, "If-Range")};
    const bool waits = files.post([shared, path = std::move(path), asked = std::move(asked)] {
      try {
        shared->send(shared_file(path, asked));
      } catch (...) {
        shared->send(rest_error(current_error()));
      }
    });
    if (!waits) shared->send(rest_error(Error(Code::unavailable, "too many ask for files: ask again")));
  }

  bool ready() const { return !draining && models.ready(); }

  // Waits for actors.
  HttpAnswer snapshot(RestKind kind) const try {
    const ClusterSnapshot now = options.snapshot();
    if (kind == RestKind::metrics) return {.type = kMetricsType, .body = to_metrics(now)};
    return {.body = to_json(now)};
  } catch (...) {
    return rest_error(current_error());
  }

  HttpAnswer describe(const RestRoute& route) const {
    switch (route.kind) {
      case RestKind::v1_status:
        return {.body = model_status_json(models.status_of(route.model, route.wanted))};
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
      default:
        fail(Code::unimplemented, "classify and regress take tf.Example: send the features to :predict");
    }
  }

  // Starts the request; what `print` makes of its outputs is the answer.
  void start(const ServableHandle& servable, ServingRequest request, const RequestTrace& trace, HttpReply& reply,
             std::function<HttpAnswer(const ServingResult&)> print) {
    const auto shared = std::make_shared<HttpReply>(std::move(reply));
    request.trace = traceparent_in(trace.headers);
    if (trace.recorded) trace.recorded->start(*servable, request);
    const auto done = [answers = answers, shared, servable, trace, print = std::move(print)](ServingResult result) {
      const bool here = small(result.outputs);
      answers->run(here, [shared, servable, trace, print, result = std::move(result)] {
        HttpAnswer answer = with_headers(answer_of(*servable, result, print), trace);
        if (trace.recorded) trace.recorded->end(result);
        shared->send(std::move(answer));
      });
    };
    std::shared_ptr<ServingCall> call;
    try {
      call = servable->start(std::move(request), done);
    } catch (...) {
      return shared->send(with_headers(rest_error(current_error()), trace));
    }
    if (call) shared->on_gone([call = std::move(call)] { call->cancel(); });
  }

  void predict(const RestRoute& route, HttpRequest request, const RequestTrace& trace, HttpReply& reply) {
    const ServableHandle servable = models.find(route.model, route.wanted);
    ServingRequest serving{.deadline = deadline_of(request)};
    PredictBody body = parsed(*servable, [&] {
      return parse_predict(
          std::move(request.body),
          [&](const std::string& name) -> const ModelSignature& {
            return servable->signatures().at(servable->signature_named(name));
          },
          options.limits);
    });
    serving.signature = std::move(body.signature);
    serving.inputs = std::move(body.inputs);
    start(servable, std::move(serving), trace, reply,
          [format = body.format](const ServingResult& result) -> HttpAnswer {
            return {.body = print_predictions(result.outputs, format)};
          });
  }

  void infer(const RestRoute& route, HttpRequest request, const RequestTrace& trace, HttpReply& reply) {
    const ServableHandle servable = models.find(route.model, route.wanted);
    ServingRequest serving{.deadline = deadline_of(request)};
    const std::optional<std::size_t> json_bytes = json_bytes_of(request);
    InferenceRequest body =
        parsed(*servable, [&] { return parse_inference(std::move(request.body), json_bytes, options.limits); });
    if (body.timeout_us > 0)
      serving.deadline = std::min(serving.deadline, deadline_in(static_cast<double>(body.timeout_us) * 1e-6));
    serving.inputs = std::move(body.inputs);
    serving.outputs = body.outputs;
    start(servable, std::move(serving), trace, reply,
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
  const TracedDoor traced;
  const ModelTokens tokens;
  std::atomic<bool> draining{false};
  WorkThreads figures{1, kMostFigures}, files{1, kMostFiles};
  // Large ones. Requests that outlive the door keep it.
  const std::shared_ptr<WorkThreads> answers =
      std::make_shared<WorkThreads>(1, std::numeric_limits<std::size_t>::max());
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
