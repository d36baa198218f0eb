// Describes what the steps of a table wait for, as things and waits. Computed on demand.
#include <troupe/scheduler/run/step_table.hpp>
#include <troupe/scheduler/waits/wait_things.hpp>

namespace troupe {
namespace {

using State = WaitThing::State;

class StepWaits {
 public:
  StepWaits(const StepKey& key, const StepPlace& place, Waiting& out) : key_(key), place_(place), out_(out) {}

  std::string segment_id(const Plan& plan, std::uint32_t segment) const {
    return wait_thing::segment(key_.session, key_.step, plan.device, segment);
  }

  void thing(std::string id, std::string text, std::string task, State state = State::waits) {
    out_.things.push_back(
        {.id = std::move(id), .text = std::move(text), .task = std::move(task), .state = state, .for_ns = 0});
  }
  void wait(std::string waiter, std::string awaited, const char* kind, std::string text = {}) {
    out_.waits.push_back({.waiter = std::move(waiter),
                          .awaited = std::move(awaited),
                          .kind = kind,
                          .text = std::move(text),
                          .for_ns = place_.for_ns});
  }

  void segment(const Plan& plan, std::uint32_t number) {
    const Segment& segment = plan.segments[number];
    const auto name = [&](std::uint32_t node) {
      return fmt::format("{} '{}'", plan.infos[node].op, plan.infos[node].name);
    };
    std::string nodes = name(segment.first_node);
    if (segment.num_nodes > 1) nodes += " … " + name(segment.first_node + segment.num_nodes - 1);
    thing(segment_id(plan, number), fmt::format("{} of {} on {}", nodes, place_.text, plan.device), place_.task);
  }

  void arrival(const Plan& plan, const Arrival& arrival) {
    std::string id, text, task;
    const char* kind = "tensor";
    if (arrival.is_pull && place_.job != 0) {
      task = arrival.shard < place_.shards.size() ? place_.shards[arrival.shard] : "";
      id = wait_thing::version(place_.job, arrival.shard, place_.version);
      text = fmt::format("version {} of the parameters on {}", place_.version, task);
      kind = "staging";
    } else if (arrival.is_pull) {  // its edge is only known here
      task = arrival.shard < place_.shards.size() ? place_.shards[arrival.shard] : "";
      id = fmt::format("pull/{:x}/{}/{}/{}", key_.session.value, key_.step.value, place_.task, arrival.slice);
      text = fmt::format("parameters '{}' from shard {} on {}", arrival.name, arrival.shard, task);
    } else if (arrival.is_collect) {
      task = place_.task;
      id = wait_thing::collective(place_.group, arrival.edge.value - collect_edge(0).value, place_.sequence,
                                  place_.task);
      text = fmt::format("{}'s part in collective '{}'", task, arrival.name);
      kind = "collective";
    } else {
      task = wait_thing::task_of(arrival.from);
      id = wait_thing::tensor(key_.session, key_.step, arrival.edge);
      text = fmt::format("tensor '{}' of {} from {}", arrival.name, place_.text, arrival.from);
    }
    for (const std::uint32_t s : arrival.segments) wait(segment_id(plan, s), id, kind);
    thing(std::move(id), std::move(text), std::move(task));
  }

  // Adds the waits of others for a segment that has not run; skips tensors it has already sent.
  void departures(const Plan& plan, std::uint32_t number, std::uint32_t running_node) {
    const Segment& segment = plan.segments[number];
    const std::uint32_t end = segment.first_node + segment.num_nodes;
    const bool in_order = segment.order < 0 && running_node >= segment.first_node && running_node < end;
    for (std::uint32_t n = in_order ? running_node : segment.first_node; n < end; ++n) {
      const PlanNode& node = plan.nodes[n];
      if (node.kind == PlanNode::Kind::send)
        wait(wait_thing::tensor(key_.session, key_.step, plan.sends[node.target].edge), segment_id(plan, number),
             "segment");
      if (node.kind == PlanNode::Kind::call)
        wait(wait_thing::tensor(key_.session, key_.step, plan.calls[node.target].edge), segment_id(plan, number),
             "segment");
      if (node.kind == PlanNode::Kind::contribute)
        wait(
            wait_thing::collective(place_.group, plan.contributions[node.target].channel, place_.sequence, place_.task),
            segment_id(plan, number), "segment");
    }
  }

 private:
  const StepKey& key_;
  const StepPlace& place_;
  Waiting& out_;
};

}  // namespace

Waiting StepTable::waiting(const StepKey& key, const StepPlace& place) const {
  Waiting out;
  const auto it = steps_.find(key);
  if (it == steps_.end()) return out;
  const Step& step = it->second;
  StepWaits say(key, place, out);
  const std::string part = wait_thing::part(key.session, key.step, place.task);
  if (!step.own_part_ended())
    out.things.push_back({.id = part,
                          .text = fmt::format("the part of {} on {}", place.text, place.task),
                          .task = place.task,
                          .for_ns = place.for_ns});
  for (const PartitionState& p : step.partitions) {
    const Plan& plan = p.registered->plan();
    const std::uint32_t node = p.frame->current_node.load(std::memory_order_relaxed);
    for (std::uint32_t s = 0; s < p.waits.size(); ++s) {
      if (p.waits[s] == kHasRun || (step.aborted() && p.waits[s] > 0)) continue;
      say.segment(plan, s);
      say.wait(part, say.segment_id(plan, s), "segment");
      if (p.waits[s] == 0) say.wait(say.segment_id(plan, s), wait_thing::device(plan.device), "segment");
      say.departures(plan, s, node);
      for (const std::uint32_t next : plan.segments[s].successors)
        if (!step.aborted()) say.wait(say.segment_id(plan, next), say.segment_id(plan, s), "segment");
    }
    for (std::size_t a = 0; a < plan.arrivals.size(); ++a)
      if (!p.arrived[a] && !step.aborted()) say.arrival(plan, plan.arrivals[a]);
    if (const std::string running = p.frame->running(); p.running > 0 && !running.empty())
      say.thing(wait_thing::device(plan.device), fmt::format("{} runs {} of {}", plan.device, running, place.text),
                place.task, State::works);
  }
  return out;
}

std::map<std::string, std::string> StepTable::running() const {
  std::map<std::string, std::string> out;
  for (const auto& [key, step] : steps_)
    for (const PartitionState& p : step.partitions)
      if (std::string node = p.running > 0 ? p.frame->running() : ""; !node.empty())
        out.emplace(p.registered->plan().device, std::move(node));
  return out;
}

}  // namespace troupe
