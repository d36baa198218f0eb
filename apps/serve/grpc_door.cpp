#include "apps/serve/grpc_door.hpp"

#include <absl/synchronization/mutex.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

#include "apps/serve/grpc_service.hpp"
#include "apps/serve/inference_service.hpp"
#include "apps/serve/prediction_service.hpp"
#include <troupe/actors/wire/tls.hpp>
#include <troupe/devices/storage/file_system.hpp>

namespace troupe {
namespace {

constexpr std::uint64_t kMostPem = 1 << 20;

std::shared_ptr<grpc::ServerCredentials> credentials_of(const TlsFiles& tls) {
  if (tls.certificate.empty()) return grpc::InsecureServerCredentials();
  const auto read = [](const std::string& path) { return read_file(posix_file_system(), path, kMostPem); };
  if (!tls.ca.empty()) wire::TlsContext check(tls);  // names what is wrong, which gRPC does not
  grpc::SslServerCredentialsOptions options(tls.ca.empty()
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  if (!tls.ca.empty()) options.pem_root_certs = read(tls.ca);
  options.pem_key_cert_pairs.push_back({read(tls.key), read(tls.certificate)});
  return grpc::SslServerCredentials(options);
}

// Both are global, and count for servers that are built from then on.
void enable_plugins() {
  static const bool once = [] {
    // What strangers do wrong is no news.
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
    // Debian's Abseil, which is gRPC's mutex, looks for cycles in the order of all locks unless told not to.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace

class GrpcDoor::Impl {
 public:
  Impl(ServedModels models, const Options& options)
      : services(std::move(models), options.tokens),
        prediction(make_prediction_service(services)),
        model(make_model_service(services)),
        inference(make_inference_service(services, [this] { return ready(); })),
        host(options.host) {
    enable_plugins();
    grpc::ServerBuilder builder;
    const bool v6 = options.host.find(':') != std::string::npos;
    const std::string at =
        v6 ? fmt::format("[{}]:{}", options.host, options.port) : fmt::format("{}:{}", options.host, options.port);
    builder.AddListeningPort(at, credentials_of(options.tls), &port);
    for (grpc::Service* service : {prediction.get(), model.get(), inference.get()}) builder.RegisterService(service);
    builder.SetMaxReceiveMessageSize(static_cast<int>(std::min<std::size_t>(options.most_bytes, 0x7fffffff)));
    builder.SetMaxSendMessageSize(-1);
    grpc::ResourceQuota quota("the gRPC door");
    quota.Resize(options.memory);
    builder.SetResourceQuota(quota);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a port that another server has is an error
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.most_streams);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                               static_cast<int>(options.handshake_deadline.count()));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, static_cast<int>(options.idle.count()));
    server = builder.BuildAndStart();
    if (!server || port == 0)
      fail(Code::unavailable, "the gRPC door cannot listen at {}: another program may use the port", at);
    refresh({});
  }
  ~Impl() {
    if (server) server->Shutdown(std::chrono::system_clock::now());
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  bool ready() const { return !draining && services.models().ready(); }

  void refresh(const std::vector<std::string>& models) {
    grpc::HealthCheckServiceInterface* const health = server->GetHealthCheckService();
    if (health == nullptr || draining) return;
    const std::lock_guard lock(mutex);
    for (const std::string& name : models) known.insert(name);
    for (const std::string& name : known) {
      bool is_ready = true;
      try {
        static_cast<void>(services.models().find(name, {}));
      } catch (const Error&) {
        is_ready = false;
      }
      health->SetServingStatus(name, is_ready);
    }
    const bool all = ready();
    for (const char* name : {"", "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService",
                             "inference.GRPCInferenceService"})
      health->SetServingStatus(name, all);
  }

  bool drain(std::chrono::nanoseconds timeout) {
    draining = true;
    if (auto* const health = server->GetHealthCheckService()) health->Shutdown();
    const auto until = std::chrono::system_clock::now() + timeout;
    server->Shutdown(until);  // cancels what is left then
    return std::chrono::system_clock::now() < until;
  }

  const GrpcServices services;
  const std::unique_ptr<grpc::Service> prediction, model, inference;
  const std::string host;
  int port = 0;
  std::atomic<bool> draining{false};
  std::mutex mutex;
  std::set<std::string> known;  // models whose health was told
  std::unique_ptr<grpc::Server> server;
};

GrpcDoor::GrpcDoor(ServedModels models, Options options)
    : impl_(std::make_unique<Impl>(std::move(models), std::move(options))) {}
GrpcDoor::~GrpcDoor() = default;

HostPort GrpcDoor::address() const { return {impl_->host, static_cast<std::uint16_t>(impl_->port)}; }
void GrpcDoor::refresh_health(const std::vector<std::string>& models) { impl_->refresh(models); }
bool GrpcDoor::drain(std::chrono::nanoseconds timeout) { return impl_->drain(timeout); }

}  // namespace troupe
