// Requests between the node actors of different tasks, over CAF's networking. Bodies are protobuf messages (proto/),
// because CAF's serialisation of numbers is not reliable (docs/design/caf.md). The link over which a request comes
// identifies the caller (actors/network/control.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <troupe/messages/error.hpp>
#include <troupe/messages/tensor.hpp>

namespace troupe {

// The caller's proto::Welcome, sent along with the caller's node. Reply: the callee's proto::Welcome.
struct HelloRequest {
  std::string welcome;
};

// A proto::RegisterGraph from its client. Reply: empty.
struct RegisterGraphRequest {
  std::string body;
  // Within a process: large constants, which the body counts instead of having them. Null where it has them.
  std::shared_ptr<const std::vector<Tensor>> tensors{};
  // Likewise: a VariableStore (scheduler/run/executor.hpp) with the session's variables. Null: it has its own.
  std::shared_ptr<void> variables{};
};

// Ends a session on the task: its graphs, variables and steps. Only its client may request it. Reply: empty.
struct CloseSessionRequest {
  std::uint64_t session = 0;
};

// Forgets the variables of a container (SessionOptions::container) on the task; sessions that use them keep them until
// they end. Any task of the cluster may request it. Reply: empty.
struct ResetContainerRequest {
  std::string container;
};

// Asks the task's shard about a version of its parameters: the gradients applied, and those received and not applied.
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
