// The command line of troupe-bench.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/harness.hpp"
#include <troupe/messages/command_line.hpp>

namespace troupe::bench {

struct Options {
  Settings settings;
  std::vector<std::string> patterns;
  std::string device = "cpu";  // or "gpu"
  bool list = false;
  bool json = false;
  std::string results;            // file for the --json output; "": none
  std::optional<EarlyExit> exit;  // --help, --version or wrong usage: nothing to run
};

Options parse_options(const std::vector<std::string>& arguments);

}  // namespace troupe::bench
