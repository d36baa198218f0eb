#include "troupe/actors/cluster/membership.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include <troupe/actors/introspection/introspection.hpp>
#include <troupe/actors/wire/authentication.hpp>
#include <troupe/messages/error.hpp>

namespace troupe {
namespace {

constexpr std::chrono::seconds kMeetingOfWorkers{5};

}  // namespace

std::optional<std::string> Membership::problem(bool launched) const {
  if (launched && !file.empty()) return "remove --cluster: troupe-launch gives its tasks the cluster file";
  std::string missing;
  const auto require = [&](bool present, const char* option) {
    if (!present) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", option);
  };
  require(!job.empty(), "--job");
  require(index >= 0, "--task");
  require(launched || !file.empty(), "--cluster");
  if (missing.empty()) return network.problem();
  return fmt::format("a task of a cluster needs --job, --task and --cluster together; missing: {}", missing);
}

void Membership::set(TaskOptions& options) const {
  options.op_libraries.insert(options.op_libraries.end(), op_libraries.begin(), op_libraries.end());
  options.device_libraries.insert(options.device_libraries.end(), device_libraries.begin(), device_libraries.end());
  if (introspect_port >= 0) options.introspect_port = static_cast<std::uint16_t>(introspect_port);
  // Check now rather than when the task fails.
  if (!flight_directory.empty() && ::access(flight_directory.c_str(), W_OK | X_OK) != 0)
    fail(errno == ENOENT ? Code::not_found : Code::permission_denied,
         "--flight-record: cannot write to directory '{}': {}", flight_directory, std::strerror(errno));
  std::error_code none;
  options.flight_directory =
      flight_directory.empty() ? std::filesystem::temp_directory_path(none).string() : flight_directory;
}

std::optional<std::string> token_warning(const ClusterSpec& cluster, const NetworkOptions& network) {
  if (wire::is_strong_token(cluster.token)) return std::nullopt;
  const char* const wrong = !cluster.token.empty() ? "a guessable token"
                            : network.tls.given()  ? "no token, so anybody with a certificate of its CA can join"
                                                   : "no token, so anybody on this machine can join";
  return fmt::format(
      "warning: cluster '{}' has {}: set \"token\" in its file to the output of 'troupe-launch --make-token'",
      cluster.name, wrong);
}

std::optional<std::string> introspection_note(Task& task) {
  const auto target = task.introspection().target();
  if (!target) return std::nullopt;
  return fmt::format("inspect {} with a browser or troupe-top: {}", task.name().to_string(), target->url());
}

int threads_per_device(int tasks, int devices) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::max(1, cores / std::max(1, tasks) / std::max(1, devices));
}

void Member::join_for_training(std::chrono::nanoseconds timeout, bool all_workers) {
  task->join(cluster, timeout, cluster.count("ps") > 0 ? "ps" : "worker");
  // Workers may be missing and may join later. But all of them should meet at the start, before one ends the job
  // because of its options.
  if (started_again || !all_workers) return;
  try {
    task->await("worker", std::min<std::chrono::nanoseconds>(timeout, kMeetingOfWorkers));
  } catch (const Error&) {
  }
}

Member start_member(const Membership& membership, LaunchHandshake* handshake, TaskOptions options,
                    std::chrono::steady_clock::time_point deadline) {
  options.name = membership.name();
  options.networked = true;
  options.network = membership.network;
  membership.set(options);
  if (options.name.job == "ps" || options.name.job == kInputJob) {
    if (options.gpus.count < 0) options.gpus.count = 0;
    options.device_libraries.clear();
  }
  Member member;
  const auto take_address = [&] {
    const HostPort& address = member.cluster.address(options.name);
    options.host = address.host;
    options.port = address.port;
  };
  if (handshake != nullptr) {
    // All tasks of a launcher have the same options: the port is for only one of them.
    const bool chief = options.name == TaskName{"worker", 0} || options.name == TaskName{std::string(kRouterJob), 0};
    if (options.introspect_port && !chief) options.introspect_port.reset();
    if (options.threads == 0) options.threads = threads_per_device(handshake->tasks(), options.cpu_devices);
    if (!handshake->known_cluster_file().empty()) {
      member.started_again = true;
      member.cluster = ClusterSpec::read(handshake->known_cluster_file());
      take_address();
      member.task = std::make_unique<Task>(options);
      return member;
    }
    member.task = std::make_unique<Task>(options);
    handshake->report(options.host, member.task->port());
    member.cluster = ClusterSpec::read(handshake->wait_for_cluster_file(deadline));
    return member;
  }
  member.cluster = ClusterSpec::read(membership.file);
  const bool late = !member.cluster.contains(options.name) && member.cluster.may_join(options.name);
  if (!late) take_address();  // nobody dials a late worker: any port will do
  if (options.threads == 0) {
    const int tasks =
        late ? static_cast<int>(member.cluster.tasks.size()) + 1 : member.cluster.tasks_on_host_of(options.name);
    options.threads = threads_per_device(tasks, options.cpu_devices);
  }
  member.task = std::make_unique<Task>(options);
  return member;
}

}  // namespace troupe
