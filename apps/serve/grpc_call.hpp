// A request over gRPC that is answered later, from any thread.
//
//   GrpcCall* call = new GrpcCall(context);        // handed to gRPC, which ends it
//   answer_with(call->state(), models..., ...);    // finish() once
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <mutex>
#include <string>

#include <troupe/actors/serving/servable.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {

grpc::Status grpc_status(const Error& error);
// Of the steady clock: when the client stops waiting.
Nanoseconds deadline_of(const grpc::CallbackServerContext& context);
// The metadata "authorization"; "": none.
std::string authorization_of(const grpc::CallbackServerContext& context);
// The traceparent of a span of our own in the trace of the metadata "traceparent" (trace_context.hpp), which the
// initial metadata tell the client; "": none.
std::string join_trace(grpc::CallbackServerContext& context);

class GrpcCall final : public grpc::ServerUnaryReactor {
 public:
  // What those who answer keep. Thread-safe.
  class State {
   public:
    State(GrpcCall* call, grpc::CallbackServerContext* context) : call_(call), context_(context) {}
    // The first counts. From then on the request and the response may not be touched.
    void finish(const Error& error, std::int64_t retry_after_ms = 0);
    // Cancels what the request has started, if its client goes.
    void started(std::shared_ptr<ServingCall> call);
    void gone();

   private:
    std::mutex mutex_;
    GrpcCall* call_;  // null: finished
    grpc::CallbackServerContext* const context_;
    std::shared_ptr<ServingCall> started_;
    bool gone_ = false;
  };

  explicit GrpcCall(grpc::CallbackServerContext* context) : state_(std::make_shared<State>(this, context)) {}
  const std::shared_ptr<State>& state() const { return state_; }

  void OnCancel() override { state_->gone(); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<State> state_;
};

// Calls `work`, which answers at once: what it throws is the answer's error.
template <class Work>
grpc::ServerUnaryReactor* answer_now(grpc::CallbackServerContext* context, const Work& work) {
  auto* const reactor = context->DefaultReactor();
  try {
    work();
    reactor->Finish(grpc::Status::OK);
  } catch (...) {
    reactor->Finish(grpc_status(current_error()));
  }
  return reactor;
}

}  // namespace troupe
