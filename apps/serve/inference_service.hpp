// The Open Inference Protocol's service (KServe, Triton).
#pragma once

#include <functional>
#include <memory>

namespace grpc {
class Service;
}

namespace troupe {

class GrpcServices;

// `services` must outlive it. `ready`: whether the server is, and no drain has begun.
std::unique_ptr<grpc::Service> make_inference_service(const GrpcServices& services, std::function<bool()> ready);

}  // namespace troupe
