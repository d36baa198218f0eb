#include "apps/python/session.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "apps/python/device_libraries.hpp"
#include "apps/python/eager_mode.hpp"
#include "apps/python/fork.hpp"
#include "apps/python/operands.hpp"
#include "apps/python/tensors.hpp"
#include <troupe/actors/cluster/task.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// How long the main thread waits after Ctrl-C.
constexpr std::chrono::milliseconds kSignalPeriod{20};

struct StepEnd {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<StepResult> result;

  bool wait(std::optional<std::chrono::milliseconds> longest) {
    std::unique_lock lock(mutex);
    const auto ended = [&] { return result.has_value(); };
    if (longest) return changed.wait_for(lock, *longest, ended);
    changed.wait(lock, ended);
    return true;
  }
};

// Others, such as lists of numbers, take that of what they are fed to.
bool has_dtype(nb::handle value) { return is_array(value) || is_tensor(value) || is_variable(value); }

// Which alone handles signals: set when the module is imported.
unsigned long main_thread = 0;

}  // namespace

void wait_until_signal(const std::function<bool(std::chrono::milliseconds)>& wait, const std::function<void()>& check) {
  const bool main = PyThread_get_thread_ident() == main_thread;
  while (!wait(main || check ? kSignalPeriod : std::chrono::hours(1))) {
    if (check) check();
    if (!main) continue;
    const nb::gil_scoped_acquire held;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

std::vector<Tensor> run_until_signal(Session& session, const Callable& callable, std::vector<Tensor> feeds,
                                     const RunOptions& options, const std::function<void()>& check) {
  if (PyThread_get_thread_ident() != main_thread && !check) return callable(std::move(feeds), options);
  const auto end = std::make_shared<StepEnd>();
  const StepId step = callable.start(std::move(feeds), options, [end](StepResult result) {
    const std::lock_guard lock(end->mutex);
    end->result = std::move(result);
    end->changed.notify_all();
  });
  try {
    wait_until_signal([&](std::chrono::milliseconds longest) { return end->wait(longest); }, check);
  } catch (...) {
    session.cancel(step);
    end->wait(std::nullopt);
    throw;
  }
  if (end->result->error) throw end->result->error;
  return std::move(end->result->fetches);
}

PySession::Running::~Running() {
  std::optional<nb::gil_scoped_release> released;
  if (PyGILState_Check()) released.emplace();
  if (is_forked()) {
    (void)session.release();
    (void)new std::shared_ptr<Task>(std::move(task));
  }
  session.reset();
  task.reset();
}

PySession::PySession(const PyGraph& graph, int threads, bool inference, const std::optional<PyTask>& task,
                     const std::string& container)
    : graph_(graph.graph), running_(std::make_shared<Running>()) {
  check_not_forked();
  if (task) (void)task->get();
  SessionOptions options{.container = container};
  if (inference) options.inference = InferencePasses{};
  const nb::gil_scoped_release released;
  running_->task = task ? task->task : std::make_shared<Task>(own_task_options(threads));
  running_->session = std::make_unique<Session>(*running_->task, *graph.graph, std::move(options));
}

PySession::~PySession() { close(); }

void PySession::close() {
  const std::shared_ptr<Running> running = std::move(running_);
  if (!running || is_forked()) return;
  const nb::gil_scoped_release released;
  running->session->close();  // ends steps of other threads
}

// Compiles on the first call of its kind. The graph is read with the interpreter's lock, under which it grows.
Callable PySession::callable(Running& running, const Outputs& feeds, const Outputs& fetches, const Outputs& targets) {
  const bool has_grown = graph_->size() != known_;
  const ReleasedForOp released;
  if (has_grown) {
    const std::unique_lock alone(running.mutex);
    const nb::gil_scoped_acquire held;
    if (graph_->size() != known_) running.session->extend(*graph_);
    known_ = graph_->size();
  }
  const std::shared_lock lock(running.mutex);
  return running.session->callable(feeds, fetches, targets);
}

std::vector<Tensor> PySession::run(const Feeds& feeds, const Outputs& fetches, const Outputs& targets) {
  check_not_forked();
  const std::shared_ptr<Running> running = running_;
  if (!running) fail(Code::failed_precondition, "the session is closed");
  Outputs fed;
  std::vector<Tensor> values;
  for (const auto& [output, tensor] : feeds) {
    fed.push_back(output);
    values.push_back(tensor);
  }
  const bool main = PyThread_get_thread_ident() == main_thread;
  if (!main) refuse_if_ended();
  const Callable call = callable(*running, fed, fetches, targets);
  if (main || call.in_order()) {
    const nb::gil_scoped_release released;
    return run_until_signal(*running->session, call, std::move(values));
  }
  // It may wait for another step, and be waiting when the interpreter ends.
  refuse_if_ended();
  const ReleasedForOp released;
  return run_until_signal(*running->session, call, std::move(values), {}, refuse_if_ended);
}

std::map<std::string, Tensor> PySession::values(const std::vector<VariableInfo>& wanted) {
  Outputs reads;
  for (const VariableInfo& v : wanted) reads.push_back(find_variable(*graph_, v.name).read());
  const std::vector<Tensor> found = run({}, reads, {});
  std::map<std::string, Tensor> out;
  for (std::size_t i = 0; i < wanted.size(); ++i) out[wanted[i].name] = found[i];
  return out;
}

void bind_sessions(nb::module_& m) {
  main_thread = nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  nb::class_<PySession>(m, "Session")
      .def(nb::init<const PyGraph&, int, bool, const std::optional<PyTask>&, const std::string&>(), "graph"_a,
           "threads"_a = 0, "inference"_a = false, "task"_a.none() = nb::none(), "container"_a = "")
      .def(
          "run",
          [](PySession& session, const nb::dict& feeds, const nb::list& fetches, const nb::list& targets) {
            Feeds given;
            for (const auto& [output, value] : feeds) {
              if (!is_tensor(output) || tensor_of(output).output().eager)
                invalid_argument("run: the key {} of feeds is not a tensor of the graph", nb::repr(output).c_str());
              const Output& fed = tensor_of(output).output();
              given.emplace_back(fed, has_dtype(value) ? data_of(value) : data_of(value, fed.dtype()));
            }
            const auto outputs = [](const nb::list& list) {
              Outputs out;
              for (const nb::handle item : list) {
                if (!is_tensor(item) || tensor_of(item).output().eager)
                  invalid_argument("run: {} is not a tensor of the graph", nb::repr(item).c_str());
                out.push_back(tensor_of(item).output());
              }
              return out;
            };
            nb::list out;
            for (Tensor& tensor : session.run(given, outputs(fetches), outputs(targets))) {
              const Tensor moved = std::move(tensor);
              out.append(to_array(moved, true));
            }
            return out;
          },
          "feeds"_a, "fetches"_a, "targets"_a)
      .def("close", &PySession::close);
}

}  // namespace troupe::python
