// Transports the bytes of a connection: plain through its socket, through TLS on it (tls.hpp), or through shared memory
// beside it (shared_memory.hpp). Never blocks.
//
// Threads: call set_up() first; then write() and flushed() under the connection's write lock, and the rest on the wire
// thread, so that one thread may write while another reads.
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
  // Call again whenever the socket is ready for the returned need, until done: nothing is read or written before that.
  // Throws unauthenticated if either side rejects the other, unavailable if the peer is gone.
  virtual SetUp set_up() = 0;

  // Returns 32 bytes known only to the two ends of this connection, once it is set up; "" for a channel without
  // secrets.
  virtual std::string exported() const { return {}; }

  // Like sendmsg(): returns the number of bytes accepted, or -1 and errno.
  virtual ssize_t write(std::span<iovec> pieces) = 0;
  // Returns true if all bytes accepted by write() are in the socket, now at the latest. False: call again when the
  // socket is writable.
  virtual bool flushed() = 0;
  // Like readv(): returns the number of bytes read, 0 at the end, or -1 and errno. Throws unauthenticated if the peer
  // reports that it rejects this side.
  virtual ssize_t read(std::span<iovec> places) = 0;
  // True if there may be more to read that the socket does not report.
  virtual bool buffered() const = 0;

  // If true, the socket becomes writable for write(), or readable for everything that read() has, only after a call of
  // sleep(): poll buffered() and writable().
  virtual bool tells_by_memory() const { return false; }
  // Call after EAGAIN: returns whether write() may succeed now.
  virtual bool writable() const { return false; }
  // Call before the thread waits for the socket, which then becomes readable when there is something to read or, if
  // requested, room to write. Returns false if that is already the case.
  virtual bool sleep(bool /*to_write*/) { return true; }

  // Bytes accepted so far by the socket or shared memory. Any thread.
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

// Return the number of bytes read or written, or nullopt if they would block. A read of 0: the end. Throw unavailable
// if the connection is broken, and errors of Channel::read().
std::optional<std::size_t> read_some(Channel& channel, std::span<char> place);
std::optional<std::size_t> write_some(Channel& channel, std::span<const char> bytes);

}  // namespace troupe::wire
