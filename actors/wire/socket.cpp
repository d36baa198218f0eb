#include "troupe/actors/wire/socket.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

namespace troupe::wire {
namespace {

constexpr int kUnsentBytes = 512 << 10;
// Within a host, the buffers of both sides together fit a core's second-level cache, and bytes are copied from there:
// measured up to 1.7 times faster than megabyte buffers.
constexpr int kLocalSendBuffer = 128 << 10;
constexpr int kLocalReceiveBuffer = 256 << 10;

void set_option(const Fd& socket, int level, int option, int value) {
  // Best effort: a socket without the option is slower but correct. Unix sockets (tests) have none of them.
  (void)::setsockopt(socket.get(), level, option, &value, sizeof value);
}

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == 127;
  return address.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

sockaddr_storage local_address(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address;
}

sockaddr_storage peer_address(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address;
}

// True if both ends are on one host: their addresses are equal or both loopback.
bool on_one_host(const sockaddr_storage& here, const sockaddr_storage& there) {
  if (is_loopback(here)) return true;
  if (here.ss_family != there.ss_family) return false;
  if (here.ss_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(here).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(there).sin_addr.s_addr;
  return here.ss_family == AF_INET6 && IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6&>(here).sin6_addr,
                                                          &reinterpret_cast<const sockaddr_in6&>(there).sin6_addr);
}

std::string text_of(const sockaddr_storage& address) {
  char host[INET6_ADDRSTRLEN] = "?";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
    return fmt::format("{}:{}", host, ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
  return fmt::format("[{}]:{}", host, ntohs(v6.sin6_port));
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Fd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

bool readable(int socket) {
  pollfd waiting{socket, POLLIN, 0};
  return ::poll(&waiting, 1, 0) > 0;
}

std::string errno_text(int number) { return std::generic_category().message(number); }

std::string address_text(const std::string& host, std::uint16_t port) {
  return fmt::format(fmt::runtime(host.find(':') == std::string::npos ? "{}:{}" : "[{}]:{}"), host, port);
}

Address resolve(const std::string& host, std::uint16_t port) {
  Address out;
  out.text = address_text(host, port);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); code != 0)
    fail(Code::unavailable, "cannot resolve address '{}': {}", out.text, ::gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::memcpy(&out.storage, found->ai_addr, found->ai_addrlen);
  out.size = found->ai_addrlen;
  return out;
}

Fd listen_on(const Address& address) {
  Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) fail(Code::unavailable, "cannot listen on {}: {}", address.text, errno_text(errno));
  set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0)
    fail(Code::unavailable, "cannot listen on {}: {}", address.text,
         errno == EADDRINUSE ? "the port is in use" : errno_text(errno));
  return fd;
}

std::uint16_t port_of(const Fd& socket) {
  const sockaddr_storage address = local_address(socket.get());
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Fd accept_from(const Fd& listener, std::string& from, int& error) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  Fd fd(::accept4(listener.get(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  error = fd ? 0 : errno;
  if (fd) from = text_of(address);
  return fd;
}

Fd start_connect(const Address& address) {
  Fd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  // connect_result() reports an immediate failure like a later one: the socket is then readable.
  if (fd) (void)::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size);
  return fd;
}

int connect_result(const Fd& socket) {
  int code = 0;
  socklen_t size = sizeof code;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &size) != 0) return errno;
  if (code != 0) return code;
  sockaddr_storage peer{};
  size = sizeof peer;
  return ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &size) == 0 ? 0 : errno;
}

bool within_host(int socket) { return on_one_host(local_address(socket), peer_address(socket)); }

void tune(const Fd& socket, const Address* dialed) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes);
  if (!on_one_host(local_address(socket.get()), dialed ? dialed->storage : peer_address(socket.get()))) return;
  set_option(socket, SOL_SOCKET, SO_SNDBUF, kLocalSendBuffer);
  set_option(socket, SOL_SOCKET, SO_RCVBUF, kLocalReceiveBuffer);
}

}  // namespace troupe::wire
