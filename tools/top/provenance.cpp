#include "tools/top/provenance.hpp"

#include <algorithm>
#include <cstdio>

#include <troupe/actors/wire/ask.hpp>
#include <troupe/actors/wire/wire.hpp>

namespace troupe::top {
namespace {

constexpr auto kTimeout = std::chrono::seconds(5);

// Only ps tasks have shards. The address of another task of the cluster, like the one that troupe-launch prints, stands
// for the cluster.
std::vector<HostPort> targets(const Options& options, const std::optional<ClusterSpec>& cluster) {
  if (!options.address.empty()) {
    const HostPort address = HostPort::parse(options.address);
    const auto other = [&](const auto& entry) { return entry.second == address && entry.first.job != "ps"; };
    if (!cluster || std::ranges::none_of(cluster->tasks, other)) return {address};
  }
  std::vector<HostPort> out;
  for (const auto& [task, address] : cluster->tasks)
    if (task.job == "ps") out.push_back(address);
  if (out.empty()) fail(Code::failed_precondition, "cluster '{}' has no ps task", cluster->name);
  return out;
}

}  // namespace

// Asks all targets, even if one does not answer.
int print_provenance(const Options& options) {
  std::optional<ClusterSpec> cluster;
  if (!options.cluster_file.empty()) cluster = ClusterSpec::read(options.cluster_file);
  const std::vector<HostPort> all = targets(options, cluster);
  for (const HostPort& target : all) options.network.check(target);
  const WireOptions checked = options.network.wire();
  int code = 0;
  for (const HostPort& target : all) try {
      const std::string text =
          wire::ask({.host = target.host,
                     .port = target.port,
                     .cluster = cluster ? cluster->name : "",
                     .token = cluster ? cluster->token : "",
                     .tls = checked.tls.get()},
                    fmt::format("provenance {}", *options.provenance), std::chrono::steady_clock::now() + kTimeout);
      std::fputs(text.c_str(), stdout);
    } catch (const Error& error) {
      const bool no_token = error.code() == Code::unauthenticated && !cluster;
      std::fprintf(stderr, "troupe-top: %s: %s%s\n", target.to_string().c_str(), error.message().c_str(),
                   no_token ? "; pass the cluster file with --cluster" : "");
      code = 1;
    }
  return code;
}

}  // namespace troupe::top
