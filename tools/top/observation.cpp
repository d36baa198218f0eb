#include "tools/top/observation.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "tools/top/text.hpp"

namespace troupe::top {
namespace {

void add(Rate& sum, const Rate& more) {
  if (more) sum = sum.value_or(0) + *more;
}

void raise(Rate& greatest, const Rate& other) {
  if (other) greatest = std::max(greatest.value_or(0), *other);
}

void add_shard(Totals& out, const ShardSnapshot& shard) {
  for (const auto& [key, count] : shard.counts) out.gradients[key] += count;
  if (out.staleness.size() < shard.staleness.size()) out.staleness.resize(shard.staleness.size());
  for (std::size_t i = 0; i < shard.staleness.size(); ++i) out.staleness[i] += shard.staleness[i];
}

// The last step and its loss.
std::optional<std::pair<std::uint64_t, double>> last_loss(const TrainingSnapshot& training) {
  if (!training.recent.empty()) return std::pair(training.recent.back().step, training.recent.back().loss);
  if (training.steps > 0) return std::pair(std::uint64_t{0}, training.loss);
  return std::nullopt;
}

}  // namespace

Observation observe(ClusterSnapshot snapshot, const ClusterSnapshot* before) {
  ClusterRates speed = before ? rates(*before, snapshot) : no_rates(snapshot);
  WaitAnalysis waits = analyse(snapshot);
  return {std::move(snapshot), std::move(speed), std::move(waits)};
}

std::uint64_t count_of(const ShardSnapshot& shard, const std::string& key) {
  const auto found = shard.counts.find(key);
  return found == shard.counts.end() ? 0 : found->second;
}

std::uint64_t dropped(const ShardSnapshot& shard) {
  std::uint64_t sum = 0;
  for (const auto& [key, word] : kDropped) sum += count_of(shard, key);
  return sum;
}

Totals totals(const Observation& observation) {
  Totals out;
  Rate job_steps, seen_steps;
  std::optional<std::pair<std::uint64_t, double>> loss;
  for (std::size_t i = 0; i < observation.snapshot.tasks.size(); ++i) {
    const TaskReport& report = observation.snapshot.tasks[i];
    ++out.tasks;
    if (!report.snapshot) {
      ++out.silent;
      continue;
    }
    const TaskSnapshot& task = *report.snapshot;
    const TaskRates& speed = observation.rates.tasks[i];
    if (!task.failure.empty()) ++out.failed;
    for (const ShardSnapshot& shard : task.shards) add_shard(out, shard);
    for (const LinkRates& link : speed.links) add(out.bytes_per_second, link.bytes_sent);
    if (task.job) {
      out.job = true;
      out.mode = task.job->mode;
      out.stage = task.job->stage;
      out.epoch = task.job->epoch;
      out.epochs = task.job->epochs;
      out.step = task.job->step;
      out.steps = task.job->steps;
      add(job_steps, speed.job_steps);
    }
    if (!task.training) continue;
    if (!out.job) {
      out.mode = task.training->mode;
      out.epoch = std::max(out.epoch, task.training->epoch);
      out.epochs = std::max(out.epochs, task.training->epochs);
      out.step = std::max(out.step, task.training->step);
    }
    raise(seen_steps, speed.step);
    add(out.examples_per_second, speed.examples);
    if (const auto own = last_loss(*task.training); own && (!loss || own->first > loss->first)) loss = own;
  }
  out.steps_per_second = out.job ? job_steps : seen_steps;
  if (loss) out.loss = loss->second;
  return out;
}

std::string who_is_late(const ClusterSnapshot& snapshot, const ShardSnapshot& shard) {
  std::string out;
  for (const std::uint32_t slot : shard.missing) {
    const std::string token = fmt::format("step {} slot {}", shard.version, slot);
    std::set<std::string> holders;
    for (const TaskReport& report : snapshot.tasks) {
      if (!report.snapshot || !report.snapshot->job || report.snapshot->job->job != shard.job) continue;
      for (const MemberSnapshot& member : report.snapshot->job->members)
        if (std::ranges::find(member.tokens, token) != member.tokens.end()) holders.insert(clean(shorten(member.task)));
    }
    out += fmt::format("{}slot {}", out.empty() ? "" : "; ", slot);
    const char* between = ": ";
    for (const std::string& holder : holders) {
      out += between + holder;
      between = ", ";
    }
  }
  return out;
}

std::string name_in(const std::string& task, const std::string& name) {
  const std::string own = clean(shorten(task)), whole = clean(shorten(name));
  if (whole == own) return "";
  return whole.starts_with(own + "/") ? whole.substr(own.size() + 1) : whole;
}

}  // namespace troupe::top
