// Messages and interfaces of the actors that serve models: one source and one manager for each server, a loader for
// each version, a batcher for each signature of a version whose model has batches.
//
//   server --WatchModels--> source --Aspire--> manager --LoadServable, UnloadServable--> loader
//   loader --ServableLoaded, ServableUnloaded--> manager;  last handle of a version --ServableQuiesced--> manager
//   door --BatchRequest, CancelRequest--> batcher;  step of a batch --BatchEnded--> batcher
//   door --RouteRequest, CancelRequest--> router ==AskModel, DropModelRequest==> replica of another task
//   door --ReconfigureModels--> router ==ConfigureModels==> replica
//   replica ==ReplicaModels, ModelAnswer, ModelsConfigured==> router
#pragma once

#include <caf/typed_actor.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/serving/model_server.hpp>
#include <troupe/actors/serving/version_source.hpp>
#include <troupe/actors/steps/step.hpp>
#include <troupe/messages/caf/protocol.hpp>

namespace troupe {

class LoadedServable;
struct BatchedCall;
struct RunningBatch;

// All models that are served from now on.
struct WatchModels {
  using local_message = void;
  std::vector<ServedModel> models{};
};
// Looks at all models at once, not only after its next pause.
struct LookNow {
  using local_message = void;
};
using SourceActor =
    caf::typed_actor<caf::reacts_to<WatchModels>, caf::reacts_to<LookNow>, caf::reacts_to<Tick>, caf::reacts_to<Stop>>;

// The versions of a model that its source wants; none: the model goes, or, with an error, has none yet.
struct Aspire {
  using local_message = void;
  ServedModel model{};
  std::vector<FoundVersion> versions{};
  std::map<std::string, std::int64_t> labels{};  // of its publication
  Error error{};
};
struct ServableLoaded {
  using local_message = void;
  ServableId id{};
  std::shared_ptr<LoadedServable> servable{};  // null: it failed
  std::size_t bytes = 0;
  Error error{};
};
struct ServableUnloaded {
  using local_message = void;
  ServableId id{};
};
// The handle of a version is gone.
struct ServableQuiesced {
  using local_message = void;
  ServableId id{};
  std::uint64_t publication = 0;
};
struct RetryServable {
  using local_message = void;
  ServableId id{};
};
using ManagerActor = caf::typed_actor<caf::reacts_to<Aspire>, caf::reacts_to<ServableLoaded>,
                                      caf::reacts_to<ServableUnloaded>, caf::reacts_to<ServableQuiesced>,
                                      caf::reacts_to<RetryServable>, caf::reacts_to<Tick>, caf::reacts_to<Stop>>;

struct LoadServable {
  using local_message = void;
  FoundVersion version{};
  ManagerActor answer{};
};
// Nobody else keeps the version. The loader ends with it.
struct UnloadServable {
  using local_message = void;
  ManagerActor answer{};
};
using LoaderActor =
    caf::typed_actor<caf::reacts_to<LoadServable>, caf::reacts_to<UnloadServable>, caf::reacts_to<Stop>>;

struct BatchRequest {
  using local_message = void;
  std::shared_ptr<BatchedCall> call{};
};
struct CancelRequest {
  using local_message = void;
  std::uint64_t request = 0;
};
struct BatchEnded {
  using local_message = void;
  std::shared_ptr<RunningBatch> batch{};
  std::shared_ptr<StepResult> result{};
};
using BatcherActor = caf::typed_actor<caf::reacts_to<BatchRequest>, caf::reacts_to<CancelRequest>,
                                      caf::reacts_to<BatchEnded>, caf::reacts_to<Tick>, caf::reacts_to<Stop>>;

struct RoutedCall;
struct RouteRequest {
  using local_message = void;
  std::shared_ptr<RoutedCall> call{};
};
struct Reconfiguration;
// All replicas serve other models from now on.
struct ReconfigureModels {
  using local_message = void;
  std::shared_ptr<Reconfiguration> call{};
};
using RouterActor =
    RouterSink::extend<caf::reacts_to<RouteRequest>, caf::reacts_to<ReconfigureModels>, caf::reacts_to<CancelRequest>,
                       caf::reacts_to<PeerUp>, caf::reacts_to<PeerDown>, caf::reacts_to<Tick>, caf::reacts_to<Stop>>;
// From now on it tells routers that it has no models.
struct DrainReplica {
  using local_message = void;
};
// A Tick: the models may have changed.
using ReplicaActor = ReplicaSink::extend<caf::reacts_to<DrainReplica>, caf::reacts_to<PeerUp>, caf::reacts_to<PeerDown>,
                                         caf::reacts_to<Tick>, caf::reacts_to<Stop>>;

}  // namespace troupe
