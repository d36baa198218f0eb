// Sessions of Python: steps of a graph that may grow meanwhile, from any number of threads.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "apps/python/bindings.hpp"
#include "apps/python/task.hpp"
#include <troupe/actors/session/session.hpp>

namespace troupe::python {

// Waits, without the interpreter's lock. In the main thread a signal, such as Ctrl-C, throws its nb::python_error.
// `wait` returns whether it is over, after this long at most. `check`, if given, is called now and then: what it throws
// ends the wait of any thread.
void wait_until_signal(const std::function<bool(std::chrono::milliseconds)>& wait,
                       const std::function<void()>& check = {});

// Runs a step, without the interpreter's lock. A signal, such as Ctrl-C, cancels that of the main thread: it throws the
// nb::python_error of the signal. What `check` throws, see above, cancels that of any thread.
std::vector<Tensor> run_until_signal(Session& session, const Callable& callable, std::vector<Tensor> feeds,
                                     const RunOptions& options = {}, const std::function<void()>& check = {});

// Called with the interpreter's lock held, which is released while a step runs and while the session ends: its threads
// may need it to let go of arrays. A signal, such as Ctrl-C, cancels the main thread's step.
class PySession {
 public:
  // `task`: that it runs on, with its cluster; none: one of its own. `container`: of its variables
  // (SessionOptions::container).
  PySession(const PyGraph& graph, int threads, bool inference = false, const std::optional<PyTask>& task = {},
            const std::string& container = {});
  PySession(PySession&&) = delete;
  ~PySession();

  std::vector<Tensor> run(const Feeds& feeds, const Outputs& fetches, const Outputs& targets);
  // The values of these variables of the graph.
  std::map<std::string, Tensor> values(const std::vector<VariableInfo>& wanted);
  void close();

 private:
  // What a step holds while it runs.
  struct Running {
    ~Running();
    std::shared_ptr<Task> task;
    std::unique_ptr<Session> session;
    std::shared_mutex mutex;  // held alone to extend the session; never wait for it with the interpreter's lock
  };
  Callable callable(Running& running, const Outputs& feeds, const Outputs& fetches, const Outputs& targets);

  std::shared_ptr<Graph> graph_;
  std::shared_ptr<Running> running_;  // null: closed
  int known_ = -1;                    // nodes that the session has; guarded by the interpreter's lock
};

}  // namespace troupe::python
