#include "tests/devices/storage/scripted_http_server.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include <troupe/messages/no_broken_pipe.hpp>

namespace troupe::testing {
namespace {

// A connection, maybe with TLS.
class Peer {
 public:
  Peer(int socket, SSL_CTX* tls) : socket_(socket), ssl_(tls ? SSL_new(tls) : nullptr, &SSL_free) {
    if (!ssl_) return;
    SSL_set_fd(ssl_.get(), socket);
    open_ = SSL_accept(ssl_.get()) == 1;
  }
  ~Peer() {
    if (ssl_ && open_) SSL_shutdown(ssl_.get());
    ::shutdown(socket_, SHUT_WR);
    ::close(socket_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  std::string read_head() {
    std::string out;
    char c = 0;
    while (open_ && !out.ends_with("\r\n\r\n") && read_byte(c)) out += c;
    return out;
  }
  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto n = ssl_ ? SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()))
                          : static_cast<int>(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
      if (n <= 0) return;  // the client ended it
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }

 private:
  bool read_byte(char& c) {
    return (ssl_ ? SSL_read(ssl_.get(), &c, 1) : static_cast<int>(::recv(socket_, &c, 1, 0))) == 1;
  }

  const int socket_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  bool open_ = true;
};

SeenRequest parse_head(const std::string& head) {
  SeenRequest out;
  const std::size_t first = head.find(' '), second = head.find(' ', first + 1);
  out.method = head.substr(0, first);
  out.target = head.substr(first + 1, second - first - 1);
  for (std::size_t at = head.find("\r\n") + 2; at < head.size();) {
    const std::size_t end = head.find("\r\n", at), colon = head.find(": ", at);
    if (end == at) break;
    std::string name = head.substr(at, colon - at);
    std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
    out.headers[name] = head.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  return out;
}

}  // namespace

std::string SeenRequest::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::string http_answer(int status, std::string_view headers, std::string_view body) {
  std::string out = fmt::format("HTTP/1.1 {} As Scripted\r\nConnection: close\r\n{}", status, headers);
  if (headers.find("Content-Length:") == headers.npos) out += fmt::format("Content-Length: {}\r\n", body.size());
  return out.append("\r\n").append(body);
}

std::string http_file_answer(const SeenRequest& request, std::string_view content, std::string_view headers) {
  std::string all = fmt::format("{}Accept-Ranges: bytes\r\n", headers);
  if (request.method == "HEAD")
    return http_answer(200, fmt::format("{}Content-Length: {}\r\n", all, content.size()), "");
  std::size_t first = 0, last = 0;
  if (std::sscanf(request.header("range").c_str(), "bytes=%zu-%zu", &first, &last) != 2)
    return http_answer(200, all, content);
  if (first >= content.size())
    return http_answer(416, fmt::format("{}Content-Range: bytes */{}\r\n", all, content.size()), "");
  last = std::min(last, content.size() - 1);
  all += fmt::format("Content-Range: bytes {}-{}/{}\r\n", first, last, content.size());
  return http_answer(206, all, content.substr(first, last - first + 1));
}

ScriptedHttpServer::ScriptedHttpServer(Script script, const std::string& certificate, const std::string& key)
    : script_(std::move(script)), tls_(nullptr, &SSL_CTX_free) {
  ::setenv("no_proxy", "127.0.0.1", 1);
  if (!certificate.empty()) {
    tls_.reset(SSL_CTX_new(TLS_server_method()));
    if (SSL_CTX_use_certificate_file(tls_.get(), certificate.c_str(), SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_use_PrivateKey_file(tls_.get(), key.c_str(), SSL_FILETYPE_PEM) != 1)
      throw std::runtime_error("no certificate");
  }
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, name, size) != 0 || ::listen(listener_, 64) != 0 || ::getsockname(listener_, name, &size) != 0)
    throw std::runtime_error("no port");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

ScriptedHttpServer::~ScriptedHttpServer() {
  ::shutdown(listener_, SHUT_RDWR);  // ends accept()
  thread_.join();
  ::close(listener_);
}

void ScriptedHttpServer::run() {
  const NoBrokenPipe guard;
  while (true) {
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return;
    const timeval patience{.tv_sec = 5};
    ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    serve(connection);
  }
}

void ScriptedHttpServer::serve(int connection) {
  Peer peer(connection, tls_.get());
  const std::string head = peer.read_head();
  if (!head.ends_with("\r\n\r\n")) return;
  const SeenRequest request = parse_head(head);
  int number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = static_cast<int>(seen_.size());
    seen_.push_back(request);
  }
  peer.write(script_(request, number));
}

std::string ScriptedHttpServer::address() const { return fmt::format("127.0.0.1:{}", port_); }
std::string ScriptedHttpServer::url(const std::string& target) const {
  return fmt::format("{}://{}{}", tls_ ? "https" : "http", address(), target);
}
std::vector<SeenRequest> ScriptedHttpServer::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}
void ScriptedHttpServer::forget() {
  const std::lock_guard lock(mutex_);
  seen_.clear();
}

}  // namespace troupe::testing
