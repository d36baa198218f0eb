#include "troupe/devices/cuda/cuda_device.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include <troupe/devices/cuda/cuda_copies.hpp>
#include <troupe/devices/cuda/cuda_events.hpp>
#include <troupe/devices/cuda/cuda_memory.hpp>
#include <troupe/devices/cuda/cuda_recorder.hpp>
#include <troupe/devices/cuda/nccl_communicator.hpp>
#include <troupe/devices/cuda/retired_buffers.hpp>
#include <troupe/devices/work_thread.hpp>

namespace troupe {
namespace {

class Job final : public LocalWork {
 public:
  explicit Job(std::function<void()> work) : work_(std::move(work)) {}
  void run() override { work_(); }

 private:
  std::function<void()> work_;
};

// GPU kernels split their own work.
class OneThread final : public Parallelism {
 public:
  int threads() const override { return 1; }
  void parallel_for(std::int64_t total, std::int64_t grain, Range fn) override {
    for (std::int64_t begin = 0; begin < total; begin += grain) fn(begin, std::min(total, begin + grain));
  }
  void run(DynamicWork& work) override {
    while (!work.finished()) work.run_some();
  }
  void wake() override {}
};

class Impl final : public CudaDevice, private Stream, private RecordingDevice, private CopyingDevice {
 public:
  Impl(std::shared_ptr<CudaDriver> driver, int ordinal, const AcceleratorOptions& options, AllocationLabelSource label,
       CudaCollectives collectives)
      : driver_(std::move(driver)),
        ordinal_(ordinal),
        options_(options),
        label_(label),
        properties_(driver_->properties(ordinal)),
        attributes_{options.name, "GPU", memory_of(options), false},
        memory_use_(new CudaMemoryUse{options.memory_limit}),
        memory_(std::make_shared<SharedCudaMemory>(cuda_memory(driver_, ordinal), memory_use_)),
        arrivals_memory_(std::make_shared<SharedCudaMemory>(cuda_memory(driver_, ordinal), memory_use_)),
        allocator_(options.memory_limit, memory_, label),
        arrivals_(options.memory_limit, arrivals_memory_, label),
        pinned_(0, pinned_memory(driver_, ordinal), label),
        faults_(driver_, arrivals_, pinned_, options.name.to_string(), label),
        events_(driver_, ordinal),
        compute_(driver_, ordinal, events_, name("-done"), [this](const Error& e) { lost(e); }),
        copies_({.device = *this,
                 .driver = driver_,
                 .ordinal = ordinal,
                 .device_name = options.name.to_string(),
                 .events = events_,
                 .compute = compute_,
                 .pinned = pinned_,
                 .faults = faults_,
                 .retired = retired_,
                 .begin_thread = [this](const char* thread) { begin_thread(thread); },
                 .stream_name = [this](const char* suffix) { return name(suffix); }}),
        launcher_([this] { begin_thread(""); }) {
    memory_->share_with(&arrivals_, "copies to this GPU");
    arrivals_memory_->share_with(&allocator_, "results of kernels");
    if (collectives.nccl) communicators_.emplace(*this, std::move(collectives));
  }
  ~Impl() override { shutdown(); }

  const DeviceAttributes& attributes() const override { return attributes_; }
  Allocator& allocator() override { return records() ? recorder_->memory() : allocator_; }
  std::vector<const Allocator*> allocators() override { return {&allocator_, &arrivals_}; }
  Stream& compute() override { return *this; }
  Allocator* pinned() override { return &pinned_; }
  Parallelism& parallelism() override { return one_thread_; }
  CudaStreamHandle stream() const override { return recorder_ ? recorder_->stream() : compute_.native(); }
  const CudaProperties& properties() const override { return properties_; }
  const AcceleratorOptions& options() const override { return options_; }
  int ordinal() const override { return ordinal_; }
  const std::shared_ptr<CudaDriver>& driver() const override { return driver_; }
  CudaEventPool& events() override { return events_; }
  CommunicatorMaker* communicators() override { return communicators_ ? &*communicators_ : nullptr; }

  std::unique_ptr<WorkRecorder> make_recorder() override {
    if (!options_.recordings) return nullptr;
    RecordingDevice& self = *this;
    return std::make_unique<CudaRecorder>(driver_, ordinal_, self, allocator_, label_);
  }
  RecordingStats recording_stats() const override { return counts_->read(); }
  void not_recorded(std::string_view what) const override {
    if (recorder_) fail(Code::failed_precondition, "{} cannot be recorded", what);
  }
  const RandomKey* recorded_random() override { return recorder_ ? recorder_->random() : nullptr; }
  CudaFaultSite fault_site(CudaFaultText text, std::string_view detail) override {
    if (recorder_) recorder_->kernel_looks();
    return faults_.site(text, compute_.native(), detail);
  }
  void keep(std::shared_ptr<const void> what) override {
    BufferRef kept = keep_alive(std::move(what));
    if (recorder_)  // launches may be in flight when recording ends
      recorder_->keep(retire_on_release(std::move(kept), retired_));
    else
      retired_->add(std::move(kept));
  }
  const CudaFault* fault() override { return faults_.word(compute_.native()); }

  Error failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  void copy_to_host(Tensor source, CopyDone done) override { copies_.copy_to_host(std::move(source), done); }
  void copy_in(Tensor source, CopyDone done) override {
    if (source.space() == allocator_.space()) return done(std::move(source), Error());
    copies_.copy_in(std::move(source), std::move(done));
  }
  void hand_over(Tensor source, CopyDone done) override { copies_.hand_over(source, done); }

  Tensor upload(const Tensor& source) override {
    if (source.space() == allocator_.space()) return source;
    Tensor copy = copies_.upload(source);
    if (recorder_) recorder_->keep(copy.buffer());  // a value derived from shapes only
    return copy;
  }

  Tensor read(const Tensor& source) override {
    if (source.space().on_host()) return source;
    not_recorded("waiting for a value");
    return copies_.read(source);
  }

  Tensor arrival(DType dtype, const Shape& shape) override {
    if (retired_->should_take()) launcher_.enqueue(std::make_shared<Job>([this] { let_go(); }));
    BufferRef memory = arrivals_.allocate(checked_bytes(dtype, shape), dtype, shape);
    return Tensor(dtype, shape, retire_on_release(std::move(memory), retired_));
  }

  void lost(const Error& error) override {
    const std::lock_guard lock(mutex_);
    if (!failure_)
      failure_ =
          Error(Code::unavailable, fmt::format("{} is lost: {}. If a kernel caused it, that kernel was launched "
                                               "earlier: to see its name in the error, run with --no-gpu-graphs and "
                                               "CUDA_LAUNCH_BLOCKING=1 in the environment",
                                               attributes_.name.to_string(), error.message()));
  }

  void shutdown() override {
    if (communicators_) communicators_->shutdown();
    launcher_.stop();
    copies_.stop_thread();
    compute_.stop();
    copies_.stop_streams();
    try {
      driver_->use(ordinal_);  // cached memory belongs to it
    } catch (const Error&) {   // the device is lost
    }
    retired_->close();  // plans are destroyed before the libraries that made them
    forget_state();
    faults_.forget();
  }

 private:
  // ---- Stream
  void enqueue(LocalHandle work) override { launcher_.enqueue(std::move(work)); }
  bool others_wait(std::uint64_t owner) override { return launcher_.others_wait(owner); }
  std::shared_ptr<Event> record() override {
    auto event = std::make_shared<CudaEvent>();
    if (launcher_.is_this_thread())
      record_now(event);
    else
      launcher_.enqueue(std::make_shared<Job>([this, event] { record_now(event); }));
    return event;
  }
  void wait(const std::shared_ptr<Event>& event) override {
    launcher_.enqueue(std::make_shared<Job>([event] {
      struct Latch {
        std::mutex mutex;
        std::condition_variable wake;
        bool open = false;
      };
      const auto latch = std::make_shared<Latch>();
      event->on_reached([latch] {
        const std::lock_guard lock(latch->mutex);
        latch->open = true;
        latch->wake.notify_all();
      });
      std::unique_lock lock(latch->mutex);
      latch->wake.wait(lock, [&] { return latch->open; });
    }));
  }
  // Releases arrivals that are no longer needed, outside of the end of work.
  void let_go() {
    auto event = std::make_shared<CudaEvent>();
    event->keeps = retired_->take();
    try {
      compute_.record(event);
    } catch (const Error& error) {
      lost(error);
      event->reach();
    }
  }
  void record_now(const std::shared_ptr<CudaEvent>& event) {
    event->keeps = retired_->take();
    try {
      try {
        if (CudaFaults::Look look = faults_.look(compute_.native()))
          event->look = [this, look] { return faults_.error(look); };
      } catch (const Error& error) {
        if (driver_->fatal(error)) throw;
        event->look = [error] { return error; };  // the work's own findings are unknown
      }
      compute_.record(event);
      faults_.end_work(compute_.native());
    } catch (const Error& error) {
      lost(error);
      event->reach();
    }
  }

  // ---- RecordingDevice
  CudaStreamHandle compute_stream() const override { return compute_.native(); }
  std::shared_ptr<RecordingCounts> counts() const override { return counts_; }
  void record_with(CudaRecorder* recorder) override { recorder_ = recorder; }
  void write(void* to, const void* from, std::size_t bytes) override {
    Tensor staged = pinned_.tensor(DType::u8, Shape{static_cast<std::int64_t>(bytes)});
    std::memcpy(staged.mutable_raw(), from, bytes);
    driver_->copy(to, staged.raw(), bytes, compute_.native());
    retired_->add(staged.buffer());
  }
  void launches_kernels_that_look() override { faults_.arm(); }
  bool records() const { return launcher_.is_this_thread() && recorder_ != nullptr; }

  // ---- CopyingDevice
  // Only the launching thread knows which kernels have been launched.
  CudaFaults::Look look_for_faults() override {
    return launcher_.is_this_thread() ? faults_.look(compute_.native()) : nullptr;
  }

  // ---- the rest
  std::string name(const char* what) const { return "gpu" + std::to_string(ordinal_) + what; }
  void begin_thread(const char* what) {
    pthread_setname_np(pthread_self(), name(what).substr(0, 15).c_str());
    try {
      driver_->use(ordinal_);
    } catch (const Error& error) {
      lost(error);
    }
  }
  std::uint64_t memory_of(const AcceleratorOptions& options) const {
    return options.memory_limit == 0 ? properties_.memory_bytes
                                     : std::min(properties_.memory_bytes, options.memory_limit);
  }

  std::shared_ptr<CudaDriver> driver_;
  const int ordinal_;
  const AcceleratorOptions options_;
  const AllocationLabelSource label_;
  const CudaProperties properties_;
  const DeviceAttributes attributes_;
  mutable std::mutex mutex_;
  Error failure_;
  const std::shared_ptr<CudaMemoryUse> memory_use_;
  const std::shared_ptr<SharedCudaMemory> memory_, arrivals_memory_;
  CachingAllocator allocator_;  // for the compute stream
  CachingAllocator arrivals_;   // for copies to this GPU
  CachingAllocator pinned_;
  CudaFaults faults_;
  CudaRecorder* recorder_ = nullptr;  // while recording; used by the launching thread
  const std::shared_ptr<RecordingCounts> counts_ = std::make_shared<RecordingCounts>();
  const std::shared_ptr<RetiredBuffers> retired_ = std::make_shared<RetiredBuffers>();
  OneThread one_thread_;
  CudaEventPool events_;
  CudaStream compute_;
  CudaCopies copies_;
  WorkThread launcher_;
  std::optional<NcclMaker> communicators_;
};

}  // namespace

std::unique_ptr<CudaDevice> make_cuda_device(std::shared_ptr<CudaDriver> driver, int ordinal,
                                             const AcceleratorOptions& options, AllocationLabelSource label,
                                             CudaCollectives collectives) {
  return std::make_unique<Impl>(std::move(driver), ordinal, options, label, std::move(collectives));
}

}  // namespace troupe
