// The options of troupe-top.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/top/trace_command.hpp"
#include <troupe/actors/network/network_options.hpp>
#include <troupe/messages/command_line.hpp>

namespace troupe::top {

struct Options {
  std::string address;       // of a task; "": any of the cluster file's
  std::string cluster_file;  // "": none
  std::string recording;     // snapshots that --json has printed, in the place of a cluster; "": none
  double interval = 1;       // seconds
  bool once = false, json = false, why = false;
  std::optional<std::uint64_t> provenance;  // of this version
  std::optional<std::uint16_t> web;         // serve the page at this port of this machine; 0: any free one
  TraceArguments trace;
  NetworkOptions network;
};

// None if there is something to show.
std::optional<EarlyExit> parse(const std::vector<std::string>& arguments, Options& out);

}  // namespace troupe::top
