// A version of a model that answers requests.
//
//   const ServableHandle digits = server.find("digits");              // model_server.hpp
//   digits->start({.inputs = {{"examples", x}}}, [](ServingResult result) { ... });
//
// A version is unloaded once its last handle is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/model/saved_model.hpp>
#include <troupe/messages/error.hpp>
#include <troupe/messages/nanoseconds.hpp>
#include <troupe/messages/tensor.hpp>
#include <troupe/scheduler/serving/batch_queue.hpp>
#include <troupe/scheduler/serving/servable_manager.hpp>

namespace troupe {

struct ServingRequest {
  std::string signature{};                    // "": "serving_default", "predict" or the only one
  std::map<std::string, Tensor> inputs{};     // by the names of the signature
  std::vector<std::string> outputs{};         // those that are wanted; none: all
  Nanoseconds deadline = BatchQueue::kNever;  // of the steady clock: later results are not wanted
  std::string key{};                          // requests with one key meet on one replica (router.hpp); "": none
  std::string trace{};                        // the W3C traceparent of the request; "": none
  std::uint64_t traced = 0;                   // the request in the task's trace (traced_requests.hpp); 0: not recorded
};

// Nanoseconds; a stage that the request did not pass has 0.
struct ServingTimes {
  Nanoseconds queued = 0;   // waited for others of its batch
  Nanoseconds batched = 0;  // rows joined and split
  Nanoseconds run = 0;      // the step, with its wait for the device
};

struct ServingResult {
  Error error{};
  std::map<std::string, Tensor> outputs{};
  std::int64_t retry_after_ms = 0;  // of an error unavailable: when to ask again; 0: not said
  ServingTimes times{};
};

// A request that has been started. Thread-safe.
class ServingCall {
 public:
  virtual ~ServingCall() = default;
  // The result is not wanted any more: what has not begun is not computed, and the request ends with Code::cancelled.
  virtual void cancel() = 0;
};

class ServingStatistics;

class Servable {
 public:
  virtual ~Servable() = default;
  virtual const ServableId& id() const = 0;
  virtual const std::map<std::string, ModelSignature>& signatures() const = 0;
  // The name of the signature that a request with this name means. Throws not_found, listing those that there are.
  virtual const std::string& signature_named(const std::string& given) const = 0;
  // Calls `done` once, on any thread, possibly before it returns: with the outputs, or with not_found for a signature
  // or an output that is not there; invalid_argument for inputs that do not fit; unavailable if too many requests wait;
  // deadline_exceeded; cancelled; or the step's error. `done` must be short. The handle must be kept
  // until then; the call may be dropped.
  virtual std::shared_ptr<ServingCall> start(ServingRequest request, std::function<void(ServingResult)> done) const = 0;
  // What its requests took, for doors to add what they took; null: not counted.
  virtual ServingStatistics* statistics() const { return nullptr; }
};
using ServableHandle = std::shared_ptr<const Servable>;

}  // namespace troupe
