#include "tools/top/rates.hpp"

#include <algorithm>
#include <tuple>

#include <troupe/actors/base/latency_histogram.hpp>

namespace troupe::top {
namespace {

// Growth over `seconds`; none if no time has passed.
class Growth {
 public:
  explicit Growth(Rate seconds) : seconds_(seconds && *seconds > 0 ? seconds : Rate{}) {}

  Rate of(std::uint64_t before, std::uint64_t after) const {
    return seconds_ && after >= before ? static_cast<double>(after - before) / *seconds_ : Rate{};
  }
  // The share of time spent. Counters are read while written, so it may be slightly too large.
  Rate share(std::int64_t before, std::int64_t after) const {
    return seconds_ && after >= before ? std::min(1.0, static_cast<double>(after - before) / 1e9 / *seconds_) : Rate{};
  }
  std::map<std::string, double> of(const std::map<std::string, std::uint64_t>& before,
                                   const std::map<std::string, std::uint64_t>& after) const {
    std::map<std::string, double> out;
    for (const auto& [key, count] : after) {
      const auto found = before.find(key);
      if (const Rate rate = of(found == before.end() ? 0 : found->second, count)) out.emplace(key, *rate);
    }
    return out;
  }

 private:
  Rate seconds_;
};

// f(earlier or null, later) for each of `after`. Items with equal keys (actors of one kind and name) are paired in
// order.
template <class Out, class In, class Key, class F>
void each(std::vector<Out>& out, const std::vector<In>& before, const std::vector<In>& after, Key&& key, F&& f) {
  std::map<decltype(key(after.front())), std::vector<const In*>> earlier;
  for (const In& thing : before) earlier[key(thing)].push_back(&thing);
  std::map<decltype(key(after.front())), std::size_t> seen;
  for (const In& thing : after) {
    const auto& same = earlier[key(thing)];
    const std::size_t place = seen[key(thing)]++;
    out.push_back(place < same.size() ? f(*same[place], thing) : Out{});
  }
}

LatencySnapshot total(const ServableSnapshot& servable) {
  const auto found = servable.stages.find("total");
  return found == servable.stages.end() ? LatencySnapshot() : found->second;
}

// `before` is from the same process.
TaskRates task_rates(const TaskSnapshot& before, const TaskSnapshot& after) {
  TaskRates out;
  out.seconds = static_cast<double>(after.uptime_ns - before.uptime_ns) / 1e9;
  const Growth growth(out.seconds);
  each(
      out.actors, before.actors, after.actors, [](const ActorSnapshot& a) { return std::tie(a.kind, a.name); },
      [&](const ActorSnapshot& a, const ActorSnapshot& b) {
        return ActorRates{.messages = growth.of(a.handled + a.passed, b.handled + b.passed),
                          .sent = growth.of(a.sent, b.sent),
                          .busy = growth.share(a.busy_ns, b.busy_ns),
                          .by_type = growth.of(a.messages, b.messages)};
      });
  each(
      out.devices, before.devices, after.devices, [](const DeviceSnapshot& d) { return std::string_view(d.name); },
      [&](const DeviceSnapshot& a, const DeviceSnapshot& b) {
        return DeviceRates{.busy = growth.share(a.busy_ns, b.busy_ns), .nodes = growth.of(a.nodes_run, b.nodes_run)};
      });
  each(
      out.shards, before.shards, after.shards, [](const ShardSnapshot& s) { return std::pair(s.job, s.shard); },
      [&](const ShardSnapshot& a, const ShardSnapshot& b) { return ShardRates{growth.of(a.counts, b.counts)}; });
  each(
      out.pipelines, before.pipelines, after.pipelines,
      [](const PipelineSnapshot& p) { return std::string_view(p.data); },
      [&](const PipelineSnapshot& a, const PipelineSnapshot& b) {
        PipelineRates rates{growth.of(a.made, b.made), growth.of(a.waited, b.waited), {}};
        for (std::size_t i = 0; i < b.stages.size(); ++i)
          rates.elements.push_back(i < a.stages.size() ? growth.of(a.stages[i].elements, b.stages[i].elements)
                                                       : Rate{});
        return rates;
      });
  each(
      out.servables, before.servables, after.servables,
      [](const ServableSnapshot& s) { return std::pair(std::string_view(s.model), s.version); },
      [&](const ServableSnapshot& a, const ServableSnapshot& b) {
        return ServableRates{growth.of(answered(a), answered(b)), growth.of(failed(a), failed(b)),
                             since(total(a), total(b))};
      });
  each(
      out.links, before.links, after.links, [](const LinkSnapshot& l) { return std::string_view(l.peer); },
      [&](const LinkSnapshot& a, const LinkSnapshot& b) {
        return LinkRates{growth.of(a.bytes_sent, b.bytes_sent), growth.of(a.bytes_received, b.bytes_received),
                         growth.of(a.frames_sent, b.frames_sent), growth.of(a.frames_received, b.frames_received)};
      });
  if (before.job && after.job && before.job->job == after.job->job)
    out.job_steps = growth.of(before.job->step, after.job->step);
  if (before.training && after.training) {
    out.steps = growth.of(before.training->steps, after.training->steps);
    out.examples = growth.of(before.training->examples, after.training->examples);
    out.step = growth.of(before.training->step, after.training->step);
  }
  return out;
}

TaskRates none(const TaskSnapshot& task) {
  TaskRates out;
  out.actors.resize(task.actors.size());
  out.devices.resize(task.devices.size());
  out.shards.resize(task.shards.size());
  for (const PipelineSnapshot& pipeline : task.pipelines)
    out.pipelines.push_back({.made = {}, .waited = {}, .elements = std::vector<Rate>(pipeline.stages.size())});
  for (const ServableSnapshot& servable : task.servables)
    out.servables.push_back({.answered = {}, .failed = {}, .total = total(servable)});
  out.links.resize(task.links.size());
  return out;
}

}  // namespace

std::uint64_t answered(const ServableSnapshot& servable) {
  const auto found = servable.requests.find("ok");
  return found == servable.requests.end() ? 0 : found->second;
}

std::uint64_t failed(const ServableSnapshot& servable) {
  std::uint64_t out = 0;
  for (const auto& [outcome, count] : servable.requests) out += outcome == "ok" ? 0 : count;
  return out;
}

ClusterRates rates(const ClusterSnapshot& before, const ClusterSnapshot& after) {
  ClusterRates out;
  for (const TaskReport& report : after.tasks) {
    const auto earlier = std::ranges::find(before.tasks, report.task, &TaskReport::task);
    if (!report.snapshot)
      out.tasks.emplace_back();
    else if (earlier != before.tasks.end() && earlier->snapshot &&
             earlier->snapshot->incarnation == report.snapshot->incarnation)
      out.tasks.push_back(task_rates(*earlier->snapshot, *report.snapshot));
    else
      out.tasks.push_back(none(*report.snapshot));
  }
  return out;
}

ClusterRates no_rates(const ClusterSnapshot& snapshot) { return rates({}, snapshot); }

}  // namespace troupe::top
