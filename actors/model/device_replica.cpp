#include "troupe/actors/model/device_replica.hpp"

#include <chrono>
#include <memory>
#include <utility>

namespace troupe {
namespace {

// How often a thread that waits for a link looks whether it is to end, and how long it waits after a failure.
constexpr std::chrono::milliseconds kLinkLook{100};
constexpr int kMostFailures = 20;  // of building, over links that are up: the task is there, but not well

// A copy of the graph for one device. Nodes that request a type or an index of a device keep it, on the same task.
std::unique_ptr<Graph> graph_on(const Graph& graph, const DeviceName& device) {
  std::unique_ptr<Graph> out = graph.clone();
  for (int id = 0; id < out->size(); ++id) {
    DeviceName wanted = DeviceName::parse(out->node(id).device);
    wanted.job = device.job;
    wanted.task = device.task;
    const bool same_type = !wanted.type || wanted.type == device.type;
    wanted.type = wanted.type.value_or(*device.type);
    if (same_type && !wanted.index) wanted.index = device.index;
    out->set_device(out->node(id), wanted.to_string());
  }
  return out;
}

}  // namespace

DeviceReplica::DeviceReplica(Task& task, const DeviceName& device, const BatchFunction& function, Built built)
    : task_(task),
      device_(device),
      function_(function),
      built_(std::move(built)),
      own_(device.task_name() == task.name()) {}

DeviceReplica::~DeviceReplica() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    if (session_) session_->close();
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DeviceReplica::build() {
  if (thread_.joinable()) thread_.join();
  phase_ = Phase::waiting;
  thread_ = std::thread([this] { run(); });
}

void DeviceReplica::run() {
  int failed = 0;
  while (true) {
    end_session();
    try {
      if (!own_) link_ = task_.await_link(device_.task_name(), kLinkLook);
      if (own_ || link_ != 0) {
        phase_ = Phase::building;
        make_session();
        phase_ = Phase::ready;
        return built_({});
      }
    } catch (...) {
      const Error error = current_error();
      if (!lost(error) || ++failed == kMostFailures) return built_(error);
      phase_ = Phase::waiting;
    }
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, failed > 0 ? kLinkLook : std::chrono::milliseconds(0), [this] { return ending_; }))
      return;
  }
}

void DeviceReplica::make_session() {
  const std::unique_ptr<Graph> graph = graph_on(function_.graph, device_);
  Session* session = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (ending_) fail(Code::cancelled, "the run is over");
    session = &session_.emplace(task_, *graph, function_.session);
  }
  Outputs feeds, fetches;
  for (const auto& [name, spec] : function_.signature.inputs) feeds.push_back(graph->output(spec.tensor));
  for (const auto& [name, spec] : function_.signature.outputs) fetches.push_back(graph->output(spec.tensor));
  call_ = session->callable(feeds, fetches);
}

void DeviceReplica::end_session() {
  const std::lock_guard lock(mutex_);
  call_ = Callable();
  session_.reset();
}

bool DeviceReplica::lost(const Error& error) const {
  if (own_) return false;
  if (error.code() == Code::unavailable || error.code() == Code::cancelled) return true;
  try {
    return task_.await_link(device_.task_name(), std::chrono::nanoseconds(0)) != link_;
  } catch (const Error&) {
    return false;  // the task itself has failed, which steps say, too
  }
}

}  // namespace troupe
