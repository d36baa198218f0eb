#include "troupe/messages/caf/types.hpp"

#include <caf/actor_system_config.hpp>

namespace troupe {

void register_message_types(caf::actor_system_config& config) {
  config.add_message_type<HelloRequest>("troupe::HelloRequest");
  config.add_message_type<RegisterGraphRequest>("troupe::RegisterGraphRequest");
  config.add_message_type<CloseSessionRequest>("troupe::CloseSessionRequest");
  config.add_message_type<ResetContainerRequest>("troupe::ResetContainerRequest");
  config.add_message_type<Reply>("troupe::Reply");
}

}  // namespace troupe
