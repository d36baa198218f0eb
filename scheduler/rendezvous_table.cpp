#include "scheduler/rendezvous_table.hpp"

namespace troupe {
namespace {

constexpr std::size_t kTombstones = 1024;

}  // namespace

bool RendezvousTable::put(Put put) {
  Session& session = sessions_[put.key.session];
  if (session.closed || session.ended.contains(put.key.step.value)) {
    ++counters_.dropped_late;
    return false;
  }
  Step& step = session.steps[put.key.step.value];
  const auto [it, fresh] = step.try_emplace(put.key.edge.value, Meeting{State::held, {}});
  if (fresh) {
    it->second.put = std::move(put);
    return false;
  }
  if (it->second.state != State::awaited) {
    ++counters_.duplicates;
    return false;
  }
  it->second.state = State::met;
  ++counters_.met;
  return true;
}

std::optional<Put> RendezvousTable::get(const RendezvousKey& key) {
  Session& session = sessions_[key.session];
  if (session.closed || session.ended.contains(key.step.value)) return std::nullopt;
  const auto [it, fresh] = session.steps[key.step.value].try_emplace(key.edge.value, Meeting{State::awaited, {}});
  if (fresh || it->second.state != State::held) return std::nullopt;
  it->second.state = State::met;
  ++counters_.met;
  return std::move(it->second.put);
}

void RendezvousTable::end_step(SessionId id, StepId step) {
  Session& session = sessions_[id];
  session.steps.erase(step.value);
  if (session.closed || !session.ended.insert(step.value).second) return;
  session.ended_order.push_back(step.value);
  if (session.ended_order.size() > kTombstones) {
    session.ended.erase(session.ended_order.front());
    session.ended_order.pop_front();
  }
}

void RendezvousTable::end_session(SessionId id) {
  Session closed;
  closed.closed = true;
  sessions_[id] = std::move(closed);
}

std::size_t RendezvousTable::count(State state) const {
  std::size_t n = 0;
  for (const auto& [id, session] : sessions_)
    for (const auto& [step, meetings] : session.steps)
      for (const auto& [edge, meeting] : meetings)
        if (meeting.state == state) ++n;
  return n;
}

}  // namespace troupe
