#include "troupe/scheduler/training/save_rounds.hpp"

#include <troupe/scheduler/training/job_members.hpp>

namespace troupe {

SaveRounds::SaveRounds(Options options)
    : options_(std::move(options)),
      told_(options_.begun),
      next_(options_.begun + options_.every),
      over_(options_.every == 0) {
  round_.step = options_.begun;
}

void SaveRounds::move(const Job& job, bool writer_busy, Nanoseconds now, TrainingOutbox& out) {
  if (options_.every == 0) return;
  end_when_complete(job);
  if (job.over) {
    if (under_way_ && round_.step <= job.steps) return;
    if (told_ != job.steps) return begin(job, now, out);
    over_ = over_ || committing_ == 0;
    return;
  }
  if (hurry_) return move_in_a_hurry(job, writer_busy, now, out);
  if (!job.training || job.steps < next_) return;
  if (!under_way_ && !writer_busy) return begin(job, now, out);
  events_.push_back({.kind = SaveEvent::Kind::left_out, .round = {}, .step = job.steps});
  next_ += options_.every;
}

void SaveRounds::move_in_a_hurry(const Job& job, bool writer_busy, Nanoseconds now, TrainingOutbox& out) {
  if (hurried_) return;
  const bool far = !job.training && under_way_ && round_.step > job.steps;  // training may go on much later
  const bool told = !job.training && told_ == job.steps;
  const bool same = options_.asynchronous && told_ == job.steps;  // the next step comes first
  if (far || (!under_way_ && !told && !same && !writer_busy)) begin(job, now, out);
  hurried_ = under_way_ || told;
}

void SaveRounds::begin(const Job& job, Nanoseconds now, TrainingOutbox& out) {
  under_way_ = true;
  told_ = options_.asynchronous || job.over || !job.training ? job.steps : job.step_ahead;
  next_ = told_ + options_.every;
  round_ = {.step = told_, .shards = {}, .error = {}, .complete = false, .began = now, .state = {}};
  if (options_.asynchronous) round_.state = job.state(told_);
  out.push_back({Destination::shards(), Save{told_}});
}

void SaveRounds::end_when_complete(const Job& job) {
  if (!under_way_) return;
  // Get the state as soon as workers have reported all earlier steps, not once the shards have written: the job keeps
  // only the last states.
  if (!round_.state) round_.state = job.state(round_.step);
  if (!round_.complete || (!round_.state && !round_.error)) return;
  under_way_ = false;
  if (!round_.error) ++committing_;
  events_.push_back(
      {.kind = round_.error ? SaveEvent::Kind::failed : SaveEvent::Kind::commit, .round = round_, .step = {}});
}

bool SaveRounds::saved(const Saved& message) {
  if (message.step != round_.step || round_.complete || !round_.shards.emplace(message.shard, message).second)
    return false;
  if (message.error && !round_.error) round_.error = message.error.within(shard_name(message.shard));
  round_.complete = round_.shards.size() == options_.shards.size();
  return true;
}

}  // namespace troupe
