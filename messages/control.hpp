// Requests between the node actors of different tasks, over CAF's networking. Bodies are protobuf messages (proto/),
// because CAF's serialisation is not to be trusted with numbers (docs/design/caf.md). Who asks is known by the link
// over which a request comes (actors/network/control.hpp).
#pragma once

#include <cstdint>
#include <string>

#include <troupe/messages/error.hpp>

namespace troupe {

// What the one who asks has, a proto::Welcome; beside it travels the asker's node. Reply: the proto::Welcome of the one
// asked.
struct HelloRequest {
  std::string welcome;
};

// A proto::RegisterGraph, of the client that sends it. Reply: empty.
struct RegisterGraphRequest {
  std::string body;
};

// Ends a session on the task: its graphs, variables and steps. Only its client may. Reply: empty.
struct CloseSessionRequest {
  std::uint64_t session = 0;
};

// What the task's shard knows of a version of its parameters: what went into it, and what came for it and did not.
// Within a task. Reply: text.
struct ProvenanceRequest {
  using local_message = void;
  std::uint64_t version = 0;
};

struct Reply {
  std::uint8_t code = 0;
  std::string message;
  std::string body;

  static Reply of(std::string body) { return {0, {}, std::move(body)}; }
  static Reply of(const Error& error) { return {static_cast<std::uint8_t>(error.code()), error.message(), {}}; }
  Error error() const { return Error(static_cast<Code>(code), message); }
};

}  // namespace troupe
