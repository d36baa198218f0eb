#include "tools/top/asker.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace troupe::top {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

double seconds_since(Time time) { return std::chrono::duration<double>(Clock::now() - time).count(); }

}  // namespace

struct Asker::State {
  std::unique_ptr<SnapshotSource> source;  // used by the thread only
  std::function<void()> wake;              // called under the mutex, never after `over`

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::chrono::nanoseconds interval{};
  bool paused = false, over = false, ended = false;
  std::optional<Observation> fresh;
  std::optional<Time> answered, asking;
  std::string error;

  // Runs on the thread.
  void ask_on() {
    std::optional<ClusterSnapshot> before;
    std::unique_lock lock(mutex);
    while (!over) {
      const Time begun = Clock::now();
      asking = begun;
      lock.unlock();
      std::optional<Observation> observation;
      std::string problem;
      try {
        observation = observe(source->cluster(), before ? &*before : nullptr);
        before = observation->snapshot;
      } catch (const std::exception& thrown) {
        problem = thrown.what();
      }
      lock.lock();
      asking.reset();
      error = std::move(problem);
      if (observation) {
        answered = Clock::now();
        fresh = std::move(observation);
      }
      if (over) break;
      ended = source->ended();
      wake();
      if (ended) break;
      while (!over && (paused || Clock::now() < begun + interval)) {
        if (paused)
          changed.wait(lock);
        else
          changed.wait_until(lock, begun + interval);
      }
    }
  }
};

Asker::Asker(std::unique_ptr<SnapshotSource> source, std::chrono::nanoseconds interval, std::function<void()> wake)
    : state_(std::make_shared<State>()) {
  state_->source = std::move(source);
  state_->wake = std::move(wake);
  state_->interval = interval;
  std::thread([state = state_] { state->ask_on(); }).detach();
}

Asker::~Asker() {
  {
    std::lock_guard lock(state_->mutex);
    state_->over = true;
  }
  state_->changed.notify_all();
}

std::optional<Observation> Asker::take() {
  std::lock_guard lock(state_->mutex);
  return std::exchange(state_->fresh, std::nullopt);
}

Asked Asker::asked() const {
  std::lock_guard lock(state_->mutex);
  Asked out{.error = state_->error, .ended = state_->ended};
  if (state_->answered) out.age = seconds_since(*state_->answered);
  if (state_->asking) out.waiting = seconds_since(*state_->asking);
  return out;
}

void Asker::set_interval(std::chrono::nanoseconds interval) {
  std::lock_guard lock(state_->mutex);
  state_->interval = interval;
  state_->changed.notify_all();
}

void Asker::set_paused(bool paused) {
  std::lock_guard lock(state_->mutex);
  state_->paused = paused;
  state_->changed.notify_all();
}

}  // namespace troupe::top
