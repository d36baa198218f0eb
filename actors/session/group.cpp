#include "troupe/actors/session/group.hpp"

#include <algorithm>
#include <atomic>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include <troupe/actors/cluster/task_actors.hpp>
#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/session/device_ability.hpp>
#include <troupe/actors/steps/client_gate.hpp>
#include <troupe/actors/steps/contribution.hpp>

namespace troupe {
namespace {

// How long a call polls, yielding its core, before it sleeps: the result of a small tensor arrives before the thread
// could have been put to sleep and woken.
constexpr std::chrono::microseconds kAwake{100};

// Where a call waits for its answer; shared, because the call may stop waiting.
class Awaited {
 public:
  void set(CollectiveResult result) {
    {
      const std::lock_guard lock(mutex_);
      result_ = std::move(result);
      there_.store(true, std::memory_order_release);
    }
    wake_.notify_one();  // the object lives: both sides hold it
  }
  bool wait_until(std::chrono::steady_clock::time_point until) {
    const auto soon = std::min(until, std::chrono::steady_clock::now() + kAwake);
    while (!there_.load(std::memory_order_acquire) && std::chrono::steady_clock::now() < soon)
      std::this_thread::yield();
    std::unique_lock lock(mutex_);
    return wake_.wait_until(lock, until, [this] { return there_.load(std::memory_order_relaxed); });
  }
  // Call once there is a result.
  CollectiveResult take() { return std::move(result_); }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> there_{false};
  CollectiveResult result_;
};

constexpr std::chrono::milliseconds kLookAtStop{200};

}  // namespace

CollectiveGroup::CollectiveGroup(Task& task, const std::string& name, std::vector<TaskName> members,
                                 const CollectiveGroupOptions& options)
    : task_(task), members_(std::move(members)), options_(options) {
  for (const TaskName& member : members_)
    if (!task_.cluster().contains(member))
      invalid_argument("{} cannot be in the group '{}': it is not in the cluster file", member.to_string(), name);
  auto place = std::make_shared<GroupPlace>();
  place->name = name;
  place->members = members_;
  place->timeout = options_.timeout;
  GroupOpened opened{Error(Code::cancelled, "the task has shut down"), 0};
  if (task_.handles().collective) {
    caf::scoped_actor self(task_.system());
    self->request(task_.handles().collective, caf::infinite, OpenGroup{std::move(place)})
        .receive([&](const GroupOpened& answer) { opened = answer; }, [](const caf::error&) {});
  }
  if (opened.error) throw opened.error;
  id_ = opened.group;
  rank_ = static_cast<std::uint32_t>(std::ranges::find(members_, task_.name()) - members_.begin());
}

CollectiveGroup::~CollectiveGroup() {
  if (task_.handles().collective) caf::anon_send(task_.handles().collective, CloseGroup{id_, {}});
}

void CollectiveGroup::fail(const Error& error) {
  if (task_.handles().collective) caf::anon_send(task_.handles().collective, CloseGroup{id_, error});
}

Tensor CollectiveGroup::all_reduce(Tensor tensor, Reduction reduction, const std::string& name) {
  const CollectiveSpec spec{.kind = CollectiveKind::all_reduce,
                            .reduction = reduction,
                            .dtype = tensor.dtype(),
                            .shape = tensor.shape(),
                            .name = name};
  const bool on_devices = !tensor.space().on_host();
  return run(spec, std::move(tensor), on_devices)[0];
}

Tensor CollectiveGroup::broadcast(Tensor tensor, std::uint32_t root, const std::string& name) {
  const CollectiveSpec spec{
      .kind = CollectiveKind::broadcast, .root = root, .dtype = tensor.dtype(), .shape = tensor.shape(), .name = name};
  const bool on_devices = !tensor.space().on_host();
  return run(spec, rank_ == root ? std::move(tensor) : Tensor(), on_devices)[0];
}

std::vector<Tensor> CollectiveGroup::all_gather(Tensor tensor, const std::string& name) {
  const CollectiveSpec spec{
      .kind = CollectiveKind::all_gather, .dtype = tensor.dtype(), .shape = tensor.shape(), .name = name};
  const bool on_devices = !tensor.space().on_host();
  return run(spec, std::move(tensor), on_devices);
}

void CollectiveGroup::barrier(const std::string& name) {
  run({.kind = CollectiveKind::barrier, .name = name}, {}, false);
}

std::vector<Tensor> CollectiveGroup::run(const CollectiveSpec& spec, Tensor tensor, bool on_devices) {
  auto contribution = std::make_shared<Contribution>();
  contribution->spec = spec;
  contribution->tensor = std::move(tensor);
  contribution->on_devices = on_devices;
  return run(std::move(contribution));
}

// ---- Devices -------------------------------------------------------------------------------------------------------

Device* CollectiveGroup::able_device() const {
  int index = 0;
  for (const DeviceInfo& info : task_.devices()) {
    if (info.name.task_name() != task_.name()) continue;
    Device& device = task_.device(index++);
    if (device.communicators()) return &device;
  }
  return nullptr;
}

std::string CollectiveGroup::join_devices() {
  if (device_) troupe::fail(Code::failed_precondition, "the group has already joined its devices");
  Device* const device = able_device();
  std::vector<DeviceAbility> abilities;
  for (const Tensor& said : all_gather(to_tensor(ability_of(device)), "what devices can"))
    abilities.push_back(to_ability(said));
  const std::optional<std::string> why_not = why_apart(abilities, members_);
  if (why_not) return why_not->empty() ? "" : fmt::format("tensors go through the host: {}", *why_not);
  auto contribution = std::make_shared<Contribution>();
  contribution->spec = {.kind = CollectiveKind::barrier,
                        .name = fmt::format("joining over {}", abilities[rank_].description)};
  contribution->joins = device->communicators();
  contribution->id = shared_id(*contribution->joins);
  run(std::move(contribution));
  device_ = device;
  return fmt::format("tensors go from {} to {} over {}", device->attributes().type, device->attributes().type,
                     abilities[rank_].description);
}

// Created by rank 0.
CommunicatorId CollectiveGroup::shared_id(CommunicatorMaker& maker) {
  CommunicatorId id;
  if (rank_ == 0) id = maker.make_id();
  const Tensor size = broadcast(Tensor::scalar(static_cast<std::int64_t>(id.size())), 0, "size of the devices' id");
  Tensor bytes(DType::u8, Shape{size.item<std::int64_t>()});
  if (rank_ == 0) std::memcpy(bytes.mutable_raw(), id.data(), id.size());
  bytes = broadcast(bytes, 0, "the devices' id");
  id.assign(bytes.raw(), bytes.raw() + bytes.num_bytes());
  return id;
}

std::vector<Tensor> CollectiveGroup::run(std::shared_ptr<Contribution> contribution) {
  const CollectiveSpec spec = contribution->spec;
  contribution->group = id_;
  const auto waiting = std::make_shared<Awaited>();
  contribution->done = [waiting](CollectiveResult result) { waiting->set(std::move(result)); };
  task_.client_gate()->run(Contribute{std::move(contribution)});
  using Clock = std::chrono::steady_clock;
  std::string why;
  const Clock::time_point deadline =
      options_.timeout.count() > 0 ? Clock::now() + options_.timeout : Clock::time_point::max();
  while (!waiting->wait_until(std::min<Clock::time_point>(deadline, Clock::now() + kLookAtStop))) {
    const bool stopped = options_.stop && options_.stop->load(std::memory_order_relaxed);
    if (!stopped && Clock::now() < deadline) continue;
    if (!stopped) why = fmt::format("\n{}", task_.introspection().view().why().text);  // before the group has failed
    fail(stopped
             ? Error(Code::cancelled, fmt::format("{} was stopped", spec.describe()))
             : Error(Code::deadline_exceeded, fmt::format("{} did not complete within {} s", spec.describe(),
                                                          std::chrono::duration<double>(options_.timeout).count())));
    // The answer follows soon, with that error and the missing parts; a dead actor answers when it ends.
    while (!waiting->wait_until(Clock::now() + kLookAtStop)) continue;
    break;
  }
  CollectiveResult result = waiting->take();
  if (result.error) throw why.empty() ? result.error : Error(result.error.code(), result.error.message() + why);
  return std::move(result.tensors);
}

}  // namespace troupe
