#include "troupe/scheduler/training/epoch_figures.hpp"

namespace troupe {
namespace {

double seconds_of(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

}  // namespace

void EpochFigures::step_done(double loss_sum, std::uint64_t correct, std::int64_t now) {
  ++at_.step;
  at_.loss_sum += loss_sum;
  at_.correct += correct;
  at_.examples = complete() * examples_;
  const std::int64_t before = at_.job_ns - at_.epoch_ns;  // time of earlier epochs
  at_.epoch_ns = now - began_;
  at_.job_ns = before + at_.epoch_ns;
}

EpochDone EpochFigures::end(double loss_sum, std::uint64_t correct, double test_accuracy) {
  const auto images = static_cast<double>(steps_ * examples_);
  last_ = EpochDone{.epoch = at_.epoch,
                    .loss = loss_sum / images,
                    .train_accuracy = static_cast<double>(correct) / images,
                    .test_accuracy = test_accuracy,
                    .images_per_second = at_.epoch_ns > 0 ? images / seconds_of(at_.epoch_ns) : 0,
                    .steps = at_.step,
                    .seconds = seconds_of(at_.job_ns)};
  return last_;
}

void EpochFigures::next_epoch() {
  at_ = {.epoch = at_.epoch + 1, .step = at_.step, .job_ns = at_.job_ns, .commits = {}};
}

double EpochFigures::images_per_second() const {
  return last_.seconds > 0 ? static_cast<double>(at_.step * examples_) / last_.seconds : 0;
}

}  // namespace troupe
