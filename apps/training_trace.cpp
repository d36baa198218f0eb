#include "apps/training_trace.hpp"

#include <condition_variable>
#include <mutex>

#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/introspection/trace_recording.hpp>

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kPause{20};
constexpr std::chrono::hours kPatience{24};  // per step; the end of training ends the wait too

}  // namespace

TrainingTrace::TrainingTrace(Task& task, Options options) : task_(task), options_(std::move(options)) {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    try {
      record(stop);
      written_ = true;
    } catch (const std::exception& error) {
      options_.say(fmt::format("--trace: {}", error.what()));
    }
  });
}

TrainingTrace::~TrainingTrace() = default;

bool TrainingTrace::end() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  return written_;
}

void TrainingTrace::record(const std::stop_token& stop) {
  const TrainingRecord& training = task_.introspection().training();
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  for (auto seen = training.snapshot(); !seen || seen->steps == 0; seen = training.snapshot()) {
    changed.wait_for(lock, stop, kPause, [] { return false; });
    if (stop.stop_requested()) fail(Code::aborted, "training ended before anything was recorded");
  }
  std::vector<TracedTask> tasks = traced_tasks(task_.introspection().view().others(), options_.say);
  tasks.push_back(traced_task(task_.actors().trace(), task_.name().to_string()));
  const std::chrono::milliseconds pause(tasks.size() == 1 ? 2 : 50);  // other tasks are asked over a socket
  const TraceFile file =
      record_trace(std::move(tasks), options_.cluster,
                   {.steps = options_.steps, .patience = kPatience, .pause = pause, .stop = stop}, options_.say);
  options_.say(write_trace(file, options_.path));
}

}  // namespace troupe
