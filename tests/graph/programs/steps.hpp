// The steps of graph programs.
#pragma once

#include <memory>
#include <string>

#include "tests/graph/programs/program.hpp"
#include <troupe/graph/graph.hpp>
#include <troupe/graph/placement/partition.hpp>

namespace troupe::testing {

// What steps work on.
struct State {
  std::unique_ptr<Graph> graph;
  Partitioned parts;  // after the step `partition`
  std::string notes;

  // Throw failed_precondition if there is none.
  const Graph& whole() const;
  const Graph& part(const std::string& device) const;
};

// Throws what the step throws, and not_found for a step or option that does not exist.
void run_step(const Section& section, State& state);

}  // namespace troupe::testing
