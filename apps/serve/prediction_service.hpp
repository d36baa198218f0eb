// TensorFlow Serving's services: PredictionService and ModelService.
#pragma once

#include <memory>

namespace grpc {
class Service;
}

namespace troupe {

class GrpcServices;

// `services` must outlive them.
std::unique_ptr<grpc::Service> make_prediction_service(const GrpcServices& services);
std::unique_ptr<grpc::Service> make_model_service(const GrpcServices& services);

}  // namespace troupe
