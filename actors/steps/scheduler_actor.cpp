#include "troupe/actors/steps/scheduler_actor.hpp"

#include <algorithm>

#include <troupe/actors/steps/direct_step.hpp>
#include <troupe/actors/steps/segment_work.hpp>
#include <troupe/actors/wire/cork.hpp>
#include <troupe/messages/tensor_list.hpp>

namespace troupe {
namespace {

constexpr auto kTickInterval = std::chrono::milliseconds(20);
constexpr std::size_t kLightNodes = 32;

Error no_shard(const Plan& plan, std::uint32_t shard, std::size_t shards) {
  return Error(Code::invalid_argument,
               fmt::format("the graph on {} pulls from or pushes to shard {}, but the session has {} shards",
                           plan.device, shard, shards));
}

SegmentShape shape_of(std::span<const PlanNode> nodes) {
  using Kind = PlanNode::Kind;
  const auto hands_over = [](const PlanNode& n) { return n.kind == Kind::send || n.kind == Kind::fetch; };
  const auto sends = [](const PlanNode& n) {
    return n.kind == Kind::send || n.kind == Kind::push || n.kind == Kind::push_sparse || n.kind == Kind::ask_rows ||
           n.kind == Kind::contribute;
  };
  return {.light = nodes.size() <= kLightNodes && std::ranges::all_of(nodes, hands_over),
          .sends = std::ranges::any_of(nodes, sends)};
}

}  // namespace

SchedulerActorImpl::behavior_type SchedulerActorImpl::make_behavior() {
  tell_of_itself();
  return {
      [this](const Inbound<StepStart>& message) { start_remote(message); },
      [this](const Inbound<StepDone>& message) {
        const StepKey key{message.frame.session, message.frame.step};
        const auto it = active_.find(key);
        if (it == active_.end()) return;
        const std::vector<TaskName>& participants = it->second.graph->handle->participants;
        const auto part = std::ranges::find(participants, message.from);
        if (part == participants.end()) return;  // not involved here
        advance(key,
                table_.part_ended(key, static_cast<std::uint32_t>(part - participants.begin()), message.frame.error));
      },
      [this](const Inbound<StepAbort>& message) {
        const StepKey key{message.frame.session, message.frame.step};
        const auto it = active_.find(key);
        if (it == active_.end()) return;
        const GraphHandle& graph = *it->second.graph->handle;
        if (message.from != graph.client &&
            std::ranges::find(graph.participants, message.from) == graph.participants.end())
          return;
        advance(key, table_.abort(key, message.frame.error));
      },
      [this](const MeetAt& message) {
        rendezvous_ = message.rendezvous;
        collective_ = message.collective;
      },
      [this](const RunStep& message) { run(message); },
      [this](const CancelStep& message) {
        const StepKey key{message.session, message.step};
        advance(key, table_.abort(key, Error(Code::cancelled,
                                             fmt::format("step {} was cancelled by its client", message.step.value))));
      },
      [this](const SegmentDone& message) {
        const StepKey key{message.session, message.step};
        advance(key, table_.segment_done(key, message.partition, message.segment, message.error));
      },
      [this](const Delivered& message) { delivered(message.put); },
      [this](const Landed& message) { landed(message); },
      [this](const StepFailed& message) {
        const StepKey key{message.session, message.step};
        advance(key, table_.abort(key, message.error));
      },
      [this](const CallResource& message) { call_resource(message); },
      [this](const AddGraph& message) { return add_graph(message); },
      [this](const LendGraph& message) { return lend_graph(message); },
      [this](const DropGraph& message) {
        graphs_.erase({message.session, message.graph});
      },
      [this](const CloseSessionRequest& message) { return close_session(SessionId{message.session}); },
      [this](const Tick&) { tick(); },
      [this](const PeerUp& message) {
        peers_[message.task] = message.peer;
        forget_routes();
      },
      [this](const PeerDown& message) { peer_down(message); },
      [this](const Stop&) {
        explainer_.stop();
        // Running segments keep their data alive by themselves. Answer clients now.
        const Error error(Code::cancelled, fmt::format("task {} is shutting down", task_.to_string()));
        for (auto& [key, active] : active_) {
          table_.abort(key, error);
          if (active.request) active.request->answer({.error = table_.error(key), .fetches = {}});
        }
        calls_.clear();
        active_.clear();
        graphs_.clear();
        peers_.clear();
        rendezvous_ = nullptr;
        collective_ = nullptr;
        quit();
      },
  };
}

caf::resumable::resume_result SchedulerActorImpl::resume(caf::execution_unit* unit, std::size_t max_throughput) {
  const wire::Cork cork;
  return Counted::resume(unit, max_throughput);
}

Reply SchedulerActorImpl::add_graph(const AddGraph& message) {
  auto handle = std::static_pointer_cast<GraphHandle>(message.work);
  auto registered = std::make_shared<Registered>();
  std::uint32_t next_pull = kFirstPullEdge;
  for (std::uint32_t p = 0; p < handle->partitions.size(); ++p) {
    const Plan& plan = handle->partitions[p]->partition->plan();
    registered->calls = registered->calls || !plan.calls.empty();
    for (const PushTarget& push : plan.pushes)
      if (push.shard >= handle->shards.size()) return Reply::of(no_shard(plan, push.shard, handle->shards.size()));
    for (std::uint32_t a = 0; a < plan.arrivals.size(); ++a) {
      if (plan.arrivals[a].is_pull && plan.arrivals[a].shard >= handle->shards.size())
        return Reply::of(no_shard(plan, plan.arrivals[a].shard, handle->shards.size()));
      const bool whole = plan.arrivals[a].is_pull && !plan.arrivals[a].is_asked;
      const EdgeId edge = whole ? EdgeId{next_pull++} : plan.arrivals[a].edge;
      if (whole) registered->pulls.emplace_back(edge, &plan.arrivals[a]);
      if (plan.arrivals[a].is_pull) registered->pulled.push_back(plan.arrivals[a].slice);
      if (!registered->arrivals.emplace(edge.value, ArrivalPlace{p, a}).second)
        return Reply::of(
            Error(Code::invalid_argument, fmt::format("'{}' on {}: edge {} is also received by another partition",
                                                      plan.arrivals[a].name, plan.device, edge.value)));
      registered->edges.push_back(edge);
    }
  }
  registered->handle = handle;
  graphs_[{handle->session, handle->graph}] = std::move(registered);
  return Reply{};
}

GraphLent SchedulerActorImpl::lend_graph(const LendGraph& message) {
  const auto it = graphs_.find({message.session, message.graph});
  if (it == graphs_.end() || !DirectGraph::fits(*it->second->handle)) return {};
  auto graph = std::make_shared<DirectGraph>(message.session, it->second->handle->partitions[0]);
  std::erase_if(lent_, [](const auto& lent) { return lent.expired(); });
  lent_.push_back(graph);
  return {std::move(graph)};
}

Reply SchedulerActorImpl::close_session(SessionId session) {
  for (const StepKey& key : table_.steps_of(session))
    advance(key, table_.abort(key, Error(Code::cancelled, "the session was closed")));
  std::erase_if(graphs_, [session](const auto& entry) { return entry.first.first == session; });
  tell(rendezvous_, EndSession{session});
  return Reply{};
}

void SchedulerActorImpl::run(const RunStep& message) {
  auto request = std::static_pointer_cast<StepRequest>(message.work);
  const StepKey key{request->session, request->step};
  try {
    const auto it = graphs_.find({request->session, request->graph});
    if (it == graphs_.end()) fail(Code::failed_precondition, "the session is closed, or its graph was not registered");
    Active active;
    active.graph = it->second;
    active.request = request;
    active.training = request->training;
    active.routes = routes(*it->second);
    for (const TaskName& task : it->second->handle->participants) peer(task);  // throws before any is notified
    start(key, std::move(active), request->random, request->feeds);
    if (request->deadline_ns != 0) schedule_tick();
  } catch (...) {
    request->answer({.error = current_error(), .fetches = {}});
  }
}

void SchedulerActorImpl::start_remote(const Inbound<StepStart>& message) {
  const StepKey key{message.frame.session, message.frame.step};
  const auto refuse = [&](const Error& why) {
    const auto it = peers_.find(message.from);
    if (it != peers_.end()) tell(it->second, Outbound{StepDone{key.session, key.step, why}});
  };
  if (const auto of_session = graphs_.lower_bound({key.session, GraphId{0}});
      of_session != graphs_.end() && of_session->first.first == key.session)
    if (const TaskName& client = of_session->second->handle->client; client != message.from)
      return refuse(Error(Code::permission_denied,
                          fmt::format("{} may not start a step of {}", message.from.to_string(), client.to_string())));
  try {
    const auto it = graphs_.find({message.frame.session, message.frame.graph});
    if (it == graphs_.end())
      fail(Code::failed_precondition, "task {} has no graph {} of the session", task_.to_string(),
           message.frame.graph.value);
    Active active;
    active.graph = it->second;
    active.routes = routes(*it->second);
    start(key, std::move(active), message.frame.random, {});
  } catch (...) {
    tell(rendezvous_, EndStep{key.session, key.step});  // other tasks may have sent tensors for it
    refuse(current_error());
  }
}

const std::shared_ptr<const Routes>& SchedulerActorImpl::routes(Registered& graph) {
  if (!graph.routes) graph.routes = make_routes(graph);
  return graph.routes;
}

void SchedulerActorImpl::forget_routes() {
  for (auto& [id, graph] : graphs_) graph->routes = nullptr;
}

std::shared_ptr<const Routes> SchedulerActorImpl::make_routes(const Registered& graph) const {
  auto out = std::make_shared<Routes>();
  out->system = &system();
  out->rendezvous = rendezvous_;
  out->collective = collective_;
  out->short_actors = ShortActors(SchedulerActor(const_cast<SchedulerActorImpl*>(this)), rendezvous_, collective_);
  for (const auto& partition : graph.handle->partitions) {
    const Plan& plan = partition->partition->plan();
    auto& shapes = out->shapes.emplace_back();
    for (const Segment& segment : plan.segments)
      shapes.push_back(shape_of(std::span(plan.nodes).subspan(segment.first_node, segment.num_nodes)));
  }
  const GraphHandle& handle = *graph.handle;
  for (const auto& partition : handle.partitions) {
    auto& sends = out->sends.emplace_back();
    for (const SendTarget& send : partition->partition->plan().sends) {
      const auto target = handle.edge_targets.find(send.edge.value);
      sends.push_back(target == handle.edge_targets.end() ? PeerActor() : peer(target->second));
    }
  }
  for (const TaskName& shard : handle.shards) out->shards.push_back(peer(shard));
  return out;
}

void SchedulerActorImpl::start(const StepKey& key, Active active, RandomKey random, const std::vector<Tensor>& feeds) {
  std::vector<std::shared_ptr<RegisteredPartition>> partitions;
  for (const auto& p : active.graph->handle->partitions) partitions.push_back(p->partition);
  const GraphHandle& handle = *active.graph->handle;
  // The client's task waits for the other parts; each other task knows only its own.
  const std::size_t other_parts = active.request ? handle.participants.size() : 0;
  auto progress = table_.start(key, std::move(partitions), random, feeds, static_cast<std::uint32_t>(other_parts));
  if (!active.graph->pulled.empty()) active.pulled = std::make_shared<PulledVersions>();
  for (const std::uint32_t slice : active.graph->pulled) (*active.pulled)[slice] = kNotPulled;
  active.since_ns = record().current_since_ns.load(std::memory_order_relaxed);
  // Nothing below may throw: the other tasks learn about a step once this task has begun it.
  const auto it = active_.emplace(key, std::move(active)).first;
  if (Trace& trace = record().registry.trace(); trace.on()) trace_begin(trace, key, it->second);
  for (std::size_t i = 0; i < other_parts; ++i)
    tell(peer(handle.participants[i]), Outbound{StepStart{key.session, handle.graph, key.step, random}});
  request_arrivals(key, it->second);
  advance(key, std::move(progress));
}

void SchedulerActorImpl::trace_begin(Trace& trace, const StepKey& key, const Active& active) {
  const TrainingStep& training = active.training;
  const TraceStep step = TraceStep::of(key.session, key.step, number_of(training, key.step));
  std::string text = fmt::format("step {}", step.number);
  if (training.job != 0) text += fmt::format(", slot {}", training.slot);
  if (!active.request) text += fmt::format(" of {}", active.graph->handle->client.to_string());
  trace.begin_step(step, std::move(text));
}

void SchedulerActorImpl::request_arrivals(const StepKey& key, const Active& active) {
  if (active.graph->edges.empty()) return;
  Await await;
  for (EdgeId edge : active.graph->edges) await.keys.push_back({key.session, key.step, edge});
  tell(rendezvous_, std::move(await));
  for (const auto& [edge, arrival] : active.graph->pulls)
    tell(active.routes->shards.at(arrival->shard), Outbound{Pull{active.training.worker,
                                                                 {key.session, key.step, edge},
                                                                 arrival->slice,
                                                                 active.training.min_version,
                                                                 active.training.job,
                                                                 active.training.view,
                                                                 active.training.after,
                                                                 {},
                                                                 active.training.kept}});
}

// Handles the consequences of a step's progress.
void SchedulerActorImpl::advance(const StepKey& key, StepTable::Progress progress) {
  const auto it = active_.find(key);
  if (it == active_.end()) return;
  const Active& active = it->second;
  if (progress.failed) tell_failed(key, active);
  for (std::size_t i = 0; i < progress.ready.size(); ++i) {  // grows with the successors of segments run here
    const ReadySegment ready = std::move(progress.ready[i]);
    const LocalDevice& device = active.graph->handle->partitions[ready.partition]->device;
    auto work = std::make_shared<SegmentWork>(ready, *device.device, active.routes, active.training, active.pulled,
                                              SchedulerActor(this));
    if (!runs_here(active, ready)) {
      tell(device.actor, ExecuteSegment{std::move(work)});
      continue;
    }
    const Error error = work->run_here();
    auto more = table_.segment_done(key, ready.partition, ready.segment, error);
    if (more.failed) tell_failed(key, active);
    std::ranges::move(more.ready, std::back_inserter(progress.ready));
    progress.ended = progress.ended || more.ended;
  }
  if (progress.ended) finish(key);
}

// True for a segment that only passes tensors on, while no other segment of the step runs on its device, so that nobody
// else uses its frame.
bool SchedulerActorImpl::runs_here(const Active& active, const ReadySegment& ready) const {
  return active.routes->shapes[ready.partition][ready.segment].light &&
         table_.running(ready.step, ready.partition) == 1 &&
         active.graph->handle->partitions[ready.partition]->device.device->attributes().synchronous;
}

void SchedulerActorImpl::delivered(const Put& put) {
  const StepKey key{put.key.session, put.key.step};
  const auto it = active_.find(key);
  if (it == active_.end()) return;
  if (put.error) return advance(key, table_.abort(key, put.error));
  const auto place = it->second.graph->arrivals.find(put.key.edge.value);
  if (place == it->second.graph->arrivals.end()) return;
  const Arrival& arrival =
      it->second.graph->handle->partitions[place->second.partition]->partition->plan().arrivals[place->second.arrival];
  if (arrival.is_pull) {  // the oldest, if rows of the slice are pulled several times
    std::atomic<std::uint64_t>& version = it->second.pulled->at(arrival.slice);
    version.store(std::min(version.load(std::memory_order_relaxed), put.version), std::memory_order_relaxed);
  }
  Landed landed_message{key.session, key.step, place->second.partition, place->second.arrival, {}};
  Device& device = *it->second.graph->handle->partitions[place->second.partition]->device.device;
  if (device.attributes().synchronous) {  // returns the tensor at once
    landed_message.tensor = put.tensor;
    return landed(std::move(landed_message));
  }
  device.copy_in(put.tensor, [self = SchedulerActor(this), landed_message](Tensor tensor, Error error) mutable {
    if (error) return caf::anon_send(self, StepFailed{landed_message.session, landed_message.step, std::move(error)});
    landed_message.tensor = std::move(tensor);
    caf::anon_send(self, std::move(landed_message));
  });
}

void SchedulerActorImpl::landed(Landed message) {
  const StepKey key{message.session, message.step};
  advance(key, table_.arrived(key, message.partition, message.arrival, std::move(message.tensor)));
}

// A step that has ended may have been called for by a segment that is behind it: its resource may be gone.
void SchedulerActorImpl::call_resource(const CallResource& message) {
  const auto called = std::static_pointer_cast<CalledResource>(message.work);
  const StepKey key{called->from.session, called->from.step};
  if (!active_.contains(key) || table_.error(key)) return;
  hand_out(calls_.call(called->from, called->resource, std::move(called->call)));
}

// A step that gets an answer may fail, whose calls then end: the answers of others follow in their turn.
void SchedulerActorImpl::hand_out(ResourceCalls::Answers answers) {
  std::ranges::move(answers, std::back_inserter(answers_));
  if (std::exchange(handing_out_, true)) return;
  while (!answers_.empty()) {
    ResourceCalls::Answer answer = std::move(answers_.front());
    answers_.pop_front();
    Put put{answer.to, 0, {}, std::move(answer.error)};
    if (!put.error) put.tensor = make_list(std::move(answer.values));
    delivered(put);
  }
  handing_out_ = false;
}

void SchedulerActorImpl::tell_failed(const StepKey& key, const Active& active) {
  tell(rendezvous_, EndStep{key.session, key.step});
  if (active.graph->calls) hand_out(calls_.end_step(key.session, key.step));
  if (!active.request) return;
  for (const TaskName& task : active.graph->handle->participants)
    if (const auto p = peers_.find(task); p != peers_.end())
      tell(p->second, Outbound{StepAbort{key.session, key.step, table_.error(key)}});
}

void SchedulerActorImpl::finish(const StepKey& key) {
  const auto ended = active_.extract(key);
  const Active& active = ended.mapped();
  StepTable::Result result = table_.finish(key);
  if (!result.error && !active.graph->edges.empty()) tell(rendezvous_, EndStep{key.session, key.step});
  if (Trace& trace = record().registry.trace(); trace.on()) trace.end_step(TraceStep::of(key.session, key.step, 0).key);
  if (active.request) {
    StepResult answer{.error = result.error ? result.error : lateness(key, active), .fetches = {}};
    if (!answer.error) {
      answer.fetches = std::move(active.request->fetches);
      for (auto& [index, tensor] : result.fetches)
        if (index < answer.fetches.size()) answer.fetches[index] = std::move(tensor);
    }
    active.request->answer(std::move(answer));
  } else if (const auto client = peers_.find(active.graph->handle->client); client != peers_.end()) {
    tell(client->second, Outbound{StepDone{key.session, key.step, result.error}});
  }
}

void SchedulerActorImpl::peer_down(const PeerDown& message) {
  peers_.erase(message.task);
  forget_routes();
  std::vector<StepKey> hit;
  for (const auto& [key, active] : active_) {
    const GraphHandle& handle = *active.graph->handle;
    const bool involved =
        handle.client == message.task || std::ranges::count(handle.participants, message.task) > 0 ||
        std::ranges::count(handle.shards, message.task) > 0 ||
        std::ranges::any_of(handle.edge_targets, [&](const auto& e) { return e.second == message.task; });
    if (involved) hit.push_back(key);
  }
  for (const StepKey& key : hit) {
    const Error down(Code::unavailable, fmt::format("step {} needs task {}, which is down: {}", key.step.value,
                                                    message.task.to_string(), message.reason.message()));
    advance(key, table_.abort(key, down));
  }
  // A lost client closes no sessions.
  std::set<SessionId> orphans;
  for (const auto& [id, registered] : graphs_)
    if (registered->handle->client == message.task) orphans.insert(id.first);
  for (SessionId session : orphans) close_session(session);
}

void SchedulerActorImpl::schedule_tick() {
  if (ticking_) return;
  ticking_ = true;
  delayed_send(SchedulerActor(this), kTickInterval, Tick{});
}

void SchedulerActorImpl::tick() {
  ticking_ = false;
  const std::int64_t now = steady_now_ns();
  std::vector<StepKey> late;
  bool more = false;
  for (const auto& [key, active] : active_) {
    if (!active.request || active.request->deadline_ns == 0 || table_.error(key)) continue;
    if (active.request->deadline_ns <= now)
      late.push_back(key);
    else
      more = true;
  }
  const std::optional<std::string> why = late.empty() ? "" : explainer_();
  if (!why) return schedule_tick();
  for (const StepKey& key : late) advance(key, table_.abort(key, deadline_error(key, active_.at(key), *why)));
  if (more) schedule_tick();
}

Error SchedulerActorImpl::lateness(const StepKey& key, const Active& active) const {
  const std::int64_t deadline = active.request->deadline_ns, now = deadline == 0 ? 0 : steady_now_ns();
  if (now <= deadline) return {};
  return Error(Code::deadline_exceeded, fmt::format("{} ended {} after its deadline; its changes are kept",
                                                    text_of(active.training, key, task_), wait_time(now - deadline)));
}

Error SchedulerActorImpl::deadline_error(const StepKey& key, const Active& active, const std::string& why) const {
  std::vector<std::string> waits = table_.waits_for(key);
  for (const std::uint32_t i : table_.parts_left(key))
    waits.push_back(fmt::format("task {} to end its part", active.graph->handle->participants[i].to_string()));
  std::string text;
  constexpr std::size_t kShown = 16;
  for (std::size_t i = 0; i < std::min(waits.size(), kShown); ++i) text += "\n  " + waits[i];
  if (waits.size() > kShown) text += fmt::format("\n  and {} more", waits.size() - kShown);
  return Error(Code::deadline_exceeded, fmt::format("{} did not end before its deadline; it was waiting for:{}{}",
                                                    text_of(active.training, key, task_), text, why));
}

PeerActor SchedulerActorImpl::peer(const TaskName& task) const {
  const auto it = peers_.find(task);
  if (it == peers_.end())
    fail(Code::unavailable, "task {} has no connection to task {}", task_.to_string(), task.to_string());
  return it->second;
}

}  // namespace troupe
