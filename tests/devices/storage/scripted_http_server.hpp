// A web server that answers what a test says, faults included: raw bytes, after which it closes the connection.
#pragma once

#include <openssl/ssl.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace troupe::testing {

struct SeenRequest {
  std::string method, target;                  // "GET", "/data?a=1"
  std::map<std::string, std::string> headers;  // names in lower case
  std::string header(const std::string& name) const;
  bool operator==(const SeenRequest&) const = default;
};

// "HTTP/1.1 STATUS ...", with Content-Length unless the headers have one; each header ends with "\r\n".
std::string http_answer(int status, std::string_view headers, std::string_view body);
// What a right server answers to HEAD and GET of a file, with and without Range.
std::string http_file_answer(const SeenRequest& request, std::string_view content, std::string_view headers = "");

// Answers one request of a connection at a time, in a thread of its own.
class ScriptedHttpServer {
 public:
  using Script = std::function<std::string(const SeenRequest& request, int number)>;  // number: from 0

  // With a certificate and its key (files) by TLS.
  explicit ScriptedHttpServer(Script script, const std::string& certificate = "", const std::string& key = "");
  ~ScriptedHttpServer();
  ScriptedHttpServer(const ScriptedHttpServer&) = delete;
  ScriptedHttpServer& operator=(const ScriptedHttpServer&) = delete;

  std::string address() const;  // "127.0.0.1:PORT"
  std::string url(const std::string& target) const;
  std::vector<SeenRequest> seen() const;
  void forget();  // what was seen; numbers begin at 0 again

 private:
  void run();
  void serve(int connection);

  const Script script_;
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> tls_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<SeenRequest> seen_;
  std::thread thread_;
};

}  // namespace troupe::testing
