// In-process work passed between the actors of one task as an abstract handle, never serialised.
#pragma once

#include <cstdint>
#include <memory>

namespace troupe {

// Work that an actor carries for another. Its maker knows its type; the carrier at most runs it.
class LocalWork {
 public:
  virtual ~LocalWork() = default;
  virtual void run() {}
  // Whether run() has returned before the end, so that others get the thread: whoever runs the work calls run() again.
  virtual bool paused() const { return false; }
  // Works of one owner run in order even if one pauses. 0: of nobody; such work waits for all that came before.
  virtual std::uint64_t owner() const { return 0; }
};

using LocalHandle = std::shared_ptr<LocalWork>;

}  // namespace troupe
