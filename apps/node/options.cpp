#include "apps/node/options.hpp"

#include <troupe/actors/cluster/membership_options.hpp>

namespace troupe {
namespace {

constexpr const char* kNodeProgram = "troupe-node";
constexpr const char* kNodeUsage = "--job JOB --task INDEX --cluster FILE [OPTIONS]";
constexpr const char* kNodeDescription =
    R"(Runs a task of a cluster that offers its devices to clients: a client that has joined the cluster places
parts of its graphs on them.

One command for each task of the cluster file, on its machine:
  troupe-node --job worker --task 0 --cluster cluster.json

cluster.json, readable only by its owner (chmod 600), looks like this:
  {"name":"demo","token":"SECRET","worker":["127.0.0.1:7711","127.0.0.1:7712"]}

Three nodes on free ports of this machine:
  troupe-launch --workers 3 -- troupe-node

Prints "ready" on stderr when all tasks of the file are connected, and runs until SIGINT or SIGTERM. Exit code:
130 or 143 after these, 1 on failure, 2 on wrong usage.)";

}  // namespace

std::variant<NodeOptions, EarlyExit> parse_node_options(const std::vector<std::string>& arguments, bool launched) {
  NodeOptions options;
  CommandLine line(kNodeProgram, kNodeUsage, kNodeDescription);
  std::vector<CommandOption> devices{
      whole_option("--devices", "N", options.task.cpu_devices, 1, 1024, "CPU devices to offer")};
  for (CommandOption& option : device_options(options.task)) devices.push_back(std::move(option));
  line.add("Place in a cluster", membership_options(options.membership));
  line.add("Devices", std::move(devices));
  if (auto exit = line.parse(arguments)) return *exit;
  if (auto problem = options.membership.problem(launched)) return line.wrong(*problem);
  return options;
}

}  // namespace troupe
