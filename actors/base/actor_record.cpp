#include "troupe/actors/base/actor_record.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include <troupe/actors/base/inspected.hpp>

namespace troupe {

std::int64_t steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void ActorRecord::count_in() {
  constexpr auto relaxed = std::memory_order_relaxed;
  const auto in = messages_in.fetch_add(1, relaxed) + 1;
  // Messages that other senders added after `in` was read may already have been handled.
  const auto handled = messages_handled.load(relaxed);
  const auto depth = in > handled ? in - handled : 0;
  if (depth > mailbox_peak.load(relaxed)) mailbox_peak.store(depth, relaxed);
  if (registry.trace().on()) came_ns_[in % kCameTimes].store(steady_now_ns(), relaxed);
}

std::int64_t ActorRecord::next_came_ns() {
  const std::uint64_t next = messages_handled.load(std::memory_order_relaxed) + 1;
  if (messages_in.load(std::memory_order_relaxed) >= next + kCameTimes)
    return 0;  // the slot now belongs to a later message
  return came_ns_[next % kCameTimes].exchange(0, std::memory_order_relaxed);
}

std::uint32_t ActorRecord::trace_track() {
  std::uint32_t track = track_.load();
  if (track == 0) {  // created only by the thread that handles the actor's messages
    track = registry.trace().add_track(fmt::format("{} {}", kind, name)) + 1;
    track_.store(track);
  }
  return track - 1;
}

void ActorRecord::begin(const MessageKind& kind, const MessageNote& note) {
  const std::int64_t now = steady_now_ns();
  current.store(&kind, std::memory_order_relaxed);
  current_since_ns.store(now, std::memory_order_relaxed);
  // Forwarded kinds are never handled, so nothing else writes this counter.
  if (auto* count = tally(kind)) count->store(count->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  flight->add(kind, now, note);
}

std::atomic<std::uint64_t>* ActorRecord::tally(const MessageKind& kind) {
  constexpr auto relaxed = std::memory_order_relaxed;
  for (Tally& t : tallies_) {
    const MessageKind* there = t.kind.load(relaxed);
    if (!there && t.kind.compare_exchange_strong(there, &kind, relaxed)) there = &kind;
    if (there == &kind) return &t.count;
  }
  return nullptr;
}

std::vector<std::pair<const MessageKind*, std::uint64_t>> ActorRecord::tallies() const {
  std::vector<std::pair<const MessageKind*, std::uint64_t>> out;
  for (const Tally& t : tallies_)
    if (const MessageKind* kind = t.kind.load()) out.emplace_back(kind, t.count.load());
  return out;
}

bool ActorRecord::look(ActorDetails& out, std::chrono::nanoseconds patience) const {
  const std::unique_lock lock(state_mutex, patience);
  if (!lock || !inspected) return false;
  inspected->inspect(out);
  return true;
}

std::vector<FlightEntry> FlightRecord::entries() const {
  std::vector<FlightEntry> out;
  const std::uint64_t end = next_.load();
  for (std::uint64_t i = end > kSize ? end - kSize : 0; i < end; ++i) {
    const Place& place = places_[i % kSize];
    FlightEntry entry{.kind = place.kind.load(),
                      .at_ns = place.at_ns.load(),
                      .note = {.step = place.step.load(), .bytes = place.bytes.load()}};
    entry.note.from.bits = {place.from[0].load(), place.from[1].load()};
    if (entry.kind) out.push_back(entry);
  }
  return out;
}

// Written only by the thread that handles the actor's messages: no read-modify-write is needed.
void ActorRecord::end_of_message(bool handled) {
  constexpr auto relaxed = std::memory_order_relaxed;
  const std::int64_t since = current_since_ns.load(relaxed);
  current_since_ns.store(0, relaxed);
  busy_ns.store(busy_ns.load(relaxed) + steady_now_ns() - since, relaxed);
  if (handled) messages_handled.store(messages_handled.load(relaxed) + 1, relaxed);
}

void ActorRecord::pass(const MessageKind& kind, const MessageNote& note, std::uint64_t out) {
  if (!counting) return;
  if (auto* count = tally(kind)) count->fetch_add(1, std::memory_order_relaxed);
  flight->add_shared(kind, steady_now_ns(), note);
  messages_passed.fetch_add(1, std::memory_order_relaxed);
  if (out > 0) messages_out.fetch_add(out, std::memory_order_relaxed);
}

std::shared_ptr<ActorRecord> ActorRegistry::add(ActorKind kind, std::string name) {
  auto record = std::make_shared<ActorRecord>(*this, kind, std::move(name), counting_);
  std::lock_guard lock(mutex_);
  std::erase_if(records_, [](const auto& r) { return r->ended.load(); });
  records_.push_back(record);
  return record;
}

void ActorRegistry::end(ActorRecord& record) {
  {
    std::lock_guard lock(mutex_);
    record.ended.store(true);
  }
  ended_.notify_all();
}

std::vector<std::string> ActorRegistry::await_end(std::chrono::nanoseconds deadline) const {
  std::unique_lock lock(mutex_);
  std::vector<std::string> left;
  ended_.wait_for(lock, deadline, [&] {
    left.clear();
    for (const auto& r : records_)
      if (!r->ended.load()) left.push_back(fmt::format("{} {}", r->kind, r->name));
    return left.empty();
  });
  return left;
}

std::vector<std::shared_ptr<const ActorRecord>> ActorRegistry::actors() const {
  std::vector<std::shared_ptr<const ActorRecord>> out;
  {
    const std::lock_guard lock(mutex_);
    out.assign(records_.begin(), records_.end());
  }
  std::ranges::stable_sort(out, {}, [](const auto& record) { return record->role.kind; });
  return out;
}

int ActorRegistry::send_stray(const std::string& kind, Stray what) {
  std::vector<std::shared_ptr<ActorRecord>> records;
  {
    const std::lock_guard lock(mutex_);
    records = records_;
  }
  int count = 0;
  for (const auto& record : records) {
    const std::lock_guard lock(record->stray_mutex);
    if (!record->send_stray || (!kind.empty() && record->kind != kind)) continue;
    record->send_stray(what);
    ++count;
  }
  return count;
}

bool ActorRegistry::fail_next(const std::string& kind) {
  std::lock_guard lock(mutex_);
  for (const auto& r : records_)
    if (r->kind == kind && !r->ended.load()) {
      r->fail_next.store(true);
      return true;
    }
  return false;
}

}  // namespace troupe
