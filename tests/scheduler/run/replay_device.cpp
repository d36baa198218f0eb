#include "tests/scheduler/run/replay_device.hpp"

#include <cstring>

#include <troupe/devices/caching_allocator.hpp>

namespace troupe::testing {
namespace {

constexpr MemorySpace kSpace{MemorySpace::Kind::cuda, 0};
constexpr int kGarbage = 0xa5;

class SpoiledBuffer final : public Buffer {
 public:
  explicit SpoiledBuffer(BufferRef memory)
      : Buffer(memory->data(), memory->size(), kSpace), memory_(std::move(memory)) {
    spoil();
  }
  ~SpoiledBuffer() override { spoil(); }

 private:
  void spoil() { std::memset(data(), kGarbage, size()); }
  BufferRef memory_;
};

}  // namespace

class ReplayDevice::Memory final : public Allocator {
 public:
  BufferRef allocate(std::size_t bytes, DType, const Shape&) override {
    return BufferRef(new SpoiledBuffer(allocate_host(bytes)));
  }
  AllocatorStats stats() const override { return {}; }
  MemorySpace space() const override { return kSpace; }
};

class ReplayDevice::Work final : public Recording {
 public:
  Work(ReplayDevice& device, std::vector<std::function<void()>> kernels)
      : device_(device), kernels_(std::move(kernels)) {
    ++device_.stats.recordings;
    ++device_.recordings_alive;
  }
  ~Work() override { --device_.recordings_alive; }
  void launch(const RandomKey& random) override {
    if (device_.failing_launches > 0) {
      --device_.failing_launches;
      fail(Code::resource_exhausted, "no memory for the launch");
    }
    ++device_.stats.launches;
    device_.random_ = random;
    for (const auto& kernel : kernels_) kernel();
  }

 private:
  ReplayDevice& device_;
  const std::vector<std::function<void()>> kernels_;
};

class ReplayDevice::Maker final : public WorkRecorder {
 public:
  explicit Maker(ReplayDevice& device)
      : device_(device), reserved_(std::make_shared<Reserved>(device)), memory_(0, reserved_) {
    device_.makers_.insert(this);
  }
  ~Maker() override { device_.makers_.erase(this); }
  Allocator& memory() override { return memory_; }
  void begin() override {
    kernels.clear();
    device_.recording_ = this;
  }
  std::shared_ptr<Recording> end() override {
    device_.recording_ = nullptr;
    if (device_.failing_ends > 0) {
      --device_.failing_ends;
      fail(Code::unavailable, "the capture failed");
    }
    return std::make_shared<Work>(device_, std::move(kernels));
  }
  void cancel() noexcept override { device_.recording_ = nullptr; }
  void copy(const Tensor& source, Tensor& target) override {
    std::memcpy(target.mutable_raw(), source.raw(), source.num_bytes());
  }
  void refused(const std::string& why) override {
    ++device_.stats.refusals;
    device_.stats.last_refusal = why;
  }
  void spoil() {
    for (const auto& [data, buffer] : reserved_->buffers) std::memset(data, kGarbage, buffer->size());
  }

  std::vector<std::function<void()>> kernels;

 private:
  struct Reserved final : MemorySource {
    explicit Reserved(ReplayDevice& device) : memory(*device.memory_) {}
    void* allocate(std::size_t bytes) override {
      BufferRef buffer = memory.allocate(bytes);
      void* const data = buffer->data();
      buffers.emplace(data, std::move(buffer));
      return data;
    }
    void free(void* data, std::size_t) noexcept override { buffers.erase(data); }
    MemorySpace space() const override { return kSpace; }
    std::size_t largest_kept() const override { return std::size_t{1} << 30; }
    Allocator& memory;
    std::map<void*, BufferRef> buffers;
  };

  ReplayDevice& device_;
  std::shared_ptr<Reserved> reserved_;
  CachingAllocator memory_;
};

ReplayDevice::ReplayDevice()
    : attributes_{DeviceName::parse("/job:test/task:0/device:GPU:0"), "GPU", 0, false},
      host_(make_cpu_device({.name = DeviceName::parse("/job:test/task:0/device:CPU:0"), .threads = 1})),
      memory_(std::make_unique<Memory>()) {}
ReplayDevice::~ReplayDevice() = default;

void ReplayDevice::spoil() {
  for (Maker* maker : makers_) maker->spoil();
}
void ReplayDevice::launch(std::function<void()> kernel) {
  if (recording_)
    recording_->kernels.push_back(std::move(kernel));
  else
    kernel();
}
Allocator& ReplayDevice::allocator() { return recording_ ? recording_->memory() : *memory_; }
Stream& ReplayDevice::compute() { fail(Code::internal, "tests run segments themselves"); }
void ReplayDevice::copy_to_host(Tensor source, CopyDone done) { done(on_host(source), {}); }
Tensor ReplayDevice::upload(const Tensor& source) {
  if (!source.space().on_host()) return source;
  Tensor copy = memory_->tensor(source.dtype(), source.shape());
  std::memcpy(copy.mutable_raw(), source.raw(), source.num_bytes());
  return copy;
}
Tensor ReplayDevice::read(const Tensor& source) {
  if (recording_) fail(Code::failed_precondition, "to wait for a value cannot be recorded");
  return on_host(source);
}
std::unique_ptr<WorkRecorder> ReplayDevice::make_recorder() {
  return records ? std::make_unique<Maker>(*this) : nullptr;
}

Tensor on_host(const Tensor& t) {
  if (t.space().on_host()) return t;
  Tensor copy(t.dtype(), t.shape());
  std::memcpy(copy.mutable_raw(), t.raw(), t.num_bytes());
  return copy;
}

// ---- kernels -------------------------------------------------------------------------------------------------------

namespace {

ReplayDevice& device_of(KernelContext& c) { return static_cast<ReplayDevice&>(c.device()); }
const std::int64_t* numbers_of(const Tensor& t) { return reinterpret_cast<const std::int64_t*>(t.raw()); }
std::int64_t* numbers_in(Tensor& t) { return reinterpret_cast<std::int64_t*>(t.mutable_raw()); }

Tensor copy_of(const std::int64_t* numbers, std::int64_t count) {
  return Tensor::of<std::int64_t>(Shape{count}, std::span(numbers, static_cast<std::size_t>(count)));
}

void run_elementwise(const std::string& op, KernelContext& c, ToyHooks& hooks) {
  const bool binary = c.num_inputs() == 2;
  const std::int64_t *a = numbers_of(c.input(0)), *b = binary ? numbers_of(c.input(1)) : a;
  const Shape shape = c.input(0).shape();
  const bool same = binary && c.input(1).shape() == shape;
  Tensor out = c.take_input(0);
  if (!out.valid() && same) out = c.take_input(1);
  if (out.valid())
    ++hooks.in_place;
  else
    out = c.allocate(DType::i64, shape);
  device_of(c).launch([op, a, b, to = numbers_in(out), n = shape.num_elements()] {
    const Tensor result = toy_evaluate(op, {copy_of(a, n), copy_of(b, n)})[0];
    std::memcpy(to, result.raw(), result.num_bytes());
  });
  c.set_output(0, std::move(out));
}

void concat(KernelContext& c) {
  const Tensor &a = c.input(0), &b = c.input(1);
  Tensor out = c.allocate(DType::i64, Shape{a.num_elements() + b.num_elements()});
  device_of(c).launch(
      [a = a.raw(), b = b.raw(), first = a.num_bytes(), second = b.num_bytes(), to = out.mutable_raw()] {
        std::memcpy(to, a, first);
        std::memcpy(to + first, b, second);
      });
  c.set_output(0, std::move(out));
}

void assign_add(KernelContext& c) {
  Tensor& value = c.variable(0).writable(c.allocator(), [&](void* to, const void* from, std::size_t bytes) {
    device_of(c).launch([=] { std::memcpy(to, from, bytes); });
  });
  device_of(c).launch([to = numbers_in(value), from = numbers_of(c.input(1)), n = value.num_elements()] {
    for (std::int64_t i = 0; i < n; ++i) to[i] += from[i];
  });
  c.set_output(0, value);
}

void random_numbers(KernelContext& c) {
  Tensor out = c.allocate(DType::f64, Shape{2});
  device_of(c).launch([to = reinterpret_cast<double*>(out.mutable_raw()), key = device_of(c).recorded_random(),
                       given = c.random_key(), slot = c.random_slot()] {
    RandomKey random = key ? *key : given;
    if (key && slot >= 0) random.slot = static_cast<std::uint32_t>(slot);
    to[0] = static_cast<double>(random.step);
    to[1] = random.slot;
  });
  c.set_output(0, std::move(out));
}

void split(KernelContext& c) {
  const Tensor whole = c.input(0);
  const std::int64_t half = whole.shape()[0] / 2;
  c.set_output(0, whole.rows(0, half));
  c.set_output(1, whole.rows(half, 2 * half));
}

Kernel make_recordable(const std::string& op, ToyHooks& hooks) {
  if (op == "NoOp") return [](KernelContext&) {};
  if (op == "Identity") return [](KernelContext& c) { c.set_output(0, c.input(0)); };
  if (op == "ReadVariable") return [](KernelContext& c) { c.set_output(0, c.variable(0).value()); };
  if (op == "AssignVariable")
    return [](KernelContext& c) {
      c.variable(0).assign(c.input(1));
      c.set_output(0, c.input(1));
    };
  if (op == "AssignAddVariable") return assign_add;
  if (op == "Split") return split;
  if (op == "Concat") return concat;
  if (op == "RandomUniform") return random_numbers;
  if (op == "Abs")
    return [](KernelContext& c) {
      for (const std::int64_t x : numbers(c.device().read(c.input(0))))
        if (x < 0) invalid_argument("{} is negative", x);
      c.set_output(0, c.input(0));
    };
  return [op, &hooks](KernelContext& c) { run_elementwise(op, c, hooks); };
}

}  // namespace

KernelRegistry launching_kernels(ToyHooks& hooks) {
  KernelRegistry registry;
  for (const std::string op : {"Add", "Sub", "Mul", "Neg", "Square", "Abs", "Identity", "Split", "Concat", "NoOp",
                               "ReadVariable", "AssignVariable", "AssignAddVariable", "RandomUniform"}) {
    const auto factory = [op, &hooks](const KernelInit& init) -> Kernel {
      return [name = std::string(init.node_name), kernel = make_recordable(op, hooks), &hooks](KernelContext& c) {
        hooks.ran.push_back(name);
        kernel(c);
      };
    };
    registry.add({op, "GPU", {}, factory, op != "Square" && op != "AssignVariable"});
  }
  registry.set_reuse("Identity", "GPU", Reuse::view);
  for (const char* op : {"Add", "Sub", "Mul", "Neg", "Square"}) registry.set_reuse(op, "GPU", Reuse::in_place);
  return registry;
}

}  // namespace troupe::testing
