// TensorFlow Serving's services: PredictionService and ModelService.
#pragma once

#include "apps/serve/grpc_service.hpp"
#include "apps/serve/proto/serving.grpc.pb.h"

namespace troupe {

class PredictionService final : public ::tensorflow::serving::PredictionService::CallbackService {
 public:
  explicit PredictionService(const GrpcServices& services) : services_(services) {}

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

}  // namespace troupe
