// The actor of a task that receives a frame.
#pragma once

#include <cstdint>

namespace troupe {

// Receiver of a frame on its destination task. Each frame kind names its own as `kReceiver`: one that does not, or
// whose receiver does not handle it (messages/caf/protocol.hpp), fails to compile where frames are routed.
enum class Receiver : std::uint8_t {
  link,  // the connection itself: no actor sees it
  scheduler,
  rendezvous,
  collective,
  input,    // of an input task
  feed,     // of a worker: takes what input tasks make
  replica,  // of a task that has models
  router,   // of a task that sends requests to replicas
  shard,    // this and the ones below belong to the training job
  coordinator,
  worker,
  members,  // the shard and the worker, whichever the task has
};

}  // namespace troupe
