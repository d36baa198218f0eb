// What the services of the gRPC door share.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "apps/serve/grpc_call.hpp"
#include "apps/serve/model_tokens.hpp"
#include "apps/serve/served_models.hpp"
#include "apps/serve/work_threads.hpp"
#include <troupe/actors/serving/traced_requests.hpp>

namespace troupe {

class GrpcServices {
 public:
  GrpcServices(ServedModels served, std::map<std::string, std::string> model_tokens);

  // Throws unauthenticated.
  void check(const grpc::CallbackServerContext& context, const std::string& model) const {
    tokens_.check(model, authorization_of(context));
  }
  const ServedModels& models() const { return models_; }

  // Answers a request for a model: finds its version, makes a ServingRequest of the message with `parse`, runs it, and
  // makes the response of its outputs with `print`, on any thread.
  using Parse = std::function<ServingRequest(const Servable&)>;
  using Print = std::function<void(const Servable&, const ServingResult&)>;
  grpc::ServerUnaryReactor* serve(grpc::CallbackServerContext* context, const std::string& model,
                                  const VersionLabels::Wanted& wanted, const Parse& parse, Print print) const;

 private:
  const ServedModels models_;
  const TracedDoor traced_;
  const ModelTokens tokens_;
  // For large answers. Requests that outlive the door keep it.
  const std::shared_ptr<WorkThreads> answers_;
};

}  // namespace troupe
