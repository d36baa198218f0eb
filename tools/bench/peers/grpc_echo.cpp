// Echoes over libgrpc++: Predict returns the bytes of its request, which nobody parses.
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "apps/serve/proto/serving.grpc.pb.h"
#include "tools/bench/children.hpp"
#include "tools/bench/peers/echo_peer.hpp"
#include <troupe/messages/error.hpp>

namespace troupe::bench {
namespace {

using EchoService = ::tensorflow::serving::PredictionService;

constexpr int kQueues = 2;

class CallbackEcho final : public EchoService::WithRawCallbackMethod_Predict<EchoService::Service> {
 public:
  grpc::ServerUnaryReactor* Predict(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override {
    *response = *request;
    auto* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

using QueueEcho = EchoService::WithRawMethod_Predict<EchoService::Service>;

// A call of a queue: waits for a request, answers it, ends.
class EchoCall {
 public:
  EchoCall(QueueEcho& service, grpc::ServerCompletionQueue& queue) : service_(service), queue_(queue) {
    service_.RequestPredict(&context_, &request_, &writer_, &queue_, &queue_, this);
  }
  // What came out of the queue is done.
  void proceed(bool ok) {
    if (!ok || answered_) {
      delete this;
      return;
    }
    new EchoCall(service_, queue_);
    answered_ = true;
    writer_.Finish(request_, grpc::Status::OK, this);
  }

 private:
  QueueEcho& service_;
  grpc::ServerCompletionQueue& queue_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer_{&context_};
  bool answered_ = false;
};

std::unique_ptr<grpc::Server> start(grpc::ServerBuilder& builder, int& port) {
  builder.SetMaxReceiveMessageSize(256 << 20);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) fail(Code::unavailable, "the echo of gRPC cannot listen");
  return server;
}

void tell_and_wait(int port) {
  say(std::to_string(port));
  std::string line;
  while (std::getline(std::cin, line)) {
  }
}

}  // namespace

void echo_grpc_by_callbacks() {
  CallbackEcho service;
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  int port = 0;
  const auto server = start(builder, port);
  tell_and_wait(port);
  server->Shutdown(std::chrono::system_clock::now());
}

void echo_grpc_by_queues() {
  QueueEcho service;
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  for (int i = 0; i < kQueues; ++i) queues.push_back(builder.AddCompletionQueue());
  int port = 0;
  const auto server = start(builder, port);
  std::vector<std::thread> threads;
  for (const auto& queue : queues) {
    new EchoCall(service, *queue);
    threads.emplace_back([&queue] {
      void* tag = nullptr;
      for (bool ok = false; queue->Next(&tag, &ok);) static_cast<EchoCall*>(tag)->proceed(ok);
    });
  }
  tell_and_wait(port);
  server->Shutdown(std::chrono::system_clock::now());
  for (const auto& queue : queues) queue->Shutdown();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace troupe::bench
