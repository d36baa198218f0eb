#include "apps/serve/inference_service.hpp"

#include <charconv>

#include "apps/serve/arena_messages.hpp"
#include "apps/serve/grpc_service.hpp"
#include "apps/serve/inference_json.hpp"
#include "apps/serve/proto/inference.grpc.pb.h"
#include "apps/serve/tensor_proto.hpp"

namespace troupe {
namespace {

namespace proto = ::inference;

// "" means any version.
VersionLabels::Wanted version_wanted(const std::string& text) {
  if (text.empty()) return {};
  std::int64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || end != text.data() + text.size() || version < 0)
    invalid_argument("model version '{}': a version is a number", text);
  return {.version = version};
}

template <class Metadata>
void add_tensors(const std::map<std::string, ModelSignature::TensorSpec>& specs, Metadata& out) {
  for (const auto& [name, spec] : specs) {
    auto& tensor = *out.Add();
    tensor.set_name(name);
    tensor.set_datatype(std::string(inference_datatype(spec.dtype)));
    for (const std::int64_t dim : spec.shape.dims()) tensor.add_shape(dim);
  }
}

// Microseconds; 0: none.
std::uint64_t timeout_of(const proto::ModelInferRequest& request) {
  const auto found = request.parameters().find("timeout");
  if (found == request.parameters().end()) return 0;
  const proto::InferParameter& value = found->second;
  if (value.parameter_choice_case() == proto::InferParameter::kUint64Param) return value.uint64_param();
  if (value.parameter_choice_case() != proto::InferParameter::kInt64Param || value.int64_param() < 0)
    invalid_argument("parameters[timeout]: microseconds are expected");
  return static_cast<std::uint64_t>(value.int64_param());
}

class InferenceService final : public ::inference::GRPCInferenceService::CallbackService {
 public:
  InferenceService(const GrpcServices& services, std::function<bool()> ready)
      : services_(services), ready_(std::move(ready)) {
    SetMessageAllocatorFor_ModelInfer(&messages_);
  }

  grpc::ServerUnaryReactor* ServerLive(grpc::CallbackServerContext* context,
                                       const ::inference::ServerLiveRequest* request,
                                       ::inference::ServerLiveResponse* response) override;
  grpc::ServerUnaryReactor* ServerReady(grpc::CallbackServerContext* context,
                                        const ::inference::ServerReadyRequest* request,
                                        ::inference::ServerReadyResponse* response) override;
  grpc::ServerUnaryReactor* ModelReady(grpc::CallbackServerContext* context,
                                       const ::inference::ModelReadyRequest* request,
                                       ::inference::ModelReadyResponse* response) override;
  grpc::ServerUnaryReactor* ServerMetadata(grpc::CallbackServerContext* context,
                                           const ::inference::ServerMetadataRequest* request,
                                           ::inference::ServerMetadataResponse* response) override;
  grpc::ServerUnaryReactor* ModelMetadata(grpc::CallbackServerContext* context,
                                          const ::inference::ModelMetadataRequest* request,
                                          ::inference::ModelMetadataResponse* response) override;
  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* context,
                                       const ::inference::ModelInferRequest* request,
                                       ::inference::ModelInferResponse* response) override;

 private:
  const GrpcServices& services_;
  const std::function<bool()> ready_;
  ArenaMessages<::inference::ModelInferRequest, ::inference::ModelInferResponse> messages_;
};

grpc::ServerUnaryReactor* InferenceService::ServerLive(grpc::CallbackServerContext* context,
                                                       const proto::ServerLiveRequest*,
                                                       proto::ServerLiveResponse* response) {
  return answer_now(context, [&] { response->set_live(true); });
}

grpc::ServerUnaryReactor* InferenceService::ServerReady(grpc::CallbackServerContext* context,
                                                        const proto::ServerReadyRequest*,
                                                        proto::ServerReadyResponse* response) {
  return answer_now(context, [&] { response->set_ready(ready_()); });
}

grpc::ServerUnaryReactor* InferenceService::ModelReady(grpc::CallbackServerContext* context,
                                                       const proto::ModelReadyRequest* request,
                                                       proto::ModelReadyResponse* response) {
  return answer_now(context, [&] {
    services_.check(*context, request->name());
    try {
      static_cast<void>(services_.models().find(request->name(), version_wanted(request->version())));
      response->set_ready(true);
    } catch (const Error& error) {
      if (error.code() != Code::unavailable && error.code() != Code::not_found) throw;
      response->set_ready(false);
    }
  });
}

grpc::ServerUnaryReactor* InferenceService::ServerMetadata(grpc::CallbackServerContext* context,
                                                           const proto::ServerMetadataRequest*,
                                                           proto::ServerMetadataResponse* response) {
  return answer_now(context, [&] {
    services_.check(*context, "");
    response->set_name("troupe");
    response->set_version(TROUPE_VERSION);
  });
}

grpc::ServerUnaryReactor* InferenceService::ModelMetadata(grpc::CallbackServerContext* context,
                                                          const proto::ModelMetadataRequest* request,
                                                          proto::ModelMetadataResponse* response) {
  return answer_now(context, [&] {
    services_.check(*context, request->name());
    const ServableHandle servable = services_.models().find(request->name(), version_wanted(request->version()));
    response->set_name(servable->id().model);
    response->set_platform("troupe");
    for (const ServableManager::Status& one : services_.models().status(request->name()))
      if (one.state == ServableState::ready) response->add_versions(std::to_string(one.id.version));
    const ModelSignature& signature = servable->signatures().at(servable->signature_named(""));
    add_tensors(signature.inputs, *response->mutable_inputs());
    add_tensors(signature.outputs, *response->mutable_outputs());
  });
}

grpc::ServerUnaryReactor* InferenceService::ModelInfer(grpc::CallbackServerContext* context,
                                                       const proto::ModelInferRequest* request,
                                                       proto::ModelInferResponse* response) {
  VersionLabels::Wanted wanted;
  try {
    wanted = version_wanted(request->model_version());
  } catch (...) {
    return answer_now(context, [error = current_error()] { throw error; });
  }
  const auto parse = [request](const Servable&) {
    ServingRequest out{.inputs = from_infer_request(*request)};
    for (const auto& output : request->outputs()) out.outputs.push_back(output.name());
    if (const std::uint64_t timeout = timeout_of(*request); timeout > 0 && timeout < 1'000'000'000'000)
      out.deadline = steady_now_ns() + static_cast<Nanoseconds>(timeout) * kMicrosecond;
    return out;
  };
  const auto print = [request, response](const Servable& servable, const ServingResult& result) {
    response->set_model_name(servable.id().model);
    response->set_model_version(std::to_string(servable.id().version));
    response->set_id(request->id());
    for (const auto& [name, tensor] : result.outputs) add_infer_output(name, tensor, *response);
  };
  return services_.serve(context, request->model_name(), wanted, parse, print);
}

}  // namespace

std::unique_ptr<grpc::Service> make_inference_service(const GrpcServices& services, std::function<bool()> ready) {
  return std::make_unique<InferenceService>(services, std::move(ready));
}

}  // namespace troupe
