// The command line of troupe-bench.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/harness.hpp"

namespace troupe::bench {

struct Options {
  Settings settings;
  std::vector<std::string> patterns;
  std::string device = "cpu";  // or "gpu"
  bool list = false;
  bool json = false;
  std::string results;  // file that gets what `json` prints; "": none
  // Set if there is nothing to run: --help, --version or wrong usage. Its text goes to stdout for 0, else to
  // stderr.
  bool ended = false;
  int exit_code = 0;
  std::string text;
};

Options parse_options(const std::vector<std::string>& arguments);

}  // namespace troupe::bench
