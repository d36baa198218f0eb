// What a command line comes to when there is nothing to run: --help, --version, or wrong usage.
#pragma once

#include <string>

namespace troupe {

struct EarlyExit {
  int code = 0;     // of the process
  std::string out;  // for stdout
  std::string err;  // for stderr
};

// Prints both and returns the code.
int finish(const EarlyExit& exit);

// Wrong usage, found by a check that comes after parsing: "PROGRAM: MESSAGE" and exit code 2.
EarlyExit wrong_usage(const std::string& program, const std::string& message);

}  // namespace troupe
