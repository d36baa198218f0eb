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
  ChaosCluster cluster({.app = saving(app, directory, 50)});
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
  ChaosCluster cluster(
      {.app = saving(app, directory, 50), .restarts = 5, .launcher = workshop.program("troupe-launch")});
  Played played = play(cluster, {{FaultKind::kill, victim, dice.between(0.02, 0.7) * length}}, expected);
  const double killed = played.when["kill " + victim];
  measure(played.outcome, "resumes", cluster, "used", killed);
  played.outcome.counts["from a checkpoint"] = cluster.find("restored", killed) != nullptr;
  return finish(workshop, cluster, played.outcome);
}

constexpr double kLongest = 120;  // s

// Ranks come again together, after losses at the beginning or the end of the training.
Outcome all_reduce(Workshop& workshop, std::uint64_t seed) {
  Dice dice(seed);
  const double length = 6;
  Arguments app = workshop.mnist(length);
  std::ranges::replace(app, "sync", "allreduce");
  app.erase(std::ranges::find(app, "--replicas"), std::ranges::find(app, "--replicas") + 2);
  app.insert(app.end(), {"--peer-timeout", "3"});
  const ClusterOptions three_ranks = {
      .app = app, .ps = 0, .workers = 3, .restarts = 20, .launcher = workshop.program("troupe-launch")};
  const std::string expected = workshop.expected_hash(app, [&] {  // around a ring sums have another order
    ChaosCluster cluster(three_ranks);
    const Played played = play(cluster, {}, "", kLongest, "");
    if (!played.outcome.problem.empty()) fail(Code::internal, "an undisturbed run: {}", played.outcome.problem);
    return played.hash;
  });
  const std::uint64_t first = dice.below(3);
  const auto rank = [&](std::uint64_t i) { return fmt::format("worker/{}", (first + i) % 3); };
  const double at = seed % 2 == 0 ? dice.between(0.2, 1.5) : dice.between(0.7, 1.1) * length;
  const double pause = 5, again = at + dice.between(0.3, pause + 1);
  Schedule schedule = {{FaultKind::kill, rank(0), at},
                       {FaultKind::stop, rank(1), at + 0.05},
                       {FaultKind::kill, rank(2), again},
                       {FaultKind::go_on, rank(1), at + 0.05 + pause}};
  std::ranges::sort(schedule, {}, &Fault::at);
  ChaosCluster cluster(three_ranks);
  Played played = play(cluster, schedule, expected, kLongest, "");
  return finish(workshop, cluster, played.outcome);
}

// A worker, a parameter server or everything is killed.
Outcome kill_some(Workshop& workshop, std::uint64_t seed, const Arguments& job) {
  Dice dice(seed);
  const testing::TemporaryDirectory directory;
  Arguments app = {workshop.program("chaos_task"), "--examples", "8192", "--slots", "4"};
  app.insert(app.end(), job.begin(), job.end());
  const std::string expected = workshop.expected_hash(app, [&] {
    ChaosCluster cluster({.app = app});
    return play(cluster, {}, "").hash;
  });
  const double at = dice.between(0.05, 1.2);
  if (seed % 3 == 2) {
    ChaosCluster cluster({.app = saving(app, directory, 30)});
    Played played = play(cluster, {{FaultKind::kill, "", at}, {FaultKind::start, "", at + 0.1}}, expected);
    played.outcome.counts["from a checkpoint"] = cluster.find("restored", played.when["start "]) != nullptr;
    return finish(workshop, cluster, played.outcome);
  }
  const std::string victim =
      seed % 3 == 0 ? fmt::format("ps/{}", dice.below(2)) : fmt::format("worker/{}", dice.below(4));
  ChaosCluster cluster(
      {.app = saving(app, directory, 30), .restarts = 5, .launcher = workshop.program("troupe-launch")});
  Played played = play(cluster, {{FaultKind::kill, victim, at}}, expected);
  return finish(workshop, cluster, played.outcome);
}

// A task of any kind is killed or stopped while input tasks make the batches of all workers.
Outcome disturb_inputs(Workshop& workshop, std::uint64_t seed, const std::string& data) {
  Dice dice(seed);
  const testing::TemporaryDirectory directory;
  const Arguments app = {workshop.program("chaos_task"),
                         "--model",
                         "tables",
                         "--data",
                         data,
                         "--examples",
                         "8192",
                         "--slots",
                         "4",
                         "--epochs",
                         "3",
                         "--batch",
                         "8"};
  const std::string expected = workshop.expected_hash(app);
  ClusterOptions options{.app = saving(app, directory, 30), .inputs = 2, .workers = 3};
  const double at = dice.between(0.05, 1.2);
  const std::string input = fmt::format("input/{}", dice.below(2));
  const auto under_launcher = [&](const std::string& victim) {
    options.restarts = 5;
    options.launcher = workshop.program("troupe-launch");
    return Schedule{{FaultKind::kill, victim, at}};
  };
  Schedule schedule;
  switch (seed % 6) {
    case 0:
      schedule = under_launcher(input);
      break;
    case 1:  // it stays away
      schedule = {{FaultKind::kill, input, at}};
      break;
    case 2:
      options.app.insert(options.app.end(), {"--peer-timeout", "2"});
      schedule = {{FaultKind::stop, input, at}, {FaultKind::go_on, input, at + 3}};
      break;
    case 3:
      schedule = under_launcher(fmt::format("worker/{}", dice.below(3)));
      break;
    case 4:
      schedule = under_launcher(fmt::format("ps/{}", dice.below(2)));
      break;
    default:
      schedule = {{FaultKind::kill, "", at}, {FaultKind::start, "", at + 0.1}};
  }
  ChaosCluster cluster(options);
  Played played = play(cluster, schedule, expected);
  return finish(workshop, cluster, played.outcome);
}

Row disturbed_inputs(std::string name, std::string how, std::string data) {
  return {.name = std::move(name),
          .fault =
              "kill -9 or SIGSTOP of an input task, kill -9 of a worker, a parameter server or everything, of a job "
              "whose batches are made by two input tasks from TFRecord files, " +
              std::move(how),
          .must = "resumes, the parameters of a run of one process",
          .short_runs = 6,
          .long_runs = 60,
          .at_most = {},
          .at_least = {},
          .run = [data = std::move(data)](Workshop& w, std::uint64_t seed) { return disturb_inputs(w, seed, data); }};
}

// Before the launcher knows the addresses of all tasks.
Outcome kill_early(Workshop& workshop, std::uint64_t seed) {
  Dice dice(seed);
  const Arguments app = workshop.mnist(1);
  const std::string expected = workshop.expected_hash(app);
  const std::string victim =
      dice.below(2) == 0 ? fmt::format("ps/{}", dice.below(2)) : fmt::format("worker/{}", dice.below(4));
  ChaosCluster cluster({.app = app, .restarts = 5, .launcher = workshop.program("troupe-launch")});
  Played played = play(cluster, {{FaultKind::kill, victim, dice.between(0, 0.08)}}, expected, 60, "");
  played.outcome.counts["started again"] = cluster.said("restarted as process");
  return finish(workshop, cluster, played.outcome);
}

// The actor that all requests of other tasks go to: without it the task is of no use, though it computes on.
Outcome lose_node(Workshop& workshop, std::uint64_t seed) {
  Dice dice(seed);
  const testing::TemporaryDirectory directory;
  const Arguments app = {workshop.program("chaos_task"),
                         "--epochs",
                         "6",
                         "--examples",
                         "512",
                         "--slots",
                         "4",
                         "--before",
                         "5"};  // 32 steps an epoch
  const std::string expected = workshop.expected_hash(app, [&] {
    ChaosCluster cluster({.app = app});
    return play(cluster, {}, "").hash;
  });
  const std::string victim =
      dice.below(3) == 0 ? fmt::format("ps/{}", dice.below(2)) : fmt::format("worker/{}", dice.below(4));
  const auto after = dice.below(700);  // ms
  Arguments faulty = saving(app, directory, 20);
  for (const std::string& more : {std::string("--lose-node-of"), victim, std::string("--lose-node-after"),
                                  std::to_string(after), std::string("--once"), (directory.path() / "once").string()})
    faulty.push_back(more);
  ChaosCluster cluster({.app = faulty, .restarts = 5, .launcher = workshop.program("troupe-launch")});
  Played played = play(cluster, {}, expected);
  played.outcome.schedule = fmt::format("the node actor of {} fails after {} ms", victim, after);
  played.outcome.counts["started again"] = cluster.said(victim + " restarted");
  return finish(workshop, cluster, played.outcome);
}

Row killed_job(std::string name, std::string fault, Arguments job) {
  return {.name = std::move(name),
          .fault = std::move(fault),
          .must = "resumes, the same parameters",
          .short_runs = 3,
          .long_runs = 30,
          .at_most = {},
          .at_least = {},
          .run = [job = std::move(job)](Workshop& w, std::uint64_t seed) { return kill_some(w, seed, job); }};
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
       .must = "resumes by itself within 10 s, the same parameters",
       .short_runs = 2,
       .long_runs = 20,
       .at_most = {{"resumes", 10}},
       .at_least = {},
       .run = kill_shard},
      killed_job("kill-tables",
                 "kill -9 of a parameter server, a worker or everything, of a multi-label job with sparse tables",
                 {"--model", "tables", "--epochs", "3", "--batch", "8"}),
      killed_job("kill-objectives",
                 "kill -9 of a parameter server, a worker or everything, of a job with two objectives",
                 {"--model", "objectives", "--epochs", "4", "--batch", "4"}),
      killed_job("kill-records", "the same of a job that reads TFRecord files by number, shuffled",
                 {"--model", "tables", "--data", "records", "--epochs", "3", "--batch", "8"}),
      killed_job("kill-stream", "the same of a job that reads TFRecord files in order, filtered and shuffled",
                 {"--model", "tables", "--data", "stream", "--epochs", "3", "--batch", "8"}),
      disturbed_inputs("inputs-records", "read by number", "records"),
      disturbed_inputs("inputs-stream", "read in order", "stream"),
      {.name = "allreduce",
       .fault = "kill -9 of a rank, another is stopped for 5 s, kill -9 of the third, under troupe-launch --restart",
       .must = "ends by itself, the same parameters",
       .short_runs = 1,
       .long_runs = 200,
       .at_most = {},
       .at_least = {},
       .run = all_reduce},
      {.name = "lose-node",
       .fault = "the node actor of a task fails, under troupe-launch --restart",
       .must = "the task fails and comes again, the same parameters",
       .short_runs = 1,
       .long_runs = 40,
       .at_most = {},
       .at_least = {{"started again", 1}},
       .run = lose_node},
      {.name = "kill-early",
       .fault = "kill -9 of a task before the cluster is complete, under troupe-launch --restart",
       .must = "the same parameters",
       .short_runs = 2,
       .long_runs = 40,
       .at_most = {},
       .at_least = {},
       .run = kill_early},
  };
}

}  // namespace troupe::chaos
