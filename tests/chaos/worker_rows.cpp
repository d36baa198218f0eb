// Workers that are killed, stopped, cut off, and join.
#include <fmt/format.h>

#include "tests/chaos/row.hpp"

namespace troupe::chaos {
namespace {

ClusterOptions cluster_of(Arguments app) { return {.app = std::move(app)}; }

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string worker(std::uint64_t index) { return fmt::format("worker/{}", index); }

Outcome kill_worker(Workshop& workshop, std::uint64_t seed) {
  Dice dice(seed);
  const double length = 3;
  const Arguments app = workshop.mnist(length);
  const std::string victim = worker(dice.below(4));
  Schedule schedule = {{FaultKind::kill, victim, dice.between(0.02, 0.5) * length}};
  if (dice.below(2) == 0) schedule.push_back({FaultKind::start, victim, schedule[0].at + 0.2});
  const std::string expected = workshop.expected_hash(app);  // a run of its own, before there is anyone to disturb
  ChaosCluster cluster(cluster_of(app));
  Played played = play(cluster, schedule, expected);
  const double killed = played.when["kill " + victim];
  measure(played.outcome, "detected", cluster, "lost", killed, victim);
  measure(played.outcome, "next step", cluster, "went_on", killed);
  if (schedule.size() > 1) played.outcome.counts["started again"] = 1;
  return finish(workshop, cluster, played.outcome);
}

Outcome two_join(Workshop& workshop, std::uint64_t seed) {
  Dice dice(seed);
  const double length = 5;
  const Arguments app = workshop.mnist(length);
  ClusterOptions options = cluster_of(with(app, {"--min-workers", "4"}));
  options.workers = 6;
  options.later = {"worker/4", "worker/5"};
  Schedule schedule = {{FaultKind::start, "worker/4", dice.between(0, 0.4) * length},
                       {FaultKind::start, "worker/5", dice.between(0, 0.4) * length}};
  std::ranges::sort(schedule, {}, &Fault::at);
  const std::string expected = workshop.expected_hash(app);  // a run of its own, before there is anyone to disturb
  ChaosCluster cluster(options);
  Played played = play(cluster, schedule, expected);
  for (const std::string& who : options.later) {
    measure(played.outcome, "used after start", cluster, "used", played.when["start " + who], who);
    if (!played.outcome.problem.empty()) continue;
    played.outcome.times["used after join"].push_back(cluster.find("used", 0, who)->what.value("seconds", 0.0));
  }
  return finish(workshop, cluster, played.outcome);
}

Outcome stop_worker(Workshop& workshop, std::uint64_t seed) {
  Dice dice(seed);
  const double pause = workshop.lengthy() ? 10 : 3.5, length = pause + 4;
  const Arguments app = workshop.mnist(length);
  const std::string victim = worker(dice.below(4));
  const double at = dice.between(0, 1);
  const std::string expected = workshop.expected_hash(app);  // a run of its own, before there is anyone to disturb
  ChaosCluster cluster(cluster_of(with(app, {"--peer-timeout", "2"})));
  Played played = play(cluster, {{FaultKind::stop, victim, at}, {FaultKind::go_on, victim, at + pause}}, expected);
  measure(played.outcome, "evicted", cluster, "lost", played.when["stop " + victim], victim);
  measure(played.outcome, "next step", cluster, "went_on", played.when["stop " + victim]);
  measure(played.outcome, "back", cluster, "joined", played.when["continue " + victim], victim);
  played.outcome.counts["late and refused"] = total(cluster, {"fenced", "ignored"});
  return finish(workshop, cluster, played.outcome);
}

Outcome cut_worker(Workshop& workshop, std::uint64_t seed) {
  Dice dice(seed);
  const double pause = 4, length = pause + 6;
  const Arguments app = workshop.mnist(length);
  const std::string victim = worker(dice.below(4));
  const double at = dice.between(0, 1);
  ClusterOptions options = cluster_of(with(app, {"--peer-timeout", "2"}));
  options.apart = victim;
  if (!testing::TwoNetworks().possible())
    return {.problem = {},
            .skipped = "network namespaces need root and ip (iproute2)",
            .schedule = {},
            .times = {},
            .counts = {}};
  const std::string expected = workshop.expected_hash(app);  // a run of its own, before there is anyone to disturb
  ChaosCluster cluster(options);
  Played played = play(cluster, {{FaultKind::cut, victim, at}, {FaultKind::heal, victim, at + pause}}, expected);
  measure(played.outcome, "evicted", cluster, "lost", played.when["cut off " + victim], victim);
  measure(played.outcome, "next step", cluster, "went_on", played.when["cut off " + victim]);
  measure(played.outcome, "back", cluster, "joined", played.when["connect " + victim], victim);
  return finish(workshop, cluster, played.outcome);
}

// ---- The counting model --------------------------------------------------------------------------------------------

// Says in the outcome how often examples have counted, if that is not once an epoch. A step's gradient is the mean of
// `slots`.
void check_counts(Outcome& outcome, const ChaosCluster& cluster, int epochs, int slots) {
  for (const Told& told : cluster.told()) {
    if (told.kind != "final") continue;
    const double least = told.what.value("least", -1.0) * slots, most = told.what.value("most", -1.0) * slots;
    if (least == epochs && most == epochs) continue;
    if (!outcome.problem.empty()) outcome.problem += "; ";
    outcome.problem +=
        fmt::format("in {} epochs some example was applied {} times, and some {} times", epochs, least, most);
  }
}

Outcome kill_asynchronous(Workshop& workshop, std::uint64_t seed, const Arguments& broken) {
  Dice dice(seed);
  constexpr int kEpochs = 4;
  // 128 batches an epoch, four at once: 2.5 s. Half of a step comes after its gradients have left.
  const Arguments app = with({workshop.program("chaos_task"), "--mode", "async", "--epochs", std::to_string(kEpochs),
                              "--examples", "512", "--batch", "4", "--before", "4", "--between", "4", "--after", "10"},
                             broken);
  const std::string victim = worker(dice.below(4));
  Schedule schedule = {{FaultKind::kill, victim, dice.between(0.05, 1.5)}};
  if (dice.below(2) == 0) schedule.push_back({FaultKind::start, victim, schedule[0].at + 0.2});
  ChaosCluster cluster(cluster_of(app));
  Played played = play(cluster, schedule, "");
  check_counts(played.outcome, cluster, kEpochs, 1);
  measure(played.outcome, "detected", cluster, "lost", played.when["kill " + victim], victim);
  played.outcome.counts["batches"] = total(cluster, {"batches"}) / 2;
  played.outcome.counts["pushed again"] = total(cluster, {"duplicates"});
  played.outcome.counts["forgotten"] = total(cluster, {"abandoned"});
  return finish(workshop, cluster, played.outcome);
}

// The model says how often each example was applied, to rows of a table or in each phase.
Outcome kill_asynchronous_model(Workshop& workshop, std::uint64_t seed, const std::string& model,
                                const std::string& data = "memory", int inputs = 0) {
  Dice dice(seed);
  constexpr int kEpochs = 4;
  const Arguments app = {
      workshop.program("chaos_task"), "--model",    model,  "--data",  data, "--mode", "async", "--epochs",
      std::to_string(kEpochs),        "--examples", "8192", "--batch", "4"};
  const std::string victim =
      inputs > 0 && dice.below(2) == 0 ? fmt::format("input/{}", dice.below(2)) : worker(dice.below(4));
  Schedule schedule = {{FaultKind::kill, victim, dice.between(0.05, 1.5)}};
  if (dice.below(2) == 0) schedule.push_back({FaultKind::start, victim, schedule[0].at + 0.2});
  ClusterOptions options = cluster_of(app);
  options.inputs = inputs;
  ChaosCluster cluster(options);
  Played played = play(cluster, schedule, "");
  check_counts(played.outcome, cluster, kEpochs, 1);
  played.outcome.counts["batches"] = total(cluster, {"batches"}) / 2;
  played.outcome.counts["pushed again"] = total(cluster, {"duplicates"});
  return finish(workshop, cluster, played.outcome);
}

// What the worker has sent before it was evicted comes when it is back: see haunting.hpp.
Outcome late_pushes(Workshop& workshop, std::uint64_t seed, const Arguments& broken) {
  Dice dice(seed);
  constexpr int kEpochs = 6;
  // 128 batches an epoch, four at once, 30 ms each: 6 s.
  const Arguments app =
      with({workshop.program("chaos_task"), "--mode", "async", "--epochs", std::to_string(kEpochs), "--examples", "512",
            "--batch", "4", "--before", "20", "--after", "10", "--peer-timeout", "2", "--haunt"},
           broken);
  const std::string victim = worker(dice.below(4));
  const double at = dice.between(0.1, 1);
  ChaosCluster cluster(cluster_of(app));
  Played played = play(cluster, {{FaultKind::stop, victim, at}, {FaultKind::go_on, victim, at + 2.8}}, "");
  check_counts(played.outcome, cluster, kEpochs, 1);
  measure(played.outcome, "evicted", cluster, "lost", played.when["stop " + victim], victim);
  measure(played.outcome, "back", cluster, "joined", played.when["continue " + victim], victim);
  played.outcome.counts["late and refused"] = total(cluster, {"fenced", "ignored"});
  if (played.outcome.problem.empty() && played.outcome.counts["late and refused"] < 2)
    played.outcome.problem = "late pushes were not refused on both shards";
  return finish(workshop, cluster, played.outcome);
}

}  // namespace

std::vector<Row> worker_rows() {
  return {
      {.name = "kill-worker",
       .fault = "kill -9 of 1 of 4 workers, the chief too, at a random moment of synchronous training; started again "
                "in half of the runs",
       .must = "detected within 1 s, next step within 3 s, the same parameters",
       .short_runs = 2,
       .long_runs = 50,
       .at_most = {{"detected", 1}, {"next step", 3}},
       .at_least = {},
       .run = kill_worker},
      {.name = "join",
       .fault = "two more workers join at random moments",
       .must = "used within 2 s, the same parameters",
       .short_runs = 1,
       .long_runs = 20,
       .at_most = {{"used after join", 2}},
       .at_least = {},
       .run = two_join},
      {.name = "kill-async",
       .fault = "kill -9 of a worker of asynchronous training, integer gradients",
       .must = "each batch applied exactly once on both shards",
       .short_runs = 2,
       .long_runs = 20,
       .at_most = {{"detected", 1}},
       .at_least = {},
       .run = [](Workshop& w, std::uint64_t seed) { return kill_asynchronous(w, seed, {}); }},
      {.name = "kill-async-tables",
       .fault = "kill -9 of a worker of asynchronous training with sparse tables",
       .must = "each batch applied exactly once to the rows of its examples",
       .short_runs = 2,
       .long_runs = 20,
       .at_most = {},
       .at_least = {},
       .run = [](Workshop& w, std::uint64_t seed) { return kill_asynchronous_model(w, seed, "tables"); }},
      {.name = "kill-async-objectives",
       .fault = "kill -9 of a worker of asynchronous training of two objectives",
       .must = "each batch applied exactly once in both phases",
       .short_runs = 2,
       .long_runs = 20,
       .at_most = {},
       .at_least = {},
       .run = [](Workshop& w, std::uint64_t seed) { return kill_asynchronous_model(w, seed, "objectives"); }},
      {.name = "kill-async-records",
       .fault = "kill -9 of a worker of asynchronous training that reads TFRecord files, by number or in order",
       .must = "each example applied exactly once in each epoch",
       .short_runs = 2,
       .long_runs = 20,
       .at_most = {},
       .at_least = {},
       .run =
           [](Workshop& w, std::uint64_t seed) {
             return kill_asynchronous_model(w, seed, "tables", seed % 2 == 0 ? "records" : "stream");
           }},
      {.name = "kill-async-inputs",
       .fault = "the same with two input tasks, of which one may be killed",
       .must = "each example applied exactly once in each epoch",
       .short_runs = 2,
       .long_runs = 20,
       .at_most = {},
       .at_least = {},
       .run =
           [](Workshop& w, std::uint64_t seed) {
             return kill_asynchronous_model(w, seed, "tables", seed % 2 == 0 ? "records" : "stream", 2);
           }},
      {.name = "stop-worker",
       .fault = "SIGSTOP of a worker for 10 s, then SIGCONT",
       .must = "evicted within 3 s, back within 3 s, the same parameters",
       .short_runs = 1,
       .long_runs = 5,
       .at_most = {{"evicted", 3}, {"back", 3}},
       .at_least = {},
       .run = stop_worker},
      {.name = "late-pushes",
       .fault = "SIGSTOP of a worker until it is evicted; what it has sent before comes when it is back",
       .must = "late pushes are refused and counted, each batch is applied exactly once",
       .short_runs = 1,
       .long_runs = 10,
       .at_most = {{"evicted", 3}, {"back", 3}},
       .at_least = {},
       .run = [](Workshop& w, std::uint64_t seed) { return late_pushes(w, seed, {}); }},
      {.name = "cut-worker",
       .fault = "the network of a worker is cut for 4 s",
       .must = "evicted within 3 s, back within 3 s, the same parameters",
       .short_runs = 1,
       .long_runs = 5,
       .at_most = {{"evicted", 3}, {"back", 3}},
       .at_least = {},
       .run = cut_worker},
      {.name = "without-dedupe",
       .fault = "kill-async, but shards apply what they have applied already",
       .must = "is caught",
       .short_runs = 12,  // until it is caught: on a busy machine a kill seldom falls between two shards' pushes
       .long_runs = 20,
       .at_most = {},
       .at_least = {},
       .run =
           [](Workshop& w, std::uint64_t seed) {
             return kill_asynchronous(w, seed, {"--without", "dedupe"});
           },
       .broken = true},
      {.name = "without-fence",
       .fault = "late-pushes, but nobody looks at who is a member",
       .must = "is caught",
       .short_runs = 1,
       .long_runs = 3,
       .at_most = {},
       .at_least = {},
       .run =
           [](Workshop& w, std::uint64_t seed) {
             return late_pushes(w, seed, {"--without", "fence"});
           },
       .broken = true},
  };
}

}  // namespace troupe::chaos
