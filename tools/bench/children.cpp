#include "tools/bench/children.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <iostream>

#include "actors/cluster/cluster_spec.hpp"
#include "tools/bench/pipeline.hpp"

namespace troupe::bench {
namespace {

void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

// Says its port, reads the cluster, serves until its input ends.
void serve() {
  Task task({.name = {"worker", 0}, .threads = 1, .networked = true});
  say(std::to_string(task.port()));
  std::string line;
  if (!std::getline(std::cin, line)) return;
  task.join(ClusterSpec::parse(line, "the parent"), std::chrono::seconds(30));
  while (std::getline(std::cin, line)) continue;
}

void first_step() {
  const OneNode graph({});
  graph.run_one();
  say("done");
}

}  // namespace

std::optional<int> run_as_child(const std::vector<std::string>& arguments) {
  if (arguments.size() != 2 || arguments[0] != "--child") return std::nullopt;
  try {
    if (arguments[1] == kServe)
      serve();
    else if (arguments[1] == kFirstStep)
      first_step();
    else
      return 2;
    return 0;
  } catch (...) {
    fmt::print(stderr, "troupe-bench --child {}: {}\n", arguments[1], current_error().message());
    return 1;
  }
}

}  // namespace troupe::bench
