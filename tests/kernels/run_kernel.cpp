#include "tests/kernels/run_kernel.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <exception>
#include <functional>
#include <future>
#include <optional>

#include <troupe/devices/cpu/cpu_device.hpp>
#include <troupe/messages/element_types.hpp>

namespace troupe::testing {
namespace {

class Job final : public LocalWork {
 public:
  explicit Job(std::function<void()> work) : work_(std::move(work)) {}
  void run() override { work_(); }

 private:
  std::function<void()> work_;
};

// Runs `work` on the thread of the device's compute stream; rethrows.
void run_on(Device& device, const std::function<void()>& work) {
  std::promise<void> done;
  device.compute().enqueue(std::make_shared<Job>([&] {
    try {
      work();
      done.set_value();
    } catch (...) {
      done.set_exception(std::current_exception());
    }
  }));
  done.get_future().get();
}

// Waits for what the compute stream has been given.
void finish(Device& device) {
  std::promise<void> reached;
  const auto event = device.compute().record();
  event->on_reached([&] { reached.set_value(); });
  reached.get_future().get();
  if (const Error error = device.failure()) throw error;
  if (const Error error = event->error()) throw error;
}

Tensor to_host(Device& device, const Tensor& t) {
  if (!t.valid() || t.space().on_host()) return t;
  std::promise<std::pair<Tensor, Error>> copied;
  device.copy_to_host(t, [&](Tensor copy, Error error) { copied.set_value({std::move(copy), std::move(error)}); });
  auto [copy, error] = copied.get_future().get();
  if (error) throw error;
  return copy.clone();
}

// A copy on the device that is as little aligned as the tensor is. On the thread of compute().
Tensor to_device(Device& device, const Tensor& t) {
  if (!t.valid() || t.dtype() == DType::string) return t;
  if (t.aligned() || t.num_bytes() == 0) return device.upload(t);
  const std::size_t before = reinterpret_cast<std::uintptr_t>(t.raw()) % kBufferAlignment;
  Tensor longer = Tensor::zeros(DType::u8, Shape{static_cast<std::int64_t>(before + t.num_bytes())});
  std::memcpy(longer.mutable_raw() + before, t.raw(), t.num_bytes());
  return Tensor(t.dtype(), t.shape(), device.upload(longer).buffer(), before);
}

// Variables of a test, for as long as a kernel runs on a device.
class Variables {
 public:
  // On the thread of compute().
  Variables(Device& device, const std::vector<Variable*>& hosts) : device_(device), hosts_(hosts) {
    for (Variable* host : hosts_) {
      if (!host) {
        pointers_.push_back(nullptr);
        continue;
      }
      here_.push_back(std::make_unique<Variable>(host->name(), host->dtype(), host->shape()));
      pointers_.push_back(here_.back().get());
      if (!host->initialized()) continue;
      Tensor value = to_device(device, host->value());
      if (!host->value().unique()) readers_.push_back({host, value});  // whoever reads it there reads it here
      here_.back()->assign(std::move(value));
    }
  }
  const std::vector<Variable*>& pointers() const { return pointers_; }
  void bring_back() {
    for (const auto& [host, value] : readers_)
      EXPECT_TRUE(bitwise_equal(to_host(device_, value), host->value()))
          << "a reader of variable '" << host->name() << "' sees its update";
    readers_.clear();
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (!hosts_[i] || !pointers_[i]->initialized()) continue;
      const Tensor value = to_host(device_, pointers_[i]->value());
      if (!hosts_[i]->initialized() || !bitwise_equal(value, hosts_[i]->value())) hosts_[i]->assign(value);
    }
  }

 private:
  Device& device_;
  std::vector<Variable*> hosts_, pointers_;
  std::vector<std::unique_ptr<Variable>> here_;
  std::vector<std::pair<Variable*, Tensor>> readers_;
};

// Inputs are taken where they could be on a host: those that the test has let go of.
class CopyingContext final : public KernelContext {
 public:
  CopyingContext(Device& device, KernelCall& call)
      : outputs(call.outputs), device_(device), call_(call), variables(device, call.variables) {
    for (const Tensor& t : call.inputs) inputs_.push_back(to_device(device, t));
  }
  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  const Tensor& input(int i) const override { return inputs_.at(static_cast<std::size_t>(i)); }
  Variable& variable(int i) override { return *variables.pointers().at(static_cast<std::size_t>(i)); }
  void set_output(int i, Tensor&& value) override { outputs.at(static_cast<std::size_t>(i)) = std::move(value); }
  Tensor take_input(int i) override {
    const Tensor& host = call_.inputs.at(static_cast<std::size_t>(i));
    return host.unique() && host.aligned() ? std::move(inputs_.at(static_cast<std::size_t>(i))) : Tensor();
  }
  Device& device() override { return device_; }
  RandomKey random_key() const override { return call_.key; }
  std::uint64_t node_hash() const override { return call_.hash; }

  std::vector<Tensor> outputs;

 private:
  Device& device_;
  const KernelCall& call_;
  std::vector<Tensor> inputs_;

 public:
  Variables variables;
};

Device& a_cpu() {
  static const std::unique_ptr<Device> cpu =
      make_cpu_device({.name = DeviceName::parse("/job:test/task:0/device:CPU:0"), .threads = 1});
  return *cpu;
}

}  // namespace

std::vector<Tensor> run_kernel(const KernelRegistry& registry, Device& device, KernelCall call) {
  std::vector<DType> in;
  for (const Tensor& t : call.inputs) in.push_back(t.valid() ? t.dtype() : DType::resource);
  if (call.output_types.empty()) call.output_types.assign(call.outputs, call.dtype);
  call.variables.resize(std::max(call.variables.size(), call.inputs.size()));
  // Where soft placement would put it.
  const std::string& type = device.attributes().type;
  const bool here = registry.supports(call.op, type, call.dtype) && call.dtype != DType::string;
  count_placed(fmt::format("{}:{}", call.op, name(call.dtype)), here);
  Device& place = here ? device : a_cpu();
  const KernelInit init{call.name, call.attributes, in, call.output_types};
  const KernelFactory& make = registry.get(call.op, place.attributes().type, call.dtype);
  if (place.attributes().synchronous) {
    std::optional<std::vector<Tensor>> again;
    if (kernel_target().again) again = kernel_target().again(call);
    const Kernel kernel = make(init);
    DirectContext context(place, std::move(call.inputs), std::move(call.variables), call.outputs, call.key, call.hash);
    kernel(context);
    for (std::size_t i = 0; again && i < again->size(); ++i)
      EXPECT_TRUE(bitwise_equal((*again)[i], context.outputs.at(i))) << call.op << ": output " << i;
    return std::move(context.outputs);
  }
  std::vector<Tensor> outputs;
  std::optional<CopyingContext> context;
  Kernel kernel;
  std::exception_ptr thrown;
  try {
    run_on(device, [&] {
      kernel = make(init);
      context.emplace(device, call);
      kernel(*context);
    });
    finish(device);
  } catch (...) {
    thrown = std::current_exception();
  }
  if (context) context->variables.bring_back();
  if (!thrown)
    for (const Tensor& t : context->outputs) outputs.push_back(to_host(device, t));
  run_on(device, [&] {
    context.reset();
    kernel = nullptr;
  });
  if (thrown) std::rethrow_exception(thrown);
  return outputs;
}

std::vector<double> doubles(const Tensor& t) {
  std::vector<double> out;
  const auto append = [&]<class T>(T) {
    for (const T& v : t.values<T>()) {
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
        out.push_back(static_cast<float>(v));
      else
        out.push_back(static_cast<double>(v));
    }
  };
  if (t.dtype() == DType::string || !is_data(t.dtype())) {
    ADD_FAILURE() << name(t.dtype()) << " is not a number";
    return out;
  }
  dispatch(DataTypes{}, t.dtype(), [&]<class T>() { append(T{}); });
  return out;
}

}  // namespace troupe::testing
