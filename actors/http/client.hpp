// A client of HttpServer.
#pragma once

#include <chrono>
#include <string>

#include <troupe/actors/network/cluster_spec.hpp>
#include <troupe/actors/wire/tls.hpp>

namespace troupe {

// The address and credentials of a server.
struct HttpTarget {
  HostPort address;
  std::string token;
  TlsFiles tls;
  // "http://127.0.0.1:7000/#token=...", or https. Certificates are not set. Throws invalid_argument.
  static HttpTarget parse(const std::string& url);
  static bool is_url(const std::string& text);
  // The token follows '#', a part that browsers do not send: the page sends it in a header.
  std::string url(const std::string& path = "/") const;
};

// Returns the body. `timeout` covers the connection and the answer together, approximately. Throws deadline_exceeded,
// unavailable, or the error in the answer.
std::string http_get(const HttpTarget& target, const std::string& path, std::chrono::milliseconds timeout);
std::string http_post(const HttpTarget& target, const std::string& path, std::chrono::milliseconds timeout);

}  // namespace troupe
