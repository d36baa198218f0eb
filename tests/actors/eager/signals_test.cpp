// Handlers of signals while kernels run: oneDNN's products keep data where the kernel would write a handler's frame.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/actors/eager/eager_testing.hpp"
#include <troupe/actors/eager/eager.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/devices/cpu/blocked_signals.hpp>
#include <troupe/graph/builder/builder.hpp>

namespace troupe {
namespace {

using testing::numbers;

constexpr int kSignal = SIGUSR2;
std::atomic<int> handled = 0;

// Sends a signal to the process without end, so that any of its threads may handle it.
class Signals {
 public:
  Signals() {
    struct sigaction now {};
    now.sa_handler = [](int) { ++handled; };
    sigaction(kSignal, &now, &before_);
    sender_ = std::thread([this] {
      sigset_t own;
      sigemptyset(&own);
      sigaddset(&own, kSignal);
      pthread_sigmask(SIG_BLOCK, &own, nullptr);
      while (!stops_) {
        kill(getpid(), kSignal);
        std::this_thread::yield();
      }
    });
  }
  ~Signals() {
    stops_ = true;
    sender_.join();
    sigaction(kSignal, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  struct sigaction before_ {};
  std::atomic<bool> stops_ = false;
  std::thread sender_;
};

Output product_of(Graph& graph) {
  const Output x = constant(graph, numbers({400, 400}, 3));
  return matmul(x, x);
}

std::vector<float> values_of(const Tensor& t) { return {t.values<float>().begin(), t.values<float>().end()}; }

TEST(SignalsWhileKernelsRun, LeaveProductsOfTheCallersThreadAsTheyAre) {
  Eager eager;
  const std::vector<float> wanted = values_of(product_of(eager.graph()).value());
  const Signals signals;
  handled = 0;
  for (int i = 0; i < 40 || handled < 100; ++i) ASSERT_EQ(values_of(product_of(eager.graph()).value()), wanted);
}

TEST(SignalsWhileKernelsRun, LeaveProductsOfADevicesThreadAsTheyAre) {
  Task task({.threads = 2});
  Graph graph;
  const Output y = product_of(graph);
  Session session(task, graph);
  const Callable product = session.callable({}, {y});
  const std::vector<float> wanted = values_of(product({})[0]);
  const Signals signals;
  const BlockedSignals here;  // other threads must handle them
  handled = 0;
  for (int i = 0; i < 40 || handled < 100; ++i) ASSERT_EQ(values_of(product.async({}).get()[0]), wanted);
}

TEST(SignalsWhileKernelsRun, AreHandledInFunctionsOfTheProgram) {
  Task task;
  Graph graph;
  sigset_t found;
  const HostFunction look = [&](std::span<const Tensor> xs) {
    pthread_sigmask(SIG_BLOCK, nullptr, &found);
    return std::vector<Tensor>{xs[0]};
  };
  const Output y = host_call(look, {constant(graph, 1.0f)}, {DType::f32})[0];
  Session session(task, graph);
  session.callable({}, {y}).async({}).get();
  EXPECT_FALSE(sigismember(&found, SIGTERM));
}

}  // namespace
}  // namespace troupe
