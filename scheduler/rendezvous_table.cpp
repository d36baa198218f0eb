#include "scheduler/rendezvous_table.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t kTombstones = 1024;

}  // namespace

bool RendezvousTable::put(Put put) {
  Session& session = sessions_[put.key.session];
  if (session.over(put.key.step.value)) {
    ++counters_.dropped_late;
    return false;
  }
  Step& step = session.steps[put.key.step.value];
  const auto [it, fresh] = step.try_emplace(put.key.edge.value, Meeting{State::held, {}});
  if (fresh) {
    it->second.put = std::move(put);
    ++held_;
    return false;
  }
  if (it->second.state != State::awaited) {
    ++counters_.duplicates;
    return false;
  }
  it->second.state = State::met;
  --awaited_;
  ++counters_.met;
  return true;
}

std::optional<Put> RendezvousTable::get(const RendezvousKey& key) {
  Session& session = sessions_[key.session];
  if (session.closed || session.ended.contains(key.step.value)) return std::nullopt;
  const auto [it, fresh] = session.steps[key.step.value].try_emplace(key.edge.value, Meeting{State::awaited, {}});
  if (fresh) ++awaited_;
  if (it->second.state != State::held) return std::nullopt;
  it->second.state = State::met;
  --held_;
  ++counters_.met;
  return std::exchange(it->second.put, Put());
}

void RendezvousTable::end_step(SessionId id, StepId step) {
  Session& session = sessions_[id];
  if (const auto it = session.steps.find(step.value); it != session.steps.end()) {
    forget(it->second);
    session.steps.erase(it);
  }
  if (session.closed || !session.ended.insert(step.value).second) return;
  session.ended_order.push_back(step.value);
  if (step.value >= far_) session.horizon = std::max(session.horizon, step.value - far_);
  if (++session.ends % kTombstones == 0) sweep(session);
  if (session.ended_order.size() > kTombstones) {
    session.ended.erase(session.ended_order.front());
    session.ended_order.pop_front();
  }
}

void RendezvousTable::sweep(Session& session) {
  std::erase_if(session.steps, [&](const auto& entry) {
    const auto& [step, meetings] = entry;
    const bool left = step < session.horizon &&
                      std::ranges::all_of(meetings, [](const auto& m) { return m.second.state == State::held; });
    if (left) forget(meetings);
    if (left) counters_.dropped_late += meetings.size();
    return left;
  });
}

void RendezvousTable::end_session(SessionId id) {
  Session& session = sessions_[id];
  for (const auto& [step, meetings] : session.steps) forget(meetings);
  session = Session{.closed = true};
}

void RendezvousTable::forget(const Step& step) {
  for (const auto& [edge, meeting] : step) {
    if (meeting.state == State::held) --held_;
    if (meeting.state == State::awaited) --awaited_;
  }
}

}  // namespace troupe
