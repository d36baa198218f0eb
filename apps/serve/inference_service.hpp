// The Open Inference Protocol's service (KServe, Triton).
#pragma once

#include "apps/serve/grpc_service.hpp"
#include "apps/serve/proto/inference.grpc.pb.h"

namespace troupe {

class InferenceService final : public ::inference::GRPCInferenceService::CallbackService {
 public:
  // `ready`: whether the server is, and no drain has begun.
  InferenceService(const GrpcServices& services, std::function<bool()> ready)
      : services_(services), ready_(std::move(ready)) {}

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
};

}  // namespace troupe
