// The command line of troupe-node.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include <troupe/actors/cluster/membership.hpp>
#include <troupe/messages/command_line.hpp>

namespace troupe {

struct NodeOptions {
  Membership membership;
  TaskOptions task;
};

// `launched`: this process was started by troupe-launch.
std::variant<NodeOptions, EarlyExit> parse_node_options(const std::vector<std::string>& arguments, bool launched);

}  // namespace troupe
