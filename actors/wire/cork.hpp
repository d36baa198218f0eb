// Batches the sends of one thread: while a Cork lives, non-bulk frames wait in their connections; when it ends, each
// connection's frames leave in one write. For code that handles many short messages in a row.
#pragma once

#include <memory>
#include <vector>

namespace troupe::wire {

class Connection;

class Cork {
 public:
  // A nested Cork on the same thread does nothing.
  Cork();
  Cork(const Cork&) = delete;
  Cork& operator=(const Cork&) = delete;
  ~Cork();

  // The calling thread's Cork; null if none.
  static Cork* current();
  // Registers a connection with a frame that waits for the end of the cork.
  void add(const std::shared_ptr<Connection>& connection);
  // True if no frame waits for the end of the cork.
  bool empty() const { return waiting_.empty(); }

 private:
  std::vector<std::shared_ptr<Connection>> waiting_;
};

}  // namespace troupe::wire
