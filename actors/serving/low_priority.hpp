// The priority of threads that look for versions and load them: those that answer requests do not wait for them.
#pragma once

#include <functional>

namespace troupe {

// Of the calling thread, and of those that it starts from then on; for good.
void lower_priority();
// Waits for the work, which a thread of its own does, and throws what it throws.
void at_low_priority(const std::function<void()>& work);

}  // namespace troupe
