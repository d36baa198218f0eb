// troupe-top: what the actors of a task do now. Asks the task's introspector through its node; read-only.
#include <CLI/CLI.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <cstdio>

#include "actors/cluster/control.hpp"
#include "actors/cluster/network_options.hpp"

namespace troupe {
namespace {

constexpr auto kTimeout = std::chrono::seconds(5);

std::string snapshot(caf::actor_system& system, const NodeActor& node, const std::string& token) {
  caf::scoped_actor self(system);
  Reply reply;
  self->request(node, kTimeout, SnapshotRequest{token})
      .receive([&](const Reply& r) { reply = r; },
               [&](const caf::error&) {
                 reply = Reply::of(Error(Code::deadline_exceeded, "it did not answer"));
               });
  if (reply.error()) throw reply.error();
  return reply.body;
}

// `file`: of the cluster; may be empty.
int run(const std::string& address, const std::string& file, const NetworkOptions& network) {
  try {
    const std::string token = file.empty() ? "" : ClusterSpec::read(file).token;
    const HostPort target = HostPort::parse(address);
    network.check(target);
    const WireOptions checked = network.wire();
    caf::actor_system_config config;
    register_message_types(config);
    config.set("logger.verbosity", caf::atom("quiet"));
    load_networking(config, network.tls);
    caf::actor_system system(config);
    const auto deadline = std::chrono::steady_clock::now() + kTimeout;
    std::fputs(snapshot(system, connect_node(system, checked.tls.get(), target, deadline), token).c_str(), stdout);
    return 0;
  } catch (const Error& error) {
    const bool no_token = error.code() == Code::unauthenticated && file.empty();
    std::fprintf(stderr, "troupe-top: %s: %s%s\n", address.c_str(), error.message().c_str(),
                 no_token ? "; give the cluster file with --cluster" : "");
    return 1;
  }
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  CLI::App app(R"(Shows what the actors of a running Troupe task do: messages handled, mailbox, busy time, the message
being handled, and what each waits for. Prints one page and ends.

A task answers only those who know the token of its cluster: it is read from the cluster file.

Example, as troupe-launch prints it:
  troupe-top 127.0.0.1:38815 --cluster /tmp/troupe-launch-8Zq2Xf/cluster.json)",
               "troupe-top");
  app.set_version_flag("--version", "troupe-top " TROUPE_VERSION);
  std::string address, file;
  bool once = false;
  troupe::NetworkOptions network;
  app.add_option("HOST:PORT", address, "The advertised address of a task")->required();
  app.add_option("--cluster", file, "The cluster file, which has the token")->type_name("FILE");
  app.add_flag("--once", once, "Print one page and end (the only way so far)");
  app.add_option("--tls-cert", network.tls.certificate, "Certificate, if the task speaks TLS (PEM)")->type_name("FILE");
  app.add_option("--tls-key", network.tls.key, "Its key (PEM)")->type_name("FILE");
  app.add_option("--tls-ca", network.tls.ca, "Certificate of the cluster's CA (PEM)")->type_name("FILE");
  app.add_flag("--insecure", network.insecure, "Speak to a task on another machine, although nothing is encrypted");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 2;
  }
  return troupe::run(address, file, network);
}
