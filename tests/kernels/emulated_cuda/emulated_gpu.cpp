#include "tests/kernels/emulated_cuda/emulated_gpu.hpp"

#include <utility>
#include <vector>

#include "tests/kernels/emulated_cuda/emulated_memory.hpp"

namespace troupe::testing {
namespace {

constexpr MemorySpace kSpace{MemorySpace::Kind::cuda, 0};

class EmulatedBuffer final : public Buffer {
 public:
  EmulatedBuffer(void* data, std::size_t bytes) : Buffer(data, bytes, kSpace) {}
  ~EmulatedBuffer() override { emulated_cuda::release(data()); }
};

class EmulatedAllocator final : public Allocator {
 public:
  BufferRef allocate(std::size_t bytes, DType, const Shape&) override {
    void* const data = emulated_cuda::allocate(bytes);
    if (!data) fail(Code::resource_exhausted, "an emulated GPU has no {} bytes", bytes);
    return BufferRef(new EmulatedBuffer(data, bytes));
  }
  AllocatorStats stats() const override { return {}; }
  MemorySpace space() const override { return kSpace; }
};

class Reached final : public Event {
 public:
  explicit Reached(Error error) : error_(std::move(error)) {}
  bool reached() const override { return true; }
  void on_reached(std::function<void()> callback) override { callback(); }
  Error error() const override { return error_; }

 private:
  const Error error_;
};

class EmulatedGpu final : public CudaDevice, private Stream, private Parallelism {
 public:
  EmulatedGpu()
      : attributes_{DeviceName::parse("/job:test/task:0/device:GPU:0"), "GPU", std::uint64_t{1} << 30, false} {}
  ~EmulatedGpu() override { forget_state(); }

  const DeviceAttributes& attributes() const override { return attributes_; }
  Allocator& allocator() override { return allocator_; }
  Stream& compute() override { return *this; }
  Parallelism& parallelism() override { return *this; }
  CudaStreamHandle stream() const override { return nullptr; }
  const CudaProperties& properties() const override { return properties_; }
  const AcceleratorOptions& options() const override { return options_; }
  int ordinal() const override { return 0; }

  void not_recorded(std::string_view) const override {}
  void keep(std::shared_ptr<const void>) override {}
  const RandomKey* recorded_random() override { return nullptr; }
  CudaFaultSite fault_site(CudaFaultText text, std::string_view detail) override {
    sites_.push_back({text, std::string(detail)});
    return {&fault_, static_cast<unsigned>(sites_.size())};
  }
  const CudaFault* fault() override { return &fault_; }
  const std::shared_ptr<CudaDriver>& driver() const override { has_none(); }
  CudaEventPool& events() override { has_none(); }
  Tensor arrival(DType, const Shape&) override { has_none(); }
  void lost(const Error& error) override { throw error; }

  void copy_to_host(Tensor source, CopyDone done) override { done(read(source), {}); }
  void copy_in(Tensor source, CopyDone done) override { done(upload(source), {}); }
  Tensor upload(const Tensor& source) override {
    if (source.dtype() == DType::string)
      invalid_argument("string tensors cannot be copied to {}", attributes_.name.to_string());
    if (source.space() == kSpace) return source;
    return copied(source, allocator_.tensor(source.dtype(), source.shape()));
  }
  Tensor read(const Tensor& source) override {
    return source.space() == kSpace ? copied(source, Tensor(source.dtype(), source.shape())) : source;
  }
  void shutdown() override {}

 private:
  struct Site {
    CudaFaultText text;
    std::string detail;
  };

  static Tensor copied(const Tensor& from, Tensor to) {
    emulated_cuda::copy(to.mutable_raw(), from.raw(), from.num_bytes());
    return to;
  }

  [[noreturn]] static void has_none() { fail(Code::unimplemented, "an emulated GPU has one stream and no driver"); }
  // What kernels have found since the last call.
  Error take_fault() {
    const CudaFault found = std::exchange(fault_, CudaFault());
    const std::vector<Site> sites = std::exchange(sites_, {});
    if (found.site == 0 || sites.empty()) return {};
    const Site& site = sites.at(found.site - 1);
    return site.detail.empty() ? site.text(found) : site.text(found).within(site.detail);
  }

  void enqueue(LocalHandle work) override { work->run(); }
  std::shared_ptr<Event> record() override { return std::make_shared<Reached>(take_fault()); }
  void wait(const std::shared_ptr<Event>&) override {}

  int threads() const override { return 1; }
  void parallel_for(std::int64_t total, std::int64_t grain, Range fn) override {
    for (std::int64_t begin = 0; begin < total; begin += grain) fn(begin, std::min(total, begin + grain));
  }
  void run(DynamicWork& work) override {
    while (!work.finished()) work.run_some();
  }
  void wake() override {}

  const DeviceAttributes attributes_;
  const CudaProperties properties_{
      .name = "emulated", .compute_major = 9, .multiprocessors = 132, .memory_bytes = std::uint64_t{1} << 30};
  const AcceleratorOptions options_{.name = attributes_.name};
  EmulatedAllocator allocator_;
  CudaFault fault_;          // not in the GPU's memory, which begins anew only when nothing of it is in use
  std::vector<Site> sites_;  // by site - 1
};

}  // namespace

std::unique_ptr<CudaDevice> make_emulated_gpu() { return std::make_unique<EmulatedGpu>(); }

}  // namespace troupe::testing
