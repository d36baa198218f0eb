#include "troupe/devices/cuda/cuda_device.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include <troupe/devices/cuda/cuda_events.hpp>
#include <troupe/devices/cuda/cuda_memory.hpp>
#include <troupe/devices/cuda/cuda_recorder.hpp>
#include <troupe/devices/cuda/nccl_communicator.hpp>
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

constexpr std::size_t kSmallUpload = std::size_t{64} << 10;

// Kernels of a GPU split their work themselves.
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

// Memory that copies have written. Kernels that read it may not have run yet when it is let go, while the next copy
// would write it at once: so it goes back only when the compute stream has got past that point. With it goes what else
// kernels use: staged memory of the host, plans.
class Retired {
 public:
  void add(BufferRef buffer) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    bytes_ += buffer->size();
    buffers_.push_back(std::move(buffer));
  }
  std::vector<BufferRef> take() {
    const std::lock_guard lock(mutex_);
    bytes_ = 0;
    asked_ = false;
    return std::exchange(buffers_, {});
  }
  // Whether somebody should take them, though no work comes that does. True once for each take().
  bool too_many() {
    const std::lock_guard lock(mutex_);
    return (bytes_ > kMostBytes || buffers_.size() > kMost) && !std::exchange(asked_, true);
  }
  void close() {
    const std::vector<BufferRef> last = take();
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

 private:
  std::mutex mutex_;
  std::vector<BufferRef> buffers_;
  std::size_t bytes_ = 0;
  bool asked_ = false;
  bool closed_ = false;

  static constexpr std::size_t kMostBytes = std::size_t{64} << 20, kMost = 256;
};

// What the caches of a GPU have taken of it together.
struct Taken {
  const std::uint64_t limit;  // 0: none
  std::atomic<std::uint64_t> bytes{0};
};

// GPU memory of which each cache can have what the other keeps and does not use.
class SharedCudaMemory final : public MemorySource {
 public:
  SharedCudaMemory(std::shared_ptr<MemorySource> memory, std::shared_ptr<Taken> taken)
      : memory_(std::move(memory)), taken_(std::move(taken)) {}
  void* allocate(std::size_t bytes) override {
    void* data = take(bytes);
    if (data || !other_) return data;
    other_->trim();
    return take(bytes);
  }
  void free(void* data, std::size_t bytes) noexcept override {
    memory_->free(data, bytes);
    taken_->bytes -= bytes;
  }
  MemorySpace space() const override { return memory_->space(); }
  std::size_t largest_kept() const override { return memory_->largest_kept(); }
  std::string also_in_use() const override {
    if (!other_ || other_->stats().bytes_in_use == 0) return {};
    return fmt::format("{} of {}", other_->in_use(), of_other_);
  }
  void share_with(CachingAllocator* other, const char* of_other) {
    other_ = other;
    of_other_ = of_other;
  }

 private:
  void* take(std::size_t bytes) {
    const std::uint64_t all = taken_->bytes += bytes;
    void* const data = taken_->limit == 0 || all <= taken_->limit ? memory_->allocate(bytes) : nullptr;
    if (!data) taken_->bytes -= bytes;
    return data;
  }

  const std::shared_ptr<MemorySource> memory_;
  const std::shared_ptr<Taken> taken_;
  CachingAllocator* other_ = nullptr;  // set before anything is allocated; lives as long as whoever allocates
  const char* of_other_ = "";
};

class ArrivedBuffer final : public Buffer {
 public:
  ArrivedBuffer(BufferRef memory, std::shared_ptr<Retired> retired)
      : Buffer(memory->data(), memory->size(), memory->space()),
        memory_(std::move(memory)),
        retired_(std::move(retired)) {}

 private:
  void release() override {
    retired_->add(std::move(memory_));
    delete this;
  }

  BufferRef memory_;
  std::shared_ptr<Retired> retired_;
};

// Keeps something that is no memory, where memory is kept.
class Keeper final : public Buffer {
 public:
  explicit Keeper(std::shared_ptr<const void> what) : Buffer(nullptr, 0, {}), what_(std::move(what)) {}

 private:
  std::shared_ptr<const void> what_;
};

class Impl final : public CudaDevice, private Stream, private RecordingDevice {
 public:
  Impl(std::shared_ptr<CudaDriver> driver, int ordinal, const AcceleratorOptions& options, AllocationLabelSource label,
       CudaCollectives collectives)
      : driver_(std::move(driver)),
        ordinal_(ordinal),
        options_(options),
        label_(label),
        properties_(driver_->properties(ordinal)),
        attributes_{options.name, "GPU", memory_of(options), false},
        taken_(new Taken{options.memory_limit}),
        memory_(std::make_shared<SharedCudaMemory>(cuda_memory(driver_, ordinal), taken_)),
        arrivals_memory_(std::make_shared<SharedCudaMemory>(cuda_memory(driver_, ordinal), taken_)),
        allocator_(options.memory_limit, memory_, label),
        arrivals_(options.memory_limit, arrivals_memory_, label),
        pinned_(0, pinned_memory(driver_, ordinal), label),
        faults_(driver_, arrivals_, pinned_, options.name.to_string(), label),
        events_(driver_, ordinal),
        compute_(driver_, ordinal, events_, name("-done"), [this](const Error& e) { lost(e); }),
        to_host_(driver_, ordinal, events_, name("-out"), [this](const Error& e) { lost(e); }),
        from_host_(driver_, ordinal, events_, name("-in"), [this](const Error& e) { lost(e); }),
        from_peers_(driver_, ordinal, events_, name("-peer"), [this](const Error& e) { lost(e); }),
        copier_([this] { begin_thread("-copy"); }),
        launcher_([this] { begin_thread(""); }) {
    memory_->share_with(&arrivals_, "what was copied to this GPU");
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
  CudaFaultSite fault_site(CudaFaultText text) override {
    if (recorder_) recorder_->kernel_looks();
    return faults_.site(text, compute_.native());
  }
  void keep(std::shared_ptr<const void> what) override {
    BufferRef kept(new Keeper(std::move(what)));
    if (recorder_)
      recorder_->keep(BufferRef(
          new ArrivedBuffer(std::move(kept), retired_)));  // launches may be under way when the recording goes
    else
      retired_->add(std::move(kept));
  }
  const CudaFault* fault() override { return faults_.word(compute_.native()); }

  Error failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  void copy_to_host(Tensor source, CopyDone done) override {
    if (source.space().on_host()) return done(std::move(source), Error());
    guarded(done, [&] {
      Tensor copy = pinned_.tensor(source.dtype(), source.shape());
      CudaFaults::Look look = look_for_faults();
      to_host_.follow(compute_);
      copy_on(to_host_, copy, source);
      when_copied(to_host_, std::move(source), std::move(copy), std::move(look), done);
    });
  }

  void copy_in(Tensor source, CopyDone done) override {
    if (source.space() == allocator_.space()) return done(std::move(source), Error());
    // Memory that is not pinned is copied once more by the host: not on the caller's thread.
    copier_.enqueue(std::make_shared<Job>([this, source = std::move(source), done = std::move(done)]() mutable {
      guarded(done, [&] {
        Tensor staged = pinned(source);
        Tensor copy = arrival(source.dtype(), source.shape());
        CudaStream& stream = staged.space().on_host() ? from_host_ : from_peers_;
        copy_on(stream, copy, staged);
        when_copied(stream, std::move(staged), std::move(copy), nullptr, done);
      });
    }));
  }

  void hand_over(Tensor source, CopyDone done) override {
    guarded(done, [&] {
      auto event = std::make_shared<CudaEvent>();
      event->on_reached(
          [this, source, look = look_for_faults(), done]() mutable { hand(std::move(source), look, done); });
      compute_.record(event);
    });
  }

  Tensor upload(const Tensor& source) override {
    if (source.space() == allocator_.space()) return source;
    throw_if_lost();
    Tensor staged = pinned(source);
    Tensor copy = arrival(source.dtype(), source.shape());
    if (recorder_) recorder_->keep(copy.buffer());  // a value that follows from shapes alone
    if (staged.num_bytes() <= kSmallUpload) {       // not behind the tensors that are on their way
      copy_on(compute_, copy, staged);
      if (staged.num_bytes() > 0) retired_->add(staged.buffer());  // comes back when the stream has got past the copy
      return copy;
    }
    copy_on(from_host_, copy, staged);
    auto event = std::make_shared<CudaEvent>();
    event->keeps.push_back(staged.buffer());
    from_host_.record(event);
    compute_.follow(from_host_);
    return copy;
  }

  Tensor read(const Tensor& source) override {
    if (source.space().on_host()) return source;
    throw_if_lost();
    not_recorded("to wait for a value");
    Tensor copy = pinned_.tensor(source.dtype(), source.shape());
    copy_on(compute_, copy, source);
    const CudaFaults::Look look = faults_.look(compute_.native());
    auto event = std::make_shared<CudaEvent>();
    compute_.record(event);
    event->await();
    throw_if_lost();
    if (const Error error = faults_.error(look)) throw error;  // the value may be made of it
    return copy;
  }

  Tensor arrival(DType dtype, const Shape& shape) override {
    if (retired_->too_many()) launcher_.enqueue(std::make_shared<Job>([this] { let_go(); }));
    BufferRef memory = arrivals_.allocate(checked_bytes(dtype, shape), dtype, shape);
    return Tensor(dtype, shape, BufferRef(new ArrivedBuffer(std::move(memory), retired_)));
  }

  void lost(const Error& error) override {
    const std::lock_guard lock(mutex_);
    if (!failure_)
      failure_ = Error(Code::unavailable, fmt::format("{} is lost: {}. If a kernel is to blame, it was launched "
                                                      "earlier: without recordings (--no-gpu-graphs) and with "
                                                      "CUDA_LAUNCH_BLOCKING=1 in the environment the error names it",
                                                      attributes_.name.to_string(), error.message()));
  }

  void shutdown() override {
    if (communicators_) communicators_->shutdown();
    launcher_.stop();
    copier_.stop();
    for (CudaStream* stream : {&compute_, &to_host_, &from_host_, &from_peers_}) stream->stop();
    try {
      driver_->use(ordinal_);  // what is kept belongs to it
    } catch (const Error&) {   // a lost one
    }
    retired_->close();  // plans before the libraries that made them
    forget_state();
    faults_.forget();
  }

 private:
  // ---- Stream
  void enqueue(LocalHandle work) override { launcher_.enqueue(std::move(work)); }
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
  // Of what has arrived and is needed no more, without an end of work.
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
        event->look = [error] { return error; };  // nobody knows what the work has found
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

  // ---- copies
  // Calls `copy`, or `done` with what it throws or why the device is lost.
  template <class Copy>
  void guarded(const CopyDone& done, Copy copy) {
    Error error = failure();
    if (!error) {
      try {
        copy();
        return;
      } catch (const Error& thrown) {
        error = thrown.within(attributes_.name.to_string());
        if (driver_->fatal(thrown)) {
          lost(thrown);
          error = failure();
        }
      }
    }
    done(Tensor(), error);
  }
  void copy_on(CudaStream& stream, Tensor& to, const Tensor& from) {
    if (from.num_bytes() == 0) return;
    driver_->use(ordinal_);
    const MemorySpace source = from.space();
    if (source.kind == MemorySpace::Kind::cuda && source.ordinal != ordinal_)
      driver_->copy_peer(to.mutable_raw(), ordinal_, from.raw(), source.ordinal, from.num_bytes(), stream.native());
    else
      driver_->copy(to.mutable_raw(), from.raw(), from.num_bytes(), stream.native());
  }
  void when_copied(CudaStream& stream, Tensor source, Tensor copy, CudaFaults::Look look, const CopyDone& done) {
    auto event = std::make_shared<CudaEvent>();
    event->on_reached(
        [this, source = std::move(source), copy = std::move(copy), look = std::move(look), done]() mutable {
          source = Tensor();
          hand(std::move(copy), look, done);
        });
    stream.record(event);
  }
  void hand(Tensor tensor, const CudaFaults::Look& look, const CopyDone& done) const {
    Error error = failure();
    if (!error) error = faults_.error(look);
    done(error ? Tensor() : std::move(tensor), std::move(error));
  }
  // What has been launched is known on the thread that launches only.
  CudaFaults::Look look_for_faults() { return launcher_.is_this_thread() ? faults_.look(compute_.native()) : nullptr; }
  // The tensor itself if copies go straight from it, else a copy in memory from which they do.
  Tensor pinned(const Tensor& source) {
    if (source.dtype() == DType::string)
      invalid_argument("a tensor of strings cannot be on {}", attributes_.name.to_string());
    if (source.space().kind != MemorySpace::Kind::host || source.num_bytes() == 0) return source;
    Tensor copy = pinned_.tensor(source.dtype(), source.shape());
    std::memcpy(copy.mutable_raw(), source.raw(), source.num_bytes());
    return copy;
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
  void throw_if_lost() const {
    if (const Error error = failure()) throw error;
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
  const std::shared_ptr<Taken> taken_;
  const std::shared_ptr<SharedCudaMemory> memory_, arrivals_memory_;
  CachingAllocator allocator_;  // of the compute stream
  CachingAllocator arrivals_;   // of the copies to here
  CachingAllocator pinned_;
  CudaFaults faults_;
  CudaRecorder* recorder_ = nullptr;  // while it records; of the thread that launches
  const std::shared_ptr<RecordingCounts> counts_ = std::make_shared<RecordingCounts>();
  std::shared_ptr<Retired> retired_ = std::make_shared<Retired>();
  OneThread one_thread_;
  CudaEventPool events_;
  CudaStream compute_, to_host_, from_host_, from_peers_;
  WorkThread copier_;
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
