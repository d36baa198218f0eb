// A program under test, with what it has printed so far.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tests/processes/child.hpp"
#include "tests/processes/places.hpp"

namespace troupe::testing {

class Process {
 public:
  // command[0] is a path. Standard input is empty; stdout and stderr are pipes.
  explicit Process(std::vector<std::string> command) : child_(std::move(command)) {}

  // Reads until stderr or stdout has `text` that many times. Fails the test if the output ends first.
  void wait_for(const std::string& text, int times = 1);
  // Without waiting. Who tests something else meanwhile calls it now and then: a full pipe would hold the program up.
  void read_what_came();
  void signal(int number) { child_.signal(number); }
  pid_t pid() const { return child_.pid(); }
  // Reads all output; then the exit code, or minus the number of the signal that ended it.
  int wait();

  std::string out, err;

 private:
  bool read_more();
  bool read_within(int milliseconds);

  Child child_;
};

// `command` with an option in seconds, of which there are whole ones only.
inline std::vector<std::string> with_limit(std::vector<std::string> command, const std::string& option,
                                           std::chrono::milliseconds limit) {
  command.insert(command.end(), {option, std::to_string(std::chrono::ceil<std::chrono::seconds>(limit).count())});
  return command;
}

}  // namespace troupe::testing
