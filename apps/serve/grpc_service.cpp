#include "apps/serve/grpc_service.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe {

GrpcServices::GrpcServices(ServedModels served, std::map<std::string, std::string> model_tokens)
    : models_(std::move(served)),
      traced_(models_.trace, "gRPC"),
      tokens_(std::move(model_tokens)),
      answers_(std::make_shared<WorkThreads>(1, std::numeric_limits<std::size_t>::max())) {}

grpc::ServerUnaryReactor* GrpcServices::serve(grpc::CallbackServerContext* context, const std::string& model,
                                              const VersionLabels::Wanted& wanted, const Parse& parse,
                                              Print print) const {
  const std::shared_ptr<TracedRequest> traced = traced_.arrival();
  const auto call = std::make_shared<GrpcCall>(context);
  try {
    std::string trace = join_trace(*context);
    check(*context, model);
    const ServableHandle servable = models_.find(model, wanted);
    ServingRequest request = parsed(*servable, [&] { return parse(*servable); });
    request.trace = std::move(trace);
    request.deadline = std::min(request.deadline, deadline_of(*context));
    if (traced) traced->start(*servable, request);
    auto done = [answers = answers_, call, servable, traced, print = std::move(print)](ServingResult result) {
      const bool here = result.error || small(result.outputs);
      answers->run(here, [call, servable, traced, print, result = std::move(result)] {
        if (result.error) {
          if (traced) traced->end(result);
          return call->finish(result.error, result.retry_after_ms);
        }
        try {
          const Nanoseconds began = steady_now_ns();
          print(*servable, result);
          if (ServingStatistics* statistics = servable->statistics())
            statistics->add(ServingStatistics::Stage::serialise, steady_now_ns() - began);
        } catch (...) {
          return call->finish(current_error());
        }
        if (traced) traced->end(result);
        call->finish({});
      });
    };
    call->started(servable->start(std::move(request), std::move(done)));
  } catch (...) {
    call->finish(current_error());
  }
  return call->reactor();
}

}  // namespace troupe
