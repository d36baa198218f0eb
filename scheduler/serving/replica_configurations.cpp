#include "troupe/scheduler/serving/replica_configurations.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

std::string name_of(ReplicaConfigurations::Replica replica) { return fmt::format("replica {}", replica); }

std::size_t bytes_of(const std::vector<ConfiguredModel>& models) {
  std::size_t out = 0;
  for (const ConfiguredModel& model : models) {
    out += sizeof(ConfiguredModel) + model.name.size() + model.path.size();
    for (const std::string& label : model.labels) out += sizeof(label) + label.size();
    out += (model.versions.size() + model.labelled.size()) * sizeof(std::int64_t);
  }
  return out;
}

}  // namespace

void ReplicaConfigurations::up(Replica replica) { replicas_[replica] = {}; }

void ReplicaConfigurations::down(Replica replica, Nanoseconds now, Actions& out) {
  if (replicas_.erase(replica) == 0) return;
  if (awaited_.erase(replica) > 0) end_if_all_have_answered(now, out);
}

void ReplicaConfigurations::reports(Replica replica, const ModelConfiguration& has, Nanoseconds now, Actions& out) {
  const auto found = replicas_.find(replica);
  if (found == replicas_.end()) return;
  Known& known = found->second;
  const std::optional<std::uint64_t> had = std::exchange(known.has, has.number);
  if (has.number > current_.number) {
    current_ = has;
    if (phase_ != Phase::idle)
      end(Error(Code::aborted,
                "another router has configured the replicas meanwhile: send the configuration again if it still holds"),
          out);
    for (auto& [other, behind] : replicas_)
      if (behind.has && *behind.has < current_.number) tell(other, behind, now, out);
  }
  if (has.number == current_.number) {
    known.usable = true;
    known.request = 0;
    known.due = kNever;
    known.troubled = false;
    if (phase_ == Phase::decided && awaited_.erase(replica) > 0) end_if_all_have_answered(now, out);
    return;
  }
  if (!had || has.number < *had) {
    known.usable = false;  // it has come, or was started again
    known.due = kNever;
  }
  if (known.due == kNever) tell(replica, known, now, out);
}

Error ReplicaConfigurations::begin(std::vector<ConfiguredModel> models, std::uint64_t clock, Nanoseconds now,
                                   Actions& out) {
  if (phase_ != Phase::idle)
    return {Code::aborted, "the replicas are being configured: send the configuration again when that is over"};
  if (const std::size_t bytes = bytes_of(models); bytes > options_.most_bytes)
    return {Code::invalid_argument, fmt::format("a configuration of {} bytes is too long for replicas, which take {}: "
                                                "use fewer models, or shorter paths",
                                                bytes, options_.most_bytes)};
  for (const auto& [replica, known] : replicas_)
    if (known.has) awaited_.insert(replica);
  if (awaited_.empty())
    return {Code::unavailable, "no replica is there yet, or any more: send the configuration again when one is"};
  phase_ = Phase::trial;
  models_ = std::move(models);
  clock_ = clock;
  trial_ = ++last_request_;
  trial_ends_ = now + options_.patience;
  for (const Replica replica : awaited_) out.send.push_back({replica, trial_, false, {.models = models_}});
  return {};
}

void ReplicaConfigurations::answered(Replica replica, std::uint64_t request, const Error& error, Nanoseconds now,
                                     Actions& out) {
  const auto found = replicas_.find(replica);
  if (found == replicas_.end()) return;
  if (phase_ == Phase::trial && request == trial_) {
    if (error)
      return end(Error(error.code(), fmt::format("{}: {}; no replica has changed: mend the configuration, and send it "
                                                 "again",
                                                 name_of(replica), error.message())),
                 out);
    if (awaited_.erase(replica) > 0) end_if_all_have_answered(now, out);
    return;
  }
  // Without an error it has reported before.
  if (request != 0 && request == found->second.request && error) failed(replica, found->second, error, out);
}

void ReplicaConfigurations::expired(Nanoseconds now, Actions& out) {
  if (phase_ == Phase::trial && trial_ends_ <= now)
    end(Error(Code::deadline_exceeded,
              fmt::format("{}: {}; no replica has changed: end that one, or send the configuration again",
                          name_of(*awaited_.begin()), silence().message())),
        out);
  for (auto& [replica, known] : replicas_) {
    if (known.due > now) continue;
    if (known.request != 0) failed(replica, known, silence(), out);
    tell(replica, known, now, out);
  }
}

std::optional<Nanoseconds> ReplicaConfigurations::next_time() const {
  Nanoseconds out = phase_ == Phase::trial ? trial_ends_ : kNever;
  for (const auto& [replica, known] : replicas_) out = std::min(out, known.due);
  if (out == kNever) return std::nullopt;
  return out;
}

bool ReplicaConfigurations::usable(Replica replica) const {
  const auto found = replicas_.find(replica);
  return found != replicas_.end() && found->second.usable;
}

std::vector<ReplicaConfigurations::Replica> ReplicaConfigurations::behind() const {
  std::vector<Replica> out;
  for (const auto& [replica, known] : replicas_)
    if (known.has && *known.has != current_.number) out.push_back(replica);
  return out;
}

void ReplicaConfigurations::tell(Replica replica, Known& known, Nanoseconds now, Actions& out) {
  known.request = ++last_request_;
  known.due = now + options_.patience;
  out.send.push_back({replica, known.request, true, current_});
}

void ReplicaConfigurations::decide(Nanoseconds now, Actions& out) {
  phase_ = Phase::decided;
  current_ = {.number = std::max(clock_, current_.number + 1), .models = std::move(models_)};
  for (auto& [replica, known] : replicas_)
    if (known.has) {
      awaited_.insert(replica);
      tell(replica, known, now, out);
    }
}

void ReplicaConfigurations::failed(Replica replica, Known& known, Error error, Actions& out) {
  known.usable = false;
  known.request = 0;  // `due` stays: it is told again then
  error =
      Error(error.code(), fmt::format("{}: {}; it is asked for nothing until it has the configuration of the others",
                                      name_of(replica), error.message()));
  if (!std::exchange(known.troubled, true)) out.troubles.push_back(error.message());
  if (phase_ != Phase::decided || awaited_.erase(replica) == 0) return;
  if (!first_error_) first_error_ = std::move(error);
  if (awaited_.empty()) end(std::exchange(first_error_, Error()), out);
}

void ReplicaConfigurations::end_if_all_have_answered(Nanoseconds now, Actions& out) {
  if (!awaited_.empty()) return;
  const bool any = std::ranges::any_of(replicas_, [](const auto& known) { return known.second.has.has_value(); });
  if (phase_ == Phase::trial) {
    if (any) return decide(now, out);
    return end(Error(Code::unavailable, "the replicas were lost before they had the configuration: send it again"),
               out);
  }
  if (!any && !first_error_)
    first_error_ = Error(Code::unavailable, "the replicas were lost: those that come will have the configuration");
  end(std::exchange(first_error_, Error()), out);
}

void ReplicaConfigurations::end(Error error, Actions& out) {
  phase_ = Phase::idle;
  models_.clear();
  awaited_.clear();
  first_error_ = Error();
  trial_ends_ = kNever;
  out.over = std::move(error);
}

Error ReplicaConfigurations::silence() const {
  return {Code::deadline_exceeded, fmt::format("it has not answered within {} s", options_.patience / kSecond)};
}

}  // namespace troupe
