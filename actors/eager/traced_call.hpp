// Runs a traced function: by a session of its graph, and one more for each choice of gradients.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/actors/eager/eager.hpp>
#include <troupe/actors/eager/function_trace.hpp>
#include <troupe/actors/session/session.hpp>

namespace troupe {

// Steps of one call of a session. Those that may take long run as EagerOptions::run_long_step says. Thread-safe.
class StepRunner {
 public:
  // `eager` and `session` must outlive it. `may_wait`: the graph has loops, queues or accumulators.
  StepRunner(const Eager& eager, Session& session, Callable callable, bool may_wait)
      : eager_(eager), session_(session), callable_(std::move(callable)), may_wait_(may_wait) {}
  std::vector<Tensor> operator()(std::vector<Tensor> feeds, const RunOptions& options);

 private:
  const Eager& eager_;
  Session& session_;
  const Callable callable_;
  const bool may_wait_;
  std::atomic<bool> was_slow_{true};
};

// Thread-safe.
class TracedCall {
 public:
  TracedCall(Eager& eager, std::unique_ptr<FunctionTrace> trace);

  // Values that tapes may want gradients of: floating inputs, captured values, and variables by their handles.
  Outputs sources(const Outputs& inputs) const;
  // Runs it. `wanted`: of sources(), those whose gradients a tape of this thread wants; empty: none.
  Outputs run(const Outputs& inputs, const std::vector<bool>& wanted);
  std::string explain();
  int nodes() const { return trace_->graph().size(); }

 private:
  struct Differentiated;
  using Mask = std::vector<bool>;

  bool is_empty() const { return trace_->results().empty() && trace_->effects().empty(); }
  SessionOptions session_options() const;
  std::vector<Tensor> feeds(const Outputs& inputs) const;
  Outputs fed() const;
  Outputs wrap(std::vector<Tensor> values) const;
  Outputs run_recorded(const Outputs& inputs, const std::vector<bool>& wanted);
  std::shared_ptr<Differentiated> differentiated(const Mask& wanted);

  Eager& eager_;
  const std::unique_ptr<FunctionTrace> trace_;
  Session session_;
  const bool may_wait_;
  StepRunner step_;
  std::vector<std::pair<std::shared_ptr<const Node>, int>> made_by_;  // of results: the node, and which output of it
  std::mutex mutex_;                                                  // guards what follows
  std::map<Mask, std::shared_ptr<Differentiated>> differentiated_;
};

}  // namespace troupe
