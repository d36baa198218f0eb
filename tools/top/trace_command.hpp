// troupe-top --trace.
#pragma once

#include <string>

#include <troupe/actors/introspection/observer.hpp>
#include <troupe/actors/introspection/trace_recording.hpp>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace troupe::top {

struct TraceArguments {
  std::string file;  // "": no trace is wanted
  TraceRequest request;
};
// --trace, which is returned, --steps and --trace-slower-than.
CLI::Option* add_trace_options(CLI::App& app, TraceArguments& options);

// Records the tasks of a cluster and writes the file; tells on stderr how it goes. Throws what record_trace, the
// Observer and writing a file throw.
void trace_cluster(Observer::Options whom, const TraceArguments& options);

}  // namespace troupe::top
