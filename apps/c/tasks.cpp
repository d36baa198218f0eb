// The C API: tasks, of a cluster or by themselves.
#include <fmt/format.h>

#include <atomic>
#include <thread>

#include "apps/c/handles.hpp"
#include <troupe/actors/cluster/membership.hpp>

namespace troupe::c {
namespace {

constexpr double kJoinSeconds = 60;
constexpr std::chrono::milliseconds kLook{20};  // how often a waiting task looks whether it may end

troupe_task* new_task(std::shared_ptr<Task> task) {
  auto out = std::make_unique<troupe_task>();
  out->task = std::move(task);
  return out.release();
}

TaskOptions task_options(const troupe_task_options& given) {
  TaskOptions out{.threads = given.threads, .memory_limit = given.memory_limit};
  if (given.cpu_devices != 0) out.cpu_devices = given.cpu_devices;
  if (given.job) out.name = {given.job, given.index};
  if (given.num_gpus != 0) out.gpus.count = std::max(given.num_gpus, 0);
  return out;
}

std::shared_ptr<Task> start(const troupe_task_options& given) {
  TaskOptions options = task_options(given);
  if (!given.cluster) return std::make_shared<Task>(std::move(options));
  const auto timeout = seconds(given.join_seconds == 0 ? kJoinSeconds : given.join_seconds, "options.join_seconds");
  if (!given.job) refuse("options.job", "is null, but a task of a cluster has a job and an index");
  const ClusterSpec cluster = ClusterSpec::read(given.cluster);
  Membership membership{.job = given.job, .index = given.index, .file = given.cluster};
  membership.network.tls = {.certificate = text_or_empty(given.tls_certificate),
                            .key = text_or_empty(given.tls_key),
                            .ca = text_or_empty(given.tls_ca)};
  membership.network.insecure = given.insecure;
  if (!cluster.may_join(membership.name())) {  // a client
    options.networked = true;
    options.network = membership.network;
    auto task = std::make_shared<Task>(std::move(options));
    task->join(cluster, timeout);
    return task;
  }
  Member member = start_member(membership, nullptr, std::move(options), std::chrono::steady_clock::now() + timeout);
  member.join_for_training(timeout);
  return std::move(member.task);
}

}  // namespace
}  // namespace troupe::c

using namespace troupe::c;  // NOLINT(google-build-using-namespace)

troupe_task* troupe_task_new(const troupe_task_options* options, troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_task*>(nullptr),
                 [&] { return new_task(start(options_of(options))); });
}

troupe_task* troupe_task_from_command_line(int* argc, char** argv, const troupe_task_options* options,
                                           troupe_status* status) {
  return guarded(__func__, status, static_cast<troupe_task*>(nullptr), [&] {
    const auto given = task_options(options_of(options));
    return new_task(troupe::Task::from_command_line(*not_null(argc, "argc"), not_null(argv, "argv"), given));
  });
}

void troupe_task_delete(troupe_task* task) { destroy(task); }

char* troupe_task_name(const troupe_task* task, troupe_status* status) {
  return guarded(__func__, status, static_cast<char*>(nullptr),
                 [&] { return new_text(check(task, "task").task->name().to_string()); });
}

int32_t troupe_task_num_devices(const troupe_task* task) {
  return guarded(__func__, nullptr, std::int32_t{0},
                 [&] { return static_cast<std::int32_t>(check(task, "task").task->devices().size()); });
}

char* troupe_task_device_name(const troupe_task* task, int32_t index, troupe_status* status) {
  return guarded(__func__, status, static_cast<char*>(nullptr), [&] {
    const auto& devices = check(task, "task").task->devices();
    if (index < 0 || static_cast<std::size_t>(index) >= devices.size())
      troupe::fail(troupe::Code::out_of_range, "there is no device {}: there are {}", index, devices.size());
    return new_text(devices[static_cast<std::size_t>(index)].name.to_string());
  });
}

int32_t troupe_task_num_tasks(const troupe_task* task, const char* job) {
  return guarded(__func__, nullptr, std::int32_t{0}, [&] {
    const troupe::ClusterSpec& cluster = check(task, "task").task->cluster();
    return job ? cluster.count(job) : static_cast<std::int32_t>(cluster.tasks.size());
  });
}

troupe_code troupe_task_await(troupe_task* task, const char* job, double timeout_seconds, troupe_status* status) {
  return guarded(__func__, status, [&] {
    const auto limit = seconds(timeout_seconds, "timeout_seconds");
    check(task, "task").task->await(text_or_empty(job), limit);
  });
}

troupe_code troupe_task_serve(troupe_task* task, double timeout_seconds, troupe_status* status) {
  return guarded(__func__, status, [&] {
    troupe_task& of = check(task, "task");
    const auto limit = seconds(timeout_seconds, "timeout_seconds");
    const auto begin = std::chrono::steady_clock::now();
    while (!of.interrupted.exchange(false)) {
      if (const troupe::Error why = of.task->failure()) throw why;
      if (timeout_seconds > 0 && std::chrono::steady_clock::now() - begin >= limit)
        troupe::fail(troupe::Code::deadline_exceeded, "{} has served for {} s", of.task->name().to_string(),
                     timeout_seconds);
      std::this_thread::sleep_for(kLook);
    }
  });
}

void troupe_task_interrupt(troupe_task* task) {
  if (task && task->is_whole()) task->interrupted = true;
}
