// Runs grids. A thread of a block is a context of its own only from the moment it waits for others: those that never
// wait are run one after the other on one stack. A thread runs as far as it can before the next one begins, which shows
// what barriers are missing.
#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/kernels/emulated_cuda/cuda_runtime.h"
#include "tests/kernels/emulated_cuda/emulated_memory.hpp"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace troupe::emulated_cuda {
namespace {

constexpr int kWarp = 32, kMostThreads = 1024;
constexpr std::size_t kStackBytes = 256 * 1024;

enum class State { not_begun, ready, awaits_block, awaits_warp, ended };

// A place in a stack to go on from; unlike contexts without a call of the system.
using Jump = void* [5];
[[gnu::noinline, noreturn]] void jump_to(Jump& jump) { __builtin_longjmp(jump, 1); }

struct Stack {
  ucontext_t context{};  // until it is begun
  bool begun = false;
  Jump jump{};
  std::unique_ptr<std::byte[]> memory{new std::byte[kStackBytes]};
  void* sanitizer = nullptr;
};

struct Thread {
  State state = State::not_begun;
  Stack* stack = nullptr;
  Place place;  // where it waits
  bool vote = true;
  unsigned exchanges = 0;
  std::uint64_t given[2] = {};  // in the last exchange and the one before, which others may not have read yet
};

// The block that runs now.
class Block {
 public:
  // `backwards`: the last warp first.
  void run(int threads, bool backwards, const std::function<void()>& thread) {
    code_ = &thread;
    threads_.assign(static_cast<std::size_t>(threads), Thread());
    const int warps = (threads + kWarp - 1) / kWarp;
    for (;;) {
      for (int w = 0; w < warps; ++w) {
        const int warp = backwards ? warps - 1 - w : w;
        do run_ready(warp);
        while (release_warp(warp));
      }
      if (std::ranges::all_of(threads_, [](const Thread& t) { return t.state == State::ended; })) return;
      release_block();
    }
  }

  bool await_block(bool vote, const Place& place) {
    threads_[current_].vote = vote;
    await(State::awaits_block, place);
    return all_voted_;
  }
  std::uint64_t exchange(std::uint64_t bits, int mask, const Place& place) {
    Thread& own = threads_[current_];
    const std::size_t turn = ++own.exchanges % 2;
    own.given[turn] = bits;
    const std::size_t from = current_ ^ static_cast<std::size_t>(mask);
    await(State::awaits_warp, place);
    if (mask < 0 || mask >= kWarp || from >= threads_.size())
      stop("thread %zu takes the value of lane %d of its warp, which is not there: %s:%d", current_,
           static_cast<int>(from % kWarp), place.file_name(), static_cast<int>(place.line()));
    if (threads_[from].state == State::ended && threads_[from].exchanges != own.exchanges)
      stop("thread %zu takes a value of thread %zu, which has ended: %s:%d", current_, from, place.file_name(),
           static_cast<int>(place.line()));
    return threads_[from].given[turn];
  }

 private:
  std::size_t first_of(int warp) const { return static_cast<std::size_t>(warp * kWarp); }
  std::size_t end_of(int warp) const { return std::min(first_of(warp + 1), threads_.size()); }

  void run_ready(int warp) {
    for (std::size_t t = first_of(warp); t < end_of(warp); ++t) {
      if (threads_[t].state == State::ready)
        resume(t);
      else if (threads_[t].state == State::not_begun)
        begin(t);
    }
  }
  // The lanes of a warp that wait for each other go on if none is missing.
  bool release_warp(int warp) {
    const Thread* first = nullptr;
    for (std::size_t t = first_of(warp); t < end_of(warp); ++t) {
      const Thread& thread = threads_[t];
      if (thread.state == State::ended) continue;
      if (thread.state != State::awaits_warp) return false;
      if (first && !same(first->place, thread.place)) complain(first->place, thread.place);
      if (!first) first = &thread;
    }
    if (!first) return false;
    for (std::size_t t = first_of(warp); t < end_of(warp); ++t)
      if (threads_[t].state == State::awaits_warp) threads_[t].state = State::ready;
    return true;
  }
  // Nobody can go on but by a barrier that all have come to.
  void release_block() {
    const Thread* first = nullptr;
    all_voted_ = true;
    for (const Thread& thread : threads_) {
      if (thread.state == State::ended) continue;
      if (!first) first = &thread;
      if (!same(first->place, thread.place)) complain(first->place, thread.place);
      all_voted_ = all_voted_ && thread.vote;
    }
    for (Thread& thread : threads_)
      if (thread.state == State::awaits_block) thread.state = State::ready;
  }
  static bool same(const Place& a, const Place& b) {
    return a.line() == b.line() && a.column() == b.column() &&
           (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
  }
  [[noreturn]] static void complain(const Place& a, const Place& b) {
    stop("threads of block %u wait for each other in different places: %s:%d and %s:%d", blockIdx.x, a.file_name(),
         static_cast<int>(a.line()), b.file_name(), static_cast<int>(b.line()));
  }

  void enter(std::size_t t) {
    current_ = t;
    const auto n = static_cast<unsigned>(t);
    threadIdx = {n % blockDim.x, n / blockDim.x % blockDim.y, n / blockDim.x / blockDim.y};
  }
  void begin(std::size_t t) {
    if (idle_.empty()) {
      auto stack = std::make_unique<Stack>();
      getcontext(&stack->context);
      stack->context.uc_stack.ss_sp = stack->memory.get();
      stack->context.uc_stack.ss_size = kStackBytes;
      makecontext(&stack->context, &Block::run_threads, 0);
      idle_.push_back(stack.get());
      stacks_.push_back(std::move(stack));
    }
    threads_[t].stack = idle_.back();
    idle_.pop_back();
    resume(t);
  }
  void resume(std::size_t t) {
    threads_[t].state = State::ready;
    enter(t);
    Stack* const stack = threads_[t].stack;
#ifdef __SANITIZE_ADDRESS__
    void* own = nullptr;
    __sanitizer_start_switch_fiber(&own, stack->memory.get(), kStackBytes);
#endif
    go_to(*stack);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(own, nullptr, nullptr);
#endif
  }
  [[gnu::noinline]] void leave(Stack& stack) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&stack.sanitizer, scheduler_bottom_, scheduler_bytes_);
#endif
    if (__builtin_setjmp(stack.jump) == 0) jump_to(scheduler_);
    arrived(stack);
  }
  [[gnu::noinline]] void go_to(Stack& stack) {
    if (__builtin_setjmp(scheduler_) != 0) return;
    if (stack.begun) jump_to(stack.jump);
    stack.begun = true;
    setcontext(&stack.context);
  }
  void arrived([[maybe_unused]] Stack& stack) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(stack.sanitizer, &scheduler_bottom_, &scheduler_bytes_);
#endif
  }
  void await(State what, const Place& place) {
    const std::size_t own = current_;
    threads_[own].state = what;
    threads_[own].place = place;
    leave(*threads_[own].stack);
  }
  // What a stack runs: the thread that it was begun with and, while they end without waiting, those after it in the
  // warp.
  static void run_threads();

  const std::function<void()>* code_ = nullptr;
  std::vector<Thread> threads_;
  std::size_t current_ = 0;
  bool all_voted_ = true;
  Jump scheduler_{};
  [[maybe_unused]] const void* scheduler_bottom_ = nullptr;
  [[maybe_unused]] std::size_t scheduler_bytes_ = 0;
  std::vector<std::unique_ptr<Stack>> stacks_;
  std::vector<Stack*> idle_;
};

Block& block() {
  static Block* const one = new Block;
  return *one;
}

void Block::run_threads() {
  Block& b = block();
  Stack& stack = *b.threads_[b.current_].stack;
  b.arrived(stack);
  for (;;) {
    (*b.code_)();
    const std::size_t own = b.current_, next = own + 1;
    b.threads_[own].state = State::ended;
    if (next % kWarp != 0 && next < b.threads_.size() && b.threads_[next].state == State::not_begun) {
      b.threads_[next].stack = &stack;
      b.threads_[next].state = State::ready;
      b.enter(next);
      continue;
    }
    b.idle_.push_back(&stack);
    b.leave(stack);  // until another thread begins here
  }
}

bool fits(const cudaLaunchConfig_t& config) {
  const dim3 &grid = config.gridDim, &threads = config.blockDim;
  return grid.x >= 1 && grid.x < 1u << 31 && grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 && grid.z <= 65535 &&
         threads.x >= 1 && threads.y >= 1 && threads.z >= 1 && threads.z <= 64 &&
         std::uint64_t{threads.x} * threads.y * threads.z <= kMostThreads && config.dynamicSmemBytes <= kSharedBytes;
}

}  // namespace

cudaError_t run_grid(const cudaLaunchConfig_t& config, const std::function<void()>& thread) {
  if (!fits(config)) return cudaErrorInvalidConfiguration;
  const MemoryAccess access;
  gridDim = config.gridDim;
  blockDim = config.blockDim;
  const int threads = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
  static unsigned launches = 0;
  ++launches;
  for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)
        block().run(threads, (launches + blockIdx.x) % 2 == 0, thread);
  return cudaSuccess;
}

bool await_block(bool vote, const Place& place) { return block().await_block(vote, place); }
std::uint64_t exchange(std::uint64_t bits, int mask, const Place& place) { return block().exchange(bits, mask, place); }

}  // namespace troupe::emulated_cuda

const char* cudaGetErrorName(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    default:
      return "another error";
  }
}
const char* cudaGetErrorString(cudaError_t status) { return cudaGetErrorName(status); }
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  troupe::emulated_cuda::copy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  troupe::emulated_cuda::fill(to, value, bytes);
  return cudaSuccess;
}
