#include "actors/introspection/http.hpp"

#include <fmt/core.h>
#include <openssl/hmac.h>
#include <pthread.h>

#include <csignal>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

// Last: it includes much.
#include <httplib.h>

#include "actors/introspection/json_text.hpp"
#include "actors/introspection/page.hpp"
#include "actors/wire/handshake.hpp"

namespace troupe {
namespace {

constexpr std::size_t kThreads = 4;

// A connection that the other side has closed gives SIGPIPE to who writes. The library ignores it in all of the
// process; here only the threads that serve and ask do.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    if (sigismember(&before_, SIGPIPE)) return;
    const timespec at_once{};
    while (sigtimedwait(&pipe_, nullptr, &at_once) > 0) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  sigset_t pipe_, before_;
};

std::unique_ptr<httplib::Server> make_server(const TlsFiles& tls) {
  struct sigaction before {};
  sigaction(SIGPIPE, nullptr, &before);
  std::unique_ptr<httplib::Server> server;
  if (tls.given())
    server = std::make_unique<httplib::SSLServer>(tls.certificate.c_str(), tls.key.c_str(), tls.ca.c_str());
  else
    server = std::make_unique<httplib::Server>();
  sigaction(SIGPIPE, &before, nullptr);
  return server;
}

int status_of(Code code) {
  switch (code) {
    case Code::invalid_argument:
    case Code::out_of_range:
      return 400;
    case Code::unauthenticated:
      return 401;
    case Code::permission_denied:
      return 403;
    case Code::not_found:
      return 404;
    case Code::failed_precondition:
    case Code::already_exists:
    case Code::aborted:
      return 409;
    case Code::unimplemented:
      return 501;
    case Code::unavailable:
      return 503;
    case Code::deadline_exceeded:
      return 504;
    default:
      return 500;
  }
}

Code code_of(int status) {
  switch (status) {
    case 400:
      return Code::invalid_argument;
    case 401:
      return Code::unauthenticated;
    case 403:
      return Code::permission_denied;
    case 404:
      return Code::not_found;
    case 409:
      return Code::failed_precondition;
    case 501:
      return Code::unimplemented;
    case 503:
      return Code::unavailable;
    case 504:
      return Code::deadline_exceeded;
    default:
      return Code::internal;
  }
}

}  // namespace

HttpAnswer HttpAnswer::of(const Error& error) {
  return {status_of(error.code()), "application/json", json_text({{"error", error.message()}})};
}

class HttpServer::Impl {
 public:
  Impl(Options given, Handler handle)
      : options(std::move(given)), handler(std::move(handle)), server(make_server(options.tls)) {
    if (!server->is_valid())
      fail(Code::invalid_argument, "the certificate '{}', its key or the CA '{}' cannot be used",
           options.tls.certificate, options.tls.ca);
    server->new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server->set_keep_alive_max_count(1);  // a viewer that stays keeps no thread
    server->set_read_timeout(std::chrono::seconds(2));
    server->set_write_timeout(std::chrono::seconds(5));
    server->set_payload_max_length(4096);
    server->set_tcp_nodelay(true);
    const auto serve = [this](const httplib::Request& request, httplib::Response& response) {
      this->serve(request, response);
    };
    server->Get(".*", serve);
    server->Post(".*", serve);
    // Without SO_REUSEPORT, which the library sets: two tasks are not to share a port.
    server->set_socket_options([](socket_t socket) {
      const int on = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    if (options.port == 0) {
      const int bound = server->bind_to_any_port(options.host);
      if (bound > 0) options.port = static_cast<std::uint16_t>(bound);
    } else if (!server->bind_to_port(options.host, options.port)) {
      fail(Code::unavailable,
           "the introspector cannot listen at {}: the port is in use, or the host is not of this machine",
           HostPort{options.host, options.port}.to_string());
    }
    if (options.port == 0)
      fail(Code::unavailable, "the introspector cannot listen at {}: it is not of this machine", options.host);
    thread = std::thread([this] {
      const NoBrokenPipe guard;  // the threads of the pool inherit it
      server->listen_after_bind();
    });
    while (!server->is_running()) std::this_thread::yield();  // stop() before that would be lost
  }
  ~Impl() {
    server->stop();
    thread.join();
  }

  void serve(const httplib::Request& request, httplib::Response& response) {
    const HttpAnswer answer = this->answer(request);
    response.status = answer.status;
    response.set_header("Cache-Control", "no-store");
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("Referrer-Policy", "no-referrer");
    response.set_header("Content-Security-Policy", std::string(kIntrospectionPagePolicy) + "; frame-ancestors 'none'");
    response.set_content(answer.body, answer.type);
  }
  HttpAnswer answer(const httplib::Request& request) {
    try {
      if (!allowed(request))
        fail(Code::unauthenticated,
             "this needs the token of the cluster's introspection: Authorization: Bearer TOKEN, or ?token=TOKEN; "
             "troupe-launch and --introspect-port print an address with it");
      HttpRequest plain{.path = request.path, .post = request.method == "POST"};
      for (const auto& [name, value] : request.params) plain.parameters.insert_or_assign(name, value);
      return handler(plain);
    } catch (...) {
      return HttpAnswer::of(current_error());
    }
  }
  bool allowed(const httplib::Request& request) {
    if (options.open_paths.contains(request.path)) return true;
    std::string wanted;
    {
      const std::lock_guard lock(mutex);
      wanted = options.token;
    }
    if (wanted.empty()) return speaks_to_this_machine(request);
    constexpr std::string_view kBearer = "Bearer ";
    const std::string header = request.get_header_value("Authorization");
    if (header.starts_with(kBearer)) return wire::equal_secrets(header.substr(kBearer.size()), wanted);
    return wire::equal_secrets(request.get_param_value("token"), wanted);
  }

  // Without a token: not what a browser asks for a page from elsewhere whose name leads here.
  static bool speaks_to_this_machine(const httplib::Request& request) {
    const std::string host = request.get_header_value("Host");
    const std::string name = host.substr(0, host.ends_with(']') ? host.size() : host.rfind(':'));
    return name == "localhost" || name == "127.0.0.1" || name == "[::1]";
  }

  Options options;
  Handler handler;
  std::mutex mutex;  // of the token
  std::unique_ptr<httplib::Server> server;
  std::thread thread;
};

HttpServer::HttpServer(Options options, Handler handler)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler))) {}
HttpServer::~HttpServer() = default;
HostPort HttpServer::address() const { return {impl_->options.host, impl_->options.port}; }

void HttpServer::set_token(std::string token) {
  const std::lock_guard lock(impl_->mutex);
  impl_->options.token = std::move(token);
}

bool HttpTarget::is_url(const std::string& text) { return text.starts_with("http://") || text.starts_with("https://"); }

HttpTarget HttpTarget::parse(const std::string& url) {
  if (!is_url(url))
    invalid_argument("'{}' is no address of an introspector: it would be http://HOST:PORT/?token=TOKEN", url);
  const std::string rest = url.substr(url.find("://") + 3);
  HttpTarget out;
  out.address = HostPort::parse(rest.substr(0, rest.find_first_of("/?")));
  constexpr std::string_view kToken = "token=";
  if (const auto at = rest.find(kToken); at != std::string::npos)
    out.token = rest.substr(at + kToken.size(), rest.find('&', at) - at - kToken.size());
  return out;
}

std::string HttpTarget::url(const std::string& path) const {
  return fmt::format("{}://{}{}{}", tls.given() ? "https" : "http", address.to_string(), path,
                     token.empty() ? "" : "?token=" + token);
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
      fail(Code::unavailable,
           "{} closed the connection: one of the two speaks TLS, and the other does not, or it is ending", where);
    if (result.error() == httplib::Error::Read || result.error() == httplib::Error::ConnectionTimeout)
      fail(Code::deadline_exceeded, "no answer within {:.1f} s", static_cast<double>(timeout.count()) / 1000);
    fail(Code::unavailable, "{}: {}", where, httplib::to_string(result.error()));
  }
  if (result->status == 200) return result->body;
  const auto json = nlohmann::json::parse(result->body, nullptr, false);
  throw Error(code_of(result->status), json.is_object() && json.contains("error") && json["error"].is_string()
                                           ? json["error"].get<std::string>()
                                           : fmt::format("{} answered with HTTP status {}", where, result->status));
}

std::string ask(const HttpTarget& target, const std::string& path, std::chrono::milliseconds timeout, bool post) {
  if (!target.tls.given()) {
    httplib::Client client(target.address.host, target.address.port);
    return ask(client, target, path, timeout, post);
  }
  // As on the wire: the CA stands for membership, names in certificates are not compared with addresses.
  httplib::SSLClient client(target.address.host, target.address.port, target.tls.certificate, target.tls.key);
  if (!client.is_valid() || SSL_CTX_load_verify_locations(client.ssl_context(), target.tls.ca.c_str(), nullptr) != 1)
    invalid_argument("the certificate '{}', its key or the CA '{}' cannot be used", target.tls.certificate,
                     target.tls.ca);
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

std::string introspection_token(const std::string& cluster_token) {
  constexpr std::string_view kPurpose = "troupe introspection";
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (cluster_token.empty() ||
      !HMAC(EVP_sha256(), cluster_token.data(), static_cast<int>(cluster_token.size()),
            reinterpret_cast<const unsigned char*>(kPurpose.data()), kPurpose.size(), digest, &size))
    return "";
  std::string out;
  for (unsigned i = 0; i < 16; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

}  // namespace troupe
