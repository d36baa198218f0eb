#include "troupe/actors/http/client.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

// Last, because of its size.
#include <httplib.h>

#include <troupe/actors/http/server.hpp>
#include <troupe/messages/no_broken_pipe.hpp>

namespace troupe {

bool HttpTarget::is_url(const std::string& text) { return text.starts_with("http://") || text.starts_with("https://"); }

HttpTarget HttpTarget::parse(const std::string& url) {
  if (!is_url(url))
    invalid_argument("'{}' is not an introspector address: expected http://HOST:PORT/#token=TOKEN", url);
  const std::string rest = url.substr(url.find("://") + 3);
  HttpTarget out;
  out.address = HostPort::parse(rest.substr(0, rest.find_first_of("/?#")));
  constexpr std::string_view kToken = "token=";
  if (const auto at = rest.find(kToken); at != std::string::npos)
    out.token = rest.substr(at + kToken.size(), rest.find('&', at) - at - kToken.size());
  return out;
}

std::string HttpTarget::url(const std::string& path) const {
  return fmt::format("{}://{}{}{}", tls.given() ? "https" : "http", address.to_string(), path,
                     token.empty() ? "" : "#token=" + token);
}

namespace {

template <class Client>
std::string ask(Client& client, const HttpTarget& target, const std::string& path, std::chrono::milliseconds timeout,
                bool post) {
  const auto began = std::chrono::steady_clock::now();
  const auto connect = timeout / 3;
  client.set_connection_timeout(connect);
  client.set_read_timeout(timeout - connect);
  client.set_write_timeout(timeout - connect);
  const NoBrokenPipe guard;
  const httplib::Headers headers{{"Authorization", "Bearer " + target.token}};
  const httplib::Result result =
      post ? client.Post(path, headers, std::string(), "text/plain") : client.Get(path, headers);
  const std::string where = target.address.to_string();
  if (!result) {
    if (result.error() == httplib::Error::Connection) fail(Code::unavailable, "nobody listens at {}", where);
    const bool late = std::chrono::steady_clock::now() - began >= timeout - connect;
    if (result.error() == httplib::Error::Read && !late)
      fail(Code::unavailable, "{} closed the connection: only one side uses TLS, or the server is ending", where);
    if (result.error() == httplib::Error::Read || result.error() == httplib::Error::ConnectionTimeout)
      fail(Code::deadline_exceeded, "no answer within {:.1f} s", static_cast<double>(timeout.count()) / 1000);
    fail(Code::unavailable, "{}: {}", where, httplib::to_string(result.error()));
  }
  if (result->status == 200) return result->body;
  const auto json = nlohmann::json::parse(result->body, nullptr, false);
  throw Error(code_of_http_status(result->status),
              json.is_object() && json.contains("error") && json["error"].is_string()
                  ? json["error"].get<std::string>()
                  : fmt::format("{} answered with HTTP status {}", where, result->status));
}

std::string ask(const HttpTarget& target, const std::string& path, std::chrono::milliseconds timeout, bool post) {
  if (!target.tls.given()) {
    httplib::Client client(target.address.host, target.address.port);
    return ask(client, target, path, timeout, post);
  }
  // As on the wire: the CA proves membership; names in certificates are not compared with addresses.
  httplib::SSLClient client(target.address.host, target.address.port, target.tls.certificate, target.tls.key);
  if (!client.is_valid() || SSL_CTX_load_verify_locations(client.ssl_context(), target.tls.ca.c_str(), nullptr) != 1)
    invalid_argument("cannot use the certificate '{}', its key or the CA '{}'", target.tls.certificate, target.tls.ca);
  client.enable_server_certificate_verification(false);
  SSL_CTX_set_verify(client.ssl_context(), SSL_VERIFY_PEER, nullptr);
  return ask(client, target, path, timeout, post);
}

}  // namespace

std::string http_get(const HttpTarget& target, const std::string& path, std::chrono::milliseconds timeout) {
  return ask(target, path, timeout, false);
}
std::string http_post(const HttpTarget& target, const std::string& path, std::chrono::milliseconds timeout) {
  return ask(target, path, timeout, true);
}

}  // namespace troupe
