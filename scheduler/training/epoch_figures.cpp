#include "troupe/scheduler/training/epoch_figures.hpp"

namespace troupe {
namespace {

double seconds_of(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

}  // namespace

void EpochFigures::go_on_from(JobState at) {
  at_ = std::move(at);
  places_.add(at_.place);
  decisions_.replay(at_.history);
}

void EpochFigures::step_done(std::int64_t now) {
  ++at_.step;
  const std::int64_t before = at_.job_ns - at_.epoch_ns;  // time of earlier epochs
  at_.epoch_ns = now - began_;
  at_.job_ns = before + at_.epoch_ns;
  if (!places_.empty()) at_.place = places_.before(at_.epoch, complete());
}

EpochDone EpochFigures::end(NamedSums evaluation) {
  const auto examples = static_cast<double>(at_.examples);
  last_ = EpochDone{.epoch = at_.epoch,
                    .training = at_.sums,
                    .evaluation = std::move(evaluation),
                    .examples = at_.examples,
                    .examples_per_second = at_.epoch_ns > 0 ? examples / seconds_of(at_.epoch_ns) : 0,
                    .steps = at_.step,
                    .seconds = seconds_of(at_.job_ns)};
  decisions_.decide(last_);
  examples_ += at_.examples;
  ended_ns_ += at_.epoch_ns;
  return last_;
}

void EpochFigures::next_epoch() {
  JobState next;
  next.epoch = at_.epoch + 1;
  next.step = next.epoch_step = at_.step;
  next.job_ns = at_.job_ns;
  next.history = decisions_.history();
  at_ = std::move(next);
}

double EpochFigures::examples_per_second() const {
  return ended_ns_ > 0 ? static_cast<double>(examples_) / seconds_of(ended_ns_) : 0;
}

}  // namespace troupe
