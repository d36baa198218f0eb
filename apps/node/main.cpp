// troupe-node: a task that hosts devices and partitions for remote clients.
#include <fmt/core.h>
#include <signal.h>

#include <cstdio>

#include "apps/ending.hpp"
#include "apps/introspection.hpp"
#include "apps/node/options.hpp"
#include "apps/signals.hpp"
#include <troupe/messages/error.hpp>

namespace {

using namespace troupe;

constexpr const char* kProgram = "troupe-node";

int serve(const NodeOptions& options, LaunchHandshake* handshake, StopSignals& signals, HandledSignal& reports) {
  const auto deadline = std::chrono::steady_clock::now() + options.membership.join_timeout;
  const Member member = start_member(options.membership, handshake, options.task, deadline);
  if (const auto warning = token_warning(member.cluster, options.membership.network))
    fmt::print(stderr, "{}: {}\n", kProgram, *warning);
  const TaskName& name = member.task->name();
  const HostPort& address = member.cluster.address(name);
  const std::size_t others = member.cluster.tasks.size() - 1;
  fmt::print(stderr, "{}: {} listens on {} and waits for {} other task{} of cluster '{}'\n", kProgram, name.to_string(),
             address.to_string(), others, others == 1 ? "" : "s", member.cluster.name);
  member.task->join(member.cluster, deadline - std::chrono::steady_clock::now());
  signals.end_in_order();
  reports.on_signal([&] { write_flight_record(kProgram, *member.task, Error()); });
  if (options.membership.introspect_port >= 0) tell_introspection(kProgram, *member.task);
  fmt::print(stderr, "{}: {} is ready at {}\n", kProgram, name.to_string(), address.to_string());
  signals.wait();
  reports.on_signal(nullptr);
  return end_task(kProgram, *member.task, signals.exit_code());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    HandledSignal reports(SIGUSR1);
    StopSignals signals;
    auto handshake = LaunchHandshake::from_environment();
    const auto parsed = parse_node_options({argv + 1, argv + argc}, handshake.has_value());
    if (const auto* exit = std::get_if<EarlyExit>(&parsed)) return end_output(kProgram, finish(*exit));
    return serve(std::get<NodeOptions>(parsed), handshake ? &*handshake : nullptr, signals, reports);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", kProgram, error.what());
    return 1;
  }
}
