// Serves the introspector's page, and snapshots that a test makes, on a port of 127.0.0.1.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <troupe/actors/base/snapshot.hpp>
#include <troupe/actors/http/client.hpp>
#include <troupe/actors/http/server.hpp>

namespace troupe::testing {

class PageServer {
 public:
  // Called for each request, on threads of the server.
  using Source = std::function<ClusterSnapshot()>;

  // `token`: what requests have to bring; "": nothing. Throws unavailable without a port.
  explicit PageServer(Source source, std::string token = "");
  ~PageServer();
  PageServer(const PageServer&) = delete;

  // Of the page, with the token.
  const std::string& url() const { return url_; }
  // Nobody listens any more.
  void stop();

 private:
  std::unique_ptr<HttpServer> server_;
  std::string url_;
};

}  // namespace troupe::testing
