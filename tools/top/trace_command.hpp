// troupe-top --trace.
#pragma once

#include <string>
#include <vector>

#include <troupe/actors/introspection/observer.hpp>
#include <troupe/actors/introspection/trace_recording.hpp>
#include <troupe/messages/command_line.hpp>

namespace troupe::top {

struct TraceArguments {
  std::string file;  // "": no trace
  TraceRequest request;
};
// --trace, --steps and --trace-slower-than.
std::vector<CommandOption> trace_options(TraceArguments& options);

// Records the tasks of a cluster and writes the file; reports progress on stderr. Throws what record_trace, the
// Observer and writing a file throw.
void trace_cluster(Observer::Options target, const TraceArguments& options);

}  // namespace troupe::top
