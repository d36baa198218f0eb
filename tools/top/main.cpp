// troupe-top: what the actors of a task do now, or what went into a version of its parameters. Asks the task's introspector or its
// shard through its node; read-only.
#include <CLI/CLI.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <cstdio>
#include <optional>

#include "actors/cluster/control.hpp"
#include "actors/cluster/network_options.hpp"
#include "actors/introspection/observer.hpp"

namespace troupe {
namespace {

constexpr auto kTimeout = std::chrono::seconds(5);

struct Question {
  std::string address;  // "": all ps tasks of the cluster
  std::string file;     // of the cluster; may be empty
  std::optional<std::uint64_t> version;  // of which the provenance is asked for; none: what actors do
  NetworkOptions network;
};

template <class Request>
std::string ask(caf::actor_system& system, const NodeActor& node, const Request& request) {
  caf::scoped_actor self(system);
  Reply reply;
  self->request(node, kTimeout, request)
      .receive([&](const Reply& r) { reply = r; },
               [&](const caf::error&) {
                 reply = Reply::of(Error(Code::deadline_exceeded, "it did not answer"));
               });
  if (reply.error()) throw reply.error();
  return reply.body;
}

std::vector<HostPort> targets(const Question& question, const std::optional<ClusterSpec>& cluster) {
  if (!question.address.empty()) return {HostPort::parse(question.address)};
  std::vector<HostPort> out;
  for (const auto& [task, address] : cluster->tasks)
    if (task.job == "ps") out.push_back(address);
  if (out.empty()) fail(Code::failed_precondition, "cluster '{}' has no ps task", cluster->name);
  return out;
}

// All are asked, though one may not answer.
int run(const Question& question) {
  std::string about = question.address;
  try {
    std::optional<ClusterSpec> cluster;
    if (!question.file.empty()) cluster = ClusterSpec::read(question.file);
    if (!question.version) {
      Observer observer({.address = question.address, .cluster = cluster, .network = question.network});
      std::puts(observer.get("/snapshot").c_str());
      return 0;
    }
    const std::string token = cluster ? cluster->token : "";
    const std::vector<HostPort> all = targets(question, cluster);
    for (const HostPort& target : all) question.network.check(target);
    const WireOptions checked = question.network.wire();
    caf::actor_system_config config;
    register_message_types(config);
    config.set("logger.verbosity", caf::atom("quiet"));
    load_networking(config, question.network.tls);
    caf::actor_system system(config);
    int code = 0;
    for (const HostPort& target : all) try {
        about = target.to_string();
        const NodeActor node = connect_node(system, checked.tls.get(), target, std::chrono::steady_clock::now() + kTimeout);
        const std::string text = ask(system, node, ProvenanceRequest{token, *question.version});
        std::fputs(text.c_str(), stdout);
      } catch (const Error& error) {
        const bool no_token = error.code() == Code::unauthenticated && question.file.empty();
        std::fprintf(stderr, "troupe-top: %s: %s%s\n", about.c_str(), error.message().c_str(), no_token ? "; give the cluster file with --cluster" : "");
        code = 1;
      }
    return code;
  } catch (const Error& error) {
    std::fprintf(stderr, "troupe-top: %s%s%s\n", about.c_str(), about.empty() ? "" : ": ", error.message().c_str());
    return 1;
  }
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  CLI::App app(R"(Shows what the actors of a running Troupe task do: messages handled, mailbox, busy time, the message
being handled, and what each waits for. Prints that of all tasks as JSON and ends.

With --provenance it shows instead, for the parameter shard of the task or, without HOST:PORT, for those of all ps tasks,
which gradients (worker, step, slot) went into a version of the parameters, and which came for it and were dropped, and why.

A task answers only those who know the token of its cluster: it is read from the cluster file.

Examples, the first as troupe-launch prints it:
  troupe-top 127.0.0.1:38815 --cluster /tmp/troupe-launch-8Zq2Xf/cluster.json
  troupe-top --provenance 1200 --cluster /tmp/troupe-launch-8Zq2Xf/cluster.json)",
               "troupe-top");
  app.set_version_flag("--version", "troupe-top " TROUPE_VERSION);
  troupe::Question question;
  troupe::NetworkOptions& network = question.network;
  bool once = false;
  CLI::Option* address = app.add_option("HOST:PORT", question.address, "The advertised address of a task");
  CLI::Option* file = app.add_option("--cluster", question.file, "The cluster file, which has the token")->type_name("FILE");
  app.add_flag("--once", once, "Print one page and end (the only way so far)");
  CLI::Option* provenance = app.add_option("--provenance", question.version, "What went into this version of the parameters")->type_name("VERSION");
  app.add_option("--tls-cert", network.tls.certificate, "Certificate, if the task speaks TLS (PEM)")->type_name("FILE");
  app.add_option("--tls-key", network.tls.key, "Its key (PEM)")->type_name("FILE");
  app.add_option("--tls-ca", network.tls.ca, "Certificate of the cluster's CA (PEM)")->type_name("FILE");
  app.add_flag("--insecure", network.insecure, "Speak to a task on another machine, although nothing is encrypted");
  try {
    app.parse(argc, argv);
    if (address->count() == 0 && (provenance->count() == 0 || file->count() == 0))
      throw CLI::RequiredError("HOST:PORT, or --provenance VERSION and --cluster FILE");
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 2;
  }
  return troupe::run(question);
}
