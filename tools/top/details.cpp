#include "tools/top/details.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tools/top/tables.hpp"
#include "tools/top/text.hpp"
#include <troupe/actors/base/latency_histogram.hpp>

namespace troupe::top {
namespace {

constexpr std::size_t kLabel = 11;  // columns
constexpr std::size_t kCauses = 4;  // alarms in the summary

// Lines "label    text", with long text wrapped.
void say(Lines& out, std::string_view label, std::string_view text, std::size_t columns, Style style = Style::plain) {
  bool first = true;
  for (std::string& line : wrap(text, columns > kLabel + 20 ? columns - kLabel : columns == 0 ? 0 : 20)) {
    out.push_back({{fit(first ? label : "", kLabel), Style::dim}, {std::move(line), style}});
    first = false;
  }
}

void title(Lines& out, std::string text) {
  out.push_back({});
  out.push_back({{std::move(text), Style::heading}});
}

void add_table(Lines& out, const Table& table, std::size_t columns) {
  for (Line& line : lay_out(table, {.width = columns})) out.push_back(std::move(line));
}

std::string of(const char* what, std::uint64_t count, const Rate& rate) {
  return fmt::format("{} {} ({}/s)", exact_text(count), what, rate_text(rate));
}

Table counts_table(const char* what, const std::map<std::string, std::uint64_t>& counts,
                   const std::map<std::string, double>* rates) {
  Table table{.columns = {{what}, {"count", Align::right}}};
  if (rates) table.columns.push_back({"per s", Align::right});
  for (const auto& [key, count] : counts) {
    Row row{.key = key,
            .cells = {{clean(shorten(key)), std::nullopt}, {exact_text(count), static_cast<double>(count)}}};
    if (rates) {
      const auto found = rates->find(key);
      const Rate rate = found == rates->end() ? Rate{} : Rate(found->second);
      row.cells.push_back({rate_text(rate), rate});
    }
    table.rows.push_back(std::move(row));
  }
  sort(table, 1, true);
  return table;
}

const TaskSnapshot& task_at(const Observation& observation, std::size_t task) {
  return *observation.snapshot.tasks.at(task).snapshot;
}

std::string heading(const Observation& observation, std::size_t task, const std::string& what) {
  return fmt::format("{} of {}", what, clean(shorten(observation.snapshot.tasks.at(task).task)));
}

std::string progress(const Totals& all) {
  std::string out = all.mode + (all.stage.empty() || all.stage == "training" ? "" : ", " + all.stage);
  if (all.epoch > 0)
    out += ", epoch " + exact_text(all.epoch) + (all.epochs > 0 ? " of " + exact_text(all.epochs) : "");
  out += fmt::format(", step {}", exact_text(all.step));
  if (all.steps > 0) {
    out += fmt::format(" of {} ({})", exact_text(all.steps),
                       share_text(static_cast<double>(all.step) / static_cast<double>(all.steps)));
    if (all.steps_per_second.value_or(0) > 0 && all.step < all.steps)
      out += fmt::format(", {} left", duration_text(static_cast<std::int64_t>(
                                          static_cast<double>(all.steps - all.step) / *all.steps_per_second * 1e9)));
  }
  return out;
}

std::string gradients(const Totals& all) {
  const auto count = [&](const char* key) {
    const auto found = all.gradients.find(key);
    return found == all.gradients.end() ? 0 : found->second;
  };
  std::string out =
      fmt::format("{} staged, {} updates; dropped: ", exact_text(count("pushes")), exact_text(count("updates")));
  bool none = true;
  for (const auto& [key, word] : kDropped) {
    if (count(key) == 0) continue;
    out += fmt::format("{}{} {}", none ? "" : ", ", exact_text(count(key)), word);
    none = false;
  }
  return out + (none ? "none" : "");
}

std::string staleness(const std::vector<std::uint64_t>& counts) {
  std::uint64_t sum = 0, weighted = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += counts[i];
    weighted += counts[i] * i;
    if (counts[i] > 0) last = i;
  }
  if (sum == 0) return "";
  if (last == 0) return "none late";
  std::vector<double> values(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(last) + 1);
  return fmt::format("{} from 0 to {}; {} current, mean {:.2f} updates", spark_line(values, values.size()), last,
                     share_text(static_cast<double>(counts[0]) / static_cast<double>(sum)),
                     static_cast<double>(weighted) / static_cast<double>(sum));
}

void say_curve(Lines& out, const char* label, const std::vector<double>& values, std::size_t columns) {
  if (values.size() < 2) return;
  const std::size_t room = std::min<std::size_t>(columns == 0            ? 60
                                                 : columns > kLabel + 24 ? columns - kLabel - 24
                                                                         : 10,
                                                 120);
  const std::size_t first = values.size() > room ? values.size() - room : 0;
  const double most = *std::max_element(values.begin() + static_cast<std::ptrdiff_t>(first), values.end());
  out.push_back({{fit(label, kLabel), Style::dim},
                 {spark_line(values, room), Style::good},
                 {fmt::format("  at most {}", rate_text(most)), Style::dim}});
}

}  // namespace

Lines actor_details(const Observation& observation, std::size_t task_index, std::size_t item, std::size_t columns) {
  const TaskSnapshot& task = task_at(observation, task_index);
  const std::vector<ActorGroup> groups = actor_groups(task, observation.rates.tasks.at(task_index));
  const auto& [actor, speed, times] = groups.at(item);
  Lines out;
  out.push_back({{heading(observation, task_index, actor_title(task, groups[item])), Style::strong}});
  const auto lasts = since(actor);
  say(out, "state", clean(actor.state) + (lasts ? " for " + duration_text(*lasts) : ""), columns,
      actor.state == "failed" ? Style::bad : Style::plain);
  if (!actor.current.empty())
    say(out, "handles", fmt::format("{} for {}", clean(actor.current), duration_text(actor.current_ns)), columns);
  if (!actor.waits_for.empty())
    say(out, "waits for", fmt::format("{}, for {}", clean(shorten(actor.waits_for)), duration_text(actor.waits_ns)),
        columns);
  say(out, "mailbox", fmt::format("{} now, {} at most", exact_text(actor.mailbox), exact_text(actor.mailbox_peak)),
      columns);
  say(out, "messages",
      of("handled", actor.handled + actor.passed, speed.messages) +
          (actor.passed > 0 ? fmt::format(", {} of these directly by their senders", exact_text(actor.passed)) : "") +
          "; " + of("sent", actor.sent, speed.sent),
      columns);
  const double whole = static_cast<double>(std::max<std::int64_t>(task.uptime_ns, 1));
  say(out, "busy",
      fmt::format("{} now; {} in all, {} of the task's time", share_text(speed.busy), duration_text(actor.busy_ns),
                  share_text(static_cast<double>(actor.busy_ns) / whole)),
      columns);
  say(out, "restarts", exact_text(actor.restarts), columns, actor.restarts > 0 ? Style::warn : Style::plain);
  if (!actor.messages.empty()) {
    out.push_back({});
    add_table(out, counts_table("messages handled, by type", actor.messages, &speed.by_type), columns);
  }
  if (!actor.peers.empty()) {
    out.push_back({});
    add_table(out, counts_table("senders of its latest messages, by task", actor.peers, nullptr), columns);
  }
  const auto append = [&](Lines more) {
    out.push_back({});
    for (Line& line : more) out.push_back(std::move(line));
  };
  for (std::size_t i = 0; actor.kind == "device" && i < task.devices.size(); ++i)
    if (task.devices[i].name == actor.name) append(device_details(observation, task_index, i, columns));
  for (std::size_t i = 0; actor.kind == "shard" && i < task.shards.size(); ++i)
    append(shard_details(observation, task_index, i, columns));
  for (std::size_t i = 0; actor.kind == "peer" && i < task.links.size(); ++i)
    if (task.links[i].peer == actor.name) append(edge_details(observation, task_index, i, columns));
  return out;
}

Lines device_details(const Observation& observation, std::size_t task_index, std::size_t item, std::size_t columns) {
  const TaskSnapshot& task = task_at(observation, task_index);
  const DeviceSnapshot& device = task.devices.at(item);
  const DeviceRates& speed = observation.rates.tasks.at(task_index).devices.at(item);
  Lines out;
  out.push_back({{heading(observation, task_index, "device " + name_in(task.task, device.name)), Style::strong}});
  if (!device.failure.empty()) say(out, "lost", clean(device.failure), columns, Style::bad);
  say(out, "busy", fmt::format("{} now; {} in all", share_text(speed.busy), duration_text(device.busy_ns)), columns);
  say(out, "runs", device.running.empty() ? "nothing" : clean(shorten(device.running)), columns);
  say(out, "queue", fmt::format("{} segments", exact_text(device.queue)), columns);
  say(out, "nodes", of("run", device.nodes_run, speed.nodes), columns);
  say(out, "memory",
      fmt::format(
          "{} in use, peak {}, {} cached, limit {}", bytes_text(device.bytes_in_use), bytes_text(device.peak_bytes),
          bytes_text(device.cached_bytes),
          device.limit_bytes == 0 || device.limit_bytes == UINT64_MAX ? "none" : bytes_text(device.limit_bytes)),
      columns);
  say(out, "allocations",
      fmt::format("{}, {} from the cache", exact_text(device.allocations), exact_text(device.reuses)), columns);
  if (device.pinned_bytes > 0)
    say(out, "pinned",
        fmt::format("{} of host memory, for copies to and from this device", bytes_text(device.pinned_bytes)), columns);
  if (device.recordings + device.recording_refusals > 0)
    say(out, "recordings",
        fmt::format("{}, launched {} times; {} refused{}{}", exact_text(device.recordings),
                    exact_text(device.recording_launches), exact_text(device.recording_refusals),
                    device.last_refusal.empty() ? "" : ", the last: ", clean(device.last_refusal)),
        columns);
  if (device.largest.empty()) return out;
  Table table{
      .columns = {{"share", Align::right}, {"largest live tensors", Align::left, 60}, {"of", Align::left, 60, true}},
      .fixed = 0};
  for (const TensorUse& tensor : device.largest) {
    const double part = device.bytes_in_use == 0 ? 0
                                                 : static_cast<double>(tensor.bytes * tensor.count) /
                                                       static_cast<double>(device.bytes_in_use);
    table.rows.push_back({.cells = {{share_text(part), std::nullopt},
                                    {tensor_text(tensor), std::nullopt},
                                    {clean(tensor.name), std::nullopt}}});
  }
  out.push_back({});
  add_table(out, table, columns);
  return out;
}

Lines shard_details(const Observation& observation, std::size_t task_index, std::size_t item, std::size_t columns) {
  const TaskSnapshot& task = task_at(observation, task_index);
  const ShardSnapshot& shard = task.shards.at(item);
  const ShardRates& speed = observation.rates.tasks.at(task_index).shards.at(item);
  Lines out;
  out.push_back({{heading(observation, task_index, fmt::format("shard {}", shard.shard)), Style::strong}});
  say(out, "parameters",
      fmt::format("{} in {} slices, version {} of job {}", bytes_text(shard.bytes), exact_text(shard.slices),
                  exact_text(shard.version), shard.job),
      columns);
  say(out, "staged", fmt::format("{} of {} of the next version", shard.staged, shard.needed), columns);
  if (const std::string late = who_is_late(observation.snapshot, shard); !late.empty())
    say(out, "missing", late, columns);
  if (!shard.waits_for.empty()) say(out, "waits for", clean(shorten(shard.waits_for)), columns);
  say(out, "parked", fmt::format("{} pulls", exact_text(shard.parked)), columns);
  if (const std::string text = staleness(shard.staleness); !text.empty()) {
    title(out, "staleness in updates");
    const std::uint64_t most = *std::ranges::max_element(shard.staleness);
    for (std::size_t i = 0; i < shard.staleness.size(); ++i)
      if (shard.staleness[i] > 0)
        out.push_back(
            {{fmt::format("{:>4}{} ", i, i + 1 == shard.staleness.size() ? "+" : " "), Style::dim},
             {fit(bar(static_cast<double>(shard.staleness[i]) / static_cast<double>(most), 30), 31), Style::good},
             {exact_text(shard.staleness[i]), Style::plain}});
  }
  out.push_back({});
  add_table(out, counts_table("counters", shard.counts, &speed.counts), columns);
  return out;
}

Lines pipeline_details(const Observation& observation, std::size_t task_index, std::size_t item, std::size_t columns) {
  const TaskSnapshot& task = task_at(observation, task_index);
  const PipelineSnapshot& pipeline = task.pipelines.at(item);
  Lines out;
  out.push_back({{heading(observation, task_index, fmt::format("the {} data", clean(pipeline.data))), Style::strong}});
  say(out, "taken by", fmt::format("{} training loops", exact_text(pipeline.feeds)), columns);
  say(out, "made",
      fmt::format("{} batches, of which {} were wanted before they were made", exact_text(pipeline.made),
                  exact_text(pipeline.waited)),
      columns);
  say(out, "now",
      fmt::format("{} wanted, {} being made, {} kept: {}", exact_text(pipeline.wanted), exact_text(pipeline.making),
                  exact_text(pipeline.kept), bytes_text(pipeline.kept_bytes)),
      columns);
  say(out, "parallel",
      fmt::format("{} threads, {} batches ahead", exact_text(pipeline.makers), exact_text(pipeline.ahead)), columns);
  return out;
}

Lines servable_details(const Observation& observation, std::size_t task_index, std::size_t item, std::size_t columns) {
  const TaskSnapshot& task = task_at(observation, task_index);
  const ServableSnapshot& s = task.servables.at(item);
  Lines out;
  out.push_back(
      {{heading(observation, task_index, fmt::format("version {} of {}", s.version, clean(s.model))), Style::strong}});
  say(out, "state", s.error.empty() ? clean(s.state) : fmt::format("{}: {}", clean(s.state), clean(s.error)), columns,
      s.error.empty() ? Style::plain : Style::bad);
  for (const auto& [outcome, requests] : s.requests)
    say(out, "requests", fmt::format("{} ended with {}", exact_text(requests), clean(outcome)), columns,
        outcome == "ok" ? Style::plain : Style::warn);
  say(out, "now",
      fmt::format("{} in flight, {} rows wait for a batch", exact_text(s.in_flight), exact_text(s.waiting_rows)),
      columns);
  for (const char* stage : {"parse", "queue", "batch", "run", "serialise", "total"}) {
    const auto found = s.stages.find(stage);
    if (found == s.stages.end()) continue;
    const LatencySnapshot& took = found->second;
    say(out, stage,
        fmt::format("median {}, p90 {}, p99 {}, longest {}", duration_text(percentile(took, 0.5)),
                    duration_text(percentile(took, 0.9)), duration_text(percentile(took, 0.99)),
                    duration_text(took.longest_ns)),
        columns);
  }
  std::string sizes;
  for (std::size_t i = 0; i < s.batches.size(); ++i)
    if (s.batches[i] > 0) {
      const std::uint64_t last = std::uint64_t{1} << i, first = last / 2 + 1;
      sizes += fmt::format("{}{} of {}", sizes.empty() ? "" : ", ", exact_text(s.batches[i]),
                           first >= last ? std::to_string(last) : fmt::format("{} to {}", first, last));
    }
  if (!sizes.empty()) say(out, "batches", sizes + " rows", columns);
  return out;
}

Lines edge_details(const Observation& observation, std::size_t task_index, std::size_t item, std::size_t columns) {
  const TaskSnapshot& task = task_at(observation, task_index);
  const LinkSnapshot& link = task.links.at(item);
  const LinkRates& speed = observation.rates.tasks.at(task_index).links.at(item);
  Lines out;
  out.push_back({{heading(observation, task_index, "link to " + clean(shorten(link.peer))), Style::strong}});
  const std::string state = state_of(link);
  say(out, "state",
      fmt::format("{}, by {}; heard {} ago", state, link.shared_memory ? "shared memory" : "a socket",
                  duration_text(link.heard_ns)),
      columns, state == "up" ? Style::plain : Style::bad);
  say(out, "sent",
      fmt::format("{} ({}/s) in {} frames ({}/s)", bytes_text(link.bytes_sent), byte_rate_text(speed.bytes_sent),
                  exact_text(link.frames_sent), rate_text(speed.frames_sent)),
      columns);
  say(out, "received",
      fmt::format("{} ({}/s) in {} frames ({}/s)", bytes_text(link.bytes_received),
                  byte_rate_text(speed.bytes_received), exact_text(link.frames_received),
                  rate_text(speed.frames_received)),
      columns);
  say(out, "queue", fmt::format("{} frames, {}", exact_text(link.queued_frames), bytes_text(link.queued_bytes)),
      columns);
  say(out, "credit",
      fmt::format("{} of {}{}", bytes_text(link.credit), bytes_text(link.window),
                  link.stalled ? "; tensors wait for the peer to read sent data" : ""),
      columns, link.stalled ? Style::warn : Style::plain);
  return out;
}

Lines summary(const Observation& observation, const History& history, std::size_t columns) {
  const Totals all = totals(observation);
  Lines out;
  say(out, "tasks",
      fmt::format("{} answer{}{}", all.tasks - all.silent, all.silent > 0 ? fmt::format(", {} SILENT", all.silent) : "",
                  all.failed > 0 ? fmt::format(", {} FAILED", all.failed) : ""),
      columns, all.silent + all.failed > 0 ? Style::bad : Style::plain);
  if (all.mode.empty() && !all.job)
    say(out, "job", "not training", columns, Style::dim);
  else
    say(out, "job", clean(progress(all)), columns, Style::strong);
  std::string speed = fmt::format("{} steps/s, {} images/s, {}/s between tasks", rate_text(all.steps_per_second),
                                  rate_text(all.examples_per_second), byte_rate_text(all.bytes_per_second));
  if (all.loss) speed += ", loss " + loss_text(*all.loss);
  say(out, "speed", speed, columns);
  say_curve(out, "steps/s", history.steps, columns);
  say_curve(out, "images/s", history.examples, columns);
  if (!all.gradients.empty()) say(out, "gradients", gradients(all), columns);
  if (const std::string text = staleness(all.staleness); !text.empty()) say(out, "staleness", text, columns);
  std::string_view said;
  std::size_t causes = 0;
  for (const RootCause& cause : observation.waits.causes) {
    if (cause.kind == RootCause::Kind::working || ++causes > kCauses) continue;
    const std::string_view label = cause.waiters > 0 ? "stuck" : "trouble";
    say(out, label == said ? "" : label, fmt::format("! {}: {}", name(cause.kind), clean(shorten(cause.text))), columns,
        Style::bad);
    said = label;
  }
  if (causes > kCauses) say(out, "", fmt::format("! and {} more", causes - kCauses), columns, Style::bad);
  return out;
}

Lines why(std::string_view text, std::size_t columns) {
  Lines out;
  for (std::string& line : wrap(shorten(text), columns)) out.push_back({{std::move(line)}});
  return out;
}

Lines alarms(const Observation& observation, std::size_t columns) {
  Lines out;
  for (const TaskReport& report : observation.snapshot.tasks) {
    const std::string task = clean(shorten(report.task));
    if (!report.snapshot)
      out.push_back(cut({{fmt::format("! {} is silent: {}", task, clean(report.error)), Style::bad}}, columns));
    else if (!report.snapshot->failure.empty())
      out.push_back(
          cut({{fmt::format("! {} has failed: {}", task, clean(report.snapshot->failure)), Style::bad}}, columns));
  }
  return out;
}

}  // namespace troupe::top
