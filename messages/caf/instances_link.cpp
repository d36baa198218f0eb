// CAF's code for messages about links and peers (instances.hpp).
#define TROUPE_INSTANCES

#include <troupe/messages/caf/instances.hpp>

// CAF's definition of dispose() does not compile, and nothing calls it.
#define TROUPE_INSTANCE(T)                                         \
  template <>                                                      \
  void caf::mailbox_element_vals<troupe::T>::dispose() noexcept {} \
  TROUPE_MESSAGE_CLASSES(, troupe::T)

TROUPE_LINK_MESSAGES(TROUPE_INSTANCE)
