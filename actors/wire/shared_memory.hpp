// Memory shared by two processes of one host, and a channel through it: one side copies bytes in, the other copies them
// out, without the kernel. The socket stays: it wakes sleepers, and its end is the end of the connection.
//
// One process creates the memory and sends its place to the other over their connection; only processes of the same
// user can open it. Neither trusts the other's writes: bytes are copied out before they are examined, and positions are
// checked. Neither can shrink the memory.
#pragma once

#include <string>

#include <troupe/actors/wire/channel.hpp>

namespace troupe::wire {

class SharedMemory {
 public:
  struct Area;

  // Throws unavailable if the system does not support it.
  static SharedMemory create();
  // `place` comes from the process that created the memory. Throws unavailable for a place that this process cannot
  // access, data_loss for an invalid one.
  static SharedMemory open(const std::string& place);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  // The argument for open(), valid while this object or its channel lives.
  std::string place() const;

 private:
  friend class SharedMemoryChannel;
  SharedMemory(Fd file, bool creator);

  Fd file_;
  bool creator_;
  Area* area_;
};

// `socket`: an open connection; from now on only this channel sends on it.
std::unique_ptr<Channel> shared_memory_channel(Fd socket, SharedMemory memory);

}  // namespace troupe::wire
