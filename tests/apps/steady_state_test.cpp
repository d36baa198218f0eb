// In steady-state training a device's threads take no memory from the system: everything was there after the first
// steps. A program of its own, because it replaces malloc.
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "tests/actors/training/classifying.hpp"
#include <troupe/actors/base/actor_record.hpp>
#include <troupe/actors/model/model.hpp>
#include <troupe/devices/kernel.hpp>
#include <troupe/graph/layers/layers.hpp>
#include <troupe/kernels/cpu/gemm_cached.hpp>
#include <troupe/kernels/readers/digits.hpp>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

std::atomic<bool> counting{false};
std::atomic<std::uint64_t> calls{0};
std::atomic<std::uint64_t> seen_threads{0};  // device threads that asked for memory, ever

enum class Kind : char { unknown, device, other };
thread_local Kind kind = Kind::unknown;

// Device threads are named "cpu<N>" and "cpu<N>+<helper>".
bool on_device_thread() {
  if (kind == Kind::unknown) {
    char name[16] = {};
    pthread_getname_np(pthread_self(), name, sizeof name);
    kind = std::strncmp(name, "cpu", 3) == 0 ? Kind::device : Kind::other;
    if (kind == Kind::device) ++seen_threads;
  }
  return kind == Kind::device;
}

void count() {
  if (counting.load(std::memory_order_relaxed) && on_device_thread()) calls.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

extern "C" {
void* malloc(std::size_t bytes) {
  count();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  count();
  return __libc_calloc(n, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  count();
  return __libc_realloc(old, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  *out = memalign(alignment, bytes);
  return *out ? 0 : ENOMEM;
}
}

namespace troupe {
namespace {

struct Counted {
  std::uint64_t mallocs = 0;        // by device threads
  std::uint64_t fresh_buffers = 0;  // tensor buffers that came from the system
};

// Returns when the device has run all that it was given: then the steps in flight hold their results at once, which is
// the most memory that they ever need, however fast the client is.
void wait_for_device(Task& task) {
  struct Mark final : LocalWork {
    explicit Mark(std::atomic<int>& reached) : reached(reached) {}
    void run() override {
      reached = 1;
      reached.notify_all();
    }
    std::atomic<int>& reached;
  };
  std::atomic<int> reached = 0;
  task.device().compute().enqueue(std::make_shared<Mark>(reached));
  reached.wait(0);
}

// Of the last steps of an epoch.
Counted train(Model& model, Task& task, const DataSplits& data, std::uint64_t from, std::uint64_t to) {
  Counted out;
  TrainingOptions options{.epochs = 1, .batch = 32};
  std::uint64_t fresh = 0;
  options.on_progress = [&](const StepProgress& at) {
    const std::uint64_t done = at.step;
    if (done < 10) wait_for_device(task);
    if (done == from) {
      fresh = task.device().allocator().stats().fresh;
      calls = 0;
      counting = true;
    }
    if (done == to) {
      counting = false;
      out = {calls, task.device().allocator().stats().fresh - fresh};
    }
  };
  model.fit(data, options);
  return out;
}

// The least of some trainings: on a busy machine a client that was held up at a bad moment has one step more in flight
// than ever before. What a step takes, each takes.
Counted train_often(Model& model, Task& task, const DataSplits& data) {
  Counted least = train(model, task, data, 20, 60);
  for (int more = 0; more < 4 && least.mallocs + least.fresh_buffers > 0; ++more) {
    const Counted again = train(model, task, data, 20, 60);
    least = {std::min(least.mallocs, again.mallocs), std::min(least.fresh_buffers, again.fresh_buffers)};
  }
  return least;
}

DataSplits digits() { return draw_digits({.train = 32 * 60, .test = 100}); }

TEST(SteadyState, TrainingAnMlpTakesNoMemory) {
  Task task({.threads = 1});
  Model model(
      {layers::rescaling(1 / 255.0), layers::flatten(), layers::dense(128, Activation::relu), layers::dense(10)},
      Shape{28, 28, 1}, DType::u8);
  model.compile(testing::classifying(optimizers::Adam{}), task);
  const Counted counted = train_often(model, task, digits());
  EXPECT_EQ(counted.fresh_buffers, 0u);
  if (!has_gemm_cached()) GTEST_SKIP() << "without AVX-512, oneDNN computes the products, and calls malloc for each";
  EXPECT_EQ(counted.mallocs, 0u);
}

TEST(SteadyState, TrainingACnnTakesNoMemoryButInsideOneDnn) {
  Task task({.threads = 1});
  Model model({layers::rescaling(1 / 255.0), layers::conv2d(8, 3, Activation::relu), layers::max_pool(2),
               layers::flatten(), layers::dense(10)},
              Shape{28, 28, 1}, DType::u8);
  model.compile(testing::classifying(optimizers::Adam{}), task);
  const Counted counted = train_often(model, task, digits());
  RecordProperty("mallocs_of_onednn_per_step", static_cast<int>(counted.mallocs / 40));
  EXPECT_EQ(counted.fresh_buffers, 0u);
}

// The test would notice.
TEST(SteadyState, MemoryTakenByADeviceThreadIsCounted) {
  Task task({.threads = 1});
  std::atomic<int> took = 0;
  struct Take final : LocalWork {
    explicit Take(std::atomic<int>& took) : took(took) {}
    void run() override {
      void* volatile memory = ::operator new(100);
      ::operator delete(memory);
      took = 1;
      took.notify_all();
    }
    std::atomic<int>& took;
  };
  calls = 0;
  counting = true;
  task.device().compute().enqueue(std::make_shared<Take>(took));
  took.wait(0);
  counting = false;
  EXPECT_GE(calls, 1u);
}

}  // namespace
}  // namespace troupe
