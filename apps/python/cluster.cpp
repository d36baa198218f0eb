// Clusters in Python: the task that this process is, and what tasks do together.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>

#include "apps/python/bindings.hpp"
#include "apps/python/fork.hpp"
#include "apps/python/task.hpp"
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/session/group.hpp>
#include <troupe/actors/session/session.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;
using released = nb::call_guard<nb::gil_scoped_release>;
using Seconds = std::chrono::duration<double>;
constexpr std::chrono::nanoseconds kSlice = std::chrono::milliseconds(200);  // between looks for Ctrl-C

std::weak_ptr<Task>& joined() {
  static std::weak_ptr<Task> task;
  return task;
}

// Threads of the task may need the interpreter's lock to let go of arrays.
std::shared_ptr<Task> shared(std::unique_ptr<Task> task) {
  return {task.release(), [](Task* ended) {
            if (is_forked()) return;
            if (Py_IsInitialized() && PyGILState_Check()) {
              const nb::gil_scoped_release unlocked;
              delete ended;
            } else {
              delete ended;
            }
          }};
}

// The process as a task: `arguments` are the program's name and its arguments. Returns those that are left, too.
std::pair<PyTask, std::vector<std::string>> task_from_command_line(std::vector<std::string> arguments, int threads) {
  check_not_forked();
  if (joined_task())
    fail(Code::failed_precondition, "this process is a task of a cluster already: close() that one first");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  int count = static_cast<int>(arguments.size());
  std::shared_ptr<Task> task;
  {
    const nb::gil_scoped_release unlocked;
    task = shared(Task::from_command_line(count, pointers.data(), {.threads = threads}));
  }
  joined() = task;
  return {{task}, {pointers.begin(), pointers.begin() + count}};
}

// A task that lends no devices: of the cluster of a file that does not name it.
PyTask client_of(const std::string& cluster_file, double timeout) {
  check_not_forked();
  const nb::gil_scoped_release unlocked;
  auto task = shared(std::make_unique<Task>(TaskOptions{.name = {"client", 0}, .networked = true}));
  task->join(ClusterSpec::read(cluster_file), std::chrono::duration_cast<std::chrono::nanoseconds>(Seconds(timeout)));
  return {task};
}

std::map<std::string, std::vector<std::string>> addresses_of(const PyTask& task) {
  std::map<std::string, std::vector<std::string>> out;
  for (const auto& [name, address] : task.get().cluster().tasks) out[name.job].push_back(address.to_string());
  return out;
}

std::vector<std::string> devices_of(const PyTask& task) {
  std::vector<std::string> out;
  for (const DeviceInfo& device : task.get().devices()) out.push_back(device.name.to_string());
  return out;
}

// Calls `wait` with a short time until it returns true; false: `timeout` has passed.
template <class Wait>
bool wait_in_slices(std::optional<double> timeout, Wait&& wait) {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    std::chrono::nanoseconds left = kSlice;
    if (timeout) {
      const Seconds rest = Seconds(*timeout) - (std::chrono::steady_clock::now() - begin);
      left =
          std::clamp(std::chrono::duration_cast<std::chrono::nanoseconds>(rest), std::chrono::nanoseconds(0), kSlice);
    }
    {
      const nb::gil_scoped_release unlocked;
      if (wait(left)) return true;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (timeout && left < kSlice) return false;
  }
}

// Waits until the link to a task is up; returns its number, 0 if it is not up by then.
std::uint64_t await_link(const PyTask& task, const std::string& job, int index, std::optional<double> timeout) {
  std::uint64_t number = 0;
  wait_in_slices(timeout, [&](std::chrono::nanoseconds left) {
    number = task.get().await_link({job, index}, left);
    return number != 0;
  });
  return number;
}

std::optional<std::string> introspection_of(const PyTask& task) {
  const auto target = task.get().introspection().target();
  return target ? std::optional(target->url()) : std::nullopt;
}

void close_task(PyTask& task) {
  const nb::gil_scoped_release unlocked;
  task.task.reset();
}

// The group ends before its task does.
class PyGroup {
 public:
  PyGroup(const PyTask& task, const std::string& name, const std::vector<std::pair<std::string, int>>& members,
          double timeout)
      : task_(task) {
    std::vector<TaskName> tasks;
    for (const auto& [job, index] : members) tasks.push_back({job, index});
    const auto limit = std::chrono::duration_cast<std::chrono::nanoseconds>(Seconds(timeout));
    const nb::gil_scoped_release unlocked;
    group_ = std::make_unique<CollectiveGroup>(task_.get(), name, std::move(tasks),
                                               CollectiveGroupOptions{.timeout = limit});
  }
  PyGroup(PyGroup&&) = delete;
  ~PyGroup() {
    const nb::gil_scoped_release unlocked;
    if (is_forked()) (void)group_.release();
    group_.reset();
    task_.task.reset();
  }
  CollectiveGroup& get() const {
    check_not_forked();
    return *group_;
  }

 private:
  PyTask task_;
  std::unique_ptr<CollectiveGroup> group_;
};

// Nodes that are added inside of a with statement run on a device.
class PyDeviceScope {
 public:
  PyDeviceScope(const PyGraph& graph, std::string device) : graph_(graph), device_(std::move(device)) {}
  PyDeviceScope(PyDeviceScope&&) = delete;
  void enter() { scope_.reset(new Graph::ScopedDefaults(graph_.graph->on_device(device_))); }
  void exit() { scope_.reset(); }

 private:
  PyGraph graph_;
  std::string device_;
  std::unique_ptr<Graph::ScopedDefaults> scope_;
};

// For errors that the package itself finds: the exception of a code.
void raise_error(const std::string& code, const std::string& message) {
  for (int i = 1; i <= static_cast<int>(Code::unauthenticated); ++i)
    if (name(static_cast<Code>(i)) == code) throw Error(static_cast<Code>(i), message);
  throw Error(Code::unknown, message);
}

void bind_groups(nb::module_& m) {
  nb::class_<PyDeviceScope>(m, "DeviceScope")
      .def(nb::init<const PyGraph&, std::string>())
      .def("__enter__", &PyDeviceScope::enter)
      .def("__exit__", [](PyDeviceScope& scope, const nb::args&) { scope.exit(); });
  nb::class_<PyGroup>(m, "Group")
      .def(nb::init<const PyTask&, const std::string&, const std::vector<std::pair<std::string, int>>&, double>())
      .def_prop_ro("rank", [](const PyGroup& g) { return g.get().rank(); })
      .def_prop_ro("ranks", [](const PyGroup& g) { return g.get().ranks(); })
      .def(
          "all_reduce",
          [](const PyGroup& g, const Tensor& tensor, const std::string& reduction, const std::string& name) {
            return g.get().all_reduce(tensor, parse_reduction(reduction), name);
          },
          released())
      .def(
          "broadcast",
          [](const PyGroup& g, const Tensor& tensor, std::uint32_t root, const std::string& name) {
            return g.get().broadcast(tensor, root, name);
          },
          released())
      .def(
          "all_gather",
          [](const PyGroup& g, const Tensor& tensor, const std::string& name) {
            return g.get().all_gather(tensor, name);
          },
          released())
      .def(
          "barrier", [](const PyGroup& g, const std::string& name) { g.get().barrier(name); }, released());
}

}  // namespace

Task& PyTask::get() const {
  check_not_forked();
  if (!task) fail(Code::failed_precondition, "the task is closed");
  return *task;
}

std::shared_ptr<Task> joined_task() { return joined().lock(); }

void bind_cluster(nb::module_& m) {
  nb::class_<PyTask>(m, "Task")
      .def_prop_ro("name", [](const PyTask& t) { return t.get().name().to_string(); })
      .def_prop_ro("job", [](const PyTask& t) { return t.get().name().job; })
      .def_prop_ro("index", [](const PyTask& t) { return t.get().name().index; })
      .def_prop_ro("cluster_name", [](const PyTask& t) { return t.get().cluster().name; })
      .def_prop_ro("addresses", &addresses_of)
      .def_prop_ro("devices", &devices_of)
      .def_prop_ro("introspection", &introspection_of)
      .def("await_link", &await_link, "job"_a, "index"_a, "timeout"_a.none())
      .def(
          "reset_container", [](const PyTask& t, const std::string& name) { reset_container(t.get(), name); },
          released())
      .def("close", &close_task);
  m.def("task_from_command_line", &task_from_command_line, "arguments"_a, "threads"_a);
  m.def("client_of", &client_of, "cluster_file"_a, "timeout"_a);
  m.def("raise_error", &raise_error, "code"_a, "message"_a);
  bind_groups(m);
}

}  // namespace troupe::python
