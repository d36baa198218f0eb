#include "troupe/actors/wire/channel.hpp"

#include <cerrno>

#include <troupe/messages/error.hpp>

namespace troupe::wire {
namespace {

class PlainChannel final : public Channel {
 public:
  explicit PlainChannel(Fd socket) : Channel(std::move(socket)) {}

  SetUp set_up() override { return SetUp::done; }
  ssize_t write(std::span<iovec> pieces) override {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t n = ::sendmsg(socket().get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    count_sent(n);
    return n;
  }
  bool flushed() override { return true; }
  ssize_t read(std::span<iovec> places) override {
    return ::readv(socket().get(), places.data(), static_cast<int>(places.size()));
  }
  bool buffered() const override { return false; }
};

}  // namespace

std::optional<std::size_t> read_some(Channel& channel, std::span<char> place) {
  for (;;) {
    iovec into{place.data(), place.size()};
    const ssize_t n = channel.read({&into, 1});
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    if (errno != EINTR) fail(Code::unavailable, "the connection broke: {}", errno_text(errno));
  }
}

std::optional<std::size_t> write_some(Channel& channel, std::span<const char> bytes) {
  for (;;) {
    iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
    const ssize_t n = channel.write({&piece, 1});
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    if (errno != EINTR) fail(Code::unavailable, "the connection broke: {}", errno_text(errno));
  }
}

std::unique_ptr<Channel> plain_channel(Fd socket) { return std::make_unique<PlainChannel>(std::move(socket)); }

}  // namespace troupe::wire
