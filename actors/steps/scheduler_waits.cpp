// Introspection of the scheduler. Called on any thread, between two of its messages.
#include <troupe/actors/steps/direct_step.hpp>
#include <troupe/actors/steps/scheduler_actor.hpp>
#include <troupe/graph/passes/resource_calls.hpp>
#include <troupe/scheduler/training/turns.hpp>
#include <troupe/scheduler/waits/wait_things.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMostStepsInspected = 64;
constexpr std::size_t kMostWaits = 4096;

}  // namespace

std::string text_of(const TrainingStep& training, const StepKey& key, const TaskName& client) {
  if (!training.number) return fmt::format("step {} of session {:x}", key.step.value, key.session.value);
  if (training.job != 0)
    return fmt::format("slot {} of {}step {}", training.slot,
                       training.phases > 1 ? fmt::format("phase {} of ", training.phase) : "", *training.number);
  return fmt::format("step {} of the training on {}", *training.number, client.to_string());
}

void SchedulerActorImpl::inspect(ActorDetails& out) const {
  const std::int64_t now = steady_now_ns();
  out.running = table_.running();
  std::size_t steps = 0;
  for (const auto& [key, active] : active_)
    if (++steps <= kMostStepsInspected && out.waiting.waits.size() < kMostWaits) inspect_step(key, active, now, out);
  for (const auto& lent : lent_)
    if (const auto graph = lent.lock()) graph->inspect(out);
  if (active_.empty()) return;
  const auto& [key, oldest] = *active_.begin();
  std::vector<std::string> waits = table_.waits_for(key);
  for (const std::uint32_t i : table_.parts_left(key))
    waits.push_back(fmt::format("the part of {}", oldest.graph->handle->participants[i].to_string()));
  if (waits.empty()) return;
  out.waits_for = fmt::format("{}: {}", text_of(oldest.training, key, task_), waits[0]);
  if (waits.size() > 1) out.waits_for += fmt::format(", and {} more", waits.size() - 1);
  if (active_.size() > 1) out.waits_for += fmt::format("; {} steps are in flight", active_.size());
  if (oldest.since_ns != 0) out.waits_ns = now - oldest.since_ns;
}

// Tells of the answers that a step waits for what resource they come from, and what it has.
void SchedulerActorImpl::describe_calls(const StepKey& key, const Registered& graph, Waiting& waiting) const {
  for (const EdgeId edge : graph.edges) {
    if (edge.value < kFirstCallEdge || edge.value >= kFirstPullEdge) continue;
    const std::string text = calls_.describe({key.session, key.step, edge});
    const std::string id = wait_thing::tensor(key.session, key.step, edge);
    for (WaitThing& thing : waiting.things)
      if (thing.id == id) {
        thing.task = task_.to_string();
        if (!text.empty()) thing.text = fmt::format("{} on {}", text, thing.task);
      }
  }
}

void SchedulerActorImpl::inspect_step(const StepKey& key, const Active& active, std::int64_t now,
                                      ActorDetails& out) const {
  const GraphHandle& handle = *active.graph->handle;
  const TrainingStep& training = active.training;
  const std::string task = task_.to_string();
  StepPlace place{.task = task, .text = text_of(training, key, task_)};
  if (active.since_ns != 0) place.for_ns = now - active.since_ns;
  for (const TaskName& shard : handle.shards) place.shards.push_back(shard.to_string());
  place.job = training.job;
  place.version = training.min_version;
  place.group = training.group;
  place.sequence = training.step;
  Waiting waiting = table_.waiting(key, place);
  if (active.graph->calls) describe_calls(key, *active.graph, waiting);
  out.waiting.append(std::move(waiting));
  if (!active.request) return;
  const std::string step = wait_thing::step(key.session, key.step);
  const auto wait = [&](const std::string& waiter, std::string awaited, const char* kind, std::string text = {}) {
    out.waiting.waits.push_back({.waiter = waiter,
                                 .awaited = std::move(awaited),
                                 .kind = kind,
                                 .text = std::move(text),
                                 .for_ns = place.for_ns});
  };
  std::string text = place.text;
  if (training.job != 0) {
    text = fmt::format("what {} computes for {}", task, place.text);
    wait(wait_thing::slot(training.job, turn_of(training.step, training.phase, training.phases), training.slot), step,
         "reply");
  } else if (!training.number) {
    text += " on " + task;
  }
  out.waiting.things.push_back({.id = step, .text = std::move(text), .task = task, .for_ns = place.for_ns});
  if (!table_.own_part_ended(key)) wait(step, wait_thing::part(key.session, key.step, task), "reply");
  for (const std::uint32_t i : table_.parts_left(key)) {
    const std::string other = handle.participants[i].to_string();
    const std::string part = wait_thing::part(key.session, key.step, other);
    out.waiting.things.push_back(
        {.id = part, .text = fmt::format("the part of {} on {}", place.text, other), .task = other});
    wait(step, part, "reply");
  }
}

}  // namespace troupe
