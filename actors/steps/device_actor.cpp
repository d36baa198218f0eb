#include "troupe/actors/steps/device_actor.hpp"

#include <troupe/actors/steps/device_work.hpp>
#include <troupe/devices/device.hpp>

namespace troupe {

DeviceActorImpl::behavior_type DeviceActorImpl::make_behavior() {
  return {
      [this](const ExecuteSegment& message) { put_on_stream(message, false); },
      [this](const Stop&) {
        stopped_.store(true);
        quit();
      },
  };
}

void DeviceActorImpl::enqueue(caf::mailbox_element_ptr element, caf::execution_unit* host) {
  const auto& content = element->content();
  // A stopped device handles nothing: CAF drops the message.
  if (stopped_.load() || !content.match_elements<ExecuteSegment>()) return Counted::enqueue(std::move(element), host);
  count_in();
  handle_at_once(*element, host, [&] { put_on_stream(content.get_as<ExecuteSegment>(0), true); });
}

void DeviceActorImpl::put_on_stream(const ExecuteSegment& message, bool by_sender) {
  auto work = std::static_pointer_cast<DeviceWork>(message.work);
  work->counted_in(shared_record());
  if (by_sender && work->borrowing.wanted && device_->compute().lend()) {
    work->borrowing.granted = true;
    return;
  }
  device_->compute().enqueue(std::move(work));
}

}  // namespace troupe
