// The command line of troupe-node.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "apps/early_exit.hpp"
#include <troupe/actors/cluster/gpu_options.hpp>
#include <troupe/actors/cluster/membership.hpp>

namespace troupe {

struct NodeOptions {
  Membership membership;
  int devices = 1;
  int threads = 0;                 // 0: a share of the cores
  std::uint64_t memory_limit = 0;  // bytes, of each device; 0: none
  GpuOptions gpus;
};

// `launched`: this process is a task of troupe-launch.
std::variant<NodeOptions, EarlyExit> parse_node_options(const std::vector<std::string>& arguments, bool launched);

}  // namespace troupe
