#include "apps/python/eager_mode.hpp"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "apps/python/bindings.hpp"
#include "apps/python/device_libraries.hpp"
#include "apps/python/fork.hpp"
#include "apps/python/session.hpp"
#include <troupe/actors/cluster/task.hpp>
#include <troupe/actors/eager/eager.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// Shared by all threads of the interpreter, and never destroyed: end_eager() runs before the interpreter ends.
struct EagerMode {
  // Null: not made yet, or ended. An op that has read it holds the interpreter's lock, or is one of released_ops.
  std::atomic<Graph*> graph{nullptr};
  std::mutex mutex;  // guards what follows; never waits for the interpreter's lock
  std::condition_variable changed;
  int released_ops = 0;  // that run without the interpreter's lock
  bool ended = false;
  int threads = 0;
  std::uint64_t seed = 0;
  std::vector<std::function<void()>> at_end;
  std::unique_ptr<Task> task;
  std::unique_ptr<Eager> eager;
};

EagerMode& mode() {
  static EagerMode* const the_mode = new EagerMode;
  return *the_mode;
}

// Ops of one thread that wait for the device while another's are on it: other threads of Python go on. Ctrl-C ends the
// main thread's wait.
void wait_released(const std::function<bool(std::chrono::milliseconds)>& wait) {
  std::optional<ReleasedForOp> released;
  if (PyGILState_Check()) released.emplace();
  wait_until_signal(wait);
}

[[noreturn]] void refuse_ended() {
  fail(Code::failed_precondition, "the interpreter is ending: tensors can still be read, but no op runs any more");
}

// A step of a traced function, which may wait for a queue.
std::vector<Tensor> run_long_step(Session& session, const Callable& callable, std::vector<Tensor> feeds,
                                  const RunOptions& options) {
  if (!PyGILState_Check()) return run_until_signal(session, callable, std::move(feeds), options, refuse_if_ended);
  const ReleasedForOp released;
  return run_until_signal(session, callable, std::move(feeds), options, refuse_if_ended);
}

Graph& make_eager() {
  check_not_forked();
  EagerMode& m = mode();
  {
    // A thread that let go of the interpreter's lock at the end would not get it back.
    const std::lock_guard lock(m.mutex);
    if (m.ended) refuse_ended();
  }
  {
    const ReleasedForOp released;
    const std::lock_guard lock(m.mutex);
    if (!m.eager && !m.ended) {
      m.task = std::make_unique<Task>(own_task_options(m.threads));
      m.eager = std::make_unique<Eager>(
          *m.task,
          EagerOptions{.seed = m.seed, .device = {}, .around_waits = wait_released, .run_long_step = run_long_step});
      m.graph.store(&m.eager->graph(), std::memory_order_release);
    }
  }
  if (Graph* const graph = eager_graph_if_any()) return *graph;
  refuse_ended();
}

// Called while the interpreter still works: threads of the task may need its lock to let go of arrays.
void end_eager() {
  if (is_forked()) return;
  EagerMode& m = mode();
  {
    const std::lock_guard lock(m.mutex);
    m.ended = true;
    m.graph.store(nullptr, std::memory_order_release);
  }
  const nb::gil_scoped_release released;
  std::unique_lock lock(m.mutex);
  m.changed.wait(lock, [&] { return m.released_ops == 0; });
  const std::unique_ptr<Task> task = std::move(m.task);  // ends after the Eager, and without the mutex
  const std::unique_ptr<Eager> eager = std::move(m.eager);
  const std::vector<std::function<void()>> at_end = std::move(m.at_end);
  lock.unlock();
  for (const std::function<void()>& end : at_end) end();
}

void set_seed(std::uint64_t seed) {
  EagerMode& m = mode();
  const std::lock_guard lock(m.mutex);
  m.seed = seed;
  if (m.eager) m.eager->set_seed(seed);
}

void set_threads(int threads) {
  if (threads < 1) invalid_argument("set_threads: there must be 1 thread or more, not {}", threads);
  EagerMode& m = mode();
  const std::lock_guard lock(m.mutex);
  if (m.eager) fail(Code::failed_precondition, "set_threads: ops have run already; call it before the first");
  m.threads = threads;
}

}  // namespace

void refuse_if_ended() {
  const std::lock_guard lock(mode().mutex);
  if (mode().ended) refuse_ended();
}

Graph* eager_graph_if_any() { return is_forked() ? nullptr : mode().graph.load(std::memory_order_acquire); }

Graph& eager_graph() {
  Graph* const graph = eager_graph_if_any();
  return graph ? *graph : make_eager();
}

Eager& eager() {
  eager_graph();
  return *mode().eager;
}

void at_end_of_eager(std::function<void()> end) {
  const std::lock_guard lock(mode().mutex);
  mode().at_end.push_back(std::move(end));
}

ReleasedForOp::ReleasedForOp() {
  {
    const std::lock_guard lock(mode().mutex);
    ++mode().released_ops;
  }
  state_ = PyEval_SaveThread();
}
// end_eager() waits until the thread has the lock again: the interpreter would end it while it waits for that.
ReleasedForOp::~ReleasedForOp() {
  PyEval_RestoreThread(state_);
  const std::lock_guard lock(mode().mutex);
  if (--mode().released_ops == 0) mode().changed.notify_all();
}

void bind_eager_mode(nb::module_& m) {
  m.def("set_seed", &set_seed, "seed"_a);
  m.def("set_threads", &set_threads, "threads"_a);
  m.def("ops_run", [] { return eager_graph_if_any() ? mode().eager->ops_run() : 0; });
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&end_eager));
}

}  // namespace troupe::python
