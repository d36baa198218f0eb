// Gathers what one thread sends: while a Cork lives, frames that are not bulk wait in their connections; when it ends,
// those of one connection leave in one write. For code that handles many short messages in a row.
#pragma once

#include <memory>
#include <vector>

namespace troupe::wire {

class Connection;

class Cork {
 public:
  // Within another one on the same thread it does nothing.
  Cork();
  Cork(const Cork&) = delete;
  Cork& operator=(const Cork&) = delete;
  ~Cork();

  // Of the calling thread; null if it has none.
  static Cork* current();
  // `connection` has a frame that waits for the end of the cork.
  void add(const std::shared_ptr<Connection>& connection);
  // No frame waits for its end.
  bool empty() const { return waiting_.empty(); }

 private:
  std::vector<std::shared_ptr<Connection>> waiting_;
};

}  // namespace troupe::wire
