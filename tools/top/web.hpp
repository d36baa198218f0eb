// troupe-top --web: the introspector's page of a cluster, on a port of this machine.
#pragma once

#include <cstdint>
#include <memory>

#include <troupe/actors/http/server.hpp>
#include <troupe/actors/introspection/observer.hpp>

namespace troupe::top {

// Answers as the introspector of a task does (actors/introspection/service.hpp), without a token, to this machine
// alone; with /metrics of all tasks. Asks whichever task answers: a page that is open goes on when the task that it was
// opened at has died.
class WebServer {
 public:
  // `port` 0: any free one. Throws unavailable, and what Observer throws.
  WebServer(Observer::Options whom, std::uint16_t port);
  std::string url() const;

 private:
  HttpAnswer answer(const HttpRequest& request);

  Observer observer_;
  HttpServer server_;  // last: its threads use the above
};

}  // namespace troupe::top
