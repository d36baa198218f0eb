// The scheduler of a task: topological dispatch over segments for all steps in flight. StepTable keeps the steps; this
// actor turns its results into messages:
//
//   client's task:   RunStep -> [StepStart to participants] -> running -> (local part ended and all StepDone) -> done()
//   another task:    StepStart -> running -> StepDone to the client
//   both:            first error -> aborted: nothing new starts, EndStep to the rendezvous, StepAbort to participants
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/base/explainer.hpp>
#include <troupe/actors/steps/borrowed_thread.hpp>
#include <troupe/actors/steps/step.hpp>
#include <troupe/messages/caf/protocol.hpp>
#include <troupe/scheduler/resources/resource_calls.hpp>

namespace troupe {

class DirectGraph;

// Properties of a segment's nodes that decide how it runs.
struct SegmentShape {
  bool light = false;  // few nodes, all sends and fetches: too little work to wake a device
  bool sends = false;  // sends, pushes or contributes something
};

// Where segments send their outputs, and related state. Immutable; shared by the steps of a graph.
struct Routes {
  caf::actor_system* system = nullptr;
  ShortActors short_actors;
  RendezvousActor rendezvous;
  CollectiveActor collective;
  std::vector<std::vector<SegmentShape>> shapes;  // by partition and segment
  std::vector<std::vector<PeerActor>> sends;      // by partition and Plan::sends; null: this task's rendezvous
  std::vector<PeerActor> shards;
};

// The version of each slice that a step pulled, for its pushes. Written when the Put arrives, read by the device.
using PulledVersions = std::map<std::uint32_t, std::atomic<std::uint64_t>>;
inline constexpr std::uint64_t kNotPulled = ~std::uint64_t{0};

class SchedulerActorImpl final : public Counted<SchedulerActor> {
 public:
  SchedulerActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, TaskName self_task)
      : Counted(config, std::move(record)), task_(std::move(self_task)) {}
  behavior_type make_behavior() override;
  // Batches messages to other tasks from one run of the actor.
  caf::resumable::resume_result resume(caf::execution_unit* unit, std::size_t max_throughput) override;

 private:
  struct ArrivalPlace {
    std::uint32_t partition;
    std::uint32_t arrival;
  };
  // State derived once from a GraphHandle.
  struct Registered {
    std::shared_ptr<GraphHandle> handle;
    std::unordered_map<std::uint32_t, ArrivalPlace> arrivals;  // by edge
    std::vector<std::pair<EdgeId, const Arrival*>> pulls;      // of whole slices
    std::vector<std::uint32_t> pulled;                         // slices that are pulled, whole or by rows
    std::vector<EdgeId> edges;                                 // of all arrivals
    bool calls = false;                                        // calls resources
    std::shared_ptr<const Routes> routes;                      // null if stale because peers came or went
  };
  struct Active {
    std::shared_ptr<Registered> graph;
    std::shared_ptr<const Routes> routes;
    std::shared_ptr<StepRequest> request;  // on the client's task
    TrainingStep training;
    std::shared_ptr<PulledVersions> pulled;
    std::int64_t since_ns = 0;  // start; 0 if unknown
  };

  Reply add_graph(const AddGraph& message);
  GraphLent lend_graph(const LendGraph& message);
  Reply close_session(SessionId session);
  void run(const RunStep& message);
  void start_remote(const Inbound<StepStart>& message);
  const std::shared_ptr<const Routes>& routes(Registered& graph);
  std::shared_ptr<const Routes> make_routes(const Registered& graph) const;
  void forget_routes();
  void start(const StepKey& key, Active active, RandomKey random, const std::vector<Tensor>& feeds);
  void trace_begin(Trace& trace, const StepKey& key, const Active& active);
  void request_arrivals(const StepKey& key, const Active& active);
  void advance(const StepKey& key, StepTable::Progress progress);
  bool runs_here(const Active& active, const ReadySegment& ready) const;
  void delivered(const Put& put);
  void landed(Landed message);
  void call_resource(const CallResource& message);
  void hand_out(ResourceCalls::Answers answers);
  void tell_failed(const StepKey& key, const Active& active);
  void finish(const StepKey& key);
  void peer_down(const PeerDown& message);
  void tick();
  void schedule_tick();
  // The error for a step that ended after its deadline; none if it was in time.
  Error lateness(const StepKey& key, const Active& active) const;
  Error deadline_error(const StepKey& key, const Active& active, const std::string& why) const;
  void inspect(ActorDetails& out) const override;
  void describe_calls(const StepKey& key, const Registered& graph, Waiting& waiting) const;
  void inspect_step(const StepKey& key, const Active& active, std::int64_t now, ActorDetails& out) const;
  PeerActor peer(const TaskName& task) const;  // throws unavailable

  TaskName task_;
  RendezvousActor rendezvous_;
  CollectiveActor collective_;
  std::map<TaskName, PeerActor> peers_;
  std::map<std::pair<SessionId, GraphId>, std::shared_ptr<Registered>> graphs_;
  std::map<StepKey, Active> active_;
  std::vector<std::weak_ptr<const DirectGraph>> lent_;
  StepTable table_;
  ResourceCalls calls_;
  std::deque<ResourceCalls::Answer> answers_;  // that are to be handed out
  bool handing_out_ = false;
  Explainer explainer_{record().registry.why()};
  bool ticking_ = false;
};

}  // namespace troupe
