#include "apps/serve/prediction_service.hpp"

#include <algorithm>
#include <utility>

#include "apps/serve/arena_messages.hpp"
#include "apps/serve/grpc_service.hpp"
#include "apps/serve/proto/serving.grpc.pb.h"
#include "apps/serve/serving_config.hpp"
#include "apps/serve/tensor_proto.hpp"
#include <troupe/messages/tensorflow_types.hpp>

namespace troupe {
namespace {

namespace proto = ::tensorflow::serving;

constexpr const char* kSignatureDef = "signature_def";

VersionLabels::Wanted wanted_of(const proto::ModelSpec& spec) {
  VersionLabels::Wanted out;
  if (spec.has_version()) out.version = spec.version().value();
  if (spec.version_choice_case() == proto::ModelSpec::kVersionLabel) out.label = spec.version_label();
  return out;
}

void fill_spec(const Servable& servable, const std::string& signature, proto::ModelSpec& out) {
  out.set_name(servable.id().model);
  out.mutable_version()->set_value(servable.id().version);
  out.set_signature_name(signature);
}

template <class Infos>
void fill_infos(const std::map<std::string, ModelSignature::TensorSpec>& specs, Infos& out) {
  for (const auto& [name, spec] : specs) {
    ::tensorflow::TensorInfo& info = out[name];
    info.set_name(spec.tensor);
    const auto found = std::ranges::find(kTensorflowTypes, spec.dtype, &TensorflowType::dtype);
    if (spec.dtype != DType::invalid && found != kTensorflowTypes.end())
      info.set_dtype(static_cast<::tensorflow::DataType>(found - kTensorflowTypes.begin()));
    to_tensor_shape_proto(spec.shape, *info.mutable_tensor_shape());
  }
}

proto::SignatureDefMap signatures_of(const Servable& servable) {
  proto::SignatureDefMap out;
  for (const auto& [name, signature] : servable.signatures()) {
    ::tensorflow::SignatureDef& def = (*out.mutable_signature_def())[name];
    fill_infos(signature.inputs, *def.mutable_inputs());
    fill_infos(signature.outputs, *def.mutable_outputs());
    def.set_method_name("tensorflow/serving/predict");
  }
  return out;
}

proto::ModelVersionStatus::State state_of(ServableState state) {
  switch (state) {
    case ServableState::fresh:
      return proto::ModelVersionStatus::START;
    case ServableState::loading:
      return proto::ModelVersionStatus::LOADING;
    case ServableState::ready:
      return proto::ModelVersionStatus::AVAILABLE;
    case ServableState::quiescing:
    case ServableState::unloading:
      return proto::ModelVersionStatus::UNLOADING;
    case ServableState::unloaded:
    case ServableState::error:
      return proto::ModelVersionStatus::END;
  }
  return proto::ModelVersionStatus::UNKNOWN;
}

void fill_status(const Error& error, proto::StatusProto& out) {
  out.set_error_code(static_cast<int>(error.code()));
  out.set_error_message(error.message());
}

grpc::ServerUnaryReactor* unimplemented(grpc::CallbackServerContext* context) {
  return answer_now(context, [] {
    fail(Code::unimplemented, "classify, regress and multi-inference take tf.Example: send the features to Predict");
  });
}

class PredictionService final : public ::tensorflow::serving::PredictionService::CallbackService {
 public:
  explicit PredictionService(const GrpcServices& services) : services_(services) {
    SetMessageAllocatorFor_Predict(&messages_);
  }

  grpc::ServerUnaryReactor* Predict(grpc::CallbackServerContext* context,
                                    const ::tensorflow::serving::PredictRequest* request,
                                    ::tensorflow::serving::PredictResponse* response) override;
  grpc::ServerUnaryReactor* GetModelMetadata(grpc::CallbackServerContext* context,
                                             const ::tensorflow::serving::GetModelMetadataRequest* request,
                                             ::tensorflow::serving::GetModelMetadataResponse* response) override;
  // These end with unimplemented, and say what to call instead.
  grpc::ServerUnaryReactor* Classify(grpc::CallbackServerContext* context,
                                     const ::tensorflow::serving::ClassificationRequest* request,
                                     ::tensorflow::serving::ClassificationResponse* response) override;
  grpc::ServerUnaryReactor* Regress(grpc::CallbackServerContext* context,
                                    const ::tensorflow::serving::RegressionRequest* request,
                                    ::tensorflow::serving::RegressionResponse* response) override;
  grpc::ServerUnaryReactor* MultiInference(grpc::CallbackServerContext* context,
                                           const ::tensorflow::serving::MultiInferenceRequest* request,
                                           ::tensorflow::serving::MultiInferenceResponse* response) override;

 private:
  const GrpcServices& services_;
  ArenaMessages<::tensorflow::serving::PredictRequest, ::tensorflow::serving::PredictResponse> messages_;
};

class ModelService final : public ::tensorflow::serving::ModelService::CallbackService {
 public:
  explicit ModelService(const GrpcServices& services) : services_(services) {}

  grpc::ServerUnaryReactor* GetModelStatus(grpc::CallbackServerContext* context,
                                           const ::tensorflow::serving::GetModelStatusRequest* request,
                                           ::tensorflow::serving::GetModelStatusResponse* response) override;
  // Errors of the configuration are in the response.
  grpc::ServerUnaryReactor* HandleReloadConfigRequest(grpc::CallbackServerContext* context,
                                                      const ::tensorflow::serving::ReloadConfigRequest* request,
                                                      ::tensorflow::serving::ReloadConfigResponse* response) override;

 private:
  const GrpcServices& services_;
};

grpc::ServerUnaryReactor* PredictionService::Predict(grpc::CallbackServerContext* context,
                                                     const proto::PredictRequest* request,
                                                     proto::PredictResponse* response) {
  const auto parse = [request](const Servable&) {
    ServingRequest out{.signature = request->model_spec().signature_name()};
    std::uint64_t repeated = kMostRepeatedBytes;
    for (const auto& [name, tensor] : request->inputs())
      out.inputs.emplace(name, from_tensor_proto(tensor, "inputs[" + name + "]", repeated));
    out.outputs.assign(request->output_filter().begin(), request->output_filter().end());
    return out;
  };
  const auto print = [request, response](const Servable& servable, const ServingResult& result) {
    for (const auto& [name, tensor] : result.outputs) to_tensor_proto(tensor, (*response->mutable_outputs())[name]);
    fill_spec(servable, servable.signature_named(request->model_spec().signature_name()),
              *response->mutable_model_spec());
  };
  return services_.serve(context, request->model_spec().name(), wanted_of(request->model_spec()), parse, print);
}

grpc::ServerUnaryReactor* PredictionService::GetModelMetadata(grpc::CallbackServerContext* context,
                                                              const proto::GetModelMetadataRequest* request,
                                                              proto::GetModelMetadataResponse* response) {
  return answer_now(context, [&] {
    const proto::ModelSpec& spec = request->model_spec();
    services_.check(*context, spec.name());
    if (request->metadata_field().empty()) invalid_argument("metadata_field is empty: ask for signature_def");
    for (const std::string& field : request->metadata_field())
      if (field != kSignatureDef) invalid_argument("metadata_field '{}': there is signature_def only", field);
    const ServableHandle servable = services_.models().find(spec.name(), wanted_of(spec));
    fill_spec(*servable, "", *response->mutable_model_spec());
    (*response->mutable_metadata())[kSignatureDef].PackFrom(signatures_of(*servable));
  });
}

grpc::ServerUnaryReactor* PredictionService::Classify(grpc::CallbackServerContext* context,
                                                      const proto::ClassificationRequest*,
                                                      proto::ClassificationResponse*) {
  return unimplemented(context);
}

grpc::ServerUnaryReactor* PredictionService::Regress(grpc::CallbackServerContext* context,
                                                     const proto::RegressionRequest*, proto::RegressionResponse*) {
  return unimplemented(context);
}

grpc::ServerUnaryReactor* PredictionService::MultiInference(grpc::CallbackServerContext* context,
                                                            const proto::MultiInferenceRequest*,
                                                            proto::MultiInferenceResponse*) {
  return unimplemented(context);
}

grpc::ServerUnaryReactor* ModelService::GetModelStatus(grpc::CallbackServerContext* context,
                                                       const proto::GetModelStatusRequest* request,
                                                       proto::GetModelStatusResponse* response) {
  return answer_now(context, [&] {
    const proto::ModelSpec& spec = request->model_spec();
    services_.check(*context, spec.name());
    for (const ServableManager::Status& one : services_.models().status_of(spec.name(), wanted_of(spec))) {
      proto::ModelVersionStatus& out = *response->add_model_version_status();
      out.set_version(one.id.version);
      out.set_state(state_of(one.state));
      fill_status(one.error, *out.mutable_status());
    }
  });
}

grpc::ServerUnaryReactor* ModelService::HandleReloadConfigRequest(grpc::CallbackServerContext* context,
                                                                  const proto::ReloadConfigRequest* request,
                                                                  proto::ReloadConfigResponse* response) {
  const auto call = std::make_shared<GrpcCall>(context);
  const auto done = [call, response](const Error& error) {
    fill_status(error, *response->mutable_status());
    call->finish({});
  };
  try {
    services_.check(*context, "");
    if (!services_.models().configure) fail(Code::unimplemented, "clients may not change which models are served");
    std::vector<ServedModel> models;
    try {
      models = models_of(request->config());
      if (models.empty()) invalid_argument("the configuration lists no models");
    } catch (...) {
      done(current_error());
      return call->reactor();
    }
    services_.models().configure(std::move(models), done);
  } catch (...) {
    call->finish(current_error());
  }
  return call->reactor();
}

}  // namespace

std::unique_ptr<grpc::Service> make_prediction_service(const GrpcServices& services) {
  return std::make_unique<PredictionService>(services);
}

std::unique_ptr<grpc::Service> make_model_service(const GrpcServices& services) {
  return std::make_unique<ModelService>(services);
}

}  // namespace troupe
