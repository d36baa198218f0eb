// One HTTP request and its answer, by libcurl. Connections are kept and used again.
//
// TLS verifies the server's certificate and name. Proxies are those of the environment's http_proxy, https_proxy and
// no_proxy. What a server sends is not trusted: headers, redirects and bodies are bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/devices/storage/remote/http_options.hpp>

namespace troupe {

struct RemoteRequest {
  bool head = false;  // else GET
  std::string url{};
  std::string shown{};                 // names the file in errors: without secrets
  std::vector<std::string> headers{};  // "Name: value"
  bool follow_redirects = true;
  std::span<std::byte> out{};  // the body of status 206 goes there
  std::size_t most_text = 0;   // bytes kept of the body of other statuses
};

struct RemoteAnswer {
  enum class Broken { no, passing, lasting };                 // passing: another attempt may succeed
  int status = 0;                                             // 0: none came, or not all of its headers
  std::map<std::string, std::string, std::less<>> headers{};  // of the last response; names in lower case
  std::size_t received = 0;                                   // bytes in RemoteRequest::out
  std::string text{};                                         // the body, of other statuses than 206
  bool too_long = false;  // the body is longer than its place: the rest was not read
  Broken broken = Broken::no;
  std::string problem{};  // why it broke
  std::chrono::seconds retry_after{0};

  std::string_view header(std::string_view name) const;  // "": none
  std::optional<std::uint64_t> content_length() const;
};

// Thread-safe.
class HttpTransport {
 public:
  explicit HttpTransport(const HttpOptions& options);
  ~HttpTransport();
  // Does not throw for what the network or the server does.
  RemoteAnswer send(const RemoteRequest& request);

 private:
  class Connections;
  HttpOptions options_;
  std::unique_ptr<Connections> connections_;
};

}  // namespace troupe
