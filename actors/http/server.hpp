// An HTTP/1.1 server, on libmicrohttpd: a thread that waits for all connections, and a few that work on requests. With
// certificates (TlsFiles) both sides show one, as on the wire.
//
// Nobody holds it up: a connection that has not sent a whole request within `request_deadline`, or not taken its answer
// within `answer_deadline`, however it drips, is cut; of too many connections, of all or of one address, the oldest
// idle one goes, or the oldest that takes an answer; requests beyond `max_waiting` are answered with 503; and what
// `prompt_paths` and `pages` have is answered while all workers are busy.
//
// Raises the limit of this process's descriptors to the most that it may have.
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
  static HttpAnswer of(const Error& error);  // the status that fits its code; {"error":"..."}
};

class HttpServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;  // 0: any free one
    TlsFiles tls;
    std::string token;  // asked for by all paths but `open_paths`; "": by none, and only as localhost can it be asked
    std::set<std::string> open_paths;
    // Answered by the thread that waits for connections: their handlers return at once.
    std::set<std::string> prompt_paths;
    std::map<std::string, HttpAnswer> pages;     // by path: to anybody, always the same
    std::map<std::string, std::string> headers;  // of every answer
    unsigned workers = 4;
    std::size_t max_body = 4096;  // bytes of a request's body
    std::size_t max_waiting = 64;
    std::size_t max_connections = 16384;  // and at most half of the descriptors; three quarters of them of one address
    // From the connection, or the last answer, to the end of a request.
    std::chrono::milliseconds request_deadline{10000};
    // From the beginning of an answer to its end.
    std::chrono::milliseconds answer_deadline{120000};
  };
  // Any thread, several at once; what it throws becomes an answer.
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;

  // Listens. Throws unavailable, naming the address; what wire::TlsContext throws of the files.
  HttpServer(Options options, Handler handler);
  ~HttpServer();  // ends its threads, once running handlers have returned
  HostPort address() const;
  // From now on this token is asked for.
  void set_token(std::string token);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The codes of errors and the statuses of HTTP.
int http_status_of(Code code);
Code code_of_http_status(int status);

}  // namespace troupe
