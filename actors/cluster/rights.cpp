#include "troupe/actors/cluster/rights.hpp"

#include <algorithm>
#include <type_traits>

namespace troupe {
namespace {

constexpr std::string_view kWorkers = "worker", kShards = "ps";

template <class T, class... Types>
constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);

}  // namespace

Rights::Rights(TaskName peer, const ClusterSpec& cluster) : peer_(std::move(peer)), member_(cluster.may_join(peer_)) {}

struct Rights::Check {
  const Rights& rights;

  bool is(std::string_view job) const { return rights.member_ && rights.peer_.job == job; }
  bool is(std::string_view job, std::uint32_t index) const {
    return is(job) && static_cast<std::uint32_t>(rights.peer_.index) == index;
  }

  template <class F>
  bool operator()(const F& f) const {
    if constexpr (is_one_of<F, StepStart, StepDone, StepAbort, Put>)
      return true;
    else if constexpr (is_one_of<F, CollectivePart>)
      return rights.member_;
    else if constexpr (is_one_of<F, Pull, Push, TakeToken, TokenDone, Barrier>)
      return is(kWorkers, f.worker);
    else if constexpr (is_one_of<F, Join, Leave>)
      return is(f.shard ? kShards : kWorkers, f.worker);
    else if constexpr (is_one_of<F, Staged, Saved>)
      return is(kShards, f.shard);
    else if constexpr (is_one_of<F, OpenFeed, WantBatch, CloseFeed>)
      return is(kWorkers);
    else if constexpr (is_one_of<F, BatchMade>)
      return is(kInputJob);
    else if constexpr (is_one_of<F, WantModels, AskModel, DropModelRequest, ConfigureModels>)
      return is(kRouterJob);
    else if constexpr (is_one_of<F, ReplicaModels, ModelAnswer, ModelsConfigured>)
      return is(kServeJob);
    else if constexpr (is_one_of<F, JobFailed>)
      return is(kShards);
    else if constexpr (is_one_of<F, Joined, Token, EpochDone, Save, Commit, Fence, BarrierOpen>)
      return is(kShards, 0);
    else
      static_assert(F::kReceiver == Receiver::link);
    return false;
  }
};

Error Rights::check(const Frame& frame) const {
  if (std::visit(Check{*this}, frame)) return {};
  return {Code::permission_denied,
          fmt::format("{}, {}, may not send this {}", peer_.to_string(),
                      member_ ? "as listed in the cluster file" : "not in the cluster file", kind_name(frame))};
}

Error Rights::check_name(const TaskName& peer, const ClusterSpec& cluster) {
  if (cluster.may_join(peer) || cluster.count(peer.job) == 0) return {};
  return {
      Code::permission_denied,
      fmt::format("the cluster file has a job {} but no task {}: give a client its own job name, for example client",
                  peer.job, peer.index)};
}

}  // namespace troupe
