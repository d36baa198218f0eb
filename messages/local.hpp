// In-process work that travels between the actors of one task as an abstract handle, never serialised.
#pragma once

#include <memory>

namespace troupe {

// Something an actor carries for another. Whoever made it knows its type; the carrier at most runs it.
class LocalWork {
 public:
  virtual ~LocalWork() = default;
  virtual void run() {}
};

using LocalHandle = std::shared_ptr<LocalWork>;

}  // namespace troupe
