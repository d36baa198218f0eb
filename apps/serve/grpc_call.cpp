#include "apps/serve/grpc_call.hpp"

#include <chrono>
#include <utility>

#include "apps/serve/trace_context.hpp"
#include <troupe/actors/base/actor_record.hpp>

namespace troupe {
namespace {

// "": none.
std::string_view metadata_of(const grpc::CallbackServerContext& context, const char* name) {
  const auto found = context.client_metadata().find(name);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

}  // namespace

// The codes are gRPC's, with its numbers.
grpc::Status grpc_status(const Error& error) { return {static_cast<grpc::StatusCode>(error.code()), error.message()}; }

Nanoseconds deadline_of(const grpc::CallbackServerContext& context) {
  using Clock = std::chrono::system_clock;
  const Clock::time_point deadline = context.deadline();
  const Clock::time_point now = Clock::now();
  if (deadline >= now + std::chrono::hours(24 * 365)) return BatchQueue::kNever;
  return steady_now_ns() + std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - now).count();
}

std::string authorization_of(const grpc::CallbackServerContext& context) {
  return std::string(metadata_of(context, "authorization"));
}

std::string join_trace(grpc::CallbackServerContext& context) {
  const std::string_view parent = metadata_of(context, TraceContext::kParent);
  if (parent.empty()) return "";
  const auto caller = TraceContext::parse(parent, metadata_of(context, TraceContext::kState));
  if (!caller) return "";
  std::string out = caller->child().traceparent();
  context.AddInitialMetadata(TraceContext::kParent, out);
  if (!caller->tracestate().empty()) context.AddInitialMetadata(TraceContext::kState, caller->tracestate());
  return out;
}

void GrpcCall::State::finish(const Error& error, std::int64_t retry_after_ms) {
  GrpcCall* call = nullptr;
  {
    const std::lock_guard lock(mutex_);
    call = std::exchange(call_, nullptr);
  }
  if (call == nullptr) return;
  // https://github.com/grpc/proposal/blob/master/A6-client-retries.md#pushback
  if (retry_after_ms > 0) context_->AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(retry_after_ms));
  call->Finish(error ? grpc_status(error) : grpc::Status::OK);
}

void GrpcCall::State::started(std::shared_ptr<ServingCall> call) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      if (call_ != nullptr) started_ = std::move(call);
      return;
    }
  }
  if (call) call->cancel();
}

void GrpcCall::State::gone() {
  std::shared_ptr<ServingCall> call;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    call = std::exchange(started_, nullptr);
  }
  if (call) call->cancel();
}

}  // namespace troupe
