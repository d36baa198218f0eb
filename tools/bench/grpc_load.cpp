#include "tools/bench/grpc_load.hpp"

#include <fmt/core.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe::bench {
namespace {

constexpr std::chrono::seconds kMostTime{60};  // of a call
constexpr int kMostMessage = 256 << 20;

std::shared_ptr<grpc::Channel> channel_to(std::uint16_t port) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostMessage);
  return grpc::CreateCustomChannel(fmt::format("127.0.0.1:{}", port), grpc::InsecureChannelCredentials(), arguments);
}

struct LoadCall {
  LoadRun::Time intended;
  grpc::ClientContext context{};
  grpc::ByteBuffer answer{};
  grpc::Status status{};
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader{};

  std::string failure(const GrpcLoad::Check& check) const {
    if (!status.ok())
      return fmt::format("status {}: {}", static_cast<int>(status.error_code()), status.error_message());
    grpc::Slice slice;
    if (!answer.TrySingleSlice(&slice).ok() && !answer.DumpToSingleSlice(&slice).ok()) return "no message";
    return check({reinterpret_cast<const char*>(slice.begin()), slice.size()});
  }
};

}  // namespace

class GrpcLoad::Impl {
 public:
  Impl(std::uint16_t port, std::string method) : method_(std::move(method)), stub_(channel_to(port)) {}
  ~Impl() {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) delete static_cast<LoadCall*>(tag);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  LoadFigures run(const std::string& message, std::size_t in_flight, const LoadPlan& plan, const Check& check) {
    if (plan.rate > 0) invalid_argument("a load of gRPC has no rate");
    const grpc::Slice slice(message);
    const grpc::ByteBuffer request(&slice, 1);
    LoadRun run(plan, LoadClock::now());
    std::size_t busy = 0;
    for (;;) {
      while (busy < in_flight && begin(run, request)) ++busy;
      if (busy == 0) return run.figures();
      void* tag = nullptr;
      bool ok = false;
      if (!queue_.Next(&tag, &ok)) fail(Code::internal, "the completion queue has ended");
      const std::unique_ptr<LoadCall> call(static_cast<LoadCall*>(tag));
      --busy;
      const LoadRun::Time now = LoadClock::now();
      run.ended(call->intended, now, call->failure(check));
    }
  }

 private:
  bool begin(LoadRun& run, const grpc::ByteBuffer& request) {
    const auto intended = run.next(LoadClock::now());
    if (!intended) return false;
    auto* const call = new LoadCall{.intended = *intended};  // until it comes out of the queue
    call->context.set_deadline(std::chrono::system_clock::now() + kMostTime);
    call->reader = stub_.PrepareUnaryCall(&call->context, method_, request, &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->answer, &call->status, call);
    return true;
  }

  const std::string method_;
  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
};

GrpcLoad::GrpcLoad(std::uint16_t port, std::string method) : impl_(std::make_unique<Impl>(port, std::move(method))) {}
GrpcLoad::~GrpcLoad() = default;

std::string GrpcLoad::ask(const std::string& message) {
  std::string out;
  const LoadFigures figures = impl_->run(message, 1, {.seconds = 0}, [&](std::string_view answer) {
    out = answer;
    return "";
  });
  if (figures.failed > 0) fail(Code::unavailable, "{}", figures.first_failure);
  return out;
}

LoadFigures GrpcLoad::run(const std::string& message, std::size_t in_flight, const LoadPlan& plan, const Check& check) {
  return impl_->run(message, in_flight, plan, check);
}

}  // namespace troupe::bench
