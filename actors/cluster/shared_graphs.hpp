// Graphs that a session hands to the node of its own task as they are: their constants are neither copied nor limited
// in size. They wait here until the node takes them, which is told by a request without graphs. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <troupe/graph/graph.hpp>
#include <troupe/messages/ids.hpp>

namespace troupe {

class SharedGraphs {
 public:
  using Parts = std::map<std::string, std::shared_ptr<const Graph>>;  // by device

  void put(SessionId session, GraphId graph, Parts parts) {
    const std::lock_guard lock(mutex_);
    waiting_[{session, graph}] = std::move(parts);
  }
  // Takes them out. None: empty.
  Parts take(SessionId session, GraphId graph) {
    const std::lock_guard lock(mutex_);
    auto taken = waiting_.extract({session, graph});
    return taken ? std::move(taken.mapped()) : Parts{};
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<SessionId, GraphId>, Parts> waiting_;
};

}  // namespace troupe
