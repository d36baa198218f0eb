// The effects of joins and losses on the stages and tokens of a job. See coordinator.hpp.
#include <algorithm>
#include <utility>

#include <troupe/scheduler/training/coordinator.hpp>

namespace troupe {

Error Coordinator::refuse(Code code, std::string text) {
  ++counters_.refused;
  return Error(code, std::move(text));
}

bool Coordinator::admits(std::uint32_t worker, std::uint64_t view, Error& error, TrainingOutbox& out) {
  if (!failure_) return members_.admits(worker, view, error, out);
  error = failure_;
  return false;
}

void Coordinator::suspect(std::uint32_t worker, bool suspect) { members_.suspect(worker, suspect); }

// ---- Joins ---------------------------------------------------------------------------------------------------------

Error Coordinator::join(const Join& message, Nanoseconds now, TrainingOutbox& out) {
  if (failure_) return failure_;
  if (message.shard) {
    Error error = join_shard(message, out);
    begin_when_joined(now, out);
    return error;
  }
  Error error;
  if (!members_.may_join(message, stage_ == Stage::finished, error) || is_turned_away(message, error, out))
    return error;
  // A task has one link, and this Join came over it: the previous process is gone, even if its loss is not yet
  // reported.
  if (members_.is_member(message.worker))
    lose(message.worker, Error(Code::already_exists, worker_name(message.worker) + " rejoined from another process"),
         now, out);
  members_.admit(message.worker, message.incarnation, now, stage_ != Stage::joining);
  last_request_[message.worker] = 0;
  progress_ = now;
  tell_figures(message.worker, out);
  begin_when_joined(now, out);
  serve(out);
  return {};
}

// Sends the figures of epochs that ended without any worker; in the finishing stage at least those of the last epoch,
// since this worker may become the chief.
void Coordinator::tell_figures(std::uint32_t worker, TrainingOutbox& out) {
  auto figures = std::exchange(untold_, {});
  if (figures.empty() && stage_ == Stage::finishing) figures.push_back(figures_);
  for (EpochDone& epoch : figures) {
    epoch.chief = chief();
    out.push_back({Destination::worker(worker), std::move(epoch)});
  }
}

Error Coordinator::join_shard(const Join& message, TrainingOutbox& out) {
  Error error;
  if (!is_turned_away(message, error, out)) members_.admit_shard(message);
  return error;
}

// Before training begins, a task of another job is admitted all the same: it gets the error once all have joined.
bool Coordinator::is_turned_away(const Join& message, Error& error, TrainingOutbox& out) {
  error = members_.other_job(message);
  if (!error) return false;
  if (stage_ == Stage::joining) {
    cannot_begin(std::exchange(error, {}));
    return false;
  }
  if (message.shard && stage_ != Stage::finished) fail(error, out);
  return true;
}

void Coordinator::cannot_begin(const Error& why) {
  if (options_.refused) return;
  options_.refused = why;
  members_.note(
      MembershipEvent::Kind::waits, std::nullopt, 0,
      fmt::format("training cannot begin: {}; all tasks get this error once they have joined", why.message()));
}

void Coordinator::begin_when_joined(Nanoseconds now, TrainingOutbox& out) {
  if (stage_ == Stage::joining && members_.missing_workers() == 0 && members_.missing_shards().empty() &&
      members_.any())
    begin(now, out);
}

// Begins training with the current members.
void Coordinator::begin(Nanoseconds now, TrainingOutbox& out) {
  if (options_.refused) return fail(options_.refused, out);
  started_ = progress_ = now;
  members_.begin();
  if (options_.epochs == 0) {
    stage_ = Stage::finishing;
    TokenPlan nothing;
    nothing.version = options_.saved_step * options_.phases;
    book_ = TokenBook(std::move(nothing));
  } else {
    begin_training(now);
  }
  advance(now, out);
}

// ---- Losses --------------------------------------------------------------------------------------------------------

void Coordinator::leave(const Leave& message, Nanoseconds now, TrainingOutbox& out) {
  if (!members_.leaves(message)) return;
  const bool works = stage_ > Stage::joining && stage_ < Stage::finished;
  const bool stopped = works && message.reason.code() == Code::cancelled && saves_.saves();
  if (stopped && ends_job(message)) {
    if (stopped_.empty()) stopped_ = message.shard ? shard_name(message.worker) : worker_name(message.worker);
    return saves_.hurry();
  }
  const std::string reason = fmt::format("it left the job: {}", message.reason.message());
  if (message.shard) return leave_shard(message, reason, now, out);
  if (stage_ != Stage::joining) {
    if (stopped) out.push_back({Destination::worker(message.worker), JobFailed{message.reason}});
    return worker_down(message.worker, reason, now, out);
  }
  members_.leave(message);
  forget_requests(message.worker);
}

// Whether the job cannot go on without the sender.
bool Coordinator::ends_job(const Leave& message) const {
  return message.shard || options_.on_loss == JobOptions::OnLoss::fail || members_.count() == 1;
}

void Coordinator::leave_shard(const Leave& message, std::string_view reason, Nanoseconds now, TrainingOutbox& out) {
  // A shard that cannot take part will not join again.
  const Code code = message.reason.code();
  const bool may_return =
      code == Code::cancelled || code == Code::unavailable || code == Code::aborted || code == Code::deadline_exceeded;
  if (stage_ == Stage::joining && !may_return) {
    cannot_begin(message.reason.within(shard_name(message.worker)));
    return begin_when_joined(now, out);
  }
  members_.leave(message);
  if (stage_ != Stage::joining) shard_down(message.worker, reason, out);
}

void Coordinator::forget_requests(std::uint32_t worker) {
  std::erase_if(requests_, [&](const Request& request) { return request.worker == worker; });
  last_request_[worker] = 0;
}

// Ends the worker's membership. Unless that ends the job, its incomplete tokens go back into the book.
void Coordinator::lose(std::uint32_t index, const Error& why, Nanoseconds now, TrainingOutbox& out) {
  members_.lose(index, why, stage_ != Stage::joining, now, out);
  forget_requests(index);
  if (options_.on_loss == JobOptions::OnLoss::wait)
    counters_.returned += book_.keep(index);
  else if (options_.on_loss == JobOptions::OnLoss::reassign)
    counters_.returned += book_.release(index);
}

void Coordinator::worker_down(std::uint32_t index, std::string_view reason, Nanoseconds now, TrainingOutbox& out) {
  if (index >= members_.size() || failure_ || stage_ == Stage::finished) return;
  const JobMembers::Presence presence = members_.worker(index).presence;
  if (presence == JobMembers::Presence::lost || presence == JobMembers::Presence::absent) return;
  Error error(Code::unavailable, fmt::format("{} was lost: {}", worker_name(index), reason));
  lose(index, error, now, out);
  if (options_.on_loss == JobOptions::OnLoss::fail) return fail(std::move(error), out);
  if (members_.empty_since() && options_.empty_timeout <= 0) return fail(error.within("no worker is left"), out);
  begin_when_joined(now, out);
  serve(out);
  // The new chief takes over the work of the lost one.
  if (stage_ == Stage::finishing && members_.any() && chief() > index) {
    members_.leave_barrier(chief());
    out.push_back({Destination::worker(chief()), finish_token()});
  }
  open_barrier_when_full(out);
}

void Coordinator::shard_down(std::uint32_t shard, std::string_view reason, TrainingOutbox& out) {
  if (stage_ != Stage::finished)
    fail(Error(Code::unavailable, fmt::format("{} was lost: {}", shard_name(shard), reason)), out);
}

void Coordinator::fail(Error error, TrainingOutbox& out) {
  if (failure_) return;
  stage_ = Stage::failed;
  failure_ = std::move(error);
  requests_.clear();
  out.push_back({Destination::everyone(), JobFailed{failure_}});
}

}  // namespace troupe
