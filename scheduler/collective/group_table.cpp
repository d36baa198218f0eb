#include "troupe/scheduler/collective/group_table.hpp"

#include <algorithm>
#include <utility>

#include <troupe/scheduler/waits/wait_things.hpp>

namespace troupe {
namespace {

constexpr std::uint64_t kMaxEarlyPartBytes = std::uint64_t{256} << 20;  // for groups that this task has not opened
constexpr std::size_t kMaxFarewells = 256;                              // for one task
constexpr std::size_t kEarlyShown = 64;                                 // parts of a group

std::uint64_t early_cost(const CollectivePart& part) {
  return part.tensor.num_bytes() + part.operation.size() + part.error.message().size() + sizeof part;
}

std::uint64_t hash_of(const std::string& name, const std::vector<TaskName>& members) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  const auto add = [&](const std::string& text) {
    for (char c : text + '\n') hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  };
  add(name);
  for (const TaskName& member : members) add(member.to_string());
  return hash;
}

CollectivePart error_part(std::uint64_t group, const Error& error) {
  return {.group = group, .operation = {}, .tensor = {}, .error = error};
}

}  // namespace

std::uint32_t GroupTable::rank_of(const Group& group, const TaskName& member) {
  return static_cast<std::uint32_t>(std::ranges::find(group.members, member) - group.members.begin());
}

std::uint64_t GroupTable::open(const std::string& name, const std::vector<TaskName>& members,
                               std::chrono::nanoseconds timeout, Outbox& out) {
  const auto own = std::ranges::find(members, self_);
  if (own == members.end()) invalid_argument("{} is not a member of group '{}'", self_.to_string(), name);
  std::vector<TaskName> sorted = members;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) invalid_argument("group '{}' has a member twice", name);
  const std::uint64_t hash = hash_of(name, members);
  const std::uint64_t id = hash + generations_[hash]++ * 0x9e3779b97f4a7c15ull;
  GroupOptions options{.id = id,
                       .members = {},
                       .rank = static_cast<std::uint32_t>(own - members.begin()),
                       .timeout_ns = timeout.count()};
  for (const TaskName& member : members) options.members.push_back(member.to_string());
  Group& group = groups_.emplace(id, Group{members, GroupState(std::move(options), allocate_), {}}).first->second;
  GroupOutbox said;
  for (std::uint32_t r = 0; r < members.size(); ++r)
    if (const auto it = links_.find(members[r]); it != links_.end() && it->second.down)
      group.state.lost(r, it->second.down, true, said);
  deliver(id, group, said, out);
  if (auto early = early_.extract(id))
    for (Early& e : early.mapped()) {
      early_bytes_ -= early_cost(e.part);
      came(e.from, std::move(e.part), out);
    }
  return id;
}

void GroupTable::close(std::uint64_t id, const Error& error, Outbox& out) {
  const auto it = groups_.find(id);
  if (it == groups_.end()) return;
  Group& group = it->second;
  GroupOutbox said;
  if (error) {
    Error why = error;
    if (why.code() == Code::deadline_exceeded)
      why = Error(why.code(), fmt::format("{}; it was waiting for {}", why.message(), group.state.waits_for()));
    group.state.fail(why.within(self_.to_string()), said);
  } else if (group.state.in_flight() > 0 || group.state.early_bytes() > 0) {
    // Others have begun what this rank will not: tell them now, before they miss it.
    group.state.fail(Error(Code::cancelled, fmt::format("{} has left the group", self_.to_string())), said);
  }
  deliver(id, group, said, out);
  // Their links were lost, possibly with messages. Tell them now: this rank forgets the group.
  if (guards_.tell_of_lost_links && !group.state.failure())
    for (const TaskName& member : group.cut)
      send(member,
           error_part(id,
                      Error(Code::unavailable, fmt::format("the link between {} and {} was lost, and {} has left",
                                                           self_.to_string(), member.to_string(), self_.to_string()))),
           out);
  closed_.insert(id);
  groups_.erase(it);
}

void GroupTable::begin(std::uint64_t id, CollectivePosition position, const CollectiveSpec& spec, Tensor tensor,
                       bool on_devices, std::int64_t now, Outbox& out) {
  Group& group = groups_.at(id);
  GroupOutbox said;
  if (on_devices)
    group.state.begin_on_devices(position, spec, std::move(tensor), said, now);
  else
    group.state.begin(position, spec, std::move(tensor), said, now);
  deliver(id, group, said, out);
}

void GroupTable::ended(std::uint64_t id, CollectivePosition position, std::vector<Tensor> result, const Error& error,
                       Outbox& out) {
  const auto it = groups_.find(id);
  if (it == groups_.end()) return;
  GroupOutbox said;
  it->second.state.ended(position, std::move(result), error, said);
  deliver(id, it->second, said, out);
}

void GroupTable::came(const TaskName& from, CollectivePart part, Outbox& out) {
  const auto it = groups_.find(part.group);
  if (it == groups_.end()) return keep(from, std::move(part), out);
  Group& group = it->second;
  const std::uint32_t rank = rank_of(group, from);
  if (rank == group.members.size()) return;  // not a member
  GroupOutbox said;
  group.state.take(rank, std::move(part), said);
  deliver(it->first, group, said, out);
}

void GroupTable::keep(const TaskName& from, CollectivePart part, Outbox& out) {
  if (closed_.contains(part.group)) {
    if (!part.error)
      refuse(from, part.group,
             Error(Code::failed_precondition, fmt::format("{} has left the group", self_.to_string())), out);
    return;
  }
  if (early_bytes_ + early_cost(part) > kMaxEarlyPartBytes) {
    if (!part.error)
      refuse(from, part.group,
             Error(Code::resource_exhausted, fmt::format("{} has not opened the group, and {} bytes are queued for it",
                                                         self_.to_string(), early_bytes_)),
             out);
    return;
  }
  early_bytes_ += early_cost(part);
  early_[part.group].push_back({from, std::move(part)});
}

void GroupTable::refuse(const TaskName& to, std::uint64_t group, const Error& error, Outbox& out) {
  send(to, error_part(group, error), out);
}

void GroupTable::up(const TaskName& task, Incarnation incarnation, Outbox& out) {
  Link& link = links_[task];
  if (link.down && link.incarnation != incarnation) {
    link.farewells.clear();  // of groups that it does not know
    for (auto& [id, group] : groups_) group.cut.erase(task);
  }
  link.up = true;
  link.down = Error();
  link.incarnation = incarnation;
  for (CollectivePart& part : std::exchange(link.waiting, {})) send(task, std::move(part), out);
  for (CollectivePart& part : std::exchange(link.farewells, {})) send(task, std::move(part), out);
}

void GroupTable::down(const TaskName& task, const Error& reason, bool left, Outbox& out) {
  Link& link = links_[task];
  if (link.up) link.farewells = std::exchange(link.told, {});
  link.up = false;
  link.down = reason;
  for (auto& [id, group] : groups_) {
    const std::uint32_t rank = rank_of(group, task);
    if (rank == group.members.size()) continue;
    if (!left) group.cut.insert(task);
    GroupOutbox said;
    group.state.lost(rank, reason, left || !guards_.fail_what_runs, said);
    deliver(id, group, said, out);
  }
  forget_early(task);
}

// Drops its messages, which are useless: it will report the loss itself.
void GroupTable::forget_early(const TaskName& lost) {
  for (auto& [group, parts] : early_)
    std::erase_if(parts, [&](const Early& early) {
      if (early.from == lost) early_bytes_ -= early_cost(early.part);
      return early.from == lost;
    });
  std::erase_if(early_, [](const auto& entry) { return entry.second.empty(); });
}

void GroupTable::fail(std::uint64_t id, const Error& error, Outbox& out) {
  const auto it = groups_.find(id);
  if (it == groups_.end()) return;
  GroupOutbox said;
  it->second.state.fail(error, said);
  deliver(id, it->second, said, out);
}

void GroupTable::tick(std::int64_t now, Outbox& out, const GroupState::Explain& explain) {
  for (auto& [id, group] : groups_) {
    GroupOutbox said;
    group.state.tick(now, said, explain);
    deliver(id, group, said, out);
  }
}

void GroupTable::send(const TaskName& to, CollectivePart part, Outbox& out) {
  Link& link = links_[to];
  const auto remember = [&](std::deque<CollectivePart>& errors) {
    if (!part.error || !guards_.tell_of_lost_links) return;
    errors.push_back(part);
    if (errors.size() > kMaxFarewells) errors.pop_front();
  };
  if (link.up) {
    remember(link.told);
    out.sent.push_back({to, std::move(part)});
  } else if (link.down) {
    remember(link.farewells);
  } else {
    link.waiting.push_back(std::move(part));
  }
}

void GroupTable::deliver(std::uint64_t id, Group& group, GroupOutbox& from, Outbox& out) {
  for (GroupOutbox::Sent& sent : from.sent) send(group.members[sent.to], std::move(sent.part), out);
  for (GroupOutbox::Launch& launch : from.launches) out.launches.push_back({id, std::move(launch)});
  for (GroupOutbox::Ended& ended : from.ended) out.ended.push_back({id, std::move(ended)});
  if (group.state.failure()) out.failed.push_back({id, group.state.failure()});
}

void GroupTable::clear() {
  groups_.clear();
  links_.clear();
  early_.clear();
  early_bytes_ = 0;
}

std::int64_t GroupTable::shortest_timeout() const {
  std::int64_t shortest = 0;
  for (const auto& [id, group] : groups_)
    if (const std::int64_t timeout = group.state.options().timeout_ns; timeout > 0 && !group.state.failure())
      shortest = shortest == 0 ? timeout : std::min(shortest, timeout);
  return shortest;
}

troupe::Waiting GroupTable::waits(std::int64_t now) const {
  troupe::Waiting out;
  for (const auto& [id, group] : groups_) out.append(group.state.waits(now));
  // Operations that others have begun in groups that this task has not opened.
  for (const auto& [id, parts] : early_)
    for (std::size_t i = 0; i < std::min(parts.size(), kEarlyShown); ++i) {
      const CollectivePart& part = parts[i].part;
      if (part.error) continue;
      out.things.push_back(
          {.id = wait_thing::collective(id, part.channel, part.sequence, self_.to_string()),
           .text = fmt::format("{}'s part in {}, whose group it has not opened", self_.to_string(), part.operation),
           .task = self_.to_string()});
    }
  return out;
}

std::string GroupTable::waits_for() const {
  for (const auto& [id, group] : groups_)
    if (group.state.in_flight() > 0) return group.state.waits_for();
  return "";
}

}  // namespace troupe
