#include "actors/collective/collective_actor.hpp"

#include <algorithm>
#include <caf/send.hpp>

#include "scheduler/wait_things.hpp"

namespace troupe {
namespace {

constexpr std::uint64_t kMaxEarlyPartBytes = std::uint64_t{256} << 20;  // for groups that this task has not opened

constexpr std::size_t kEarlyShown = 64;  // parts of a group

constexpr std::int64_t kTicks = 8;                 // in a timeout
constexpr std::int64_t kShortestTick = 1'000'000;  // ns

std::uint64_t cost(const CollectivePart& part) { return part.tensor.num_bytes() + part.operation.size() + sizeof part; }

std::uint64_t hash_of(const GroupPlace& place) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  const auto add = [&](const std::string& text) {
    for (char c : text + '\n') hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  };
  add(place.name);
  for (const TaskName& member : place.members) add(member.to_string());
  return hash;
}

}  // namespace

CollectiveActorImpl::behavior_type CollectiveActorImpl::make_behavior() {
  tell_of_itself();
  return {
      [this](const OpenGroup& message) { return open(message); },
      [this](const CloseGroup& message) { close(message); },
      [this](const Contribute& message) { contribute(std::static_pointer_cast<Contribution>(message.work)); },
      [this](const DevicesDone& message) {
        const auto it = groups_.find(message.group);
        if (it == groups_.end()) return;
        GroupOutbox out;
        it->second.state.ended({message.channel, message.sequence}, message.tensors, message.error, out);
        deliver(it->second, out);
      },
      // Not shared: the part's tensor may be added into.
      [this](Inbound<CollectivePart>& message) { came(message.from, std::move(message.frame)); },
      [this](const PeerUp& message) {
        peers_[message.task] = message.peer;
        down_.erase(message.task);
        if (auto waiting = waiting_.extract(message.task))
          for (Frame& frame : waiting.mapped()) tell(message.peer, Outbound{std::move(frame)});
      },
      [this](const PeerDown& message) {
        peers_.erase(message.task);
        down_.insert_or_assign(message.task, message.reason);
        for (auto& [id, group] : groups_) {
          const auto member = std::ranges::find(group.members, message.task);
          if (member == group.members.end()) continue;
          GroupOutbox out;
          group.state.lost(static_cast<std::uint32_t>(member - group.members.begin()), message.reason, out);
          deliver(group, out);
        }
        forget_early(message.task);
      },
      [this](const Tick&) {
        ticking_ = false;
        const std::int64_t now = std::chrono::nanoseconds(clock().now().time_since_epoch()).count();
        for (auto& [id, group] : groups_) {
          GroupOutbox out;
          group.state.tick(now, out, std::ref(explainer_));
          deliver(group, out);
        }
        schedule_tick();
      },
      [this](const Stop&) { quit(); },
  };
}

void CollectiveActorImpl::on_exit() {
  stop_telling();
  explainer_.stop();
  for (auto& [id, group] : groups_)
    if (group.communicator)
      group.communicator->abort(Error(Code::cancelled, fmt::format("{} shuts down", self_.to_string())));
  groups_.clear();  // what was contributed is answered by its end
  early_.clear();
  waiting_.clear();
  peers_.clear();
  rendezvous_ = nullptr;
  Counted::on_exit();
}

GroupOpened CollectiveActorImpl::open(const OpenGroup& message) {
  const auto& place = static_cast<const GroupPlace&>(*message.work);
  try {
    const auto own = std::ranges::find(place.members, self_);
    if (own == place.members.end())
      invalid_argument("{} is not among the members of group '{}'", self_.to_string(), place.name);
    std::vector<TaskName> sorted = place.members;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end())
      invalid_argument("a member of group '{}' comes twice", place.name);
    const std::uint64_t hash = hash_of(place);
    const std::uint64_t id = hash + generations_[hash]++ * 0x9e3779b97f4a7c15ull;
    GroupOptions options{.id = id,
                         .members = {},
                         .rank = static_cast<std::uint32_t>(own - place.members.begin()),
                         .timeout_ns = place.timeout.count()};
    for (const TaskName& member : place.members) options.members.push_back(member.to_string());
    Group& group =
        groups_.emplace(id, Group{place.members, GroupState(std::move(options), allocate_), {}, {}, {}}).first->second;
    GroupOutbox out;
    for (std::uint32_t r = 0; r < place.members.size(); ++r)
      if (const auto it = down_.find(place.members[r]); it != down_.end()) group.state.lost(r, it->second, out);
    deliver(group, out);
    if (auto early = early_.extract(id))
      for (Early& e : early.mapped()) {
        early_bytes_ -= cost(e.part);
        came(e.from, std::move(e.part));
      }
    schedule_tick();
    return {{}, id};
  } catch (...) {
    return {current_error(), 0};
  }
}

// While a group has a timeout; a few times in the shortest.
void CollectiveActorImpl::schedule_tick() {
  std::int64_t shortest = 0;
  for (const auto& [id, group] : groups_)
    if (const std::int64_t timeout = group.state.options().timeout_ns; timeout > 0 && !group.state.failure())
      shortest = shortest == 0 ? timeout : std::min(shortest, timeout);
  if (ticking_ || shortest == 0) return;
  ticking_ = true;
  if (explainer_.pending()) return delayed_send(CollectiveActor(this), Explainer::kAgain, Tick{});
  delayed_send(CollectiveActor(this), std::chrono::nanoseconds(std::max(shortest / kTicks, kShortestTick)), Tick{});
}

void CollectiveActorImpl::close(const CloseGroup& message) {
  const auto it = groups_.find(message.group);
  if (it == groups_.end()) return;
  GroupOutbox out;
  if (message.error) {
    Error why = message.error;
    if (why.code() == Code::deadline_exceeded)
      why = Error(why.code(), fmt::format("{}; it was waiting for {}", why.message(), it->second.state.waits_for()));
    it->second.state.fail(why.within(self_.to_string()), out);
  } else if (it->second.state.in_flight() > 0 || it->second.state.early_bytes() > 0) {
    // Others have begun what this rank will not: they hear now, not when they miss it.
    it->second.state.fail(Error(Code::cancelled, fmt::format("{} has left the group", self_.to_string())), out);
  }
  deliver(it->second, out);
  if (it->second.communicator) it->second.communicator->leave();
  closed_.insert(message.group);
  groups_.erase(it);
}

void CollectiveActorImpl::contribute(const std::shared_ptr<Contribution>& contribution) {
  const auto it = groups_.find(contribution->group);
  if (it == groups_.end())
    return answer(
        *contribution,
        Error(Code::failed_precondition, fmt::format("{}: {} has no group {:x} open", contribution->spec.describe(),
                                                     self_.to_string(), contribution->group)),
        {});
  Group& group = it->second;
  const CollectivePosition position{
      contribution->channel, contribution->sequence ? *contribution->sequence : group.next[contribution->channel]++};
  GroupOutbox out;
  if (!group.contributions.try_emplace(position, contribution).second) {
    const Error error(Code::already_exists, fmt::format("{} is contributed twice", contribution->spec.describe()));
    group.state.fail(error, out);
    answer(*contribution, error, {});
  } else if (contribution->joins || (contribution->on_devices && group.communicator)) {
    group.state.begin_on_devices(position, contribution->spec, std::move(contribution->tensor), out);
  } else {
    group.state.begin(position, contribution->spec, std::move(contribution->tensor), out);
  }
  deliver(group, out);
}

void CollectiveActorImpl::came(const TaskName& from, CollectivePart part) {
  const auto it = groups_.find(part.group);
  if (it == groups_.end()) return keep(from, std::move(part));
  Group& group = it->second;
  const auto member = std::ranges::find(group.members, from);
  if (member == group.members.end()) return;  // nobody whom this concerns
  GroupOutbox out;
  group.state.take(static_cast<std::uint32_t>(member - group.members.begin()), std::move(part), out);
  deliver(group, out);
}

void CollectiveActorImpl::keep(const TaskName& from, CollectivePart part) {
  if (closed_.contains(part.group)) {
    if (!part.error)
      refuse(from, part.group,
             Error(Code::failed_precondition, fmt::format("{} has left the group", self_.to_string())));
    return;
  }
  if (early_bytes_ + cost(part) > kMaxEarlyPartBytes) {
    if (!part.error)
      refuse(from, part.group,
             Error(Code::resource_exhausted, fmt::format("{} has not opened the group, and {} bytes wait for it there",
                                                         self_.to_string(), early_bytes_)));
    return;
  }
  early_bytes_ += cost(part);
  early_[part.group].push_back({from, std::move(part)});
}

// A group with a task that is lost fails when it is opened: its parts are of no use.
void CollectiveActorImpl::forget_early(const TaskName& lost) {
  for (auto& [group, parts] : early_)
    std::erase_if(parts, [&](const Early& early) {
      if (early.from == lost) early_bytes_ -= cost(early.part);
      return early.from == lost;
    });
  std::erase_if(early_, [](const auto& entry) { return entry.second.empty(); });
}

void CollectiveActorImpl::refuse(const TaskName& to, std::uint64_t group, const Error& error) {
  if (const auto it = peers_.find(to); it != peers_.end())
    tell(it->second, Outbound{CollectivePart{.group = group, .operation = {}, .tensor = {}, .error = error}});
}

void CollectiveActorImpl::deliver(Group& group, GroupOutbox& out) {
  for (GroupOutbox::Sent& sent : out.sent) {
    const TaskName& to = group.members[sent.to];
    if (const auto it = peers_.find(to); it != peers_.end())
      tell(it->second, Outbound{std::move(sent.part)});
    else if (!down_.contains(to))
      waiting_[to].push_back(std::move(sent.part));
  }
  for (GroupOutbox::Launch& l : out.launches) give_to_devices(group, std::move(l));
  // Devices wait for each other for ever: they have to be told.
  if (group.communicator && group.state.failure()) group.communicator->abort(group.state.failure());
  for (GroupOutbox::Ended& ended : out.ended)
    if (auto contribution = group.contributions.extract(ended.position))
      answer(*contribution.mapped(), std::move(ended.error), std::move(ended.result));
}

void CollectiveActorImpl::give_to_devices(Group& group, GroupOutbox::Launch launch) {
  const GroupOptions& place = group.state.options();
  const auto done = [self = CollectiveActor(this), group = place.id, at = launch.position](std::vector<Tensor> tensors,
                                                                                           Error error) {
    caf::anon_send(self, DevicesDone{group, at.channel, at.sequence, std::move(tensors), std::move(error)});
  };
  const Contribution& contribution = *group.contributions.at(launch.position);
  if (!contribution.joins) return group.communicator->run(launch.spec, std::move(launch.local), done);
  try {
    const CommunicatorPlace at{contribution.id, static_cast<std::uint32_t>(group.members.size()), place.rank};
    group.communicator = contribution.joins->join(at, [done](Error error) { done({}, std::move(error)); });
  } catch (...) {
    done({}, current_error());
  }
}

void CollectiveActorImpl::answer(Contribution& contribution, Error error, std::vector<Tensor> result) {
  if (contribution.key) tell(rendezvous_, Put{*contribution.key, 0, result.empty() ? Tensor() : result[0], error});
  contribution.answer({std::move(error), std::move(result)});
}

void CollectiveActorImpl::inspect(ActorDetails& out) const {
  for (const auto& [id, group] : groups_) {
    out.waiting.append(group.state.waits());
    if (out.waits_for.empty() && group.state.in_flight() > 0) out.waits_for = group.state.waits_for();
  }
  // Others have begun what this task knows nothing of.
  for (const auto& [id, parts] : early_)
    for (std::size_t i = 0; i < std::min(parts.size(), kEarlyShown); ++i) {
      const CollectivePart& part = parts[i].part;
      out.waiting.things.push_back(
          {.id = wait_thing::collective(id, part.channel, part.sequence, self_.to_string()),
           .text = fmt::format("{}'s part in {}, whose group it has not opened", self_.to_string(), part.operation),
           .task = self_.to_string()});
    }
}

}  // namespace troupe
