// CAF's code for frames from other tasks (instances.hpp).
#define TROUPE_INSTANCES

#include <troupe/messages/caf/instances.hpp>

// CAF's definition of dispose() does not compile, and nothing calls it.
#define TROUPE_INSTANCE(T)                                                          \
  template <>                                                                       \
  void caf::mailbox_element_vals<troupe::Inbound<troupe::T>>::dispose() noexcept {} \
  TROUPE_MESSAGE_CLASSES(, troupe::Inbound<troupe::T>)

TROUPE_INBOUND_FRAMES(TROUPE_INSTANCE)
