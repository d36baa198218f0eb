#include "troupe/actors/wire/ask.hpp"

#include <poll.h>

#include <algorithm>

#include <troupe/messages/body_codec.hpp>
#include <troupe/messages/ids.hpp>

namespace troupe::wire {
namespace {

// One connection with a deadline.
class Caller {
 public:
  Caller(const Asking& whom, Clock::time_point deadline)
      : address_(resolve(whom.host, whom.port)), deadline_(deadline) {
    Fd socket = start_connect(address_);
    if (!socket) fail(Code::unavailable, "no free file descriptor");
    wait_for(socket, POLLOUT);
    if (const int code = connect_result(socket); code != 0) fail(Code::unavailable, "{}", errno_text(code));
    channel_ = whom.tls ? whom.tls->channel(std::move(socket), true) : plain_channel(std::move(socket));
    finish([&] { return channel_->set_up(); });
  }

  void authenticate(const Asking& whom) {
    // Everybody knows a token that is not secret, and cluster files name the task by different addresses.
    Authentication::Local self{.task = {"observer", 0},
                               .incarnation = Incarnation{random_id()},
                               .purpose = Authentication::Purpose::ask,
                               .address = whom.token.empty() ? std::string() : address_.text,
                               .exported = channel_->exported()};
    Authentication authentication =
        Authentication::dial(std::make_shared<const TokenKey>(whom.token, whom.cluster), std::move(self), {"asked", 0});
    finish([&] { return wire::authenticate(*channel_, authentication); });
  }

  void send(std::string_view text) {
    finish([&] {
      while (!text.empty()) {
        const auto n = write_some(*channel_, text);
        if (!n) return Channel::SetUp::wants_write;
        text.remove_prefix(*n);
      }
      return channel_->flushed() ? Channel::SetUp::done : Channel::SetUp::wants_write;
    });
  }
  std::string receive(std::size_t bytes) {
    std::string out(bytes, '\0');
    std::span<char> left(out);
    finish([&] {
      while (!left.empty()) {
        const auto n = read_some(*channel_, left);
        if (!n) return Channel::SetUp::wants_read;
        if (*n == 0) fail(Code::unavailable, "the task closed the connection without an answer");
        left = left.subspan(*n);
      }
      return Channel::SetUp::done;
    });
    return out;
  }

 private:
  void wait_for(const Fd& socket, short events) {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
      if (left <= 0) fail(Code::deadline_exceeded, "no answer from the task; it may not have joined its cluster yet");
      pollfd waiting{socket.get(), events, 0};
      if (::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left, 60000))) > 0) return;
    }
  }
  template <class Step>
  void finish(const Step& step) {
    for (;;) switch (step()) {
        case Channel::SetUp::done:
          return;
        case Channel::SetUp::wants_read:
          wait_for(channel_->socket(), POLLIN);
          break;
        case Channel::SetUp::wants_write:
          wait_for(channel_->socket(), POLLOUT);
          break;
      }
  }
  const Address address_;
  const Clock::time_point deadline_;
  std::unique_ptr<Channel> channel_;
};

}  // namespace

std::string ask(const Asking& whom, const std::string& question, Clock::time_point deadline) {
  Caller caller(whom, deadline);
  caller.authenticate(whom);
  std::string text;
  append_little_endian(text, static_cast<std::uint32_t>(question.size()));
  caller.send(text + question);
  const std::string head = caller.receive(8);
  const auto code = read_little_endian<std::uint32_t>(head.data());
  const auto size = read_little_endian<std::uint32_t>(head.data() + 4);
  if (size > kMaxAnswer || code > static_cast<std::uint32_t>(Code::unauthenticated))
    fail(Code::data_loss, "malformed answer");
  std::string answer = caller.receive(size);
  if (code != 0) throw Error(static_cast<Code>(code), std::move(answer));
  return answer;
}

void Questioned::received(std::string_view bytes) {
  in_ += bytes;
  if (in_.size() < expected_ || head_) return;
  expected_ = read_little_endian<std::uint32_t>(in_.data());
  if (expected_ == 0 || expected_ > kMaxQuestion) invalid_argument("a question must have 1 to {} bytes", kMaxQuestion);
  head_ = true;
  in_.clear();
}

void Questioned::answer(const Error& error, const std::string& text) {
  const std::string& said = error ? error.message() : text;
  append_little_endian(out_, static_cast<std::uint32_t>(error.code()));
  append_little_endian(out_, static_cast<std::uint32_t>(std::min(said.size(), kMaxAnswer)));
  out_.append(said, 0, kMaxAnswer);
  answered_ = true;
}

}  // namespace troupe::wire
