// Calls one method of gRPC with the same message again and again, over one connection, from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tools/bench/load_run.hpp"

namespace troupe::bench {

class GrpcLoad {
 public:
  // Says what is wrong with the message of an answer; "": nothing.
  using Check = std::function<std::string(std::string_view message)>;

  // A port of this machine, and a method like "/package.Service/Method".
  GrpcLoad(std::uint16_t port, std::string method);
  ~GrpcLoad();
  GrpcLoad(const GrpcLoad&) = delete;
  GrpcLoad& operator=(const GrpcLoad&) = delete;

  // Calls once and returns the message of the answer. Throws unavailable.
  std::string ask(const std::string& message);
  // Keeps that many calls in flight, as fast as answers come. A call that ends with an error or a wrong answer has
  // failed. Throws invalid_argument for a plan with a rate.
  LoadFigures run(const std::string& message, std::size_t in_flight, const LoadPlan& plan, const Check& check);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::bench
