#include "troupe/actors/collective/collective_actor.hpp"

#include <algorithm>
#include <caf/send.hpp>

#include <troupe/scheduler/waits/wait_things.hpp>

namespace troupe {
namespace {

constexpr std::int64_t kTicks = 8;                 // per timeout
constexpr std::int64_t kShortestTick = 1'000'000;  // ns

}  // namespace

CollectiveActorImpl::behavior_type CollectiveActorImpl::make_behavior() {
  tell_of_itself();
  return {
      [this](const OpenGroup& message) { return open(message); },
      [this](const CloseGroup& message) { close(message); },
      [this](const Contribute& message) { contribute(std::static_pointer_cast<Contribution>(message.work)); },
      [this](const DevicesDone& message) {
        GroupTable::Outbox out;
        table_.ended(message.group, {message.channel, message.sequence}, message.tensors, message.error, out);
        deliver(out);
      },
      // Non-const: other data may be added into the part's tensor.
      [this](Inbound<CollectivePart>& message) {
        GroupTable::Outbox out;
        table_.came(message.from, std::move(message.frame), out);
        deliver(out);
      },
      [this](const PeerUp& message) {
        peers_[message.task] = message.peer;
        GroupTable::Outbox out;
        table_.up(message.task, message.incarnation, out);
        deliver(out);
      },
      [this](const PeerDown& message) {
        peers_.erase(message.task);
        GroupTable::Outbox out;
        table_.down(message.task, message.reason, message.left, out);
        deliver(out);
      },
      [this](const Tick&) {
        ticking_ = false;
        GroupTable::Outbox out;
        table_.tick(now(), out, std::ref(explainer_));
        deliver(out);
        schedule_tick();
      },
      [this](const Stop&) { quit(); },
  };
}

void CollectiveActorImpl::on_exit() {
  stop_telling();
  explainer_.stop();
  for (auto& [id, hands] : hands_)
    if (hands.communicator)
      hands.communicator->abort(Error(Code::cancelled, fmt::format("{} is shutting down", self_.to_string())));
  hands_.clear();  // contributions are answered when the communicator ends
  table_.clear();
  peers_.clear();
  rendezvous_ = nullptr;
  Counted::on_exit();
}

// Fails communicators immediately, so that waiting devices get this failure, not that of the links which end because of
// it.
void CollectiveActorImpl::escalate(const Error& why) {
  GroupTable::Outbox out;
  for (const auto& [id, hands] : hands_) table_.fail(id, why, out);
  deliver(out);
  Counted::escalate(why);
}

GroupOpened CollectiveActorImpl::open(const OpenGroup& message) {
  const auto& place = static_cast<const GroupPlace&>(*message.work);
  GroupOpened opened;
  GroupTable::Outbox out;
  try {
    opened.group = table_.open(place.name, place.members, place.timeout, out);
  } catch (...) {
    opened.error = current_error();
  }
  deliver(out);
  schedule_tick();
  return opened;
}

// Ticks while a group has a timeout, several times within the shortest one.
void CollectiveActorImpl::schedule_tick() {
  const std::int64_t shortest = table_.shortest_timeout();
  if (ticking_ || shortest == 0) return;
  ticking_ = true;
  if (explainer_.pending()) return delayed_send(CollectiveActor(this), Explainer::kAgain, Tick{});
  delayed_send(CollectiveActor(this), std::chrono::nanoseconds(std::max(shortest / kTicks, kShortestTick)), Tick{});
}

void CollectiveActorImpl::close(const CloseGroup& message) {
  GroupTable::Outbox out;
  table_.close(message.group, message.error, out);
  deliver(out);
  if (const auto hands = hands_.extract(message.group); hands && hands.mapped().communicator)
    hands.mapped().communicator->leave();
}

void CollectiveActorImpl::contribute(const std::shared_ptr<Contribution>& contribution) {
  if (!table_.contains(contribution->group))
    return answer(
        *contribution,
        Error(Code::failed_precondition, fmt::format("{}: {} has no open group {:x}", contribution->spec.describe(),
                                                     self_.to_string(), contribution->group)),
        {});
  Hands& hands = hands_[contribution->group];
  const CollectivePosition position{
      contribution->channel, contribution->sequence ? *contribution->sequence : hands.next[contribution->channel]++};
  GroupTable::Outbox out;
  if (!hands.contributions.try_emplace(position, contribution).second) {
    const Error error(Code::already_exists, fmt::format("{} was contributed twice", contribution->spec.describe()));
    table_.fail(contribution->group, error, out);
    answer(*contribution, error, {});
  } else {
    const bool on_devices = contribution->joins || (contribution->on_devices && hands.communicator);
    table_.begin(contribution->group, position, contribution->spec, std::move(contribution->tensor), on_devices, now(),
                 out);
  }
  deliver(out);
}

void CollectiveActorImpl::deliver(GroupTable::Outbox& out) {
  for (GroupTable::Outbox::Sent& sent : out.sent)
    if (const auto it = peers_.find(sent.to); it != peers_.end()) tell(it->second, Outbound{std::move(sent.part)});
  for (GroupTable::Outbox::Launch& l : out.launches) give_to_devices(l.group, std::move(l.launch));
  // Devices wait for each other without limit and must be notified.
  for (const GroupTable::Outbox::Failed& failed : out.failed)
    if (const auto hands = hands_.find(failed.group); hands != hands_.end() && hands->second.communicator)
      hands->second.communicator->abort(failed.error);
  for (GroupTable::Outbox::Ended& e : out.ended)
    if (const auto hands = hands_.find(e.group); hands != hands_.end())
      if (auto contribution = hands->second.contributions.extract(e.ended.position))
        answer(*contribution.mapped(), std::move(e.ended.error), std::move(e.ended.result));
}

void CollectiveActorImpl::give_to_devices(std::uint64_t group, GroupOutbox::Launch launch) {
  const auto done = [self = CollectiveActor(this), group, at = launch.position](std::vector<Tensor> tensors,
                                                                                Error error) {
    caf::anon_send(self, DevicesDone{group, at.channel, at.sequence, std::move(tensors), std::move(error)});
  };
  Hands& hands = hands_.at(group);
  const Contribution& contribution = *hands.contributions.at(launch.position);
  if (!contribution.joins) return hands.communicator->run(launch.spec, std::move(launch.local), done);
  try {
    const GroupOptions& place = table_.state(group).options();
    const CommunicatorPlace at{contribution.id, static_cast<std::uint32_t>(place.members.size()), place.rank};
    hands.communicator = contribution.joins->join(at, [done](Error error) { done({}, std::move(error)); });
  } catch (...) {
    done({}, current_error());
  }
}

void CollectiveActorImpl::answer(Contribution& contribution, Error error, std::vector<Tensor> result) {
  if (contribution.key) tell(rendezvous_, Put{*contribution.key, 0, result.empty() ? Tensor() : result[0], error});
  contribution.answer({std::move(error), std::move(result)});
}

void CollectiveActorImpl::inspect(ActorDetails& out) const {
  out.waiting.append(table_.waits(now()));
  if (out.waits_for.empty()) out.waits_for = table_.waits_for();
}

}  // namespace troupe
