// Which actor of a task a frame is for.
#pragma once

#include <cstdint>

namespace troupe {

// Who takes a frame on the task that it comes to. Each kind of frame names its own as `kReceiver`: one that does not,
// or whose receiver does not take it (messages/caf/protocol.hpp), does not compile where frames are routed.
enum class Receiver : std::uint8_t {
  link,  // the connection itself: no actor sees it
  scheduler,
  rendezvous,
  collective,
  shard,  // this and those below: of the training job
  coordinator,
  worker,
  members,  // the shard and the worker, whichever the task has
};

}  // namespace troupe
