#include "troupe/scheduler/run/rendezvous_table.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

constexpr std::uint64_t kSweepEvery = 1024;  // steps

std::uint64_t bytes_of(const Put& put) { return put.tensor.valid() ? put.tensor.num_bytes() : 0; }

}  // namespace

bool EndedSteps::insert(std::uint64_t step) {
  if (contains(step)) return false;
  if (ended_.empty()) ended_.resize(span_);
  if (step - begin_ >= span_) {
    const std::uint64_t begin = step - span_ + 1;
    for (std::uint64_t i = 0; i < std::min(begin - begin_, span_); ++i) ended_[(begin_ + i) % span_] = false;
    begin_ = begin;
  }
  ended_[step % span_] = true;
  return true;
}

RendezvousTable::Session& RendezvousTable::known(SessionId id) {
  Session& session = sessions_.try_emplace(id, span_).first->second;
  session.known = true;
  return session;
}

bool RendezvousTable::forget_unknown(SessionId other) {
  for (auto place = unknown_.begin(); place != unknown_.end();) {
    const SessionId id = *place;
    if (id == other) {
      ++place;
      continue;
    }
    place = unknown_.erase(place);
    const auto it = sessions_.find(id);
    if (it == sessions_.end() || it->second.known) continue;
    for (const auto& [step, meetings] : it->second.steps) {
      forget(meetings);
      counters_.dropped_late += meetings.size();
    }
    sessions_.erase(it);
    return true;
  }
  return false;
}

bool RendezvousTable::put(Put put) {
  const auto [place, unheard_of] = sessions_.try_emplace(put.key.session, span_);
  Session& session = place->second;
  if (unheard_of) {
    unknown_.push_back(put.key.session);
    if (unknown_.size() > max_unknown_) forget_unknown(put.key.session);
  }
  if (session.over(put.key.step.value)) {
    ++counters_.dropped_late;
    return false;
  }
  Step& step = session.steps[put.key.step.value];
  const auto [it, fresh] = step.try_emplace(put.key.edge.value, Meeting{State::held, {}});
  if (fresh) {
    hold(it->second, std::move(put));
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

void RendezvousTable::hold(Meeting& meeting, Put put) {
  const std::uint64_t bytes = bytes_of(put);
  while (bytes > max_held_bytes_ - held_bytes_ && forget_unknown(put.key.session)) {
  }
  if (bytes > max_held_bytes_ - held_bytes_) {
    put.error = Error(
        Code::resource_exhausted,
        fmt::format(
            "a tensor of {} bytes arrived for step {} of session {:x}, which has not begun on this task; {} bytes "
            "are already held for such steps, and the limit is {}",
            bytes, put.key.step.value, put.key.session.value, held_bytes_, max_held_bytes_));
    put.tensor = {};
  }
  held_bytes_ += bytes_of(put);
  ++held_;
  meeting.put = std::move(put);
}

std::optional<Put> RendezvousTable::get(const RendezvousKey& key) {
  Session& session = known(key.session);
  if (session.closed || (key.step.value >= session.ended.begin() && session.over(key.step.value))) return std::nullopt;
  const auto [it, fresh] = session.steps[key.step.value].try_emplace(key.edge.value, Meeting{State::awaited, {}});
  if (fresh) ++awaited_;
  if (it->second.state != State::held) return std::nullopt;
  it->second.state = State::met;
  --held_;
  held_bytes_ -= bytes_of(it->second.put);
  ++counters_.met;
  return std::exchange(it->second.put, Put());
}

void RendezvousTable::end_step(SessionId id, StepId step) {
  Session& session = known(id);
  if (const auto it = session.steps.find(step.value); it != session.steps.end()) {
    forget(it->second);
    session.steps.erase(it);
  }
  if (session.closed || !session.ended.insert(step.value)) return;
  if (++session.ends % kSweepEvery == 0) sweep(session);
}

void RendezvousTable::sweep(Session& session) {
  std::erase_if(session.steps, [&](const auto& entry) {
    const auto& [step, meetings] = entry;
    const bool left = step < session.ended.begin() &&
                      std::ranges::all_of(meetings, [](const auto& m) { return m.second.state == State::held; });
    if (left) forget(meetings);
    if (left) counters_.dropped_late += meetings.size();
    return left;
  });
}

void RendezvousTable::end_session(SessionId id) {
  Session& session = known(id);
  for (const auto& [step, meetings] : session.steps) forget(meetings);
  session = Session(span_);
  session.closed = session.known = true;
}

void RendezvousTable::forget(const Step& step) {
  for (const auto& [edge, meeting] : step) {
    if (meeting.state == State::held) {
      --held_;
      held_bytes_ -= bytes_of(meeting.put);
    }
    if (meeting.state == State::awaited) --awaited_;
  }
}

}  // namespace troupe
