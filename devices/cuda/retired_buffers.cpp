#include "troupe/devices/cuda/retired_buffers.hpp"

#include <utility>

namespace troupe {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20, kMostBuffers = 256;

class RetiringBuffer final : public Buffer {
 public:
  RetiringBuffer(BufferRef memory, std::shared_ptr<RetiredBuffers> retired)
      : Buffer(memory->data(), memory->size(), memory->space()),
        memory_(std::move(memory)),
        retired_(std::move(retired)) {}

 private:
  void release() override {
    retired_->add(std::move(memory_));
    delete this;
  }

  BufferRef memory_;
  std::shared_ptr<RetiredBuffers> retired_;
};

class KeepAlive final : public Buffer {
 public:
  explicit KeepAlive(std::shared_ptr<const void> object) : Buffer(nullptr, 0, {}), object_(std::move(object)) {}

 private:
  std::shared_ptr<const void> object_;
};

}  // namespace

void RetiredBuffers::add(BufferRef buffer) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  bytes_ += buffer->size();
  buffers_.push_back(std::move(buffer));
}

std::vector<BufferRef> RetiredBuffers::take() {
  const std::lock_guard lock(mutex_);
  bytes_ = 0;
  asked_ = false;
  return std::exchange(buffers_, {});
}

bool RetiredBuffers::should_take() {
  const std::lock_guard lock(mutex_);
  return (bytes_ > kMostBytes || buffers_.size() > kMostBuffers) && !std::exchange(asked_, true);
}

void RetiredBuffers::close() {
  const std::vector<BufferRef> last = take();
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

BufferRef retire_on_release(BufferRef memory, std::shared_ptr<RetiredBuffers> retired) {
  return BufferRef(new RetiringBuffer(std::move(memory), std::move(retired)));
}

BufferRef keep_alive(std::shared_ptr<const void> object) { return BufferRef(new KeepAlive(std::move(object))); }

}  // namespace troupe
