// troupe-top --web: the introspector's page of a cluster, on a port of this machine.
#pragma once

#include <cstdint>
#include <memory>

#include <troupe/actors/http/server.hpp>
#include <troupe/actors/introspection/observer.hpp>

namespace troupe::top {

// Answers like the introspector of a task (actors/introspection/service.hpp), but without a token, only to this
// machine, and with /metrics of all tasks. Asks any task that answers, so an open page survives the death of the task
// it was opened at.
class WebServer {
 public:
  // `port` 0: any free one. Throws unavailable, and what Observer throws.
  WebServer(Observer::Options target, std::uint16_t port);
  std::string url() const;

 private:
  HttpAnswer answer(const HttpRequest& request);

  Observer observer_;
  HttpServer server_;  // last: its threads use the above
};

}  // namespace troupe::top
