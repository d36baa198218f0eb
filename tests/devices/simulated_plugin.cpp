// A library of GPUs that are none: simulated ones, whose kernels are those of the CPU. Each kernel waits until the
// stream has got to it, and works on the memory of the GPU as the host's; copies are as asynchronous as a GPU's. What
// is recorded runs later, with the addresses that it was recorded with. So all of the runtime can be tested with
// devices that are not the host, and results must have the bits of the CPU.
#include <cstring>
#include <exception>
#include <optional>

#include "tests/devices/host_context.hpp"
#include "tests/devices/simulated_cuda.hpp"
#include "tests/devices/simulated_nccl.hpp"
#include <troupe/devices/cuda/cuda_device.hpp>

namespace troupe::testing {
namespace {

constexpr int kDevices = 2;

// ---- faults that are told late -------------------------------------------------------------------------------------

bool looks_at_data(const std::string& op) { return op == "Gather" || op == "SparseSoftmaxCrossEntropy"; }
bool adds_to_variable(const std::string& op) { return op == "AssignAddVariable" || op == "AssignSubVariable"; }
bool changes_variables(const std::string& op) {
  return op.starts_with("Apply") || op.starts_with("SparseApply") || adds_to_variable(op);
}

// What kernels of the CPU have thrown, by the value of the fault.
struct Thrown {
  std::mutex mutex;
  std::vector<Error> errors;
};
Thrown& thrown() {
  static Thrown all;
  return all;
}
Error text_of(const CudaFault& fault) {
  const std::lock_guard lock(thrown().mutex);
  return thrown().errors.at(static_cast<std::size_t>(fault.value));
}
void find(const CudaFaultSite& site, const Error& error) {
  if (site.fault->site != 0) return;
  const std::lock_guard lock(thrown().mutex);
  *site.fault = {.site = site.site, .value = static_cast<std::int64_t>(thrown().errors.size())};
  thrown().errors.push_back(error);
}

// What a kernel that found something wrong leaves: zeros.
void set_zeros(KernelContext& context, const std::string& op) {
  std::vector<std::pair<DType, Shape>> outputs;
  const Tensor &first = context.input(0), &second = context.input(1);
  if (op == "Gather")
    outputs = {{first.dtype(), second.shape().concatenated(first.shape().sub(1, first.shape().rank()))}};
  if (op == "SparseSoftmaxCrossEntropy")
    outputs = {{first.dtype(), Shape{first.shape()[0]}}, {first.dtype(), first.shape()}};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor zeros = context.allocate(outputs[i].first, outputs[i].second);
    std::memset(zeros.mutable_raw(), 0, zeros.num_bytes());
    context.set_output(static_cast<int>(i), std::move(zeros));
  }
}

// ---- what is recorded ----------------------------------------------------------------------------------------------

// Memory at an address, whoever has it.
class Address final : public Buffer {
 public:
  Address(const void* data, std::size_t bytes) : Buffer(const_cast<void*>(data), bytes, MemorySpace{}) {}
};

struct Place {
  DType dtype = DType::invalid;
  Shape shape;
  const std::byte* data = nullptr;
  std::size_t offset = 0;  // of it in its buffer
  Place() = default;
  explicit Place(const Tensor& t)
      : dtype(t.dtype()), shape(t.shape()), data(t.raw()), offset(t.buffer() ? offset_of(t) : 0) {}
  Tensor tensor() const {
    if (dtype == DType::invalid) return {};
    return Tensor(dtype, shape, BufferRef(new Address(data - offset, offset + checked_bytes(dtype, shape))), offset);
  }
};

// One launch of a kernel: the addresses that it was given. It is given them again when it runs, whatever they hold
// then.
struct Launch {
  struct State {
    std::string name;
    Place place;
    bool shared = false;
  };
  std::vector<Place> inputs;
  std::vector<std::optional<State>> variables;
  std::vector<std::optional<Place>> taken;  // by input
  std::vector<std::pair<void*, std::size_t>> allocations;
  std::vector<std::pair<int, Place>> outputs;
  std::uint64_t node_hash = 0;
  const RandomKey* random = nullptr;
  std::int64_t random_slot = -1;
};

class LoggedAllocator final : public Allocator {
 public:
  LoggedAllocator(Allocator& memory, Launch& launch) : memory_(memory), launch_(launch) {}
  BufferRef allocate(std::size_t bytes, DType dtype, const Shape& shape) override {
    BufferRef buffer(new View(memory_.allocate(bytes, dtype, shape)));
    launch_.allocations.emplace_back(buffer->data(), buffer->size());
    return buffer;
  }
  AllocatorStats stats() const override { return memory_.stats(); }
  MemorySpace space() const override { return {}; }

 private:
  Allocator& memory_;
  Launch& launch_;
};

// Hands out again what was handed out before.
class RepeatedAllocator final : public Allocator {
 public:
  explicit RepeatedAllocator(const Launch& launch) : launch_(launch) {}
  BufferRef allocate(std::size_t bytes, DType, const Shape&) override {
    const auto& [data, size] = launch_.allocations.at(next_++);
    if (bytes > size) fail(Code::internal, "a recorded kernel wants more memory than it had");
    return BufferRef(new Address(data, size));
  }
  AllocatorStats stats() const override { return {}; }
  MemorySpace space() const override { return {}; }

 private:
  const Launch& launch_;
  std::size_t next_ = 0;
};

class DeviceWithMemory final : public Device {
 public:
  DeviceWithMemory(const Device& inner, Parallelism& parallelism, Allocator& memory)
      : attributes_(inner.attributes()), parallelism_(parallelism), memory_(memory) {}
  const DeviceAttributes& attributes() const override { return attributes_; }
  Allocator& allocator() override { return memory_; }
  Stream& compute() override { fail(Code::internal, "a kernel has no stream"); }
  Parallelism& parallelism() override { return parallelism_; }
  void copy_to_host(Tensor source, CopyDone done) override { done(std::move(source), {}); }
  void copy_in(Tensor source, CopyDone done) override { done(std::move(source), {}); }
  void shutdown() override {}

 private:
  const DeviceAttributes attributes_;
  Parallelism& parallelism_;
  Allocator& memory_;
};

// While a kernel is recorded it runs once, to make its outputs known; what it changes is put back when the recording
// ends.
class RecordingContext final : public KernelContext {
 public:
  RecordingContext(HostContext& host, KernelContext& inner, SimulatedCuda& driver, Launch& launch)
      : host_(host),
        inner_(inner),
        driver_(driver),
        launch_(launch),
        memory_(inner.allocator(), launch),
        device_(inner.device(), inner.device().parallelism(), memory_) {
    launch_.inputs.resize(static_cast<std::size_t>(inner.num_inputs()));
    launch_.variables.resize(launch_.inputs.size());
    launch_.taken.resize(launch_.inputs.size());
    launch_.node_hash = inner.node_hash();
    launch_.random_slot = inner.random_slot();
  }
  int num_inputs() const override { return host_.num_inputs(); }
  const Tensor& input(int index) const override {
    const Tensor& t = host_.input(index);
    Place& place = launch_.inputs[static_cast<std::size_t>(index)];
    if (place.dtype == DType::invalid) {
      place = Place(t);
      put_back_later(t);
    }
    return t;
  }
  Variable& variable(int index) override {
    Variable& v = host_.variable(index);
    auto& state = launch_.variables[static_cast<std::size_t>(index)];
    if (!state) {
      state = Launch::State{v.name(), Place(v.value()), v.value().buffer()->references() > 1};
      put_back_later(v.value());
    }
    return v;
  }
  void set_output(int index, Tensor&& value) override {
    const Tensor there = to_device(value, inner_.device());
    launch_.outputs.emplace_back(index, Place(there));
    inner_.set_output(index, there);
  }
  Tensor take_input(int index) override {
    static_cast<void>(input(index));
    Tensor t = host_.take_input(index);
    launch_.taken[static_cast<std::size_t>(index)] = Place(t);
    return t;
  }
  Device& device() override { return device_; }
  Allocator& allocator() override { return memory_; }
  RandomKey random_key() const override {
    launch_.random = static_cast<CudaDevice&>(inner_.device()).recorded_random();
    return host_.random_key();
  }
  std::uint64_t node_hash() const override { return launch_.node_hash; }

 private:
  void put_back_later(const Tensor& t) const {
    if (t.num_bytes() == 0 || t.dtype() == DType::string) return;
    std::vector<std::byte> bytes(t.raw(), t.raw() + t.num_bytes());
    driver_.captures(static_cast<CudaDevice&>(inner_.device()).stream(),
                     [data = const_cast<std::byte*>(t.raw()), bytes = std::move(bytes)] {
                       std::memcpy(data, bytes.data(), bytes.size());
                     });
  }

  HostContext& host_;
  KernelContext& inner_;
  SimulatedCuda& driver_;
  Launch& launch_;
  LoggedAllocator memory_;
  DeviceWithMemory device_;
};

// A kernel that was recorded runs, on the thread of the stream.
class ReplayContext final : public KernelContext {
 public:
  ReplayContext(const Launch& launch, const Device& device, Parallelism& parallelism)
      : launch_(launch),
        memory_(launch),
        device_(device, parallelism, memory_),
        inputs_(launch.inputs.size()),
        variables_(inputs_.size()) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i] = launch.inputs[i].tensor();
  }
  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  const Tensor& input(int index) const override { return inputs_[static_cast<std::size_t>(index)]; }
  Variable& variable(int index) override {
    auto& seen = variables_[static_cast<std::size_t>(index)];
    if (seen) return *seen;
    const Launch::State& state = launch_.variables[static_cast<std::size_t>(index)].value();
    Tensor value = state.place.tensor();
    seen = std::make_unique<Variable>(state.name, value.dtype(), value.shape());
    if (state.shared) others_.push_back(value);
    seen->assign(std::move(value));
    return *seen;
  }
  void set_output(int index, Tensor&& value) override {
    for (const auto& [output, place] : launch_.outputs) {
      if (output != index) continue;
      if (value.dtype() != place.dtype || value.shape() != place.shape)
        fail(Code::internal, "a recorded kernel makes a tensor of another shape");
      if (value.raw() != place.data && value.num_bytes() > 0)
        std::memcpy(const_cast<std::byte*>(place.data), value.raw(), value.num_bytes());
    }
  }
  Tensor take_input(int index) override {
    const auto& taken = launch_.taken[static_cast<std::size_t>(index)];
    return taken ? taken->tensor() : Tensor();
  }
  Device& device() override { return device_; }
  Allocator& allocator() override { return memory_; }
  RandomKey random_key() const override {
    RandomKey key = *launch_.random;
    if (launch_.random_slot >= 0) key.slot = static_cast<std::uint32_t>(launch_.random_slot);
    return key;
  }
  std::uint64_t node_hash() const override { return launch_.node_hash; }

 private:
  const Launch& launch_;
  RepeatedAllocator memory_;
  DeviceWithMemory device_;
  std::vector<Tensor> inputs_;
  std::vector<std::unique_ptr<Variable>> variables_;
  std::vector<Tensor> others_;
};

// A kernel of the CPU on a simulated GPU.
class SimulatedKernel {
 public:
  SimulatedKernel(std::string op, Kernel kernel, bool needs_value, std::shared_ptr<SimulatedCuda> driver)
      : op_(std::move(op)), kernel_(std::move(kernel)), needs_value_(needs_value), driver_(std::move(driver)) {}

  void operator()(KernelContext& context) const {
    auto& device = static_cast<CudaDevice&>(context.device());
    if (needs_value_) device.not_recorded("waiting for a value");
    const CudaFault* fault = changes_variables(op_) ? device.fault() : nullptr;  // whose memory the stream clears
    driver_->synchronize();
    if (const Error lost = device.failure()) throw lost;
    if (driver_->captures(device.stream())) return record(context, device);
    if (fault && fault->site != 0) {
      if (adds_to_variable(op_)) context.set_output(0, context.variable(0).value());
      return;
    }
    HostContext host(context);
    if (!looks_at_data(op_)) {
      kernel_(host);
    } else {
      const CudaFaultSite site = device.fault_site(text_of);
      try {
        kernel_(host);
      } catch (const Error& error) {
        driver_->launch(device.stream(), [site, error] { find(site, error); });
        set_zeros(host, op_);
      }
    }
    host.write_back();
  }

 private:
  void record(KernelContext& context, CudaDevice& device) const {
    const auto launch = std::make_shared<Launch>();
    const CudaFaultSite site = looks_at_data(op_) ? device.fault_site(text_of) : CudaFaultSite{};
    const CudaFault* fault = changes_variables(op_) ? device.fault() : nullptr;
    HostContext host(context);
    RecordingContext recording(host, context, *driver_, *launch);
    try {
      kernel_(recording);
    } catch (const Error&) {
      if (!looks_at_data(op_)) throw;
      set_zeros(recording, op_);
    }
    host.write_back();
    driver_->launch(device.stream(),
                    [kernel = kernel_, launch, site, fault, &device, &parallelism = device.parallelism()] {
                      if (fault && fault->site != 0) return;
                      ReplayContext again(*launch, device, parallelism);
                      try {
                        kernel(again);
                      } catch (const Error& error) {
                        if (!site.fault) std::terminate();  // no kernel of a GPU throws
                        find(site, error);
                      }
                    });
  }

  std::string op_;
  Kernel kernel_;
  bool needs_value_;
  std::shared_ptr<SimulatedCuda> driver_;
};

constexpr const char* kLastNode = "lose_the_gpu";  // a node of this name is the last that the GPUs run

KernelFactory on_simulated_gpu(const std::string& op, KernelFactory make, std::shared_ptr<SimulatedCuda> driver) {
  return [=](const KernelInit& init) -> Kernel {
    Kernel kernel = SimulatedKernel(op, make(init), op == "Reshape" && !init.constant(1), driver);
    if (init.node_name != kLastNode) return kernel;
    return [kernel, driver](KernelContext& context) {
      kernel(context);
      driver->lose();
    };
  };
}

class SimulatedPlugin final : public DevicePlugin {
 public:
  explicit SimulatedPlugin(AllocationLabelSource label) : label_(label) {}
  std::string type() const override { return "GPU"; }
  int count() const override { return kDevices; }
  std::string description() const override { return "simulated GPUs"; }
  std::unique_ptr<Device> make(int ordinal, const AcceleratorOptions& options) override {
    driver_->mend();  // lost by another test
    return make_cuda_device(driver_, ordinal, options, label_, {nccl_, simulated_sum(driver_)});
  }
  void register_kernels(KernelRegistry& registry) override {
    for (const std::string& kernel : registry.list("CPU")) {
      const std::string op = kernel.substr(0, kernel.find(':'));
      const DType dtype = op == kernel ? DType::invalid : parse_dtype(kernel.substr(op.size() + 1)).value();
      std::vector<DType> dtypes;
      if (dtype != DType::invalid) dtypes.push_back(dtype);
      const bool recordable = op != "AssignVariable" && op != "SlotsTouching" && op != "SumRows" &&
                              op != "DistinctRows" && !op.starts_with("SparseApply");
      registry.add({op, "GPU", dtypes, on_simulated_gpu(op, *registry.find(op, "CPU", dtype), driver_), recordable});
      registry.set_reuse(op, "GPU", registry.reuse(op, "CPU"));
    }
  }

 private:
  AllocationLabelSource label_;
  std::shared_ptr<SimulatedCuda> driver_ = std::make_shared<SimulatedCuda>(kDevices);
  std::shared_ptr<SimulatedNccl> nccl_ = std::make_shared<SimulatedNccl>(driver_);
};

}  // namespace
}  // namespace troupe::testing

extern "C" __attribute__((visibility("default"))) const char* troupe_plugin_abi() {
  static const std::string abi = troupe::plugin_abi();
  return abi.c_str();
}
extern "C" __attribute__((visibility("default"))) troupe::DevicePlugin* troupe_plugin(
    troupe::AllocationLabelSource label) {
  return new troupe::testing::SimulatedPlugin(label);
}
