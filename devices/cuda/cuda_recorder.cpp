#include "troupe/devices/cuda/cuda_recorder.hpp"

#include <unordered_map>

namespace troupe {
namespace {

// Memory of another allocator, for an allocator that shares it among recordings only.
class Reserved final : public MemorySource {
 public:
  explicit Reserved(Allocator& source) : source_(source), space_(source.space()) {}
  void* allocate(std::size_t bytes) override {
    BufferRef buffer;
    try {
      buffer = source_.allocate(bytes);
    } catch (const Error&) {  // out of memory: the caller runs the work unrecorded and reports it
      return nullptr;
    }
    void* const data = buffer->data();
    const std::lock_guard lock(mutex_);
    buffers_.emplace(data, std::move(buffer));
    return data;
  }
  void free(void* data, std::size_t) noexcept override {
    BufferRef released;
    const std::lock_guard lock(mutex_);
    const auto found = buffers_.find(data);
    released = std::move(found->second);
    buffers_.erase(found);
  }
  MemorySpace space() const override { return space_; }
  std::size_t largest_kept() const override { return ~std::size_t{0}; }

 private:
  Allocator& source_;
  const MemorySpace space_;
  std::mutex mutex_;
  std::unordered_map<void*, BufferRef> buffers_;
};

}  // namespace

void RecordingCounts::refused(const std::string& why) {
  const std::lock_guard lock(mutex_);
  ++refusals_;
  last_refusal_ = why;
}

RecordingStats RecordingCounts::read() const {
  const std::lock_guard lock(mutex_);
  return {.recordings = recordings_, .launches = launches_, .refusals = refusals_, .last_refusal = last_refusal_};
}

class CudaRecorder::Graph final : public Recording {
 public:
  Graph(const CudaRecorder& recorder, CudaGraphHandle graph)
      : driver_(recorder.driver_),
        device_(recorder.device_),
        counts_(recorder.device_.counts()),
        memory_(recorder.memory_),
        graph_(graph),
        draws_(recorder.draws_),
        looks_(recorder.looks_) {
    counts_->recorded();
  }
  ~Graph() override { driver_->destroy(graph_); }

  void launch(const RandomKey& random) override {
    if (draws_) device_.write(memory_->random->data(), &random, sizeof(random));
    driver_->launch(graph_, device_.compute_stream());
    if (looks_) device_.launches_kernels_that_look();
    counts_->launched();
  }

 private:
  const std::shared_ptr<CudaDriver> driver_;
  RecordingDevice& device_;
  const std::shared_ptr<RecordingCounts> counts_;
  const std::shared_ptr<Memory> memory_;
  const CudaGraphHandle graph_;
  const bool draws_, looks_;
};

CudaRecorder::Memory::Memory(Allocator& source, AllocationLabelSource label)
    : allocator(0, std::make_shared<Reserved>(source), label) {}

CudaRecorder::CudaRecorder(std::shared_ptr<CudaDriver> driver, int ordinal, RecordingDevice& device, Allocator& memory,
                           AllocationLabelSource label)
    : driver_(std::move(driver)),
      ordinal_(ordinal),
      device_(device),
      memory_(std::make_shared<Memory>(memory, label)) {}

CudaRecorder::~CudaRecorder() {
  if (stream_) driver_->destroy(stream_);
}

void CudaRecorder::begin() {
  driver_->use(ordinal_);
  if (!stream_) stream_ = driver_->make_stream();
  draws_ = looks_ = false;
  driver_->begin_capture(stream_);
  device_.record_with(this);
}

std::shared_ptr<Recording> CudaRecorder::end() {
  device_.record_with(nullptr);
  return std::make_shared<Graph>(*this, driver_->end_capture(stream_));
}

void CudaRecorder::cancel() noexcept {
  device_.record_with(nullptr);
  driver_->drop_capture(stream_);
}

void CudaRecorder::copy(const Tensor& source, Tensor& target) {
  if (source.num_bytes() > 0)
    driver_->copy(target.mutable_raw(), source.raw(), source.num_bytes(), device_.compute_stream());
}

const RandomKey* CudaRecorder::random() {
  if (!memory_->random) memory_->random = memory_->allocator.allocate(sizeof(RandomKey));
  draws_ = true;
  return static_cast<const RandomKey*>(memory_->random->data());
}

}  // namespace troupe
