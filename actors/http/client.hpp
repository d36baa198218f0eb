// A client of HttpServer.
#pragma once

#include <chrono>
#include <string>

#include <troupe/actors/network/cluster_spec.hpp>
#include <troupe/actors/wire/tls.hpp>

namespace troupe {

// Address and credentials of a server.
struct HttpTarget {
  HostPort address;
  std::string token;
  TlsFiles tls;
  // Accepts "http://127.0.0.1:7000/#token=...", or https. Leaves the certificates unset. Throws invalid_argument.
  static HttpTarget parse(const std::string& url);
  static bool is_url(const std::string& text);
  // The token follows '#', which browsers do not send; the page sends it in a header.
  std::string url(const std::string& path = "/") const;
};

// Return the body. `timeout` covers the connection and the answer together, approximately. Throw deadline_exceeded,
// unavailable, or the error in the answer.
std::string http_get(const HttpTarget& target, const std::string& path, std::chrono::milliseconds timeout);
std::string http_post(const HttpTarget& target, const std::string& path, std::chrono::milliseconds timeout);

}  // namespace troupe
