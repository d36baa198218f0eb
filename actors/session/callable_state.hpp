// What a Callable keeps of its session.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <troupe/actors/session/session.hpp>
#include <troupe/actors/session/shape_classes.hpp>
#include <troupe/actors/steps/client_gate.hpp>
#include <troupe/actors/steps/direct_step.hpp>

namespace troupe {

// The plan of a call for feeds of given shapes. Its task forgets it with the last step that runs it.
struct ShapedPlan {
  ShapedPlan(SessionId of, GraphId number, LocalNodeActor at) : session(of), graph(number), node(std::move(at)) {}
  ShapedPlan(const ShapedPlan&) = delete;
  ShapedPlan& operator=(const ShapedPlan&) = delete;
  ~ShapedPlan();

  const SessionId session;
  const GraphId graph;
  const LocalNodeActor node;
  std::shared_ptr<DirectGraph> direct;
  std::string report;  // passes
};

struct Callable::State {
  SessionId session;
  GraphId graph;
  std::uint64_t seed = 0;
  std::chrono::nanoseconds timeout{0};
  SchedulerActor scheduler;
  std::shared_ptr<ClientGate> gate;
  std::shared_ptr<DirectGraph> direct;  // null: steps go through the scheduler
  std::shared_ptr<DirectSteps> direct_steps;
  std::vector<std::pair<DType, Shape>> feeds;
  std::vector<std::string> feed_names;
  std::size_t num_fetches = 0;
  // Of calls for inference whose feeds have open shapes; else null.
  std::shared_ptr<const Graph> prepared;
  std::shared_ptr<ShapeClasses<ShapedPlan>> shapes;
  std::vector<std::size_t> open_feeds;  // whose shapes they are
  std::shared_ptr<CallMemory> memory;
  std::shared_ptr<std::atomic<std::uint64_t>> next_step;
  std::shared_ptr<std::atomic<bool>> open;
};

}  // namespace troupe
