#include "troupe/actors/introspection/trace_recording.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>

#include <troupe/devices/storage/file_system.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr int kQuestions = 8;            // clock queries
constexpr std::uint64_t kMostAhead = 4;  // times the requested steps: the limit for waiting for slower tasks
constexpr std::chrono::seconds kRecordingPatience{10};  // a recording may be long

class Recorder {
 public:
  Recorder(std::vector<TracedTask> tasks, const TraceRequest& request,
           const std::function<void(const std::string&)>& say)
      : request_(request), say_(say) {
    for (TracedTask& task : tasks) tasks_.push_back({std::move(task), {}, 0, 0});
  }

  TraceFile run(const std::string& cluster) {
    const std::string how = request_.slower_than_ms > 0
                                ? fmt::format("?slower_than_ms={}&steps={}", request_.slower_than_ms, request_.steps)
                                : "";
    ask_all("/trace" + how, true);
    const bool any = wait();
    ask_all("/trace?stop", true);
    if (!any && request_.stop.stop_requested()) fail(Code::aborted, "stopped before a step had ended");
    if (!any)
      fail(Code::deadline_exceeded, "no step has ended within {:.0f} s; why the cluster waits: troupe-top --why",
           std::chrono::duration<double>(request_.patience).count());
    return make_trace_file(collect(), cluster);
  }

 private:
  struct Asked {
    TracedTask task;
    TaskTrace last;
    std::int64_t offset_ns, uncertainty_ns;
  };

  // Drops tasks that do not answer.
  template <class Question>
  void each(Question&& question) {
    std::erase_if(tasks_, [&](Asked& asked) {
      try {
        question(asked);
        return false;
      } catch (const Error& error) {
        say_(fmt::format("{} is skipped: {}", asked.task.task, error.message()));
        why_ = error.within(asked.task.task);
        return true;
      }
    });
    if (tasks_.empty()) throw why_;
  }
  void ask_all(const std::string& path, bool post) {
    each([&](Asked& asked) { asked.last = parse_task_trace(asked.task.ask(path, post)); });
  }

  // Waits for enough steps. Returns true if there are any.
  bool wait() {
    const bool slow = request_.slower_than_ms > 0;
    std::uint64_t told = UINT64_MAX;
    std::int64_t heard_ns = request_.now_ns();
    for (;;) {
      ask_all("/trace", false);
      std::uint64_t least = UINT64_MAX, most = 0;  // among tasks with steps
      for (const Asked& asked : tasks_) {
        const std::uint64_t steps = asked.last.status.steps;
        if (slow && asked.last.status.state == Trace::State::done && asked.last.status.slow_step_ns > 0) return true;
        if (steps > 0) least = std::min(least, steps);
        most = std::max(most, steps);
      }
      const std::int64_t now_ns = request_.now_ns();
      if (const std::uint64_t done = most == 0 ? 0 : slow ? most : std::min(least, request_.steps); done != told) {
        told = done;
        heard_ns = now_ns;
        say_(slow ? fmt::format("{} steps, none slower than {} ms yet", done, request_.slower_than_ms)
                  : fmt::format("{} of {} steps", done, request_.steps));
      }
      // One extra: the first step may have begun before all tasks were recording.
      if (!slow && most > request_.steps && (least > request_.steps || most > kMostAhead * request_.steps)) return true;
      if (now_ns - heard_ns > request_.patience.count() || request_.stop.stop_requested()) return most > 0 && !slow;
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, request_.stop, request_.pause, [] { return false; });
    }
  }

  // Takes the fastest answer: it gives the best estimate of the task's clock.
  void align(Asked& asked) const {
    asked.uncertainty_ns = INT64_MAX;
    for (int i = 0; i < kQuestions; ++i) {
      const std::int64_t before = request_.now_ns();
      asked.last = parse_task_trace(asked.task.ask("/trace", false));
      const std::int64_t half = (request_.now_ns() - before + 1) / 2;
      if (half >= asked.uncertainty_ns) continue;
      asked.uncertainty_ns = half;
      asked.offset_ns = asked.last.now_ns - (before + half);
    }
    // Whether the task uses the same clock; a container may have its own time.
    const bool same = !asked.last.clock.empty() && asked.last.clock == name_of_clock() &&
                      std::abs(asked.offset_ns) <= asked.uncertainty_ns;
    if (same) asked.offset_ns = asked.uncertainty_ns = 0;
  }

  std::vector<AlignedTrace> collect() {
    each([&](Asked& asked) { align(asked); });
    std::int64_t from = 0, to = INT64_MAX;  // on our clock
    const Asked* first = nullptr;           // the task with the slow step; others may have had one since
    for (const Asked& asked : tasks_)
      if (asked.last.status.slow_step_ns > 0 && asked.last.status.ended_ns - asked.offset_ns < to) {
        first = &asked;
        from = asked.last.status.began_ns - asked.offset_ns;
        to = asked.last.status.ended_ns - asked.offset_ns;
      }
    if (first)
      say_(fmt::format("step {} of {} took {:.3f} ms", first->last.status.slow_step, first->task.task,
                       static_cast<double>(first->last.status.slow_step_ns) * 1e-6));
    std::vector<AlignedTrace> out;
    each([&](Asked& asked) {
      const std::string window =
          from == 0 ? "" : fmt::format("&from={}&to={}", from + asked.offset_ns, to + asked.offset_ns);
      TaskTrace trace = parse_task_trace(asked.task.ask("/trace?events" + window, false));
      // The recording begins too late to contain all of the steps.
      if (from != 0 && trace.recording && trace.recording->began_ns > from + asked.offset_ns)
        fail(Code::out_of_range, "it did not record all of these steps");
      out.push_back({std::move(trace), asked.offset_ns, asked.uncertainty_ns});
    });
    return out;
  }

  const TraceRequest request_;
  const std::function<void(const std::string&)>& say_;
  std::vector<Asked> tasks_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  Error why_{Code::unavailable, "no task to trace"};
};

}  // namespace

TracedTask traced_task(Trace& trace, const std::string& task) {
  return {task, [&trace, task](const std::string& path, bool post) {
            std::map<std::string, std::string> parameters;  // of "/trace?name=value&name"
            for (std::size_t at = path.find('?'); at != std::string::npos;) {
              const std::size_t end = path.find('&', at + 1);
              const std::string one = path.substr(at + 1, end == std::string::npos ? end : end - at - 1);
              const std::size_t equals = one.find('=');
              parameters[one.substr(0, equals)] = equals == std::string::npos ? "" : one.substr(equals + 1);
              at = end;
            }
            return answer_trace(trace, task, post, parameters);
          }};
}

std::vector<TracedTask> traced_tasks(const std::vector<KnownTask>& tasks,
                                     const std::function<void(const std::string&)>& say) {
  std::vector<TracedTask> out;
  for (const KnownTask& known : tasks) {
    if (known.target.address.port == 0)
      say(fmt::format("{} is skipped: {}", known.task, known.unknown));
    else
      out.push_back({known.task, [target = known.target](const std::string& what, bool post) {
                       return (post ? http_post : http_get)(target, what, kRecordingPatience);
                     }});
  }
  return out;
}

void check_trace_path(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path();
  if (access(directory.empty() ? "." : directory.c_str(), W_OK | X_OK) != 0)
    fail(Code::permission_denied, "cannot write '{}': {}", path, std::strerror(errno));
  if (std::filesystem::is_directory(path)) fail(Code::permission_denied, "cannot write '{}': it is a directory", path);
}

std::string write_trace(const TraceFile& file, const std::string& path) {
  replace_file(posix_file_system(), path, file.json, std::to_string(getpid()));
  return fmt::format("{}: {} steps, {} events, {} arrows; ui.perfetto.dev shows it", path, file.steps, file.events,
                     file.arrows);
}

TraceFile record_trace(std::vector<TracedTask> tasks, const std::string& cluster, const TraceRequest& request,
                       const std::function<void(const std::string&)>& say) {
  if (tasks.empty()) fail(Code::unavailable, "no task to trace");
  return Recorder(std::move(tasks), request, say).run(cluster);
}

}  // namespace troupe
