// How the bytes of a connection pass: through its socket as they are, through TLS on it (tls.hpp), or beside it
// (shared_memory.hpp). Never waits.
//
// Threads: set_up() before all else; then write() and flushed() under the connection's write lock and the rest
// on the wire thread, so that one may write while another reads.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <troupe/actors/wire/socket.hpp>

namespace troupe::wire {

class Channel {
 public:
  virtual ~Channel() = default;

  enum class SetUp { done, wants_read, wants_write };
  // To be called again when the socket is ready for what it wants, until it is done: nothing is read or written
  // before that. Throws unauthenticated for a peer that is not to be trusted or does not trust us, unavailable
  // for one that is gone.
  virtual SetUp set_up() = 0;

  // 32 bytes that both ends of this connection know and nobody else, once it is set up; "" for a channel that keeps no
  // secrets.
  virtual std::string exported() const { return {}; }

  // As sendmsg(): how many bytes were taken, or -1 and errno.
  virtual ssize_t write(std::span<iovec> pieces) = 0;
  // All that write() has taken is in the socket, or goes there now. False: again when the socket is writable.
  virtual bool flushed() = 0;
  // As readv(): how many bytes have come, 0 at the end, or -1 and errno. Throws unauthenticated if the peer says
  // that it does not trust us.
  virtual ssize_t read(std::span<iovec> places) = 0;
  // There may be more to read, of which the socket says nothing.
  virtual bool buffered() const = 0;

  // The socket does not become writable for write(), nor readable for all that read() has, until sleep() has asked for
  // it: buffered() and writable() are to be looked at.
  virtual bool tells_by_memory() const { return false; }
  // After an EAGAIN: write() may take some now.
  virtual bool writable() const { return false; }
  // To be called before the thread waits for the socket, which becomes readable then when there is something to read
  // or, if that is wanted, to write. False: there is something now.
  virtual bool sleep(bool /*to_write*/) { return true; }

  // Bytes that the socket, or memory, has taken so far. Any thread.
  std::uint64_t sent() const { return sent_.load(std::memory_order_relaxed); }

  const Fd& socket() const { return socket_; }
  // To be called under the connection's write lock.
  void close() { socket_.reset(); }
  Fd release() { return std::move(socket_); }

 protected:
  explicit Channel(Fd socket) : socket_(std::move(socket)) {}
  void count_sent(ssize_t bytes) {
    if (bytes > 0) sent_.fetch_add(static_cast<std::uint64_t>(bytes), std::memory_order_relaxed);
  }

 private:
  Fd socket_;
  std::atomic<std::uint64_t> sent_{0};
};

std::unique_ptr<Channel> plain_channel(Fd socket);

// How many bytes have come, or were taken; none: not now. 0 have come: the end. Throws unavailable if the connection is
// broken, and what Channel::read() throws.
std::optional<std::size_t> read_some(Channel& channel, std::span<char> place);
std::optional<std::size_t> write_some(Channel& channel, std::span<const char> bytes);

}  // namespace troupe::wire
