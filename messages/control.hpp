// Requests between the node actors of different tasks, over CAF's networking. Bodies are bytes: a frame (codec.hpp) or
// a protobuf message (proto/), because CAF's serialisation is not to be trusted with numbers (ARCHITECTURE.md). Each
// carries the token of the cluster (a Hello does too), as CAF lets anybody in who reaches the port.
#pragma once

#include <cstdint>
#include <string>

#include "messages/error.hpp"

namespace troupe {

// Who asks: an encoded Hello frame and what it has, a proto::Welcome; beside it travels the asker's node. Reply: the
// proto::Welcome of the one asked.
struct HelloRequest {
  std::string hello;
  std::string welcome;
};

// A proto::RegisterGraph. Reply: empty.
struct RegisterGraphRequest {
  std::string token;
  std::string body;
};

// Ends a session on the task: its graphs, variables and steps. Reply: empty.
struct CloseSessionRequest {
  std::string token;
  std::uint64_t session = 0;
};

// Where the task can be looked into. Reply: "http://HOST:PORT/?token=TOKEN", or https with the certificates of the
// cluster.
struct IntrospectorRequest {
  std::string token;
};

// What the task's shard knows of a version of its parameters: what went into it, and what came for it and did not.
// Reply: text.
struct ProvenanceRequest {
  std::string token;
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
