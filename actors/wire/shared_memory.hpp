// Memory that two processes of one host share, and a channel that passes bytes through it: copied in by the one and out
// by the other, without the kernel. The socket stays: it wakes who sleeps, and its end is the end of the connection.
//
// One process makes the memory and tells the other its place over a connection of theirs; nobody but processes of the
// same user finds it there. Neither trusts what the other writes: bytes are copied out before they are looked at, and
// positions are checked. Neither can shrink the memory.
#pragma once

#include <string>

#include <troupe/actors/wire/channel.hpp>

namespace troupe::wire {

class SharedMemory {
 public:
  struct Area;

  // Throws unavailable: there is no memory of that kind.
  static SharedMemory create();
  // Of the process that made it. Throws unavailable for a place that this process cannot see, data_loss for a wrong
  // one.
  static SharedMemory open(const std::string& place);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  // For open(), as long as this object or its channel lives.
  std::string place() const;

 private:
  friend class SharedMemoryChannel;
  SharedMemory(Fd file, bool creator);

  Fd file_;
  bool creator_;
  Area* area_;
};

// `socket`: of an open connection, on which nothing but this channel sends from now on.
std::unique_ptr<Channel> shared_memory_channel(Fd socket, SharedMemory memory);

}  // namespace troupe::wire
