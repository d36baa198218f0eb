// HTTP for those who look into a task: a small server on threads of its own, and what asks it. With certificates
// (TlsFiles) both sides show one, as on the wire.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "actors/cluster/cluster_spec.hpp"
#include "actors/wire/tls.hpp"

namespace troupe {

struct HttpRequest {
  std::string path;  // "/snapshot"
  std::map<std::string, std::string> parameters;
  bool post = false;
};

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  static HttpAnswer of(const Error& error);  // the status that fits its code; {"error":"..."}
};

class HttpServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;  // 0: any free one
    TlsFiles tls;
    std::string token;  // asked for by all paths but `open_paths`; "": by none, and only as localhost can it be asked
    std::map<std::string, bool> open_paths;
  };
  // Any thread, several at once; what it throws becomes an answer.
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;

  // Listens. Throws unavailable, naming the address.
  HttpServer(Options options, Handler handler);
  ~HttpServer();  // ends its threads, once running handlers have returned
  HostPort address() const;
  // From now on this token is asked for.
  void set_token(std::string token);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Where a server is, and what it asks for.
struct HttpTarget {
  HostPort address;
  std::string token;
  TlsFiles tls;
  // "http://127.0.0.1:7000/?token=...", or https. Without its certificates. Throws invalid_argument.
  static HttpTarget parse(const std::string& url);
  static bool is_url(const std::string& text);
  std::string url(const std::string& path = "/") const;
};

// Returns the body. `timeout` is for the connection and for the answer together, about. Throws deadline_exceeded,
// unavailable, or the error that was answered.
std::string http_get(const HttpTarget& target, const std::string& path, std::chrono::milliseconds timeout);
std::string http_post(const HttpTarget& target, const std::string& path, std::chrono::milliseconds timeout);

// What a server of the cluster's introspection asks for: derived from the cluster's token, which it does not tell. Who
// has it may look, and nothing else.
std::string introspection_token(const std::string& cluster_token);

}  // namespace troupe
