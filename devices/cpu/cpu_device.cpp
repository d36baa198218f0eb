#include "troupe/devices/cpu/cpu_device.hpp"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include <troupe/devices/caching_allocator.hpp>
#include <troupe/devices/cpu/thread_pool.hpp>
#include <troupe/devices/work_thread.hpp>

namespace troupe {
namespace {

class CpuEvent final : public Event {
 public:
  bool reached() const override {
    std::lock_guard lock(mutex_);
    return reached_;
  }
  void on_reached(std::function<void()> callback) override {
    {
      std::lock_guard lock(mutex_);
      if (!reached_) {
        callbacks_.push_back(std::move(callback));
        return;
      }
    }
    callback();
  }
  void reach() {
    std::vector<std::function<void()>> callbacks;
    {
      std::lock_guard lock(mutex_);
      reached_ = true;
      callbacks.swap(callbacks_);
    }
    wake_.notify_all();
    for (auto& callback : callbacks) callback();
  }
  void block() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return reached_; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool reached_ = false;
  std::vector<std::function<void()>> callbacks_;
};

class ReachEvent final : public LocalWork {
 public:
  explicit ReachEvent(std::shared_ptr<CpuEvent> event) : event_(std::move(event)) {}
  void run() override { event_->reach(); }

 private:
  std::shared_ptr<CpuEvent> event_;
};

class AwaitEvent final : public LocalWork {
 public:
  explicit AwaitEvent(std::shared_ptr<Event> event) : event_(std::move(event)) {}
  void run() override { static_cast<CpuEvent&>(*event_).block(); }

 private:
  std::shared_ptr<Event> event_;
};

class CpuStream final : public Stream {
 public:
  explicit CpuStream(std::string name) : thread_([name = std::move(name)] { prepare_kernel_thread(name); }) {}

  void enqueue(LocalHandle work) override { thread_.enqueue(std::move(work)); }
  bool lend() override { return thread_.lend(); }
  void run_lent(LocalHandle work) override {
    const KernelThreadGuard guard;
    thread_.run_lent(std::move(work));
  }
  bool others_wait(std::uint64_t owner) override { return thread_.others_wait(owner); }
  std::shared_ptr<Event> record() override {
    auto event = std::make_shared<CpuEvent>();
    enqueue(std::make_shared<ReachEvent>(event));
    return event;
  }
  void wait(const std::shared_ptr<Event>& event) override { enqueue(std::make_shared<AwaitEvent>(event)); }
  void stop() { thread_.stop(); }

 private:
  WorkThread thread_;
};

std::uint64_t memory_of(const CpuDeviceOptions& options) {
  const auto physical =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return options.memory_limit == 0 ? physical : std::min(physical, options.memory_limit);
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options)
      : attributes_{options.name, "CPU", memory_of(options), true},
        allocator_(options.memory_limit),
        pool_(options.threads, "cpu" + std::to_string(options.name.index.value_or(0)), options.alone),
        compute_("cpu" + std::to_string(options.name.index.value_or(0))) {}
  ~CpuDevice() override { shutdown(); }

  const DeviceAttributes& attributes() const override { return attributes_; }
  Allocator& allocator() override { return allocator_; }
  Stream& compute() override { return compute_; }
  Parallelism& parallelism() override { return pool_; }
  void copy_to_host(Tensor source, CopyDone done) override { done(std::move(source), Error()); }
  void copy_in(Tensor source, CopyDone done) override { done(std::move(source), Error()); }
  void shutdown() override { compute_.stop(); }

 private:
  DeviceAttributes attributes_;
  CachingAllocator allocator_;
  ThreadPool pool_;
  CpuStream compute_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const CpuDeviceOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

}  // namespace troupe
