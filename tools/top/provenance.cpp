#include "tools/top/provenance.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <cstdio>

#include "actors/cluster/control.hpp"

namespace troupe::top {
namespace {

constexpr auto kTimeout = std::chrono::seconds(5);

std::string ask(caf::actor_system& system, const NodeActor& node, const ProvenanceRequest& request) {
  caf::scoped_actor self(system);
  Reply reply;
  self->request(node, kTimeout, request)
      .receive([&](const Reply& r) { reply = r; },
               [&](const caf::error&) { reply = Reply::of(Error(Code::deadline_exceeded, "it did not answer")); });
  if (reply.error()) throw reply.error();
  return reply.body;
}

std::vector<HostPort> targets(const Options& options, const std::optional<ClusterSpec>& cluster) {
  if (!options.address.empty()) return {HostPort::parse(options.address)};
  std::vector<HostPort> out;
  for (const auto& [task, address] : cluster->tasks)
    if (task.job == "ps") out.push_back(address);
  if (out.empty()) fail(Code::failed_precondition, "cluster '{}' has no ps task", cluster->name);
  return out;
}

}  // namespace

// All are asked, though one may not answer.
int print_provenance(const Options& options) {
  std::optional<ClusterSpec> cluster;
  if (!options.cluster_file.empty()) cluster = ClusterSpec::read(options.cluster_file);
  const std::vector<HostPort> all = targets(options, cluster);
  for (const HostPort& target : all) options.network.check(target);
  const WireOptions checked = options.network.wire();
  caf::actor_system_config config;
  register_message_types(config);
  config.set("logger.verbosity", caf::atom("quiet"));
  load_networking(config, options.network.tls);
  caf::actor_system system(config);
  int code = 0;
  for (const HostPort& target : all) try {
      const NodeActor node =
          connect_node(system, checked.tls.get(), target, std::chrono::steady_clock::now() + kTimeout);
      const std::string text = ask(system, node, ProvenanceRequest{cluster ? cluster->token : "", *options.provenance});
      std::fputs(text.c_str(), stdout);
    } catch (const Error& error) {
      const bool no_token = error.code() == Code::unauthenticated && !cluster;
      std::fprintf(stderr, "troupe-top: %s: %s%s\n", target.to_string().c_str(), error.message().c_str(),
                   no_token ? "; give the cluster file with --cluster" : "");
      code = 1;
    }
  return code;
}

}  // namespace troupe::top
