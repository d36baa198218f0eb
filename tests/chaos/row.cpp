#include "tests/chaos/row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include <troupe/messages/error.hpp>

namespace troupe::chaos {
namespace {

constexpr double kPatience = 60;  // seconds for anything that has no other deadline
constexpr int kProbeEpochs = 20;

Arguments mnist_arguments(int epochs) {
  return {"--replicas", "4", "--epochs", std::to_string(epochs), "--digits", "1200,100", "--batch", "8", "--json"};
}

std::string ends_of(const ChaosCluster& cluster) {
  std::set<std::string> hashes;
  for (const Told& told : cluster.told())
    if (told.kind == "final") hashes.insert(told.what.value("params_sha256", "none"));
  std::string text;
  for (const std::string& hash : hashes) text += (text.empty() ? "" : " and ") + hash;
  return text;
}

}  // namespace

const std::vector<Row>& rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> out;
    for (auto* family : {&worker_rows, &return_rows, &disk_rows, &pace_rows, &batch_rows})
      for (Row& row : family()) out.push_back(std::move(row));
    return out;
  }();
  return all;
}

Arguments Workshop::mnist(double seconds) {
  if (seconds_per_epoch_ == 0) {
    Arguments app = {program("troupe-mnist"), "--mode", "sync"};
    for (const std::string& more : mnist_arguments(kProbeEpochs)) app.push_back(more);
    ChaosCluster cluster({.app = app});
    const Played played = play(cluster, {}, expected_hash(app));
    if (!played.outcome.problem.empty()) fail(Code::internal, "an undisturbed run failed: {}", played.outcome.problem);
    seconds_per_epoch_ = std::max(0.005, (cluster.find("final")->time - played.began) / kProbeEpochs);
  }
  Arguments app = {program("troupe-mnist"), "--mode", "sync"};
  for (const std::string& more : mnist_arguments(static_cast<int>(std::ceil(seconds / seconds_per_epoch_))))
    app.push_back(more);
  return app;
}

const std::string& Workshop::expected_hash(const Arguments& arguments) {
  return expected_hash(arguments, [&] {
    Arguments alone;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i] == "--mode")
        ++i;
      else
        alone.push_back(arguments[i]);
    testing::Child child(alone);
    std::string out, err;
    while (child.out_fd() >= 0) child.read_out(out);
    while (child.err_fd() >= 0) child.read_err(err);
    const std::size_t last = out.rfind("{\"event\":\"final\"");
    if (child.wait() != 0 || last == std::string::npos)
      fail(Code::internal, "'{}' failed: {}", fmt::join(alone, " "), err);
    return Json::parse(out.substr(last)).value("params_sha256", "none");
  });
}

const std::string& Workshop::expected_hash(const Arguments& arguments,
                                           const std::function<std::string()>& undisturbed) {
  const auto known = hashes_.find(arguments);
  return known != hashes_.end() ? known->second : hashes_[arguments] = undisturbed();
}

Played play(ChaosCluster& cluster, const Schedule& schedule, const std::string& expected_hash, double seconds,
            const std::string& begins) {
  Played played;
  Outcome& outcome = played.outcome;
  outcome.schedule = to_string(schedule);
  const auto wrong = [&](const std::string& what) { outcome.problem += (outcome.problem.empty() ? "" : "; ") + what; };
  const auto began = [&] { return begins.empty() || cluster.find(begins); };
  cluster.run_until([&] { return began() || !cluster.bad_ends().empty(); }, kPatience);
  if (!began()) {
    wrong("the training did not begin");
    if (cluster.said("cannot listen on")) outcome.again = "another program has taken a port";
  } else {
    played.began = begins.empty() ? unix_now() : cluster.find(begins)->time;
    double late = 0;  // what was done late: the pauses between the faults are kept
    for (const Fault& fault : schedule) {
      const auto over = [&] {
        return cluster.find("final") || (cluster.all_ended() && fault.kind != FaultKind::start);
      };
      cluster.run_until(over, played.began + fault.at + late - unix_now());
      if (over()) {
        outcome.again = fmt::format("the job was over before it was time to {}", fault.to_string());
        wrong(outcome.again);
        break;
      }
      late = std::max(late, unix_now() - played.began - fault.at);
      played.when[fmt::format("{} {}", name(fault.kind), fault.task)] = unix_now();
      cluster.apply(fault);
    }
    if (!cluster.run_until([&] { return cluster.all_ended(); }, seconds))
      wrong(fmt::format("not all processes ended within {} s", seconds));
    const std::string& hash = played.hash = ends_of(cluster);
    if (hash.empty())
      wrong("no task has told the end of the training");
    else if (!expected_hash.empty() && hash != expected_hash)
      wrong(fmt::format("the parameters are {}, not {}", hash, expected_hash));
    if (const std::string bad = cluster.bad_ends(); !bad.empty()) wrong(bad);
  }
  return played;
}

Outcome finish(Workshop& workshop, const ChaosCluster& cluster, const Outcome& outcome) {
  if (!outcome.problem.empty() && outcome.again.empty() && workshop.folder_for_logs)
    cluster.keep_logs(workshop.folder_for_logs());
  return outcome;
}

void measure(Outcome& outcome, const std::string& what, const ChaosCluster& cluster, std::string_view kind,
             double since, std::string_view about) {
  if (!outcome.problem.empty()) return;
  if (const Told* told = cluster.find(kind, since, about))
    outcome.times[what].push_back(told->time - since);
  else
    outcome.problem = fmt::format("nobody has told '{}'{}", kind, about.empty() ? "" : fmt::format(" of {}", about));
}

double total(const ChaosCluster& cluster, const std::vector<std::string>& counts) {
  double sum = 0;
  for (const Told& told : cluster.told()) {
    if ((told.kind != "ended" && told.kind != "job_ended") || !told.what.contains("counts")) continue;
    for (const std::string& name : counts) sum += told.what["counts"].value(name, 0.0);
  }
  return sum;
}

}  // namespace troupe::chaos
