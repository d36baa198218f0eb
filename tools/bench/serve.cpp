// troupe-serve under load: requests of small models beside servers that echo, requests joined in batches beside single
// ones.
#include <memory>
#include <utility>

#include "tools/bench/cases.hpp"
#include "tools/bench/children.hpp"
#include "tools/bench/grpc_load.hpp"
#include "tools/bench/http_load.hpp"
#include "tools/bench/kernel_step.hpp"
#include "tools/bench/peers/echo_peer.hpp"
#include "tools/bench/serving_child.hpp"
#include "tools/bench/serving_models.hpp"
#include <troupe/graph/layers/layers.hpp>

namespace troupe::bench {
namespace {

constexpr std::size_t kClients = 64;
constexpr const char* kModelName = "m";
constexpr const char* kPredictPath = "/v1/models/m:predict";
constexpr const char* kPredictMethod = "/tensorflow.serving.PredictionService/Predict";

// Which figure of a load counts.
using FigureOf = double (*)(const LoadFigures&);
double requests_per_second(const LoadFigures& figures) { return figures.all_right().rate(); }
double median_us(const LoadFigures& figures) { return kMicro * figures.all_right().percentile(0.5); }
double late_ms(const LoadFigures& figures) { return kMilli * figures.all_right().percentile(0.99); }

// A served model and a load of requests for it.
class ServedLoad {
 public:
  ServedLoad(const ServedExample& example, std::vector<std::string> options) : y_(example.y) {
    folder_.publish(kModelName, 1, example.model);
    options.insert(options.end(), {"--model", std::string(kModelName) + "=" + folder_.path(kModelName)});
    server_ = std::make_unique<ServingChild>(folder_, options);
  }
  virtual ~ServedLoad() = default;
  ServedLoad(const ServedLoad&) = delete;
  ServedLoad& operator=(const ServedLoad&) = delete;

  virtual LoadFigures run(double seconds) = 0;

 protected:
  const ServingChild& server() const { return *server_; }
  const Tensor& y() const { return y_; }

 private:
  const Tensor y_;
  ModelFolder folder_;
  std::unique_ptr<ServingChild> server_;
};

class RestServedLoad final : public ServedLoad {
 public:
  RestServedLoad(const ServedExample& example, std::vector<std::string> options, std::size_t clients)
      : ServedLoad(example, std::move(options)),
        request_(http_post(kPredictPath, rest_body(example.x))),
        known_([this](std::string_view body) { return wrong_rest_answer(body, y()); }),
        load_(server().rest_port(), clients) {}
  LoadFigures run(double seconds) override {
    return load_.run(request_, {.seconds = seconds}, [this](std::string_view body) { return known_.wrong(body); });
  }

 private:
  const std::string request_;
  KnownAnswers known_;
  HttpLoad load_;
};

class GrpcServedLoad final : public ServedLoad {
 public:
  GrpcServedLoad(const ServedExample& example, std::vector<std::string> options, std::size_t in_flight)
      : ServedLoad(example, std::move(options)),
        in_flight_(in_flight),
        request_(grpc_request(kModelName, example.x)),
        known_([this](std::string_view message) { return wrong_grpc_answer(message, y()); }),
        load_(server().grpc_port(), kPredictMethod) {}
  LoadFigures run(double seconds) override {
    return load_.run(request_, in_flight_, {.seconds = seconds},
                     [this](std::string_view message) { return known_.wrong(message); });
  }

 private:
  const std::size_t in_flight_;
  const std::string request_;
  KnownAnswers known_;
  GrpcLoad load_;
};

Measure measure_of(std::shared_ptr<ServedLoad> load, FigureOf figure, double seconds) {
  return [load = std::move(load), figure, seconds] { return figure(load->run(seconds)); };
}

std::string not_echoed(std::string_view answer, const std::string& sent) {
  return answer == sent ? "" : "the echo answers something else";
}

Peer http_echo_peer(const Tensor& x, std::size_t clients, FigureOf figure, double seconds) {
  struct Side {
    explicit Side(std::size_t clients) : load(echo.port(), clients) {}
    EchoPeer echo{kHttpEcho};
    HttpLoad load;
  };
  const auto side = std::make_shared<Side>(clients);
  return {"libmicrohttpd, an echo", [side, figure, seconds, body = rest_body(x)] {
            const auto check = [&body](std::string_view answer) { return not_echoed(answer, body); };
            return figure(side->load.run(http_post(kPredictPath, body), {.seconds = seconds}, check));
          }};
}

Peer grpc_echo_peer(const char* name, const char* role, const Tensor& x, std::size_t in_flight, FigureOf figure,
                    double seconds) {
  struct Side {
    explicit Side(const char* role) : echo(role), load(echo.port(), kPredictMethod) {}
    EchoPeer echo;
    GrpcLoad load;
  };
  const auto side = std::make_shared<Side>(role);
  return {name, [side, in_flight, figure, seconds, request = grpc_request(kModelName, x)] {
            const auto check = [&request](std::string_view answer) { return not_echoed(answer, request); };
            return figure(side->load.run(request, in_flight, {.seconds = seconds}, check));
          }};
}

// As in "infer/mlp-1".
ServedExample small_model() {
  return example_of(Sequential({layers::dense(128, Activation::relu), layers::dense(10, Activation::softmax)}),
                    random_tensor({1, 784}, 1));
}

double seconds_of(const Settings& settings, double seconds) { return settings.quick ? 0.02 : seconds; }

void add_echo_cases(std::vector<Case>& cases) {
  const auto add_grpc = [&](std::size_t in_flight, FigureOf figure, const char* unit, bool more, double target) {
    cases.push_back({.bench = "serve",
                     .name = fmt::format("grpc-{}", in_flight),
                     .unit = unit,
                     .more_is_better = more,
                     .measures = fmt::format("Predict of 784 to 128 and 10 units over gRPC, {} at a time{}", in_flight,
                                             in_flight > 1 ? ", with --batch, each alone" : "; median of latencies"),
                     .peer = "servers of libgrpc++ that return the same bytes: by callbacks, by completion queues",
                     .ratio_target = target,
                     .prepare = [=](const Settings& settings) -> Contest {
                       const ServedExample model = small_model();
                       const double seconds = seconds_of(settings, 1);
                       std::vector<std::string> options;
                       if (in_flight > 1) options = {"--batch"};
                       const auto load = std::make_shared<GrpcServedLoad>(model, options, in_flight);
                       const auto echo = [&](const char* name, const char* role) {
                         return grpc_echo_peer(name, role, model.x, in_flight, figure, seconds);
                       };
                       return {.troupe = measure_of(load, figure, seconds),
                               .peers = {echo("libgrpc++, an echo by callbacks", kGrpcCallbackEcho),
                                         echo("libgrpc++, an echo by queues", kGrpcQueueEcho)}};
                     }});
  };
  add_grpc(1, median_us, "us", false, 0.75);
  add_grpc(kClients, requests_per_second, "req/s", true, 0.6);
  cases.push_back({.bench = "serve",
                   .name = fmt::format("rest-{}", kClients),
                   .unit = "req/s",
                   .more_is_better = true,
                   .measures = fmt::format("predict of the same model over REST, 784 numbers of 6 digits, {} "
                                           "connections that stay open",
                                           kClients),
                   .peer = "a server of libmicrohttpd that returns the same bytes",
                   .ratio_target = 0.5,
                   .prepare = [](const Settings& settings) -> Contest {
                     const ServedExample model = small_model();
                     const double seconds = seconds_of(settings, 1);
                     const auto load = std::make_shared<RestServedLoad>(model, std::vector<std::string>{}, kClients);
                     return {.troupe = measure_of(load, requests_per_second, seconds),
                             .peers = {http_echo_peer(model.x, kClients, requests_per_second, seconds)}};
                   }});
}

// The same model and load, with batches and without.
struct BatchCase {
  const char* name;
  const char* unit;
  const char* measures;
  ServedExample (*model)(const Settings& settings);
  FigureOf figure;
  std::size_t rows;  // of a batch
  double seconds;
  double target;
};

void add_batch_case(std::vector<Case>& cases, const BatchCase& with) {
  cases.push_back({.bench = "serve",
                   .name = with.name,
                   .unit = with.unit,
                   .more_is_better = with.figure == requests_per_second,
                   .measures = with.measures,
                   .peer = "the same server without batches",
                   .ratio_target = with.target,
                   .prepare = [with](const Settings& settings) -> Contest {
                     const ServedExample model = with.model(settings);
                     const double seconds = seconds_of(settings, with.seconds);
                     const auto side = [&](std::vector<std::string> options) {
                       return measure_of(std::make_shared<RestServedLoad>(model, std::move(options), kClients),
                                         with.figure, seconds);
                     };
                     return {.troupe = side({"--batch", "--batch-rows", std::to_string(with.rows)}),
                             .peers = {{"without batches", side({})}}};
                   }});
}

ServedExample three_dense(const Settings& settings) {
  const std::int64_t size = settings.quick ? 64 : 4096;
  Sequential out;
  for (int i = 0; i < 3; ++i) out.add(layers::dense(size, Activation::relu));
  return example_of(out, random_tensor({1, size}, 1));
}

// The sentence encoder of "infer/load": its embedding is the mean over the words.
ServedExample sentence_embedding(const Settings& settings) {
  const std::int64_t words = settings.quick ? 8 : 128;
  Sequential out({layers::embedding(30522, 384)});
  for (int i = 0; i < (settings.quick ? 1 : 6); ++i)
    out.add(layers::transformer_encoder(12, 1536, {.activation = Activation::gelu}));
  out.add(layers::global_average_pool());
  Tensor x(DType::i32, {1, words});
  std::int32_t word = 7;
  for (std::int32_t& token : x.mutable_values<std::int32_t>()) token = word = (word * 1103 + 12345) % 30522;
  return example_of(out, x);
}

}  // namespace

void add_serve_cases(std::vector<Case>& cases) {
  add_echo_cases(cases);
  add_batch_case(cases, {"batch-dense", "req/s", "64 clients of three dense layers of 4096 units over REST, in batches",
                         three_dense, requests_per_second, kClients, 4, 8});
  constexpr const char* kEncoder =
      "64 clients of a sentence encoder of 6 layers, 384 features, 12 heads, 128 tokens over REST, in batches of up to "
      "8";
  constexpr std::size_t kEncoderRows = 8;  // what layers compute of more does not fit into caches
  add_batch_case(cases,
                 {"batch-encoder", "req/s", kEncoder, sentence_embedding, requests_per_second, kEncoderRows, 8, 1});
  add_batch_case(cases, {"batch-encoder-p99", "ms", "the same: 99th percentile of latencies", sentence_embedding,
                         late_ms, kEncoderRows, 8, 0.5});
  add_version_cases(cases);
}

}  // namespace troupe::bench
