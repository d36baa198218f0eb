// Jobs that return to a checkpoint: parameter servers that are killed, and everything.
#include <fmt/format.h>

#include "tests/chaos/row.hpp"

namespace troupe::chaos {
namespace {

Arguments saving(Arguments app, const testing::TemporaryDirectory& directory, int every) {
  for (const std::string& more : {std::string("--checkpoint"), (directory.path() / "checkpoints").string(),
                                  std::string("--checkpoint-every"), std::to_string(every)})
    app.push_back(more);
  return app;
}

Outcome kill_all(Workshop& workshop, std::uint64_t seed) {
  Dice dice(seed);
  const double length = 3;
  const Arguments app = workshop.mnist(length);
  const testing::TemporaryDirectory directory;
  const double at = dice.between(0, 0.7) * length;
  const std::string expected = workshop.expected_hash(app);  // a run of its own, before there is anyone to disturb
  ChaosCluster cluster({.app = saving(app, directory, 50), .later = {}, .more = {}, .apart = {}, .launcher = {}});
  Played played = play(cluster, {{FaultKind::kill, "", at}, {FaultKind::start, "", at + 0.1}}, expected);
  const double again = played.when["start "];
  measure(played.outcome, "resumed", cluster, "began", again);
  measure(played.outcome, "next step", cluster, "used", again);
  played.outcome.counts["from a checkpoint"] = cluster.find("restored", again) != nullptr;
  return finish(workshop, cluster, played.outcome);
}

// troupe-launch starts the lost task again: nobody else does anything.
Outcome kill_shard(Workshop& workshop, std::uint64_t seed) {
  Dice dice(seed);
  const double length = 3;
  const Arguments app = workshop.mnist(length);
  const testing::TemporaryDirectory directory;
  const std::string victim = fmt::format("ps/{}", seed % 2);
  const std::string expected = workshop.expected_hash(app);  // a run of its own, before there is anyone to disturb
  ChaosCluster cluster({.app = saving(app, directory, 50),
                        .later = {},
                        .more = {},
                        .apart = {},
                        .restarts = 5,
                        .launcher = workshop.program("troupe-launch")});
  Played played = play(cluster, {{FaultKind::kill, victim, dice.between(0.02, 0.7) * length}}, expected);
  const double killed = played.when["kill " + victim];
  measure(played.outcome, "goes on", cluster, "used", killed);
  played.outcome.counts["from a checkpoint"] = cluster.find("restored", killed) != nullptr;
  return finish(workshop, cluster, played.outcome);
}

}  // namespace

std::vector<Row> return_rows() {
  return {
      {.name = "kill-all",
       .fault = "kill -9 of everything at a random moment; all are started again",
       .must = "resumes, the same parameters",
       .short_runs = 1,
       .long_runs = 20,
       .at_most = {},
       .at_least = {},
       .run = kill_all},
      {.name = "kill-shard",
       .fault = "kill -9 of a parameter server, the coordinator's too, under troupe-launch --restart",
       .must = "goes on by itself within 10 s, the same parameters",
       .short_runs = 2,
       .long_runs = 20,
       .at_most = {{"goes on", 10}},
       .at_least = {},
       .run = kill_shard},
  };
}

}  // namespace troupe::chaos
