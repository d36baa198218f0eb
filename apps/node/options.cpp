#include "apps/node/options.hpp"

#include "apps/command_line.hpp"

namespace troupe {
namespace {

constexpr const char* kNodeProgram = "troupe-node";
constexpr const char* kNodeUsage = "--job JOB --task INDEX --cluster FILE [OPTIONS]";
constexpr const char* kNodeDescription =
    R"(A task of a cluster that lends its devices: a client that has joined the cluster places parts of its
graphs on them.

One command for each task of the cluster file, on its machine:
  troupe-node --job worker --task 0 --cluster cluster.json

where cluster.json, which only its owner may read (chmod 600), is like
  {"name":"demo","token":"SECRET","worker":["127.0.0.1:7711","127.0.0.1:7712"]}

Three nodes on free ports of this machine:
  troupe-launch --workers 3 -- troupe-node

Says "ready" on stderr when all tasks of the file have met, and runs until SIGINT or SIGTERM. Exit code:
130 or 143 after these, 1 on failure, 2 on wrong usage.)";

}  // namespace

std::variant<NodeOptions, EarlyExit> parse_node_options(const std::vector<std::string>& arguments, bool launched) {
  NodeOptions options;
  const auto app = make_command_line(kNodeProgram, kNodeUsage, kNodeDescription);
  add(*app, membership_options(options.membership));
  add_whole(*app, "--devices", options.devices, 1, 1024, "CPU devices to offer");
  add_whole(*app, "--threads", options.threads, 1, 1024, "Threads of each device (default: a fair share of the cores)");
  add_memory_limit(*app, options.memory_limit);
  add_gpus(*app, options.gpus);
  if (auto exit = parse(*app, arguments)) return *exit;
  if (auto problem = options.membership.problem(launched)) return wrong_usage(kNodeProgram, *problem);
  return options;
}

}  // namespace troupe
