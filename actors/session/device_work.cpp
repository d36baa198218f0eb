#include "actors/session/device_work.hpp"

#include "actors/introspection/traced_message.hpp"
#include "messages/local_messages.hpp"

namespace troupe {

void DeviceWork::counted_in(std::shared_ptr<ActorRecord> record) {
  record_ = std::move(record);
  if (Trace& trace = record_->registry.trace(); trace.on()) trace_begin(trace);
}

void DeviceWork::run() {
  if (!record_ || !record_->counting) {
    execute();
    report();
    return;
  }
  // What execute() does last may release this object's owner, so the record is held here.
  const std::shared_ptr<ActorRecord> record = std::move(record_);
  record->begin(MessageKind::of<ExecuteSegment>(), note());
  std::uint64_t nodes = 0;
  {
    const TracedMessage traced(*record, MessageKind::of<ExecuteSegment>(), note(), nullptr);
    nodes = execute();
  }
  record->nodes_run.store(record->nodes_run.load(std::memory_order_relaxed) + nodes, std::memory_order_relaxed);
  record->end_of_message();
  report();
}

}  // namespace troupe
