#include "actors/wire/channel.hpp"

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

std::unique_ptr<Channel> plain_channel(Fd socket) { return std::make_unique<PlainChannel>(std::move(socket)); }

}  // namespace troupe::wire
