#include "troupe/actors/base/training_record.hpp"

#include <fmt/core.h>

#include <algorithm>

#include <troupe/actors/base/actor_record.hpp>

namespace troupe {
namespace {

std::string describe(TrainingRecord::Doing doing, std::uint64_t step, std::uint32_t slot) {
  using Doing = TrainingRecord::Doing;
  switch (doing) {
    case Doing::nothing:
      return "";
    case Doing::joining:
      return "joins the job";
    case Doing::waiting_for_token:
      return "waits for a token";
    case Doing::waiting_for_data:
      return fmt::format("waits for the batch of slot {} of step {}", slot, step);
    case Doing::computing:
      return fmt::format("computes step {}, slot {}", step, slot);
    case Doing::evaluating:
      return "evaluates";
    case Doing::waiting_in_barrier:
      return "waits in the barrier";
    case Doing::saving:
      return "saves a checkpoint";
  }
  return "";
}

}  // namespace

void TrainingRecord::begin(std::string mode, std::uint64_t epochs) {
  const std::lock_guard lock(mutex_);
  begun_ = true;
  now_ = TrainingSnapshot{};
  now_.mode = std::move(mode);
  ended_ns_ = 0;
  now_.epochs = epochs;
  recorded_ = 0;
}

void TrainingRecord::set_pipelines(std::function<std::vector<PipelineSnapshot>()> show) {
  const std::lock_guard lock(pipelines_mutex_);
  show_pipelines_ = std::move(show);
}

std::vector<PipelineSnapshot> TrainingRecord::pipelines() const {
  const std::lock_guard lock(pipelines_mutex_);
  return show_pipelines_ ? show_pipelines_() : std::vector<PipelineSnapshot>();
}

void TrainingRecord::end() { does(Doing::nothing); }

void TrainingRecord::set_epoch(std::uint64_t epoch, std::uint64_t all_steps) {
  const std::lock_guard lock(mutex_);
  now_.epoch = epoch;
  now_.all_steps = all_steps;
}

void TrainingRecord::set_metrics(std::map<std::string, double> metrics) {
  const std::lock_guard lock(mutex_);
  now_.metrics = std::move(metrics);
}

void TrainingRecord::does(Doing what, std::uint64_t step, std::uint32_t slot) {
  const std::int64_t at = steady_now_ns();
  const std::lock_guard lock(mutex_);
  if (doing_ == what && doing_step_ == step && doing_slot_ == slot) return;
  doing_ = what;
  doing_step_ = step;
  doing_slot_ = slot;
  since_ns_ = at;
  if (what == Doing::computing) now_.step = step;
}

void TrainingRecord::computed(std::uint64_t step, std::uint32_t slot, std::int64_t began_ns, double loss,
                              std::uint64_t examples) {
  const std::int64_t at = steady_now_ns();
  const std::lock_guard lock(mutex_);
  ++now_.steps;
  now_.examples += examples;
  now_.loss = loss;
  now_.step = step;
  const std::int64_t began = std::max(began_ns, ended_ns_);
  recent_[recorded_++ % kRecent] = {
      .step = step, .slot = slot, .begin_ns = began, .took_ns = at - began, .loss = loss, .examples = examples};
  ended_ns_ = at;
}

std::optional<TrainingSnapshot> TrainingRecord::snapshot() const {
  const std::int64_t at = steady_now_ns();
  const std::lock_guard lock(mutex_);
  if (!begun_) return {};
  TrainingSnapshot out = now_;
  out.doing = describe(doing_, doing_step_, doing_slot_);
  out.doing_ns = doing_ == Doing::nothing ? 0 : at - since_ns_;
  for (std::uint64_t i = recorded_ - std::min<std::uint64_t>(recorded_, kRecent); i < recorded_; ++i) {
    StepRecord step = recent_[i % kRecent];
    step.begin_ns = at - step.begin_ns;
    out.recent.push_back(step);
  }
  return out;
}

}  // namespace troupe
