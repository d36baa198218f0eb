// A device that records, for tests of replays: kernels run when they are launched, or with the recording that they were
// launched into. Memory that nobody has is garbage.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "tests/scheduler/toy.hpp"
#include <troupe/devices/kernel.hpp>

namespace troupe::testing {

class ReplayDevice final : public Device {
 public:
  ReplayDevice();
  ~ReplayDevice() override;

  // Between steps: nothing that recordings have made is needed any more.
  void spoil();
  // So many recordings, or launches of them, fail from now on.
  int failing_ends = 0, failing_launches = 0;
  bool records = true;
  RecordingStats stats;
  int recordings_alive = 0;

  // By kernels.
  void launch(std::function<void()> kernel);
  // The step's randomness, where recorded kernels read it; null while nothing is recorded.
  const RandomKey* recorded_random() const { return recording_ ? &random_ : nullptr; }

  const DeviceAttributes& attributes() const override { return attributes_; }
  Allocator& allocator() override;
  Stream& compute() override;
  Parallelism& parallelism() override { return host_->parallelism(); }
  void copy_to_host(Tensor source, CopyDone done) override;
  void copy_in(Tensor source, CopyDone done) override { done(upload(source), {}); }
  Tensor upload(const Tensor& source) override;
  Tensor read(const Tensor& source) override;
  std::unique_ptr<WorkRecorder> make_recorder() override;
  RecordingStats recording_stats() const override { return stats; }
  void shutdown() override {}

 private:
  class Memory;
  class Work;
  class Maker;

  DeviceAttributes attributes_;
  std::unique_ptr<Device> host_;
  std::unique_ptr<Allocator> memory_;
  std::set<Maker*> makers_;
  Maker* recording_ = nullptr;
  RandomKey random_;
};

// A copy that the host may read.
Tensor on_host(const Tensor& t);

// The ops of toy_kernels() as kernels of a ReplayDevice: they launch, and do not look at values. Square is not
// recordable; Abs needs its values on the host and says so when it is recorded; RandomUniform makes two f64 of the
// number and slot of the step.
KernelRegistry launching_kernels(ToyHooks& hooks);

}  // namespace troupe::testing
