#include "troupe/scheduler/collective/group_state.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include <troupe/scheduler/waits/wait_things.hpp>

namespace troupe {
namespace {

constexpr std::size_t kMostNamed = 8;  // ranks in a text

std::uint64_t cost(const CollectivePart& part) { return part.tensor.num_bytes() + part.operation.size() + sizeof part; }

}  // namespace

GroupState::GroupState(GroupOptions options, TensorAllocator allocate)
    : options_(std::move(options)), allocate_(std::move(allocate)) {
  if (options_.rank >= options_.members.size())
    invalid_argument("rank {} is not in a group of {}", options_.rank, options_.members.size());
}

std::string GroupState::rank_name(std::uint32_t rank) const {
  return rank < options_.members.size() ? fmt::format("rank {} ({})", rank, options_.members[rank])
                                        : fmt::format("rank {}", rank);
}

std::string GroupState::list(const std::function<bool(std::uint32_t)>& which) const {
  std::string out;
  std::size_t count = 0;
  for (std::uint32_t rank = 0; rank < options_.members.size(); ++rank) {
    if (!which(rank)) continue;
    if (count++ == kMostNamed) return out + ", …";
    out += (count == 1 ? "" : ", ") + rank_name(rank);
  }
  return out;
}

void GroupState::begin(CollectivePosition position, const CollectiveSpec& spec, Tensor local, GroupOutbox& out,
                       std::int64_t now) {
  const auto ranks = static_cast<std::uint32_t>(options_.members.size());
  begin(
      position, spec, spec.describe(),
      [&]() -> std::unique_ptr<CollectiveOperation> {
        const bool gives = spec.kind != CollectiveKind::barrier &&
                           (spec.kind != CollectiveKind::broadcast || spec.root == options_.rank);
        if (gives && (local.dtype() != spec.dtype || !(local.shape() == spec.shape) || !local.space().on_host()))
          invalid_argument("got {}{}{}", name(local.dtype()), local.shape().to_string(),
                           local.space().on_host() ? "" : ", on a device that the group has not joined");
        return std::make_unique<RankOperation>(spec, options_.rank, ranks, std::move(local), allocate_);
      },
      out, now);
}

void GroupState::begin_on_devices(CollectivePosition position, const CollectiveSpec& spec, Tensor local,
                                  GroupOutbox& out, std::int64_t now) {
  const auto ranks = static_cast<std::uint32_t>(options_.members.size());
  // Differs from the text of collectives through the host, so that ranks that disagree about this get an error too.
  begin(
      position, spec, spec.describe() + " between devices",
      [&]() -> std::unique_ptr<CollectiveOperation> {
        auto operation = std::make_unique<DeviceOperation>(spec, options_.rank, ranks, std::move(local));
        on_devices_[position] = operation.get();
        return operation;
      },
      out, now);
}

void GroupState::begin(CollectivePosition position, const CollectiveSpec& spec, std::string text, Make make,
                       GroupOutbox& out, std::int64_t now) {
  if (failure_) {
    out.ended.push_back({position, failure_, {}});
    return;
  }
  std::unique_ptr<CollectiveOperation> operation;
  std::vector<CollectiveMessage> messages;
  Error wrong;
  try {
    spec.check(static_cast<std::uint32_t>(options_.members.size()));
    if (next_[position.channel] != position.sequence)
      invalid_argument("{} is operation {} of channel {}, but the next must be {}", spec.describe(), position.sequence,
                       position.channel, next_[position.channel]);
    if (lost_.empty()) try {
        // Allocates memory, which may be exhausted.
        operation = make();
        operation->start(messages);
      } catch (...) {
        throw current_error().within(spec.describe());
      }
  } catch (...) {
    wrong = current_error().within(rank_name(options_.rank));
  }
  if (!wrong && !operation) {
    const auto& [rank, reason] = *lost_.begin();
    wrong = Error(Code::unavailable, fmt::format("{} was lost: {}", options_.members[rank], reason.message()));
  }
  if (wrong) {
    fail(wrong, out);
    out.ended.push_back({position, failure_, {}});
    return;
  }
  ++next_[position.channel];
  ++messages_;
  running_.emplace(position, std::move(operation));
  texts_.emplace(position, std::move(text));
  began_.emplace(position, now);
  send(position, std::move(messages), out);
  auto early = early_.extract(position);
  if (early)
    for (Early& e : early.mapped()) {
      early_bytes_ -= cost(e.part);
      if (failure_) break;
      run(position, e.from, std::move(e.part), out);
    }
  launch(position, out);
  settle(position, out);
}

// Launches the operations on devices that are next.
void GroupState::launch(CollectivePosition position, GroupOutbox& out) {
  const auto it = on_devices_.find(position);
  if (it == on_devices_.end()) return;
  DeviceOperation& operation = *it->second;
  if (options_.rank == 0 && operation.all_have_begun() && !operation.number()) {
    std::vector<CollectiveMessage> messages;
    operation.give_number(next_number_++, messages);
    send(position, std::move(messages), out);
  }
  if (!operation.number() || *operation.number() - next_launch_ > std::numeric_limits<std::uint32_t>::max() / 2)
    return;  // already launched
  numbered_.emplace(*operation.number(), position);
  while (auto next = numbered_.extract(next_launch_)) {
    DeviceOperation& ready = *on_devices_.at(next.mapped());
    out.launches.push_back({next.mapped(), ready.spec(), ready.take_local()});
    ++next_launch_;
  }
}

void GroupState::ended(CollectivePosition position, std::vector<Tensor> result, const Error& error, GroupOutbox& out) {
  const auto it = on_devices_.find(position);
  if (it == on_devices_.end()) return;
  if (error) return fail(error.within(rank_name(options_.rank)), out);
  ++messages_;
  it->second->ended(std::move(result));
  settle(position, out);
}

void GroupState::send(CollectivePosition position, std::vector<CollectiveMessage> messages, GroupOutbox& out) {
  for (CollectiveMessage& m : messages)
    out.sent.push_back({m.to, CollectivePart{.group = options_.id,
                                             .channel = position.channel,
                                             .sequence = position.sequence,
                                             .operation = texts_.at(position),
                                             .hop = m.hop,
                                             .part = m.part,
                                             .piece = m.piece,
                                             .tensor = std::move(m.tensor),
                                             .error = {}}});
}

void GroupState::take(std::uint32_t from, CollectivePart part, GroupOutbox& out) {
  if (failure_) return;
  ++messages_;
  if (part.error) {
    // The finder may have told this rank alone. Each rank tells all others once.
    return fail(part.error, out);
  }
  const CollectivePosition position{part.channel, part.sequence};
  if (running_.contains(position)) {
    run(position, from, std::move(part), out);
    launch(position, out);
    settle(position, out);
  } else if (part.sequence < next_[part.channel]) {
    fail(Error(Code::failed_precondition,
               fmt::format("{} sends {} as operation {} of channel {}, which has ended on {}: all ranks must run the "
                           "same operations in the same order",
                           rank_name(from), part.operation, part.sequence, part.channel, rank_name(options_.rank))),
         out);
  } else {
    keep(from, std::move(part), out);
  }
}

void GroupState::run(CollectivePosition position, std::uint32_t from, CollectivePart part, GroupOutbox& out) {
  const std::string& own = texts_.at(position);
  if (part.operation != own)
    return fail(
        Error(Code::failed_precondition,
              fmt::format(
                  "operation {} of channel {} is {} on {}, but {} on {}: all ranks must run the same operations in "
                  "the same order",
                  position.sequence, position.channel, own, rank_name(options_.rank), part.operation, rank_name(from))),
        out);
  std::vector<CollectiveMessage> messages;
  try {
    running_.at(position)->take({from, options_.rank, part.hop, part.part, part.piece, std::move(part.tensor)},
                                messages);
  } catch (...) {
    return fail(current_error().within(rank_name(options_.rank)), out);
  }
  send(position, std::move(messages), out);
}

void GroupState::settle(CollectivePosition position, GroupOutbox& out) {
  const auto it = running_.find(position);
  if (it == running_.end() || !it->second->done()) return;
  out.ended.push_back({position, {}, it->second->take_result()});
  on_devices_.erase(position);
  running_.erase(it);
  texts_.erase(position);
  began_.erase(position);
}

void GroupState::keep(std::uint32_t from, CollectivePart part, GroupOutbox& out) {
  early_bytes_ += cost(part);
  // Only broadcasts let a rank run ahead of this one, and the root of each waits for all.
  const std::uint64_t most_ahead = std::max<std::uint64_t>(options_.members.size(), 2);
  if (part.sequence >= next_[part.channel] + most_ahead || early_bytes_ > options_.max_early_bytes)
    return fail(
        Error(Code::resource_exhausted,
              fmt::format("{} is at operation {} of channel {}, {} has only reached operation {}: {} bytes are queued",
                          rank_name(from), part.sequence, part.channel, rank_name(options_.rank), next_[part.channel],
                          early_bytes_)),
        out);
  early_[{part.channel, part.sequence}].push_back({from, std::move(part)});
}

void GroupState::lost(std::uint32_t rank, const Error& reason, bool left, GroupOutbox& out) {
  lost_.try_emplace(rank, reason);
  for (const auto& [position, operation] : running_)
    if (!left || operation->awaits(rank))
      return fail(Error(Code::unavailable, fmt::format("{} was lost: {}", options_.members[rank], reason.message())),
                  out);
}

void GroupState::fail(const Error& error, GroupOutbox& out) {
  if (failure_) return;
  failure_ = error;
  for (std::uint32_t rank = 0; rank < options_.members.size(); ++rank)
    if (rank != options_.rank)
      out.sent.push_back({rank, CollectivePart{.group = options_.id, .operation = {}, .tensor = {}, .error = error}});
  for (const auto& [position, operation] : running_) out.ended.push_back({position, error, {}});
  on_devices_.clear();
  numbered_.clear();
  running_.clear();
  texts_.clear();
  began_.clear();
  early_.clear();
  early_bytes_ = 0;
}

void GroupState::tick(std::int64_t now, GroupOutbox& out, const Explain& explain) {
  // A task that was itself stopped handles queued messages before it judges.
  const bool stopped = now - std::exchange(last_tick_, now) > options_.timeout_ns / 2;
  const bool moved = std::exchange(ticked_, messages_) != messages_;
  if (stopped || moved || running_.empty()) quiet_since_ = now;
  const std::int64_t quiet = now - quiet_since_;
  if (options_.timeout_ns <= 0 || failure_ || running_.empty() || quiet < options_.timeout_ns) return;
  std::string missing;
  for (const auto& [position, operation] : running_)
    if (missing.empty())
      if (const std::string ranks = list([&](std::uint32_t rank) { return operation->owes(rank); }); !ranks.empty())
        missing = fmt::format("{} has not begun {}", ranks, texts_.at(position));
  if (missing.empty()) {
    // Ranks before this one around the ring wait too. The one right after the missing rank knows its name.
    if (quiet < options_.timeout_ns + options_.timeout_ns / 2) return;
    missing = fmt::format("still missing {}", waits_for());
  }
  const std::optional<std::string> why = explain ? explain() : "";
  if (!why) return;
  fail(Error(Code::deadline_exceeded, fmt::format("{} has waited for {} s: {}{}", rank_name(options_.rank),
                                                  static_cast<double>(options_.timeout_ns) / 1e9, missing, *why)),
       out);
}

GroupState::Wait GroupState::waiting() const {
  if (running_.empty()) return {};
  const auto& [position, operation] = *running_.begin();
  Wait out{position, operation->have(), operation->need(), 0};
  while (out.from + 1 < options_.members.size() && !operation->awaits(out.from)) ++out.from;
  return out;
}

std::string GroupState::waits_for() const {
  if (running_.empty()) return "nothing";
  const auto& [position, operation] = *running_.begin();
  return fmt::format("{} of {}, the next from {}", operation->missing(), texts_.at(position),
                     list([&](std::uint32_t rank) { return operation->awaits(rank); }));
}

troupe::Waiting GroupState::waits(std::int64_t now) const {
  troupe::Waiting out;
  const auto id = [this](CollectivePosition at, std::uint32_t rank) {
    return wait_thing::collective(options_.id, at.channel, at.sequence, options_.members[rank]);
  };
  const auto thing = [&](CollectivePosition at, std::uint32_t rank, const std::string& what) {
    out.things.push_back({.id = id(at, rank),
                          .text = fmt::format("{}'s part in {}", rank_name(rank), what),
                          .task = options_.members[rank]});
  };
  for (const auto& [at, operation] : running_) {
    thing(at, options_.rank, texts_.at(at));
    const std::string text = fmt::format("missing: {}", operation->missing());
    bool blocked = false;  // then the others only wait, like this rank
    for (std::uint32_t rank = 0; rank < options_.members.size(); ++rank) blocked = blocked || operation->owes(rank);
    for (std::uint32_t rank = 0; rank < options_.members.size(); ++rank) {
      if (rank == options_.rank || !operation->awaits(rank) || (blocked && !operation->owes(rank))) continue;
      thing(at, rank, texts_.at(at));
      out.waits.push_back({.waiter = id(at, options_.rank),
                           .awaited = id(at, rank),
                           .kind = operation->owes(rank) ? "collective" : kInTurn,
                           .text = text,
                           .have = operation->have(),
                           .need = operation->need(),
                           .for_ns = now - began_.at(at)});
    }
  }
  for (const auto& [at, parts] : early_) {
    out.things.push_back({.id = id(at, options_.rank),
                          .text = fmt::format("{}'s part in {}, which others have begun but it has not",
                                              rank_name(options_.rank), parts.front().part.operation),
                          .task = options_.members[options_.rank]});
    for (const auto& [before, operation] : running_)
      if (before.channel == at.channel && before.sequence < at.sequence)
        out.waits.push_back({.waiter = id(at, options_.rank),
                             .awaited = id(before, options_.rank),
                             .kind = "collective",
                             .text = "operations of a channel run in order"});
  }
  return out;
}

}  // namespace troupe
