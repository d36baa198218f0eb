#include "troupe/actors/base/counted.hpp"

#include <caf/send.hpp>

namespace troupe {

void send_stray_to(const caf::weak_actor_ptr& actor, Stray what) {
  const auto target = caf::actor_cast<caf::actor>(actor);
  if (!target) return;
  switch (what) {
    case Stray::unknown:
      return caf::anon_send(target, std::string("of another protocol"));
    case Stray::error:
      return caf::anon_send(target, caf::make_error(caf::sec::runtime_error, "a stray error"));
    case Stray::exit:
      return caf::anon_send_exit(target, caf::exit_reason::user_shutdown);
    case Stray::kill:
      return caf::anon_send_exit(target, caf::exit_reason::kill);
  }
}

}  // namespace troupe
