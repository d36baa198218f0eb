// An HTTP/1.1 server on libmicrohttpd: one thread serves all connections, a few handle requests. With certificates
// (TlsFiles) both sides present one, as on the wire.
//
// No client can block it. A connection is cut if it has not sent a complete request within `request_deadline` or not
// read its answer within `answer_deadline`, even if data trickles. Beyond the connection limit, in total or per
// address, it closes the oldest idle connection, or else the oldest that is reading an answer. Requests beyond
// `max_waiting` get 503. `prompt_paths` and `pages` are answered even while all workers are busy.
//
// Raises this process's descriptor limit to the maximum allowed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <troupe/actors/network/cluster_spec.hpp>
#include <troupe/actors/wire/tls.hpp>

namespace troupe {

struct HttpRequest {
  std::string path;  // "/snapshot"
  std::map<std::string, std::string> parameters;
  bool post = false;
  std::string body;
};

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  static HttpAnswer of(const Error& error);  // status from the error's code; {"error":"..."}
};

class HttpServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;  // 0: any free port
    TlsFiles tls;
    std::string token;  // required on all paths except `open_paths`; "": not required, and the host must be localhost
    std::set<std::string> open_paths;
    // Answered by the connection thread: their handlers must return immediately.
    std::set<std::string> prompt_paths;
    std::map<std::string, HttpAnswer> pages;     // by path: constant and public
    std::map<std::string, std::string> headers;  // sent with every answer
    unsigned workers = 4;
    std::size_t max_body = 4096;  // bytes of a request body
    std::size_t max_waiting = 64;
    std::size_t max_connections = 16384;  // at most half of the descriptors, and three quarters of these per address
    // From the connection, or the previous answer, to the end of a request.
    std::chrono::milliseconds request_deadline{10000};
    // From the beginning of an answer to its end.
    std::chrono::milliseconds answer_deadline{120000};
  };
  // Called on any thread, concurrently; an exception becomes the answer.
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;

  // Starts listening. Throws unavailable, naming the address, and errors of wire::TlsContext about the files.
  HttpServer(Options options, Handler handler);
  ~HttpServer();  // ends its threads once running handlers have returned
  HostPort address() const;
  // Requires this token from now on.
  void set_token(std::string token);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Conversions between error codes and HTTP statuses.
int http_status_of(Code code);
Code code_of_http_status(int status);

}  // namespace troupe
