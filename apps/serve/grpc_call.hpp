// A request over gRPC that is answered later, from any thread.
//
//   const auto call = std::make_shared<GrpcCall>(context);
//   answer_later([call] { call->finish({}); });  // or at once
//   return call->reactor();
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

// Those who answer keep it. Thread-safe.
class GrpcCall final : public std::enable_shared_from_this<GrpcCall> {
 public:
  explicit GrpcCall(grpc::CallbackServerContext* context) : context_(context) {}
  // The first counts. From then on the request and the response may not be touched.
  void finish(const Error& error, std::int64_t retry_after_ms = 0);
  // Cancels what the request has started, if its client goes.
  void started(std::shared_ptr<ServingCall> call);
  // Returns what the handler of the request returns; call it once. gRPC ends a reactor of ours on another thread, so
  // that a request that is finished by now gets gRPC's own.
  grpc::ServerUnaryReactor* reactor();

 private:
  class Reactor;

  void gone();

  grpc::CallbackServerContext* const context_;
  std::mutex mutex_;
  Reactor* reactor_ = nullptr;  // null: not yet, or not needed
  bool finished_ = false;
  grpc::Status status_{};  // once it is finished
  std::shared_ptr<ServingCall> started_;
  bool gone_ = false;
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
