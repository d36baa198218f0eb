#include "actors/wire/probe.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>

namespace troupe::wire {
namespace {

// `silent`: what it may be if nothing happens.
void wait_for(const Fd& socket, short events, const Address& address, Clock::time_point deadline,
              std::string_view silent = "") {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) fail(Code::deadline_exceeded, "{} does not answer{}", address.text, silent);
    pollfd waiting{socket.get(), events, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left, 60000))) > 0) return;
  }
}

void set_up(Channel& channel, const Address& address, Clock::time_point deadline) {
  for (;;) switch (channel.set_up()) {
      case Channel::SetUp::done:
        return;
      case Channel::SetUp::wants_read:
        wait_for(channel.socket(), POLLIN, address, deadline);
        break;
      case Channel::SetUp::wants_write:
        wait_for(channel.socket(), POLLOUT, address, deadline);
        break;
    }
}

}  // namespace

void probe(const TlsContext* tls, const Address& address, Clock::time_point deadline) {
  Fd fd = start_connect(address);
  if (!fd) fail(Code::unavailable, "no file descriptor is free");
  wait_for(fd, POLLOUT, address, deadline);
  if (const int code = connect_result(fd); code != 0) fail(Code::unavailable, "{}", errno_text(code));
  const auto channel = tls ? tls->channel(std::move(fd), true) : plain_channel(std::move(fd));
  set_up(*channel, address, deadline);
  // CAF speaks first; over TLS it waits for us to begin, or goes.
  const char* const hint = tls ? "" : ": if it speaks TLS, give this one --tls-cert, --tls-key and --tls-ca too";
  for (;;) {
    char byte = 0;
    iovec place{&byte, 1};
    const ssize_t n = channel->read({&place, 1});
    if (n > 0) return;
    if (n == 0) fail(Code::unavailable, "it closed the connection{}", hint);
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) fail(Code::unavailable, "{}{}", errno_text(errno), hint);
    wait_for(channel->socket(), POLLIN, address, deadline, hint);
  }
}

}  // namespace troupe::wire
