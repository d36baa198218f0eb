// TCP sockets, non-blocking and close-on-exec, with errors that name the address.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <utility>

#include <troupe/messages/error.hpp>

namespace troupe::wire {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

// A resolved address.
struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  std::string text;  // as given: "127.0.0.1:7701"
};

// Formats "127.0.0.1:7701" or "[::1]:7701", as in cluster files.
std::string address_text(const std::string& host, std::uint16_t port);

// `host` is a numeric address or a name; resolving a name may block. Throws invalid_argument or unavailable.
Address resolve(const std::string& host, std::uint16_t port);

// Throws unavailable, naming the address and the reason ("address already in use").
Fd listen_on(const Address& address);
std::uint16_t port_of(const Fd& socket);

// Accepts the next connection and sets `from` to its address; returns no socket, and sets `error`, on failure.
Fd accept_from(const Fd& listener, std::string& from, int& error);

// Starts connecting. The socket becomes writable when done; connect_result() then returns 0 or an errno.
Fd start_connect(const Address& address);
int connect_result(const Fd& socket);

// Disables the delay of small frames, and sets small kernel buffers, because nothing can overtake data in them.
// `dialed`: the address that the still unconnected socket will dial; null if it was accepted.
void tune(const Fd& socket, const Address* dialed = nullptr);

// True if both ends of the connection have the same address or loopback addresses.
bool within_host(int socket);

// True if there is data, or the end, to read.
bool readable(int socket);

std::string errno_text(int number);

}  // namespace troupe::wire
