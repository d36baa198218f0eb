// An echo over actors/http.
#include <iostream>
#include <string>
#include <utility>

#include "tools/bench/children.hpp"
#include "tools/bench/peers/echo_peer.hpp"
#include <troupe/actors/http/server.hpp>

namespace troupe::bench {

void echo_http() {
  const HttpServer server({.name = "the echo",
                           .any_host = true,
                           .threads = 2,
                           .max_body = 64 << 20,
                           .connection_memory = 64 << 10,
                           .request_deadline = std::chrono::minutes(1)},
                          [](HttpRequest request, HttpReply reply) {
                            HttpAnswer answer;
                            answer.body = std::move(request.body);
                            reply.send(std::move(answer));
                          });
  say(std::to_string(server.address().port));
  std::string line;
  while (std::getline(std::cin, line)) {
  }
}

}  // namespace troupe::bench
