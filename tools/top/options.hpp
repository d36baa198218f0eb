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
  std::string address;       // of a task; "": any in the cluster file
  std::string cluster_file;  // "": none
  std::string recording;     // file of snapshots printed by --json, instead of a cluster; "": none
  double interval = 1;       // seconds
  bool once = false, json = false, why = false;
  std::optional<std::uint64_t> provenance;  // of this version
  std::optional<std::uint16_t> web;         // port on this machine to serve the page at; 0: any free one
  TraceArguments trace;
  NetworkOptions network;
};

// Parses the arguments. Returns nothing if the program should run.
std::optional<EarlyExit> parse(const std::vector<std::string>& arguments, Options& out);

}  // namespace troupe::top
