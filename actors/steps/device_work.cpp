#include "troupe/actors/steps/device_work.hpp"

#include <mutex>

#include <troupe/actors/base/traced_message.hpp>
#include <troupe/messages/local_messages.hpp>

namespace troupe {

void bring_out(Device& device, std::vector<Tensor> tensors, std::function<void(std::vector<Tensor>, Error)> done) {
  if (device.attributes().synchronous) return done(std::move(tensors), Error());
  struct Left {
    std::mutex mutex;
    std::vector<Tensor> tensors;
    Error error;
    std::size_t count = 1;  // the point in the stream, and the copies
    std::function<void(std::vector<Tensor>, Error)> done;
    void one(Error happened) {
      {
        const std::lock_guard lock(mutex);
        if (happened && !error) error = std::move(happened);
        if (--count > 0) return;
      }
      done(std::move(tensors), std::move(error));
    }
  };
  auto left = std::make_shared<Left>();
  left->tensors = std::move(tensors);
  left->done = std::move(done);
  const std::size_t all = left->tensors.size();
  for (std::size_t i = 0; i < all; ++i) {
    Tensor source;
    {
      const std::lock_guard lock(left->mutex);
      if (left->tensors[i].space().on_host()) continue;  // an invalid tensor too
      ++left->count;
      source = std::move(left->tensors[i]);
    }
    device.copy_to_host(std::move(source), [left, i](Tensor copy, Error error) {
      {
        const std::lock_guard lock(left->mutex);
        left->tensors[i] = std::move(copy);
      }
      left->one(std::move(error));
    });
  }
  const std::shared_ptr<Event> end = device.compute().record();
  end->on_reached([left, &device, end = end.get()] {
    Error error = device.failure();
    left->one(error ? std::move(error) : end->error());
  });
}

bool SharedDevice::wanted() {
  if (!stream_.others_wait(owner_)) {
    since_.reset();
    return false;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!since_) since_ = now;
  return now - *since_ >= kShare;
}

void DeviceWork::counted_in(std::shared_ptr<ActorRecord> record) {
  record_ = std::move(record);
  if (Trace& trace = record_->registry.trace(); trace.on()) trace_begin(trace);
}

void DeviceWork::run() {
  if (!record_ || !record_->counting) {
    execute();
    if (!paused()) report();
    return;
  }
  // Finishing execute() may release this object's owner, so the record is held here.
  std::shared_ptr<ActorRecord> record = std::move(record_);
  record->begin(MessageKind::of<ExecuteSegment>(), note());
  std::uint64_t nodes = 0;
  {
    const TracedMessage traced(*record, MessageKind::of<ExecuteSegment>(), note(), nullptr);
    nodes = execute();
  }
  record->nodes_run.store(record->nodes_run.load(std::memory_order_relaxed) + nodes, std::memory_order_relaxed);
  record->end_of_message();
  if (paused())
    record_ = std::move(record);
  else
    report();
}

}  // namespace troupe
