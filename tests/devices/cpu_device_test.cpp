#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/patience.hpp"
#include <troupe/devices/cpu/cpu_device.hpp>
#include <troupe/devices/kernel.hpp>
#ifdef __SSE__
#include <immintrin.h>
#endif

namespace troupe {
namespace {

std::unique_ptr<Device> device(int threads) {
  return make_cpu_device({.name = DeviceName::parse("/job:test/task:0/device:CPU:0"), .threads = threads});
}

TEST(CpuDevice, AStreamRunsWorkInOrder) {
  auto cpu = device(1);
  std::vector<int> order;
  struct Append final : LocalWork {
    Append(std::vector<int>& to, int value) : to(to), value(value) {}
    void run() override { to.push_back(value); }
    std::vector<int>& to;
    int value;
  };
  for (int i = 0; i < 100; ++i) cpu->compute().enqueue(std::make_shared<Append>(order, i));
  std::promise<void> done;
  cpu->compute().record()->on_reached([&done] { done.set_value(); });
  done.get_future().wait();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(CpuDevice, ParallelForCoversEachItemOnceWithFixedParts) {
  for (int threads : {1, 3}) {
    SCOPED_TRACE(::testing::Message() << threads << " threads");
    auto cpu = device(threads);
    std::vector<std::atomic<int>> seen(1001);
    std::atomic<int> odd_parts = 0;
    cpu->parallelism().parallel_for(1001, 10, [&](std::int64_t begin, std::int64_t end) {
      if (begin % 10 != 0 || (end - begin != 10 && end != 1001)) ++odd_parts;
      for (auto i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    for (auto& s : seen) EXPECT_EQ(s, 1);
    EXPECT_EQ(odd_parts, 0);
  }
}

TEST(CpuDevice, KernelsUseTheCallingThreadAloneWhileTheyAreToldTo) {
  const auto alone = std::make_shared<std::atomic<bool>>(true);
  const auto device =
      make_cpu_device({.name = DeviceName::parse("/job:a/task:0/device:CPU:0"), .threads = 4, .alone = alone});
  const std::thread::id self = std::this_thread::get_id();
  std::atomic<int> elsewhere{0}, parts{0};
  const auto work = [&] {
    device->parallelism().parallel_for(64, 1, [&](std::int64_t, std::int64_t) {
      if (std::this_thread::get_id() != self) ++elsewhere;
      ++parts;
      std::this_thread::yield();
    });
  };
  for (int i = 0; i < 50; ++i) work();
  EXPECT_EQ(parts, 50 * 64);
  EXPECT_EQ(elsewhere, 0);
  *alone = false;
  EXPECT_TRUE(testing::eventually([&] {
    work();
    return elsewhere > 0;
  }));
}

TEST(CpuDevice, ParallelForRethrows) {
  auto cpu = device(3);
  EXPECT_THROW(cpu->parallelism().parallel_for(100, 1,
                                               [](std::int64_t i, std::int64_t) {
                                                 if (i == 57) invalid_argument("57");
                                               }),
               Error);
}

// 300 pieces, each ready when its half has run, that split their own work again.
class Pieces final : public DynamicWork {
 public:
  Pieces(Parallelism& parallelism, int count) : parallelism_(parallelism), count_(count), ready_{0} {}
  bool ready() const override {
    std::lock_guard lock(mutex_);
    return !ready_.empty();
  }
  bool finished() const override { return done_ == count_; }
  bool run_some() override {
    int piece;
    {
      std::lock_guard lock(mutex_);
      if (ready_.empty()) return false;
      piece = ready_.back();
      ready_.pop_back();
    }
    parallelism_.parallel_for(8, 1, [this](std::int64_t, std::int64_t) {
      const int now = ++running_;
      for (int peak = peak_; now > peak && !peak_.compare_exchange_weak(peak, now);) {
      }
      ++parts_;
      --running_;
    });
    {
      std::lock_guard lock(mutex_);
      for (int next : {2 * piece + 1, 2 * piece + 2})
        if (next < count_) ready_.push_back(next);
    }
    ++done_;
    parallelism_.wake();
    return true;
  }
  int parts() const { return parts_; }
  int peak() const { return peak_; }

 private:
  Parallelism& parallelism_;
  const int count_;
  mutable std::mutex mutex_;
  std::vector<int> ready_;
  std::atomic<int> done_{0}, parts_{0}, running_{0}, peak_{0};
};

TEST(CpuDevice, WorkInPiecesRunsToItsEndOnNoMoreThreadsThanThereAre) {
  for (int threads : {1, 2, 4}) {
    auto cpu = device(threads);
    for (int round = 0; round < 20; ++round) {
      SCOPED_TRACE(::testing::Message() << threads << " threads, round " << round);
      Pieces pieces(cpu->parallelism(), 300);
      cpu->parallelism().run(pieces);
      EXPECT_EQ(pieces.parts(), 300 * 8);
      EXPECT_LE(pieces.peak(), threads);
    }
  }
}

struct Piece final : LocalWork {
  Piece(std::string& seen, char name, std::uint64_t owner, int pauses)
      : seen(seen), name(name), who(owner), left(pauses) {}
  void run() override {
    if (before) std::exchange(before, nullptr)();
    seen += name;
    going_on = left-- > 0;
  }
  bool paused() const override { return going_on; }
  std::uint64_t owner() const override { return who; }
  std::string& seen;
  char name;
  std::uint64_t who;
  int left;
  bool going_on = false;
  std::function<void()> before;
};

// Work that pauses lets others run first, but not the next work of its owner, nor what comes after work of nobody.
TEST(CpuDevice, PausedWorkKeepsTheOrderOfItsOwner) {
  auto cpu = device(1);
  std::string seen;
  std::promise<void> all_there, done;
  auto first = std::make_shared<Piece>(seen, 'a', 1, 2);
  bool others = false;
  first->before = [&] {
    all_there.get_future().wait();
    others = cpu->compute().others_wait(1);
  };
  cpu->compute().enqueue(first);
  cpu->compute().enqueue(std::make_shared<Piece>(seen, 'b', 1, 0));
  cpu->compute().enqueue(std::make_shared<Piece>(seen, 'x', 2, 1));
  for (const auto& [name, owner] : {std::pair{'c', 1}, {'y', 3}, {'y', 3}, {'n', 0}, {'z', 4}, {'d', 1}})
    cpu->compute().enqueue(std::make_shared<Piece>(seen, name, owner, 0));
  cpu->compute().record()->on_reached([&done] { done.set_value(); });
  all_there.set_value();
  done.get_future().wait();
  EXPECT_EQ(seen, "axyyaxabcnzd");
  EXPECT_TRUE(others);
}

// A new or busy stream is idle in a moment.
void borrow(Stream& stream) {
  ASSERT_TRUE(testing::eventually([&] { return stream.lend(); }));
}

TEST(CpuDevice, AnIdleStreamIsLentAndWhatComesMeanwhileWaits) {
  auto cpu = device(1);
  Stream& stream = cpu->compute();
  std::string seen;
  std::promise<void> done;
  borrow(stream);
  EXPECT_FALSE(stream.lend()) << "it is lent already";
  EXPECT_FALSE(std::async(std::launch::async, [&] { return stream.lend(); }).get()) << "nobody gives it back";
  auto first = std::make_shared<Piece>(seen, 'a', 1, 1);
  bool others = false, on_this_thread = false, alone = false;
  std::promise<void> next_runs;
  first->before = [&, here = std::this_thread::get_id()] {
    others = stream.others_wait(1);
    on_this_thread = std::this_thread::get_id() == here;
    alone = next_runs.get_future().wait_for(std::chrono::milliseconds(5)) == std::future_status::timeout;
  };
  auto next = std::make_shared<Piece>(seen, 'x', 2, 0);
  next->before = [&] { next_runs.set_value(); };
  stream.enqueue(next);
  stream.enqueue(std::make_shared<Piece>(seen, 'b', 1, 0));
  stream.run_lent(first);  // runs 'a' here; the stream's thread does the rest
  stream.record()->on_reached([&done] { done.set_value(); });
  done.get_future().wait();
  EXPECT_EQ(seen, "axab");
  EXPECT_TRUE(others && on_this_thread && alone);
  borrow(stream);
  stream.run_lent(std::make_shared<Piece>(seen, 'c', 1, 0));
  EXPECT_EQ(seen, "axabc");
}

TEST(CpuDevice, AStreamWithWorkIsNotLent) {
  auto cpu = device(1);
  std::string seen;
  std::promise<void> running, go_on, done;
  auto first = std::make_shared<Piece>(seen, 'a', 1, 0);
  first->before = [&] {
    running.set_value();
    go_on.get_future().wait();
  };
  cpu->compute().enqueue(first);
  running.get_future().wait();
  EXPECT_FALSE(cpu->compute().lend());
  cpu->compute().record()->on_reached([&done] { done.set_value(); });
  go_on.set_value();
  done.get_future().wait();
}

TEST(CpuDevice, AStreamIsStoppedOnceItIsGivenBack) {
  auto cpu = device(1);
  std::string seen;
  std::promise<void> running, go_on;
  auto never = std::make_shared<Piece>(seen, 'b', 1, 0);
  auto borrower = std::async(std::launch::async, [&] {
    borrow(cpu->compute());
    auto work = std::make_shared<Piece>(seen, 'a', 1, 1);
    work->before = [&] {
      running.set_value();
      go_on.get_future().wait();
    };
    cpu->compute().enqueue(never);
    cpu->compute().run_lent(std::move(work));
  });
  running.get_future().wait();
  auto stopped = std::async(std::launch::async, [&] { cpu->shutdown(); });
  EXPECT_EQ(stopped.wait_for(std::chrono::milliseconds(5)), std::future_status::timeout);
  go_on.set_value();
  stopped.get();
  EXPECT_EQ(seen, "a");
  borrower.get();
  EXPECT_EQ(never.use_count(), 1);
  EXPECT_FALSE(cpu->compute().lend());
}

#ifdef __SSE__
// As a program's thread may be set up, by libraries built with -ffast-math.
TEST(CpuDevice, KernelsOnABorrowersThreadKeepSmallNumbers) {
  struct Halve final : LocalWork {
    void run() override { value = value / 2; }
    volatile float value = std::numeric_limits<float>::min();
  };
  constexpr unsigned kFlushToZero = 0x8000, kFlags = 0x3f;
  auto cpu = device(1);
  auto halve = std::make_shared<Halve>();
  borrow(cpu->compute());
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | kFlushToZero);
  cpu->compute().run_lent(halve);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_GT(halve->value, 0.0f);
  EXPECT_EQ(after & ~kFlags, (before | kFlushToZero) & ~kFlags);
}
#endif

TEST(CpuDevice, AStoppedStreamLetsGoOfWhatItHasNotBegun) {
  struct Held final : LocalWork {};
  auto cpu = device(1);
  cpu->shutdown();
  auto work = std::make_shared<Held>();
  cpu->compute().enqueue(work);
  EXPECT_EQ(work.use_count(), 1);
}

TEST(CpuDevice, TheAllocatorReusesWhatIsReleased) {
  auto cpu = device(1);
  for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{65}, std::size_t{100},
                            std::size_t{1000}, std::size_t{123456}}) {
    const void* first = nullptr;
    {
      BufferRef b = cpu->allocator().allocate(bytes);
      EXPECT_GE(b->size(), bytes) << bytes;
      first = b->data();
    }
    EXPECT_EQ(cpu->allocator().allocate(bytes)->data(), first) << bytes;
  }
  EXPECT_EQ(cpu->allocator().stats().bytes_in_use, 0u);
}

TEST(CpuDevice, AMemoryLimitHoldsAndShows) {
  auto cpu = make_cpu_device({.name = DeviceName::parse("/job:test/task:0/device:CPU:0"), .memory_limit = 1 << 20});
  EXPECT_EQ(cpu->attributes().memory_bytes, 1u << 20);
  EXPECT_EQ(cpu->allocator().stats().limit_bytes, 1u << 20);
  const Tensor fits = cpu->allocator().tensor(DType::u8, Shape{1 << 19});
  EXPECT_THROW(cpu->allocator().tensor(DType::u8, Shape{1 << 20}), Error);
}

TEST(Variable, UpdatesDoNotReachTensorsAlreadyRead) {
  auto cpu = device(1);
  Variable v("v", DType::f32, Shape{2});
  EXPECT_THROW(v.value(), Error);
  v.assign(Tensor::vector<float>({1, 2}));
  EXPECT_THROW(v.assign(Tensor::vector<float>({1, 2, 3})), Error);
  const Tensor read = v.value();
  v.writable(cpu->allocator()).mutable_data<float>()[0] = 9;
  EXPECT_EQ(read.data<float>()[0], 1);
  EXPECT_EQ(v.value().data<float>()[0], 9);
}

}  // namespace
}  // namespace troupe
