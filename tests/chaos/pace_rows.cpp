// Who is slow or busy is not dead, and holds nobody up.
#include <fmt/format.h>

#include <algorithm>

#include "tests/chaos/row.hpp"

namespace troupe::chaos {
namespace {

// Steps a second of a job whose workers wait 20 ms in each step; the last one 100 ms, if it is slow. Then the protocol
// decides, and not how many cores there are.
double steps_per_second(Workshop& workshop, int workers, int backups, bool slow, int steps, Outcome& outcome) {
  const int batch = 4;
  const Arguments app = {workshop.program("chaos_task"),
                         "--epochs",
                         "1",
                         "--batch",
                         std::to_string(batch),
                         "--slots",
                         "3",
                         "--backups",
                         std::to_string(backups),
                         "--examples",
                         std::to_string(steps * batch * (3 + backups))};
  ClusterOptions options{.app = app, .workers = workers};
  for (int i = 0; i < workers; ++i)
    options.more[fmt::format("worker/{}", i)] = {"--before", slow && i == workers - 1 ? "100" : "20"};
  ChaosCluster cluster(options);
  const Played played = play(cluster, {}, "", 120);
  if (!played.outcome.problem.empty()) {
    outcome.problem = finish(workshop, cluster, played.outcome).problem;
    return 0;
  }
  const Told* final = cluster.find("final");
  return final->what.value("steps", 0.0) / final->what.value("seconds", 1.0);
}

Outcome slow_worker(Workshop& workshop, std::uint64_t) {
  Outcome outcome;
  const int steps = workshop.lengthy() ? 200 : 40;
  const double fast = steps_per_second(workshop, 3, 0, false, steps, outcome);
  const double mixed = steps_per_second(workshop, 4, 1, true, steps, outcome);
  if (!outcome.problem.empty()) return outcome;
  outcome.schedule = "3 fast workers, then with a fourth that takes 5 times as long";
  outcome.times["steps/s of 3 fast"].push_back(fast);
  outcome.times["ratio"].push_back(mixed / fast);
  return outcome;
}

// Two busy loops beside the job, for two minutes.
Outcome busy_machine(Workshop& workshop, std::uint64_t) {
  const double seconds = workshop.lengthy() ? 120 : 3;
  Arguments app = workshop.mnist(100);
  std::replace(app.begin(), app.end(), *(std::ranges::find(app, "--epochs") + 1), std::string("1000000"));
  Outcome outcome;
  outcome.schedule = fmt::format("two busy loops for {} s", seconds);
  ChaosCluster cluster({.app = app});
  testing::Child first({"/bin/sh", "-c", "while :; do :; done"}), second({"/bin/sh", "-c", "while :; do :; done"});
  if (!cluster.run_until([&] { return cluster.find("began") != nullptr; }, 60))
    outcome.problem = "the training did not begin";
  const bool lost = cluster.run_until(
      [&] { return cluster.find("lost") || cluster.find("waits") || !cluster.running("ps/0"); }, seconds);
  double epochs = 0;
  for (const Told& told : cluster.told()) epochs += told.kind == "epoch";
  outcome.counts["epochs"] = epochs;
  if (lost) outcome.problem = "a task was declared lost, although it was only busy";
  if (epochs == 0) outcome.problem = "nothing was trained";
  cluster.apply({FaultKind::kill, "", 0});
  cluster.run_until([&] { return cluster.all_ended(); }, 10);
  return finish(workshop, cluster, outcome);
}

}  // namespace

std::vector<Row> pace_rows() {
  return {
      {.name = "busy",
       .fault = "two busy loops beside the job for 2 minutes",
       .must = "nobody is declared lost",
       .short_runs = 0,
       .long_runs = 1,
       .at_most = {},
       .at_least = {},
       .run = busy_machine},
      {.name = "slow-worker",
       .fault = "one of 4 workers takes 5 times as long, 3 slots of 4 are used; workers wait, and do not compute",
       .must = "at least 0.85 of the steps of 3 fast workers",
       .short_runs = 0,
       .long_runs = 3,
       .at_most = {},
       .at_least = {{"ratio", 0.85}},
       .run = slow_worker},
  };
}

}  // namespace troupe::chaos
