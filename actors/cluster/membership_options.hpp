// Command-line options that make a process a task of a cluster, each described once: troupe-mnist and troupe-node
// declare them, and Task::from_command_line() removes them from a program's arguments.
#pragma once

#include <vector>

#include <troupe/actors/cluster/membership.hpp>
#include <troupe/messages/command_line.hpp>

namespace troupe {

// --introspect-port and --flight-record. `membership` must outlive them.
std::vector<CommandOption> introspection_options(Membership& membership);
// --tls-cert, --tls-key, --tls-ca and --insecure. `network` must outlive them.
std::vector<CommandOption> security_options(NetworkOptions& network);
// --op-library, to be given several times: the paths are added to `paths`, which must outlive it.
CommandOption op_library_option(std::vector<std::string>& paths);
// The options above, --job, --task, --cluster, and the network limits and timeouts.
std::vector<CommandOption> membership_options(Membership& membership);

// --threads, --memory-limit, --gpus and the GPU modes. `options` must outlive them.
std::vector<CommandOption> device_options(TaskOptions& options);

}  // namespace troupe
