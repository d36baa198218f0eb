// A child made by fork() has none of its parent's threads, so what the runtime began there never ends here.
#pragma once

namespace troupe::python {

// Comes before all that uses the runtime's threads. Throws failed_precondition in a child whose parent has called it
// before the fork.
void check_not_forked();
// Whether this is such a child: objects with threads are then left as they are.
bool is_forked();

}  // namespace troupe::python
