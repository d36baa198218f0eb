#include "apps/membership.hpp"

#include <algorithm>
#include <thread>

#include "messages/error.hpp"

namespace troupe {

std::optional<std::string> Membership::problem(bool launched) const {
  if (launched && !file.empty())
    return "--cluster is not for a task of troupe-launch, which gives it the cluster file";
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

int threads_per_device(int tasks, int devices) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::max(1, cores / std::max(1, tasks) / std::max(1, devices));
}

Member start_member(const Membership& membership, LaunchHandshake* handshake, TaskOptions options,
                    std::chrono::steady_clock::time_point deadline) {
  options.name = membership.name();
  options.networked = true;
  options.network = membership.network;
  Member member;
  const auto take_address = [&] {
    const HostPort& address = member.cluster.address(options.name);
    options.host = address.host;
    options.port = address.port;
  };
  if (handshake != nullptr) {
    if (options.threads == 0) options.threads = threads_per_device(handshake->tasks(), options.cpu_devices);
    if (!handshake->known_cluster_file().empty()) {
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
  take_address();
  if (options.threads == 0)
    options.threads = threads_per_device(member.cluster.tasks_on_host_of(options.name), options.cpu_devices);
  member.task = std::make_unique<Task>(options);
  return member;
}

}  // namespace troupe
