// troupe-top: what the actors of a task do now. Asks the task's introspector through its node; read-only.
#include <CLI/CLI.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <cstdio>

#include "actors/cluster/cluster_spec.hpp"
#include "messages/protocol.hpp"

namespace troupe {
namespace {

constexpr auto kTimeout = std::chrono::seconds(5);

NodeActor find_node(caf::actor_system& system, const HostPort& address) {
  caf::scoped_actor self(system);
  NodeActor node;
  std::string reason = "nobody answers";
  self->request(system.middleman().actor_handle(), kTimeout, caf::connect_atom::value, address.host, address.port)
      .receive(
          [&](const caf::node_id&, caf::strong_actor_ptr& ptr, const std::set<std::string>& interface) {
            if (ptr && system.assignable(interface, system.message_types<NodeActor>()))
              node = caf::actor_cast<NodeActor>(std::move(ptr));
            else
              reason = "what listens there is not a Troupe task of this version";
          },
          [](const caf::error&) {});
  if (!node) fail(Code::unavailable, "no task at {}: {}", address.to_string(), reason);
  return node;
}

std::string snapshot(caf::actor_system& system, const HostPort& address) {
  caf::scoped_actor self(system);
  const NodeActor node = find_node(system, address);
  Reply reply;
  self->request(node, kTimeout, SnapshotRequest{})
      .receive([&](const Reply& r) { reply = r; },
               [&](const caf::error&) {
                 reply = Reply::of(Error(Code::deadline_exceeded, fmt::format("the task at {} did not answer", address.to_string())));
               });
  if (reply.error()) throw reply.error();
  return reply.body;
}

int run(const std::string& address) {
  try {
    const HostPort target = HostPort::parse(address);
    caf::actor_system_config config;
    register_message_types(config);
    config.set("logger.verbosity", caf::atom("quiet"));
    config.load<caf::io::middleman>();
    caf::actor_system system(config);
    std::fputs(snapshot(system, target).c_str(), stdout);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "troupe-top: %s\n", error.message().c_str());
    return 1;
  }
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  CLI::App app(R"(Shows what the actors of a running Troupe task do: messages handled, mailbox, busy time, the message
being handled, and what each waits for. Prints one page and ends.

Example: troupe-launch prints the address of each task; then
  troupe-top 127.0.0.1:38815)",
               "troupe-top");
  app.set_version_flag("--version", "troupe-top " TROUPE_VERSION);
  std::string address;
  bool once = false;
  app.add_option("HOST:PORT", address, "The advertised address of a task")->required();
  app.add_flag("--once", once, "Print one page and end (the only way so far)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 2;
  }
  return troupe::run(address);
}
