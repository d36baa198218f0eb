// The options of a command line that make a process a task of a cluster, each described once: the command lines of
// troupe-mnist and troupe-node declare them, Task::from_command_line() takes them out of a program's arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/cluster/membership.hpp>

namespace troupe {

struct CommandOption {
  std::string name;           // "--task"
  std::string value;          // what its value is called in the help; "": it is a flag
  std::string default_value;  // for the help; "": there is none to show
  std::string help;
  // Of a flag, with "". Throws invalid_argument that says what it expects, without the option's name.
  std::function<void(const std::string&)> take;
};

// --introspect-port and --flight-record. `membership` must outlive them.
std::vector<CommandOption> introspection_options(Membership& membership);
// These, --job, --task, --cluster, and how the task deals with the others: certificates, limits, deadlines.
std::vector<CommandOption> membership_options(Membership& membership);

// Takes the options out of the arguments, given as "--task 1" or "--task=1", wherever they stand; the others keep their
// order. Throws invalid_argument naming the option.
void take_options(const std::vector<CommandOption>& options, std::vector<std::string>& arguments);
// One line for each, as in `--help`.
std::string help_of(const std::vector<CommandOption>& options);

// A whole number in decimal from low to high. Throws invalid_argument that says so.
std::int64_t parse_whole(std::string_view text, std::int64_t low, std::int64_t high);
// Bytes: a whole number, and B (the default), KB, MB, GB, TB, KiB, MiB, GiB or TiB behind it; more than none. Throws
// invalid_argument that says so.
std::uint64_t parse_bytes(std::string_view text);

}  // namespace troupe
