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

// Deleted by gRPC's call of OnDone().
class GrpcCall::Reactor final : public grpc::ServerUnaryReactor {
 public:
  explicit Reactor(std::shared_ptr<GrpcCall> call) : call_(std::move(call)) {}
  void OnCancel() override { call_->gone(); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<GrpcCall> call_;
};

void GrpcCall::finish(const Error& error, std::int64_t retry_after_ms) {
  Reactor* reactor = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(finished_, true)) return;
    // https://github.com/grpc/proposal/blob/master/A6-client-retries.md#pushback
    if (retry_after_ms > 0) context_->AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(retry_after_ms));
    if (error) status_ = grpc_status(error);
    reactor = reactor_;
  }
  if (reactor != nullptr) reactor->Finish(status_);
}

void GrpcCall::started(std::shared_ptr<ServingCall> call) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      if (!finished_) started_ = std::move(call);
      return;
    }
  }
  if (call) call->cancel();
}

grpc::ServerUnaryReactor* GrpcCall::reactor() {
  {
    const std::lock_guard lock(mutex_);
    if (!finished_) return reactor_ = new Reactor(shared_from_this());
  }
  grpc::ServerUnaryReactor* const reactor = context_->DefaultReactor();
  reactor->Finish(status_);
  return reactor;
}

void GrpcCall::gone() {
  std::shared_ptr<ServingCall> call;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    call = std::exchange(started_, nullptr);
  }
  if (call) call->cancel();
}

}  // namespace troupe
