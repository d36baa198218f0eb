// Asks an HttpServer.
#pragma once

#include <chrono>
#include <string>

#include <troupe/actors/network/cluster_spec.hpp>
#include <troupe/actors/wire/tls.hpp>

namespace troupe {

// Where a server is, and what it asks for.
struct HttpTarget {
  HostPort address;
  std::string token;
  TlsFiles tls;
  // "http://127.0.0.1:7000/#token=...", or https. Without its certificates. Throws invalid_argument.
  static HttpTarget parse(const std::string& url);
  static bool is_url(const std::string& text);
  // The token stands behind '#', which browsers keep to themselves: the page sends it in a header.
  std::string url(const std::string& path = "/") const;
};

// Returns the body. `timeout` is for the connection and for the answer together, about. Throws deadline_exceeded,
// unavailable, or the error that was answered.
std::string http_get(const HttpTarget& target, const std::string& path, std::chrono::milliseconds timeout);
std::string http_post(const HttpTarget& target, const std::string& path, std::chrono::milliseconds timeout);

}  // namespace troupe
