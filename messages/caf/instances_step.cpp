// CAF's code for messages about graphs and steps (instances.hpp).
#define TROUPE_INSTANCES

#include <troupe/messages/caf/instances.hpp>

// CAF's definition of dispose() does not compile, and nothing calls it.
#define TROUPE_INSTANCE(T)                                         \
  template <>                                                      \
  void caf::mailbox_element_vals<troupe::T>::dispose() noexcept {} \
  TROUPE_MESSAGE_CLASSES(, troupe::T)

TROUPE_STEP_MESSAGES(TROUPE_INSTANCE)
