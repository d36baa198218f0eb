// An HTTP/1.1 server on libmicrohttpd: one or a few threads serve all connections. Requests are handled
//   * by a Handler on a few other threads: it may block; or
//   * by an AsyncHandler on the connection's thread: it returns at once, and answers then or later (reply.hpp).
// With certificates (TlsFiles) both sides present one, as on the wire, unless clients need none.
//
// No client can block it. A connection is cut if it has not sent a complete request within `request_deadline` or not
// read its answer within `answer_deadline`, even if data trickles. Beyond the connection limit, in total or per
// address, it closes the oldest idle connection, or else the oldest that is reading an answer. Requests beyond
// `max_waiting` get 503. `prompt_paths` and `pages` are answered even while all workers are busy. Bodies of requests
// take at most `memory` bytes together: one that does not fit gets 503, and is not kept while it arrives.
//
// Raises this process's descriptor limit to the maximum allowed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <troupe/actors/http/reply.hpp>
#include <troupe/actors/network/cluster_spec.hpp>
#include <troupe/actors/wire/tls.hpp>

namespace troupe {

struct HttpRequest {
  std::string path;  // "/snapshot"
  std::map<std::string, std::string> parameters;
  bool post = false;
  std::string body;
  std::string method;                          // "GET"
  std::map<std::string, std::string> headers;  // of Options::request_headers, those that the request has
};

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::map<std::string, std::string> headers{};  // beside those of the server
  static HttpAnswer of(const Error& error);      // status from the error's code; {"error":"..."}
};

class HttpServer {
 public:
  struct Options {
    std::string name = "the introspector";  // in errors
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;  // 0: any free port
    TlsFiles tls;
    std::string token;  // required on all paths except `open_paths`; "": not required, and the host must be localhost
    bool any_host = false;            // the host may be any, also without a token
    bool client_certificates = true;  // with `tls`, whose `ca` is not needed otherwise
    std::set<std::string> open_paths;
    // Answered by the connection thread: their handlers must return immediately.
    std::set<std::string> prompt_paths;
    std::map<std::string, HttpAnswer> pages;                       // by path: constant and public
    std::map<std::string, std::string> headers;                    // sent with every answer
    std::set<std::string> request_headers;                         // that handlers get, in this spelling
    unsigned threads = 1;                                          // that serve connections
    unsigned workers = 4;                                          // of a Handler
    std::size_t max_body = 4096;                                   // bytes of a request body
    std::size_t memory = std::numeric_limits<std::size_t>::max();  // bytes of all bodies
    std::size_t connection_memory = 8 << 10;  // bytes for a request's head, and read at once of its body
    std::size_t max_waiting = 64;
    std::size_t max_connections = 16384;  // at most half of the descriptors, and three quarters of these per address
    // From the connection, or the previous answer, to the end of a request.
    std::chrono::milliseconds request_deadline{10000};
    // From the beginning of an answer to its end.
    std::chrono::milliseconds answer_deadline{120000};
  };
  // Called on any thread, concurrently; an exception becomes the answer.
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;
  // Called on a connection's thread, for requests of any method: it must return immediately, or many clients wait. An
  // exception becomes the answer. `workers`, `max_waiting` and `prompt_paths` mean nothing.
  using AsyncHandler = std::function<void(HttpRequest, HttpReply)>;

  // Starts listening. Throws unavailable, naming the address, and errors of wire::TlsContext about the files.
  HttpServer(Options options, Handler handler);
  HttpServer(Options options, AsyncHandler handler);
  // Ends its threads once running handlers have returned. Requests without an answer get 503.
  ~HttpServer();
  HostPort address() const;
  // Requires this token from now on.
  void set_token(std::string token);
  // From now on listens no more, and closes each connection after its next answer. Waits until the requests in flight
  // are answered; false: `timeout` was too short.
  bool drain(std::chrono::nanoseconds timeout);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Conversions between error codes and HTTP statuses.
int http_status_of(Code code);
Code code_of_http_status(int status);

}  // namespace troupe
