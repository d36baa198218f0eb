// In-process work passed between the actors of one task as an abstract handle, never serialised.
#pragma once

#include <memory>

namespace troupe {

// Work that an actor carries for another. Its maker knows its type; the carrier at most runs it.
class LocalWork {
 public:
  virtual ~LocalWork() = default;
  virtual void run() {}
};

using LocalHandle = std::shared_ptr<LocalWork>;

}  // namespace troupe
