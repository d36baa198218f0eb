// troupe-top: inspects a running cluster.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tools/top/options.hpp"
#include "tools/top/provenance.hpp"
#include "tools/top/terminal.hpp"
#include "tools/top/text.hpp"
#include "tools/top/web.hpp"

namespace troupe::top {
namespace {

bool interactive(const Options& options) {
  return !options.once && !options.json && !options.why && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
}

Observer::Options cluster_of(const Options& options) {
  Observer::Options target{.address = options.address, .network = options.network};
  if (!options.cluster_file.empty()) target.cluster = ClusterSpec::read(options.cluster_file);
  return target;
}

std::unique_ptr<SnapshotSource> source_of(const Options& options) {
  if (!options.recording.empty()) {
    auto recording = std::make_unique<RecordedSource>(RecordedSource::read(options.recording));
    if (!interactive(options)) recording->keep_last(options.json || options.why ? 1 : 2);
    return recording;
  }
  return std::make_unique<LiveSource>(cluster_of(options));
}

// Prints lines of any text, stripped of terminal control sequences.
void print(std::string_view text) {
  for (const std::string& line : wrap(text, 0)) std::printf("%s\n", line.c_str());
}

// Rates need two snapshots; a recording may have only one.
Observation observe_once(SnapshotSource& source, const Options& options) {
  ClusterSnapshot before = source.cluster();
  if (source.ended()) return observe(std::move(before), nullptr);
  if (options.recording.empty()) std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
  return observe(source.cluster(), &before);
}

// Runs until SIGINT or SIGTERM.
int serve(const Options& options) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // in the server's threads too
  const WebServer server(cluster_of(options), *options.web);
  std::fprintf(stderr, "troupe-top: serving the cluster page at %s until Ctrl-C\n", server.url().c_str());
  int number = 0;
  sigwait(&ends, &number);
  return 128 + number;
}

int run(const Options& options) {
  if (options.provenance) return print_provenance(options);
  if (options.web) return serve(options);
  if (!options.trace.file.empty()) {
    trace_cluster(cluster_of(options), options.trace);
    return 0;
  }
  std::unique_ptr<SnapshotSource> source = source_of(options);
  if (options.json) {
    std::printf("%s\n", to_json(source->cluster()).c_str());
  } else if (options.why) {
    print(shorten(analyse(source->cluster()).brief));
  } else if (interactive(options)) {
    const int code = show(std::move(source), options.interval);
    std::_Exit(code);  // a request may be running on another thread: skip destructors
  } else {
    std::fputs(whole_text(observe_once(*source, options)).c_str(), stdout);
  }
  return 0;
}

}  // namespace
}  // namespace troupe::top

int main(int argc, char** argv) {
  troupe::top::Options options;
  if (const auto exit = troupe::top::parse({argv + 1, argv + argc}, options)) return troupe::finish(*exit);
  try {
    return troupe::top::run(options);
  } catch (const troupe::Error& error) {
    for (const char* who = "troupe-top: "; const std::string& line : troupe::top::wrap(error.message(), 0)) {
      std::fprintf(stderr, "%s%s\n", who, line.c_str());
      who = "";
    }
    return 1;
  }
}
