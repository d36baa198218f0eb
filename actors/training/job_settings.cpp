#include "troupe/actors/training/job_settings.hpp"

#include <array>
#include <string_view>

namespace troupe {
namespace {

// Dtype of products in layers that set none.
std::string_view precision(const Sequential& layers) {
  return layers.compute() == DType::invalid ? name(DType::f32) : name(layers.compute());
}

std::string describe(const Optimizer& optimizer) {
  return fmt::format("{} lr {}{}", name(optimizer), learning_rate(optimizer).to_string(), options_text(optimizer));
}

std::string describe(const std::optional<LossScaling>& scaling) {
  if (!scaling) return "none";
  if (!scaling->dynamic) return fmt::format("{}", scaling->initial);
  return fmt::format("from {}, twice that after {} good steps", scaling->initial, scaling->growth_interval);
}

}  // namespace

std::string_view name(JobMode mode) {
  switch (mode) {
    case JobMode::local:
      return "local";
    case JobMode::sync:
      return "sync";
    case JobMode::async:
      return "async";
    case JobMode::allreduce:
      return "allreduce";
    case JobMode::ssp:
      return "ssp";
  }
  return "?";
}

std::string job_settings(const TrainingPlan& plan, std::uint32_t slots, std::uint32_t backups, std::uint32_t workers,
                         std::uint32_t shards) {
  const TrainingOptions& o = plan.options;
  return fmt::format(
      "mode={}\nprecision={}\nslots={}\nbackups={}\nstaleness={}\nbatch={}\nepochs={}\nseed={}\ntrain_examples={}"
      "\ntest_examples={}\nworkers={}\n"
      "ps={}\nmicro_batches={}\nsparse_mean={}\nclip_norm={}\naggregate={}\nstaleness_aware={}\nloss_scaling={}"
      "\noptimizer={}",
      name(o.mode), precision(plan.layers), slots, backups, o.staleness, o.batch, o.epochs, o.seed,
      plan.data.train.size(), plan.data.test.size(), workers, shards, o.micro_batches, name(o.sparse_mean),
      plan.clip_norm, o.aggregate, o.staleness_aware, describe(plan.loss_scaling), describe(plan.optimizer));
}

std::string settings_to_keep(const std::string& settings) {
  static constexpr std::array<std::string_view, 3> kOthers = {"workers=", "ps=", "epochs="};
  std::string kept;
  for (std::string_view left = settings; !left.empty();) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(left.size(), line.size() + 1));
    if (line == "mode=local" || line == "mode=sync")
      kept += "mode=local or sync\n";
    else if (std::ranges::none_of(kOthers, [&](std::string_view other) { return line.starts_with(other); }))
      kept += std::string(line) + "\n";
  }
  return kept;
}

}  // namespace troupe
