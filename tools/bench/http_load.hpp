// Sends one HTTP request again and again over connections that stay open, from one thread: a load that costs little
// beside the server on the same machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tools/bench/load_run.hpp"

namespace troupe::bench {

// A POST of JSON, as bytes of the connection.
std::string http_post(const std::string& path, const std::string& body);

class HttpLoad {
 public:
  // Says what is wrong with the body of an answer of status 200; "": nothing.
  using Check = std::function<std::string(std::string_view body)>;

  // Connects to this port of this machine. Throws unavailable.
  HttpLoad(std::uint16_t port, std::size_t connections);
  ~HttpLoad();
  HttpLoad(const HttpLoad&) = delete;
  HttpLoad& operator=(const HttpLoad&) = delete;

  // Sends one request and returns the body of its answer. Throws unavailable for another status than 200.
  std::string ask(const std::string& request);
  // A request whose answer is not 200, is wrong, or does not come, counts as failed. Returns once all have ended.
  // Throws unavailable if connections cannot be made again, deadline_exceeded if no answer comes for a minute.
  LoadFigures run(const std::string& request, const LoadPlan& plan, const Check& check);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::bench
