#include "actors/session/device_work.hpp"

#include "messages/local_messages.hpp"

namespace troupe {

void DeviceWork::run() {
  if (!record_ || !record_->counting) {
    execute();
    report();
    return;
  }
  // What execute() does last may release this object's owner, so the record is held here.
  const std::shared_ptr<ActorRecord> record = std::move(record_);
  record->begin(MessageKind::of<ExecuteSegment>(), note());
  const std::uint64_t nodes = execute();
  record->nodes_run.store(record->nodes_run.load(std::memory_order_relaxed) + nodes, std::memory_order_relaxed);
  record->end_of_message();
  report();
}

}  // namespace troupe
