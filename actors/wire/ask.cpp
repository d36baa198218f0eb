#include "actors/wire/ask.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "messages/ids.hpp"

namespace troupe::wire {
namespace {

void append_number(std::string& out, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> (8 * i));
}
std::uint32_t number(std::string_view bytes) {
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < 4; ++i) out |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return out;
}

// One connection, until a deadline.
class Caller {
 public:
  Caller(const Asking& whom, Clock::time_point deadline)
      : address_(resolve(whom.host, whom.port)), deadline_(deadline) {
    Fd socket = start_connect(address_);
    if (!socket) fail(Code::unavailable, "no file descriptor is free");
    wait_for(socket, POLLOUT);
    if (const int code = connect_result(socket); code != 0) fail(Code::unavailable, "{}", errno_text(code));
    channel_ = whom.tls ? whom.tls->channel(std::move(socket), true) : plain_channel(std::move(socket));
    finish([&] { return channel_->set_up(); });
  }

  void authenticate(const Asking& whom) {
    // A token that is no secret is known to all; so is what others call the task.
    Authentication::Local self{.task = {"observer", 0},
                               .incarnation = Incarnation{random_id()},
                               .purpose = Authentication::Purpose::ask,
                               .address = whom.token.empty() ? std::string() : address_.text,
                               .exported = channel_->exported()};
    Authentication authentication =
        Authentication::dial(std::make_shared<const TokenKey>(whom.token, whom.cluster), std::move(self), {"asked", 0});
    while (!authentication.done()) {
      while (!authentication.to_send().empty()) {
        const auto out = authentication.to_send();
        authentication.sent(write({out.data(), out.size()}));
      }
      flush();
      if (authentication.done()) break;
      const auto in = authentication.to_receive();
      const std::size_t n = read(in);
      if (n == 0) throw authentication.left();
      authentication.received(n);
    }
  }

  void send(std::string_view text) {
    while (!text.empty()) text.remove_prefix(write(text));
    flush();
  }
  std::string receive(std::size_t bytes) {
    std::string out(bytes, '\0');
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t n = read(std::span(out).subspan(done));
      if (n == 0) fail(Code::unavailable, "it closed the connection without an answer");
      done += n;
    }
    return out;
  }

 private:
  void wait_for(const Fd& socket, short events) {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
      if (left <= 0) fail(Code::deadline_exceeded, "it does not answer; it may not have joined its cluster yet");
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
  void flush() {
    finish([&] { return channel_->flushed() ? Channel::SetUp::done : Channel::SetUp::wants_write; });
  }
  std::size_t write(std::string_view bytes) {
    for (;;) {
      iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
      const ssize_t n = channel_->write({&piece, 1});
      if (n >= 0) return static_cast<std::size_t>(n);
      retry(POLLOUT);
    }
  }
  std::size_t read(std::span<char> place) {
    for (;;) {
      iovec into{place.data(), place.size()};
      const ssize_t n = channel_->read({&into, 1});
      if (n >= 0) return static_cast<std::size_t>(n);
      retry(POLLIN);
    }
  }
  void retry(short events) {
    if (errno == EINTR) return;
    if (errno != EAGAIN && errno != EWOULDBLOCK) fail(Code::unavailable, "{}", errno_text(errno));
    wait_for(channel_->socket(), events);
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
  append_number(text, static_cast<std::uint32_t>(question.size()));
  caller.send(text + question);
  const std::string head = caller.receive(8);
  const std::uint32_t code = number(head), size = number(std::string_view(head).substr(4));
  if (size > kMaxAnswer || code > static_cast<std::uint32_t>(Code::unauthenticated))
    fail(Code::data_loss, "its answer is malformed");
  std::string answer = caller.receive(size);
  if (code != 0) throw Error(static_cast<Code>(code), std::move(answer));
  return answer;
}

void Questioned::received(std::string_view bytes) {
  in_ += bytes;
  if (in_.size() < expected_ || head_) return;
  expected_ = number(in_);
  if (expected_ == 0 || expected_ > kMaxQuestion) invalid_argument("a question has 1 to {} bytes", kMaxQuestion);
  head_ = true;
  in_.clear();
}

void Questioned::answer(const Error& error, const std::string& text) {
  const std::string& said = error ? error.message() : text;
  append_number(out_, static_cast<std::uint32_t>(error.code()));
  append_number(out_, static_cast<std::uint32_t>(std::min(said.size(), kMaxAnswer)));
  out_.append(said, 0, kMaxAnswer);
  answered_ = true;
}

}  // namespace troupe::wire
