// CAF's networking between the tasks of a cluster, which carries requests between nodes. CAF has no port and no socket
// here: its bytes travel in Control frames over authenticated links (wire/wire.hpp) and pass a ControlGuard before CAF
// reads them.
//
// Thread-safe. Only node() may block for long.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include <troupe/actors/wire/wire.hpp>
#include <troupe/messages/caf/protocol.hpp>

namespace caf {
class actor_system;
class actor_system_config;
class node_id;
}  // namespace caf

namespace troupe {

// Call before creating the actor system.
void load_networking(caf::actor_system_config& config);

class Control {
 public:
  struct Config {
    caf::actor_system& system;
    NodeActor node;  // of this task
    std::function<Error(PeerId, const Frame&)> send;
    std::function<void(PeerId, const Error&)> close;  // ends an unusable link
  };
  explicit Control(Config config);
  ~Control();
  // Stops sending and closing links; further output of CAF is discarded.
  void end();

  // Reports an open link to the task. `dialled`: by this task, which will call node().
  void open(PeerId link, const TaskName& peer, bool dialled);
  void came(PeerId link, const std::string& bytes);
  void lost(PeerId link);

  // Returns the node at the other end of a link dialled by this task. Call once. Throws unavailable (the link is lost),
  // deadline_exceeded, failed_precondition (not a node of this version).
  NodeActor node(PeerId link, std::chrono::steady_clock::time_point deadline);
  // The task with this node; none without a link to it.
  std::optional<TaskName> task_of(const caf::node_id& node) const;

 private:
  class Scribe;
  struct Shared;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace troupe
