// How the bytes of a connection pass: plain through its socket, through TLS on it (tls.hpp), or through shared memory
// beside it (shared_memory.hpp). Never blocks.
//
// Threads: set_up() before all else; then write() and flushed() under the connection's write lock and the rest on the
// wire thread, so that one thread may write while another reads.
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
  // Call again whenever the socket is ready for the returned need, until it is done: nothing is read or written before
  // that. Throws unauthenticated if either side rejects the other, unavailable if the peer is gone.
  virtual SetUp set_up() = 0;

  // 32 bytes known only to the two ends of this connection, once it is set up; "" for a channel without secrets.
  virtual std::string exported() const { return {}; }

  // Like sendmsg(): the number of bytes taken, or -1 and errno.
  virtual ssize_t write(std::span<iovec> pieces) = 0;
  // All bytes taken by write() are in the socket, or go there now. False: call again when the socket is writable.
  virtual bool flushed() = 0;
  // Like readv(): the number of bytes read, 0 at the end, or -1 and errno. Throws unauthenticated if the peer reports
  // that it rejects this side.
  virtual ssize_t read(std::span<iovec> places) = 0;
  // There may be more to read that the socket does not report.
  virtual bool buffered() const = 0;

  // The socket becomes writable for write(), or readable for all that read() has, only after sleep() has asked for it:
  // poll buffered() and writable().
  virtual bool tells_by_memory() const { return false; }
  // After EAGAIN: write() may succeed now.
  virtual bool writable() const { return false; }
  // Call before the thread waits for the socket: it then becomes readable when there is something to read or, if
  // requested, room to write. False: there is something now.
  virtual bool sleep(bool /*to_write*/) { return true; }

  // Bytes taken so far by the socket, or shared memory. Any thread.
  std::uint64_t sent() const { return sent_.load(std::memory_order_relaxed); }

  const Fd& socket() const { return socket_; }
  // Call under the connection's write lock.
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

// The number of bytes read or taken; none: would block. A read of 0: the end. Throws unavailable if the connection is
// broken, and errors of Channel::read().
std::optional<std::size_t> read_some(Channel& channel, std::span<char> place);
std::optional<std::size_t> write_some(Channel& channel, std::span<const char> bytes);

}  // namespace troupe::wire
