// Explains the waits in a cluster: combines the waits reported by its tasks with the state of links, devices, actors
// and training loops, which report none themselves.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <troupe/actors/base/actor_kind.hpp>
#include <troupe/actors/base/snapshot.hpp>
#include <troupe/scheduler/waits/wait_things.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kLongMessage = 200'000'000;  // ns
constexpr std::int64_t kVeryLongMessage = 10'000'000'000;
constexpr std::int64_t kOnItsWay = 5'000'000'000;     // ns; older messages are not still in flight
constexpr std::int64_t kNoProgress = 10'000'000'000;  // ns; beyond it a task with heartbeats is stuck
constexpr std::string_view kCoordinator = "/job:ps/task:0";
constexpr std::string_view kInputTasks = "/job:input/";
constexpr std::string_view kWaitsForData = "waits for the batch";

using State = WaitThing::State;

// The part of an id before the first '/'.
std::string_view kind_of(std::string_view id) { return id.substr(0, std::min(id.find('/'), id.size())); }

// The kind of the actor responsible for a thing; "" if there is none to look at.
std::string_view actor_behind(std::string_view thing) {
  static const std::map<std::string_view, ActorKind> behind = {
      {"tensor", ActorKind::scheduler},
      {"part", ActorKind::scheduler},
      {"segment", ActorKind::scheduler},
      {"version", ActorKind::shard},
      {"pull", ActorKind::shard},
      {"token", ActorKind::coordinator},
      {"barrier", ActorKind::coordinator},
      {"save", ActorKind::coordinator},
      {"choice", ActorKind::coordinator},
      {"job", ActorKind::coordinator},
      {"collective", ActorKind::collective},
  };
  const auto found = behind.find(kind_of(thing));
  return found == behind.end() ? "" : role_of(found->second).name;
}

// "/job:worker/task:0" at the end of "part/1/2//job:worker/task:0".
std::string task_at_end(std::string_view id) {
  const auto at = id.find("//");
  return at == std::string_view::npos ? std::string() : std::string(id.substr(at + 1));
}

class Why {
 public:
  explicit Why(const ClusterSnapshot& cluster);
  WaitAnalysis result() { return analyse(all_, silent_); }

 private:
  void add(std::string id, std::string text, std::string task, State state = State::waits, std::int64_t for_ns = 0) {
    all_.things.push_back(
        {.id = std::move(id), .text = std::move(text), .task = std::move(task), .state = state, .for_ns = for_ns});
  }
  void wait(std::string waiter, std::string awaited, const char* kind, std::string text = {}, std::int64_t for_ns = 0) {
    all_.waits.push_back({.waiter = std::move(waiter),
                          .awaited = std::move(awaited),
                          .kind = kind,
                          .text = std::move(text),
                          .for_ns = for_ns});
  }
  const TaskSnapshot* task(const std::string& name) const {
    const auto found = tasks_.find(name);
    return found == tasks_.end() ? nullptr : found->second;
  }
  bool is_silent(const std::string& task) const {
    return std::ranges::find(silent_, task, &SilentTask::task) != silent_.end();
  }
  std::optional<std::string> busy_actor(const TaskSnapshot& task, std::string_view kind);
  void add_devices(const TaskSnapshot& task);
  void add_links(const TaskSnapshot& task);
  void add_worker(const TaskSnapshot& task);
  void add_data(const TaskSnapshot& task, const std::string& waiter);
  void add_slowest_stage(const TaskSnapshot& input, const std::string& data);
  void note_silent(const TaskReport& report);
  void note_progress(const TaskSnapshot& task);
  void find_stuck_tasks();
  void leave_out_workers_that_compute();
  void leave_out_links_to_silent_tasks();
  void explain_ends();
  void explain_end(const WaitThing& thing, const Wait& by);
  void explain_tensor(const WaitThing& thing, const Wait& by, bool begun);
  void explain_join(const WaitThing& thing);
  void explain_collective(const WaitThing& thing);

  std::map<std::string, const TaskSnapshot*> tasks_;  // answered tasks, by name
  std::set<std::string> said_by_its_task_;            // ids of parts of steps reported by their own task
  std::set<std::string> links_;                       // ids of known links
  std::map<std::string, std::int64_t> no_progress_;   // ns without progress, of tasks with heartbeats
  const JobSnapshot* job_ = nullptr;
  Waiting all_;
  std::vector<SilentTask> silent_;
};

Why::Why(const ClusterSnapshot& cluster) {
  for (const TaskReport& report : cluster.tasks)
    if (report.snapshot) note_progress(*report.snapshot);
  for (const TaskReport& report : cluster.tasks) {
    if (!report.snapshot) {
      note_silent(report);
      continue;
    }
    const TaskSnapshot& task = *report.snapshot;
    tasks_[report.task] = &task;
    if (task.job) job_ = &*task.job;
    for (const WaitThing& thing : task.waiting.things)
      if (thing.id.starts_with("part/") && task_at_end(thing.id) == task.task) said_by_its_task_.insert(thing.id);
    all_.append(task.waiting);
  }
  for (const auto& [name, task] : tasks_) {
    add_devices(*task);
    add_links(*task);
    add_worker(*task);
  }
  leave_out_workers_that_compute();
  explain_ends();
  find_stuck_tasks();
  leave_out_links_to_silent_tasks();
}

void Why::note_silent(const TaskReport& report) {
  std::string hint;
  const auto quiet = no_progress_.find(report.task);
  if (report.error.starts_with("nobody listens"))
    hint = ": it has ended";
  else if (report.error.starts_with("no answer") && quiet == no_progress_.end())
    hint = ": it is stopped, too busy or unreachable";
  else if (report.error.starts_with("no answer") && quiet->second < kNoProgress)
    hint = ": it is busy, according to its heartbeats";
  else if (report.error.starts_with("no answer"))
    hint = fmt::format(": it is stuck: its heartbeats arrive, but show no progress for {}", wait_time(quiet->second));
  silent_.push_back({report.task, report.error.empty() ? "unknown reason" : report.error + hint});
}

// Uses the most recent progress heard by any peer.
void Why::note_progress(const TaskSnapshot& own) {
  for (const LinkSnapshot& link : own.links) {
    const bool silent = link.suspect || link.heard_ns > kNoProgress / 2;  // it may be stopped
    if (!link.up || silent || link.progress_ns == 0) continue;
    std::int64_t& best = no_progress_.try_emplace(link.peer, link.progress_ns).first->second;
    best = std::min(best, link.progress_ns);
  }
}

// Marks work as stuck if its task makes no progress and others have waited for it as long.
void Why::find_stuck_tasks() {
  std::set<std::string> waits;
  std::map<std::string, std::int64_t> awaited;  // for how long
  for (const Wait& wait : all_.waits) {
    waits.insert(wait.waiter);
    std::int64_t& for_ns = awaited[wait.awaited];
    for_ns = std::max(for_ns, wait.for_ns);
  }
  for (WaitThing& thing : all_.things) {
    const auto quiet = no_progress_.find(thing.task);
    const auto by = awaited.find(thing.id);
    if (thing.state != State::works || quiet == no_progress_.end() || by == awaited.end() || waits.contains(thing.id))
      continue;
    if (quiet->second < kNoProgress || by->second < kNoProgress) continue;
    thing.state = State::stuck;
    thing.text += fmt::format("; {} is stuck: its heartbeats arrive, but show no progress for {}", thing.task,
                              wait_time(quiet->second));
  }
}

// Adds the first actor of this kind that has handled one message for long, and returns its id.
std::optional<std::string> Why::busy_actor(const TaskSnapshot& task, std::string_view kind) {
  for (const ActorSnapshot& actor : task.actors) {
    if (actor.kind != kind || actor.current_ns < kLongMessage) continue;
    std::string id = wait_thing::actor(task.task, kind);
    std::string text = fmt::format("the {} of {}, handling one {}", kind, task.task, actor.current);
    if (actor.mailbox > 1) text += fmt::format(", with {} messages queued", actor.mailbox - 1);
    add(id, std::move(text), task.task, actor.current_ns < kVeryLongMessage ? State::works : State::stuck,
        actor.current_ns);
    return id;
  }
  return std::nullopt;
}

void Why::add_devices(const TaskSnapshot& task) {
  for (const DeviceSnapshot& device : task.devices) {
    std::int64_t for_ns = 0;
    for (const ActorSnapshot& actor : task.actors)
      if (actor.kind == role_of(ActorKind::device).name && actor.name == device.name) for_ns = actor.current_ns;
    if (!device.failure.empty()) {
      add(wait_thing::device(device.name), device.failure, task.task, State::never);
      continue;
    }
    std::string text = device.running.empty() ? fmt::format("{}, with work queued", device.name)
                                              : fmt::format("{} runs {}", device.name, device.running);
    add(wait_thing::device(device.name), std::move(text), task.task, State::works, for_ns);
  }
}

void Why::add_links(const TaskSnapshot& own) {
  for (const LinkSnapshot& link : own.links) {
    const std::string id = wait_thing::link(own.task, link.peer),
                      name = fmt::format("the connection from {} to {}", own.task, link.peer);
    links_.insert(id);
    if (!link.up && is_silent(link.peer)) {
      add(id, name + ", which is down", own.task);
      wait(id, wait_thing::task(link.peer), "peer");
    } else if (!link.up) {
      add(id, name + ", which is down", own.task, State::stuck);
    } else if (link.suspect) {
      add(id, fmt::format("{} ({} has been silent for {})", name, link.peer, wait_time(link.heard_ns)), own.task);
      add(wait_thing::task(link.peer), fmt::format("{}, which is silent", link.peer), link.peer, State::stuck,
          link.heard_ns);
      wait(id, wait_thing::task(link.peer), "peer");
    } else if (link.stalled) {
      add(id, fmt::format("{}, with {} bytes waiting for credit", name, link.queued_bytes), own.task);
      std::optional<std::string> busy;
      if (const TaskSnapshot* peer = task(link.peer))
        for (const ActorKind kind :
             {ActorKind::shard, ActorKind::collective, ActorKind::scheduler, ActorKind::rendezvous})
          if (!busy) busy = busy_actor(*peer, role_of(kind).name);
      const std::string room = fmt::format("room/{}/{}", own.task, link.peer);
      if (!busy && link.progress_ns >= kNoProgress)
        add(room, fmt::format("{} to read its received data: it is stuck, its heartbeats show no progress", link.peer),
            link.peer, State::stuck, link.progress_ns);
      else if (!busy)
        add(room, fmt::format("{} to read its received data", link.peer), link.peer, State::works);
      wait(id, busy ? *busy : room, "credit",
           fmt::format("the credit of {} bytes from {} is used up", link.window, link.peer));
    } else {
      add(id,
          link.queued_bytes > 0 ? fmt::format("{}, with {} bytes queued for the network", name, link.queued_bytes)
                                : fmt::format("data in flight from {} to {}", own.task, link.peer),
          own.task, State::works);
      if (is_silent(link.peer)) wait(id, wait_thing::task(link.peer), "peer");
      // Gradients that have left the link are in the shard's mailbox.
      if (const TaskSnapshot* peer = task(link.peer))
        if (const auto busy = busy_actor(*peer, role_of(ActorKind::shard).name)) wait(id, *busy, "reply");
    }
  }
}

// Adds the activity that the training loop reports.
void Why::add_worker(const TaskSnapshot& own) {
  if (!own.training) return;
  const TrainingSnapshot& loop = *own.training;
  if (loop.mode == "local" || loop.mode == "allreduce") {
    if (!loop.doing.starts_with(kWaitsForData)) return;
    const std::string trains = fmt::format("training/{}", own.task);
    add(trains, fmt::format("{}, which {}", own.task, loop.doing), own.task, State::works, loop.doing_ns);
    return add_data(own, trains);
  }
  const std::string worker = wait_thing::worker(job_ ? job_->job : 0, own.task);
  const std::string whole = fmt::format("job/{:x}", job_ ? job_->job : 0);
  const auto needs = [&](const std::string& awaited, const char* kind) {
    add(worker, fmt::format("{}, which {}", own.task, loop.doing), own.task, State::works, loop.doing_ns);
    wait(worker, awaited, kind, {}, loop.doing_ns);
    if (!job_) add(awaited, fmt::format("the coordinator of the job on {}", kCoordinator), std::string(kCoordinator));
  };
  if (loop.doing.starts_with(kWaitsForData)) {
    add(worker, fmt::format("{}, which {}", own.task, loop.doing), own.task, State::works, loop.doing_ns);
    return add_data(own, worker);
  }
  if (loop.doing == "joins the job") return needs(whole, "join");
  if (loop.doing == "waits in the barrier") return needs(job_ ? wait_thing::barrier(job_->job) : whole, "barrier");
  if (loop.doing == "waits for a token") {
    const auto member = [&] { return std::ranges::find(job_->members, own.task, &MemberSnapshot::task); };
    // Handed out by the coordinator, but not received yet.
    if (job_ && member() != job_->members.end() && !member()->tokens.empty())
      return add(worker, fmt::format("{}, whose token is in flight", own.task), own.task, State::works, loop.doing_ns);
    return needs(job_ ? wait_thing::token(job_->job, own.task) : whole, "token");
  }
  if (loop.doing.empty())
    add(worker, fmt::format("{}, whose program is not training", own.task), own.task, State::works);
  else
    add(worker, fmt::format("{}, which {}", own.task, loop.doing), own.task, State::works, loop.doing_ns);
}

// A worker waits for its batch: the job waits for data.
void Why::add_data(const TaskSnapshot& own, const std::string& waiter) {
  const std::string data = fmt::format("data/{}", own.task);
  add(data, fmt::format("the data of {}", own.task), own.task);
  wait(waiter, data, "data", {}, own.training->doing_ns);
  if (!own.pipelines.empty()) return add_slowest_stage(own, data);
  bool any = false;
  for (const auto& [name, input] : tasks_) {
    if (!name.starts_with(kInputTasks)) continue;
    any = true;
    if (!input->pipelines.empty()) {
      add_slowest_stage(*input, data);
    } else {
      const std::string begins = fmt::format("serves/{}", name);
      add(begins, fmt::format("{}, which has not begun the training", name), name, State::works);
      wait(data, begins, "data");
    }
  }
  for (const SilentTask& silent : silent_)
    if (silent.task.starts_with(kInputTasks)) wait(data, wait_thing::task(silent.task), "data");
  if (!any) add(data, fmt::format("the data of {}, which no input task makes", own.task), own.task, State::works);
}

void Why::add_slowest_stage(const TaskSnapshot& input, const std::string& data) {
  const PipelineSnapshot& pipeline = input.pipelines.front();
  const auto slowest = std::ranges::max_element(pipeline.stages, {}, &StageSnapshot::busy);
  const std::string id = fmt::format("pipeline/{}", input.task);
  if (slowest == pipeline.stages.end() || slowest->busy <= 0)
    add(id, fmt::format("the pipeline of {}", input.task), input.task, State::works);
  else
    add(id,
        fmt::format("stage '{}' of {}, the slowest of its pipeline, {:.0f} % busy", slowest->name, input.task,
                    100 * slowest->busy),
        input.task, State::works);
  wait(data, id, "data");
}

// Drops waits of slots for their workers if a slot also waits for its step, which says more.
void Why::leave_out_workers_that_compute() {
  std::set<std::string> computed;
  for (const Wait& wait : all_.waits)
    if (wait.waiter.starts_with("slot/") && wait.awaited.starts_with("step/")) computed.insert(wait.waiter);
  std::erase_if(all_.waits, [&](const Wait& wait) {
    return wait.awaited.starts_with("worker/") && computed.contains(wait.waiter);
  });
}

// Drops links to silent tasks that nothing waits for: the silent task itself is reported.
void Why::leave_out_links_to_silent_tasks() {
  std::set<std::string> awaited, idle;
  for (const Wait& wait : all_.waits) awaited.insert(wait.awaited);
  for (const Wait& wait : all_.waits)
    if (links_.contains(wait.waiter) && !awaited.contains(wait.waiter) && wait.awaited.starts_with("task/") &&
        is_silent(wait.awaited.substr(5)))
      idle.insert(wait.waiter);
  std::erase_if(all_.waits, [&](const Wait& wait) { return idle.contains(wait.waiter); });
  std::erase_if(all_.things, [&](const WaitThing& thing) { return idle.contains(thing.id); });
}

// Explains awaited things without a reported wait of their own.
void Why::explain_ends() {
  std::set<std::string> waits;
  std::map<std::string, Wait> awaited;
  for (const Wait& wait : all_.waits) {
    waits.insert(wait.waiter);
    if (const auto [it, fresh] = awaited.try_emplace(wait.awaited, wait); !fresh)
      it->second.for_ns = std::max(it->second.for_ns, wait.for_ns);
  }
  std::map<std::string, WaitThing> ends;
  for (const WaitThing& thing : all_.things)
    if (awaited.contains(thing.id) && !waits.contains(thing.id)) {
      WaitThing& end = ends.try_emplace(thing.id, thing).first->second;
      end.state = std::max(end.state, thing.state);
      if (end.task.empty()) end.task = thing.task;
      if (thing.text.size() > end.text.size()) end.text = thing.text;
    }
  for (const auto& [id, thing] : ends)
    if (thing.state == State::waits && task(thing.task)) explain_end(thing, awaited.at(id));
}

void Why::explain_end(const WaitThing& thing, const Wait& by) {
  const TaskSnapshot& own = *task(thing.task);
  if (!own.failure.empty())
    return add(thing.id, fmt::format("{}: {} has failed: {}", thing.text, own.task, own.failure), own.task,
               State::never);
  if (const std::string_view actor = actor_behind(thing.id); !actor.empty())
    if (const auto busy = busy_actor(own, actor)) return wait(thing.id, *busy, "reply");
  const std::string_view kind = kind_of(thing.id);
  if (kind == "tensor") {
    // The sending part of "tensor/S/N/E" is "part/S/N/TASK".
    const std::string of = thing.id.substr(7, thing.id.rfind('/') - 7);
    return explain_tensor(thing, by, said_by_its_task_.contains(fmt::format("part/{}/{}", of, own.task)));
  }
  if (kind == "part")
    return by.for_ns < kOnItsWay
               ? add(thing.id, thing.text + ", whose report is in flight", own.task, State::works)
               : add(thing.id,
                     fmt::format("{}: unknown to {} (the message for its start or end was lost)", thing.text, own.task),
                     own.task, State::never);
  if (kind == "join") return explain_join(thing);
  if (kind == "collective") return explain_collective(thing);
  if (kind == "answer")
    for (const ActorKind actor : {ActorKind::partition, ActorKind::node, ActorKind::scheduler})
      if (const auto busy = busy_actor(own, role_of(actor).name)) return wait(thing.id, *busy, "reply");
  add(thing.id, thing.text + ", in flight", own.task, by.for_ns < kOnItsWay ? State::works : State::stuck);
}

void Why::explain_tensor(const WaitThing& thing, const Wait& by, bool begun) {
  if (begun || by.for_ns < kOnItsWay) {
    const std::string receiver =
        wait_thing::task_of(std::string_view(by.waiter).substr(std::min(by.waiter.find("//") + 1, by.waiter.size())));
    const std::string link = wait_thing::link(thing.task, receiver);
    if (thing.task == receiver || !links_.contains(link))
      return add(thing.id, thing.text + ", in flight", thing.task, by.for_ns < kOnItsWay ? State::works : State::stuck);
    return wait(thing.id, link, "credit", "it has been sent");
  }
  add(thing.id, fmt::format("{}: the step is over on {}, so the tensor will never arrive", thing.text, thing.task),
      thing.task, State::never);
}

void Why::explain_join(const WaitThing& thing) {
  const TaskSnapshot& own = *task(thing.task);
  const bool worker = own.task.starts_with("/job:worker/");
  if (own.training && !own.training->doing.empty())
    add(thing.id, fmt::format("{} (it {})", thing.text, own.training->doing), own.task, State::works,
        own.training->doing_ns);
  else
    add(thing.id,
        fmt::format("{}: it runs, but {}", thing.text, worker ? "its program is not training" : "serves no job"),
        own.task, State::stuck);
}

void Why::explain_collective(const WaitThing& thing) {
  const TaskSnapshot& own = *task(thing.task);
  if (!own.training) return add(thing.id, thing.text + ": its program must also call it", own.task, State::stuck);
  if (own.training->doing.empty())
    return add(thing.id,
               fmt::format("{}: {} has ended its training and joins no more collectives", thing.text, own.task),
               own.task, State::never);
  add(thing.id, fmt::format("{} ({} {})", thing.text, own.task, own.training->doing), own.task, State::works,
      own.training->doing_ns);
}

}  // namespace

WaitAnalysis analyse(const ClusterSnapshot& snapshot) { return Why(snapshot).result(); }

}  // namespace troupe
