#include "tools/top/tables.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

#include <troupe/actors/base/latency_histogram.hpp>

namespace troupe::top {
namespace {

constexpr std::int64_t kLong = 5'000'000'000;  // ns; longer waits or messages are highlighted

Cell text(std::string_view bytes, Style style = Style::plain) { return {clean(bytes), std::nullopt, style}; }
Cell number(double value, std::string shown, Style style = Style::plain) { return {std::move(shown), value, style}; }
Cell count(std::uint64_t value) {
  return number(static_cast<double>(value), count_text(value), value == 0 ? Style::dim : Style::plain);
}
Cell bytes(std::uint64_t value) {
  return number(static_cast<double>(value), bytes_text(value), value == 0 ? Style::dim : Style::plain);
}
Cell rate(const Rate& value) { return {rate_text(value), value, value.value_or(0) == 0 ? Style::dim : Style::plain}; }
Cell byte_rate(const Rate& value) {
  return {byte_rate_text(value), value, value.value_or(0) == 0 ? Style::dim : Style::plain};
}
Cell share(const Rate& value) {
  return {share_text(value), value,
          value.value_or(0) < 0.005 ? Style::dim
          : value > 0.9             ? Style::strong
                                    : Style::plain};
}
Cell duration(std::optional<std::int64_t> ns, std::int64_t long_ns = kLong) {
  if (!ns) return {"", std::nullopt};
  return number(static_cast<double>(*ns), duration_text(*ns), *ns > long_ns ? Style::warn : Style::plain);
}
// Cell of an unknown value.
Cell none() { return {"-", std::nullopt, Style::dim}; }

Cell task_cell(const TaskReport& report) { return text(shorten(report.task)); }

// The usual "computes" is left out.
std::string_view short_doing(std::string_view doing) {
  constexpr std::string_view kComputes = "computes ";
  return doing.starts_with(kComputes) ? doing.substr(kComputes.size()) : doing;
}

Style style_of(std::string_view state) {
  if (state == "failed" || state == "down") return Style::bad;
  if (state == "suspect" || state == "stalled") return Style::warn;
  return state == "busy" ? Style::good : state == "idle" ? Style::dim : Style::plain;
}

// f(report, snapshot, rates, index of the task) for all tasks that have answered.
template <class F>
void each(const Observation& observation, F&& f) {
  for (std::size_t i = 0; i < observation.snapshot.tasks.size(); ++i)
    if (const TaskReport& report = observation.snapshot.tasks[i]; report.snapshot)
      f(report, *report.snapshot, observation.rates.tasks[i], i);
}

// Shows the error in place of the task's activity.
Row silent_task(const TaskReport& report, const Table& table) {
  Row row{.key = report.task, .cells = {task_cell(report), text("SILENT", Style::bad)}};
  while (row.cells.size() < table.columns.size())
    row.cells.push_back(table.columns[row.cells.size()].elastic ? text(report.error, Style::bad) : none());
  return row;
}

template <class T, class Member>
Rate sum(const std::vector<T>& all, Member member) {
  Rate out;
  for (const T& one : all)
    if (one.*member) out = out.value_or(0) + *(one.*member);
  return out;
}

}  // namespace

std::string what_it_does(const ActorSnapshot& actor) {
  std::string out = clean(actor.current);
  if (actor.waits_for.empty()) return out;
  return out + (out.empty() ? "waits for " : "; waits for ") + clean(shorten(actor.waits_for));
}

std::string actor_title(const TaskSnapshot& task, const ActorGroup& group) {
  std::string out = clean(group.actor.kind);
  if (const std::string name = name_in(task.task, group.actor.name); !name.empty()) out += " " + name;
  return group.count == 1 ? out : fmt::format("{} ×{}", out, group.count);
}

std::string tensor_text(const TensorUse& tensor) {
  return (tensor.count == 1 ? "" : fmt::format("{} × ", tensor.count)) + bytes_text(tensor.bytes) + " " +
         clean(tensor.type);
}

std::optional<std::int64_t> since(const ActorSnapshot& actor) {
  if (actor.state == "busy") return actor.current_ns;
  if (actor.state == "waits") return actor.waits_ns;
  return std::nullopt;
}

std::string state_of(const LinkSnapshot& link) {
  return !link.up ? "down" : link.suspect ? "suspect" : link.stalled ? "stalled" : "up";
}

Table tasks_table(const Observation& observation) {
  Table table{.columns = {{"task"},
                          {"state"},
                          {"busy", Align::right},
                          {"steps/s", Align::right},
                          {"images/s", Align::right},
                          {"loss", Align::right},
                          {"mail", Align::right},
                          {"does", Align::left, 60, true},
                          {"memory", Align::right},
                          {"out/s", Align::right},
                          {"in/s", Align::right},
                          {"up", Align::right},
                          {"pid", Align::right}}};
  for (std::size_t i = 0; i < observation.snapshot.tasks.size(); ++i) {
    const TaskReport& report = observation.snapshot.tasks[i];
    if (!report.snapshot) {
      table.rows.push_back(silent_task(report, table));
      table.rows.back().task = i;
      continue;
    }
    const TaskSnapshot& task = *report.snapshot;
    const TaskRates& speed = observation.rates.tasks[i];
    std::uint64_t mailbox = 0, memory = 0;
    for (const ActorSnapshot& actor : task.actors) mailbox += actor.mailbox;
    for (const DeviceSnapshot& device : task.devices) memory += device.bytes_in_use;
    Rate busy = sum(speed.devices, &DeviceRates::busy);
    if (busy) busy = *busy / static_cast<double>(speed.devices.size());
    const auto& training = task.training;
    const bool failed = !task.failure.empty();
    const bool doing = training && !training->doing.empty();
    const Cell does =
        failed     ? text(task.failure, Style::bad)
        : doing    ? text(fmt::format("{} for {}", short_doing(training->doing), duration_text(training->doing_ns)),
                       training->doing_ns > kLong ? Style::warn : Style::plain)
        : task.job ? text("coordinates: " + task.job->stage)
                   : text("");
    table.rows.push_back(
        {.key = report.task,
         .cells = {task_cell(report), failed ? text("FAILED", Style::bad) : text("answers", Style::good), share(busy),
                   training ? rate(speed.steps) : none(), training ? rate(speed.examples) : none(),
                   training && training->steps > 0 ? number(training->loss, loss_text(training->loss)) : none(),
                   count(mailbox), does, bytes(memory), byte_rate(sum(speed.links, &LinkRates::bytes_sent)),
                   byte_rate(sum(speed.links, &LinkRates::bytes_received)), duration(task.uptime_ns, INT64_MAX),
                   number(static_cast<double>(task.pid), std::to_string(task.pid))},
         .task = i});
  }
  return table;
}

Table actors_table(const Observation& observation) {
  Table table{.columns = {{"task"},
                          {"actor", Align::left, 24},
                          {"state"},
                          {"for", Align::right},
                          {"mailbox", Align::right},
                          {"peak", Align::right},
                          {"msg/s", Align::right},
                          {"busy", Align::right},
                          {"handles; waits for", Align::left, 60, true},
                          {"restarts", Align::right},
                          {"handled", Align::right},
                          {"sent/s", Align::right}},
              .fixed = 2};
  each(observation, [&](const TaskReport& report, const TaskSnapshot& task, const TaskRates& speed, std::size_t index) {
    const std::vector<ActorGroup> groups = actor_groups(task, speed);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const auto& [actor, rates, times] = groups[i];
      const auto lasts = since(actor);
      table.rows.push_back({.key = report.task + '\n' + actor.kind + '\n' + actor.name,
                            .cells = {task_cell(report), text(actor_title(task, groups[i])),
                                      text(actor.state, style_of(actor.state)), duration(lasts), count(actor.mailbox),
                                      count(actor.mailbox_peak), rate(rates.messages), share(rates.busy),
                                      text(what_it_does(actor), lasts.value_or(0) > kLong ? Style::warn : Style::plain),
                                      count(actor.restarts), count(actor.handled + actor.passed), rate(rates.sent)},
                            .task = index,
                            .item = i});
    }
  });
  return table;
}

Table devices_table(const Observation& observation) {
  Table table{.columns = {{"task"},
                          {"device"},
                          {"busy", Align::right},
                          {"nodes/s", Align::right},
                          {"queue", Align::right},
                          {"in use", Align::right},
                          {"peak", Align::right},
                          {"limit", Align::right},
                          {"runs", Align::left, 60, true},
                          {"cached", Align::right},
                          {"allocations", Align::right},
                          {"reused", Align::right}},
              .fixed = 2};
  each(observation, [&](const TaskReport& report, const TaskSnapshot& task, const TaskRates& speed, std::size_t index) {
    for (std::size_t i = 0; i < task.devices.size(); ++i) {
      const DeviceSnapshot& device = task.devices[i];
      const bool lost = !device.failure.empty();
      const auto all = static_cast<double>(device.allocations);
      table.rows.push_back({.key = report.task + '\n' + device.name,
                            .cells = {task_cell(report), text(name_in(task.task, device.name)),
                                      share(speed.devices[i].busy), rate(speed.devices[i].nodes), count(device.queue),
                                      bytes(device.bytes_in_use), bytes(device.peak_bytes),
                                      device.limit_bytes == 0 || device.limit_bytes == UINT64_MAX
                                          ? Cell{"none", std::nullopt, Style::dim}
                                          : bytes(device.limit_bytes),
                                      lost ? text(shorten(device.failure), Style::bad) : text(shorten(device.running)),
                                      bytes(device.cached_bytes), count(device.allocations),
                                      all > 0 ? share(static_cast<double>(device.reuses) / all) : none(),
                                      text(device.largest.empty() ? "" : tensor_text(device.largest.front()))},
                            .task = index,
                            .item = i});
    }
  });
  return table;
}

Table tensors_table(const Observation& observation) {
  constexpr std::size_t kTensors = 3;  // per device
  Table table{.columns = {{"task"},
                          {"device"},
                          {"bytes", Align::right},
                          {"share", Align::right},
                          {"tensors", Align::left, 60},
                          {"of", Align::left, 60, true}},
              .fixed = 2};
  each(observation, [&](const TaskReport& report, const TaskSnapshot& task, const TaskRates&, std::size_t index) {
    for (const DeviceSnapshot& device : task.devices)
      for (std::size_t i = 0; i < std::min(device.largest.size(), kTensors); ++i) {
        const TensorUse& tensor = device.largest[i];
        const std::uint64_t all = tensor.bytes * tensor.count;
        const auto whole = static_cast<double>(std::max(device.bytes_in_use, all));
        table.rows.push_back({.key = fmt::format("{}\n{}\n{}", report.task, device.name, i),
                              .cells = {task_cell(report), text(name_in(task.task, device.name)), bytes(all),
                                        share(static_cast<double>(all) / std::max(whole, 1.0)),
                                        text(tensor_text(tensor)), text(tensor.name)},
                              .task = index,
                              .item = i});
      }
  });
  return table;
}

Table shards_table(const Observation& observation) {
  Table table{.columns = {{"task"},
                          {"shard", Align::right},
                          {"bytes", Align::right},
                          {"version", Align::right},
                          {"staged", Align::right},
                          {"push/s", Align::right},
                          {"pull/s", Align::right},
                          {"parked", Align::right},
                          {"dropped", Align::right},
                          {"late", Align::left, 60, true},
                          {"pushes", Align::right},
                          {"pulls", Align::right},
                          {"updates", Align::right},
                          {"slices", Align::right}},
              .fixed = 2};
  each(observation, [&](const TaskReport& report, const TaskSnapshot& task, const TaskRates& speed, std::size_t index) {
    for (std::size_t i = 0; i < task.shards.size(); ++i) {
      const ShardSnapshot& shard = task.shards[i];
      const std::uint64_t lost = dropped(shard);
      table.rows.push_back(
          {.key = fmt::format("{}\n{}", report.task, shard.shard),
           .cells = {task_cell(report), number(shard.shard, std::to_string(shard.shard)), bytes(shard.bytes),
                     number(static_cast<double>(shard.version), exact_text(shard.version)),
                     number(static_cast<double>(shard.staged), fmt::format("{} of {}", shard.staged, shard.needed)),
                     rate(speed.shards[i].of("pushes")), rate(speed.shards[i].of("pulls")), count(shard.parked),
                     number(static_cast<double>(lost), count_text(lost), lost == 0 ? Style::dim : Style::warn),
                     text(who_is_late(observation.snapshot, shard)), count(count_of(shard, "pushes")),
                     count(count_of(shard, "pulls")), count(count_of(shard, "updates")), count(shard.slices)},
           .task = index,
           .item = i});
    }
  });
  return table;
}

Table pipelines_table(const Observation& observation) {
  Table table{.columns = {{"task"},
                          {"data"},
                          {"stage"},
                          {"made/s", Align::right},
                          {"busy", Align::right},
                          {"queue", Align::right},
                          {"parallel", Align::right},
                          {"held", Align::right},
                          {"made", Align::right},
                          {"waited", Align::right},
                          {"skipped", Align::right}},
              .fixed = 3};
  each(observation, [&](const TaskReport& report, const TaskSnapshot& task, const TaskRates& speed, std::size_t index) {
    for (std::size_t i = 0; i < task.pipelines.size(); ++i) {
      const PipelineSnapshot& pipeline = task.pipelines[i];
      const PipelineRates& rates = speed.pipelines[i];
      const auto slowest = std::ranges::max_element(pipeline.stages, {}, &StageSnapshot::busy);
      for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
        const StageSnapshot& stage = pipeline.stages[s];
        const bool slow = &stage == &*slowest && stage.busy > 0.5;
        table.rows.push_back(
            {.key = fmt::format("{}\n{}\n{}", report.task, pipeline.data, s),
             .cells = {task_cell(report), text(pipeline.data), text(stage.name), rate(rates.elements[s]),
                       number(stage.busy, share_text(stage.busy), slow ? Style::warn : Style::plain), text(""),
                       text(""), bytes(stage.held_bytes), count(stage.elements), text(""),
                       count(stage.skipped_records)},
             .task = index,
             .item = i});
      }
      if (pipeline.makers == 0) continue;
      table.rows.push_back(
          {.key = fmt::format("{}\n{}\nbatches", report.task, pipeline.data),
           .cells = {task_cell(report), text(pipeline.data), text("batches"), rate(rates.made), text(""),
                     count(pipeline.wanted + pipeline.making), count(pipeline.makers), bytes(pipeline.kept_bytes),
                     count(pipeline.made), count(pipeline.waited), text("")},
           .task = index,
           .item = i});
    }
  });
  return table;
}

Table servables_table(const Observation& observation) {
  Table table{.columns = {{"task"},
                          {"model"},
                          {"version", Align::right},
                          {"state"},
                          {"labels"},
                          {"req/s", Align::right},
                          {"fail/s", Align::right},
                          {"median", Align::right},
                          {"p99", Align::right},
                          {"rows", Align::right},
                          {"wait", Align::right},
                          {"flying", Align::right},
                          {"answered", Align::right},
                          {"memory", Align::right}},
              .fixed = 3};
  each(observation, [&](const TaskReport& report, const TaskSnapshot& task, const TaskRates& speed, std::size_t index) {
    for (std::size_t i = 0; i < task.servables.size(); ++i) {
      const ServableSnapshot& s = task.servables[i];
      const ServableRates& rates = speed.servables[i];
      std::string labels;
      for (const std::string& label : s.labels) labels += (labels.empty() ? "" : ",") + label;
      std::uint64_t batches = 0;
      for (const std::uint64_t size : s.batches) batches += size;
      const double rows = static_cast<double>(s.batch_rows) / static_cast<double>(std::max<std::uint64_t>(batches, 1));
      const auto part = [&](double share) {
        return rates.total.count == 0 ? none() : duration(percentile(rates.total, share), INT64_MAX);
      };
      const Style style = !s.error.empty() ? Style::bad : s.state == "Ready" ? Style::good : Style::plain;
      table.rows.push_back(
          {.key = fmt::format("{}\n{}\n{}", report.task, s.model, s.version),
           .cells = {task_cell(report), text(s.model),
                     number(static_cast<double>(s.version), std::to_string(s.version)), text(s.state, style),
                     text(labels), rate(rates.answered), rate(rates.failed), part(0.5), part(0.99),
                     batches == 0 ? none() : number(rows, fmt::format("{:.1f}", rows)), count(s.waiting_rows),
                     count(s.in_flight), count(answered(s)), bytes(s.bytes)},
           .task = index,
           .item = i});
    }
  });
  return table;
}

Table edges_table(const Observation& observation) {
  Table table{.columns = {{"task"},
                          {"peer"},
                          {"state"},
                          {"by"},
                          {"out/s", Align::right},
                          {"in/s", Align::right},
                          {"queue", Align::right},
                          {"queued", Align::right},
                          {"credit", Align::right},
                          {"window", Align::right},
                          {"heard", Align::right},
                          {"frames/s", Align::right},
                          {"sent", Align::right},
                          {"received", Align::right}},
              .fixed = 2};
  each(observation, [&](const TaskReport& report, const TaskSnapshot& task, const TaskRates& speed, std::size_t index) {
    for (std::size_t i = 0; i < task.links.size(); ++i) {
      const LinkSnapshot& link = task.links[i];
      const LinkRates& rates = speed.links[i];
      const std::string state = state_of(link);
      const Rate frames =
          rates.frames_sent && rates.frames_received ? Rate(*rates.frames_sent + *rates.frames_received) : Rate{};
      table.rows.push_back(
          {.key = report.task + '\n' + link.peer,
           .cells = {task_cell(report), text(shorten(link.peer)), text(state, style_of(state)),
                     text(link.shared_memory ? "memory" : "socket"), byte_rate(rates.bytes_sent),
                     byte_rate(rates.bytes_received), count(link.queued_frames), bytes(link.queued_bytes),
                     number(static_cast<double>(link.credit), bytes_text(link.credit),
                            link.stalled ? Style::warn : Style::plain),
                     bytes(link.window), duration(link.heard_ns, 2'000'000'000), rate(frames), bytes(link.bytes_sent),
                     bytes(link.bytes_received)},
           .task = index,
           .item = i});
    }
  });
  return table;
}

}  // namespace troupe::top
