// What tests of the wire share: a handler that records, and a peer that speaks by hand.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "tests/patience.hpp"
#include <troupe/actors/wire/wire.hpp>

namespace troupe::wire {

using namespace std::chrono_literals;

inline const std::string kToken = "4d0bfe6a1c9e83257fa0d46b92e8c173";

inline const TaskName kA{"ps", 0};
inline const TaskName kB{"worker", 1};

inline WireOptions options_of(TaskName self) {
  WireOptions options;
  options.self = std::move(self);
  options.cluster = "demo";
  options.token = kToken;
  options.incarnation = Incarnation{random_id()};
  return options;
}

// A tensor of `size` bytes that differ from place to place.
inline Tensor pattern(std::size_t size, unsigned seed = 1) {
  Tensor tensor(DType::u8, Shape{static_cast<std::int64_t>(size)});
  unsigned state = seed * 2654435761u + 1;
  for (std::uint8_t& byte : tensor.mutable_values<std::uint8_t>()) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  return tensor;
}

inline Put put_of(Tensor tensor, std::uint32_t edge = 1, std::uint64_t step = 1) {
  return Put{{SessionId{7}, StepId{step}, EdgeId{edge}}, 0, std::move(tensor), {}};
}

// Records all events; wait() until a condition on them holds.
class Recorder : public WireHandler {
 public:
  struct Ended {
    TaskName name;
    Error reason;
  };

  void connected(PeerId peer, const Hello& hello) override {
    note([&] {
      peers.push_back(peer);
      hellos.push_back(hello);
    });
  }
  void frame(PeerId, Frame&& frame) override {
    if (on_frame) on_frame(frame);
    note([&] { frames.push_back(std::move(frame)); });
  }
  void disconnected(PeerId, const TaskName& name, const Error& reason) override {
    note([&] { ended.push_back({name, reason}); });
  }
  void dial_failed(const TaskName& name, const Error& reason) override {
    note([&] { failed.push_back({name, reason}); });
  }
  void refused(const std::string&, const Error& reason) override {
    note([&] { strangers.push_back(reason); });
  }
  void suspected(PeerId, const TaskName& name, bool suspect) override {
    if (suspect) note([&] { suspects.push_back(name); });
  }

  // True when `holds`; false after a minute.
  bool wait(const std::function<bool()>& holds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, ::troupe::testing::kPatience, holds);
  }
  bool wait_connected(std::size_t count = 1) {
    return wait([&, count] { return peers.size() >= count; });
  }
  bool wait_frames(std::size_t count) {
    return wait([&, count] { return frames.size() >= count; });
  }
  bool wait_ended(std::size_t count = 1) {
    return wait([&, count] { return ended.size() >= count; });
  }

  std::function<void(const Frame&)> on_frame;
  std::vector<PeerId> peers;
  std::vector<Hello> hellos;
  std::vector<Frame> frames;
  std::vector<Ended> ended;
  std::vector<Ended> failed;
  std::vector<Error> strangers;
  std::vector<TaskName> suspects;

 private:
  void note(const std::function<void()>& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
};

inline std::string chunk(FrameClass frame_class, int flags, std::string_view content) {
  std::string out{static_cast<char>(frame_class), static_cast<char>(flags), 0, 0};
  append_little_endian(out, static_cast<std::uint32_t>(content.size()));
  return out.append(content);
}

inline std::string whole_chunk(const Frame& frame, FrameClass frame_class = FrameClass::control) {
  return chunk(frame_class, kFirstChunk | kLastChunk, encode_to_string(frame));
}

// What a dialler says first.
inline std::string opening_of(const TaskName& from, const TaskName& to) {
  const Authentication dialler =
      Authentication::dial(std::make_shared<const TokenKey>(kToken, "demo"), {from, Incarnation{5}}, to);
  return {dialler.to_send().begin(), dialler.to_send().end()};
}

// A peer without a Wire: a blocking socket.
class RawPeer {
 public:
  RawPeer() : RawPeer(Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))) {}
  explicit RawPeer(Fd socket) : fd_(std::move(socket)) {
    ::fcntl(fd_.get(), F_SETFL, 0);  // it waits, also where it was accepted
    const timeval patience{20, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    reader_.allow_bulk(1ull << 40);
  }
  explicit RawPeer(std::uint16_t port) : RawPeer() { connect(port); }

  void connect(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    this->address = fmt::format("127.0.0.1:{}", port);
  }

  // False: the other side has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  // Both sides prove that they know the token, then this one says Hello. False: the other side did not like it.
  bool greet(const Hello& hello) {
    return prove({hello.from, hello.incarnation}, hello.to) && send(whole_chunk(hello));
  }
  bool prove(const Authentication::Peer& self, const TaskName& to) {
    return prove(Authentication::dial(key(), local(self), to));
  }
  // Of one that was called.
  bool prove_called(const Authentication::Peer& self) { return prove(Authentication::listen(key(), local(self))); }
  std::string token = kToken, cluster = "demo";
  // Where it has connected to, or is connected to.
  std::string address;
  void close() { fd_.reset(); }
  int fd() const { return fd_.get(); }

  // The next frame of type T; others are skipped. None if the connection ends before.
  template <class T>
  std::optional<T> next() {
    for (;;) {
      while (!frames_.empty()) {
        Frame frame = std::move(frames_.front());
        frames_.erase(frames_.begin());
        if (std::holds_alternative<Hello>(frame)) reader_.handshake_done();
        if (auto* wanted = std::get_if<T>(&frame)) return std::move(*wanted);
      }
      if (!receive()) return std::nullopt;
    }
  }
  // Does the other side say a byte before it closes?
  bool hears_anything() {
    char byte = 0;
    return ::recv(fd_.get(), &byte, 1, 0) > 0;
  }
  void end_sending() { ::shutdown(fd_.get(), SHUT_WR); }
  // So many, or fewer if the other side closes before.
  std::string bytes(std::size_t most) {
    std::string out(most, '\0');
    std::size_t size = 0;
    for (ssize_t n = 1; n > 0 && size < most; size += static_cast<std::size_t>(std::max<ssize_t>(n, 0)))
      n = ::recv(fd_.get(), out.data() + size, most - size, 0);
    out.resize(size);
    return out;
  }
  std::string all_that_comes() {
    std::string out;
    for (std::string part = bytes(4096); !part.empty(); part = bytes(4096)) out += part;
    return out;
  }
  // The other side has closed.
  bool at_end() {
    while (receive()) {
    }
    return true;
  }

 private:
  std::shared_ptr<const TokenKey> key() const { return std::make_shared<const TokenKey>(token, cluster); }
  Authentication::Local local(const Authentication::Peer& self) const {
    return {.task = self.task, .incarnation = self.incarnation, .address = address};
  }
  bool prove(Authentication authentication) {
    while (!authentication.done()) {
      const auto out = authentication.to_send();
      if (!send({out.data(), out.size()})) return false;
      authentication.sent(out.size());
      const auto in = authentication.to_receive();
      if (in.empty()) continue;
      const ssize_t n = ::recv(fd_.get(), in.data(), in.size(), 0);
      if (n <= 0) return false;
      authentication.received(static_cast<std::size_t>(n));
    }
    return true;
  }

  bool receive() {
    char buffer[65536];
    // Byte by byte until the Hello has come: what follows it is parsed under other rules.
    const ssize_t n = ::recv(fd_.get(), buffer, frames_seen_ ? sizeof buffer : 1, 0);
    if (n <= 0) return false;
    reader_.consume({buffer, static_cast<std::size_t>(n)}, [&](Frame&& frame) {
      frames_seen_ = true;
      frames_.push_back(std::move(frame));
    });
    return true;
  }

  Fd fd_;
  bool frames_seen_ = false;
  std::vector<Frame> frames_;
  ChunkReader reader_{Limits{}};
};

inline Hello hello_of(const TaskName& from, const TaskName& to, std::uint64_t incarnation = 5) {
  return Hello{kProtocolVersion, "demo", from, to, Incarnation{incarnation}, {}};
}

}  // namespace troupe::wire
