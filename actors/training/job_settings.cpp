#include "troupe/actors/training/job_settings.hpp"

#include <array>
#include <string_view>

#include <troupe/actors/training/callback.hpp>
#include <troupe/graph/loaded_ops.hpp>

namespace troupe {

namespace {

std::string describe(const std::optional<LossScaling>& scaling) {
  if (!scaling) return "none";
  if (!scaling->dynamic) return fmt::format("{}", scaling->initial);
  return fmt::format("from {}, twice that after {} good steps", scaling->initial, scaling->growth_interval);
}

}  // namespace

std::string job_settings(const TrainingPlan& plan, std::uint32_t slots, std::uint32_t backups, std::uint32_t workers,
                         std::uint32_t shards) {
  const TrainingOptions& o = plan.options;
  const ModeFields mode = fields_of(o.mode);
  const auto examples = [](const BatchSource* source) {
    const auto count = source ? source->examples() : 0;
    return count ? std::to_string(*count) : "unknown";
  };
  return fmt::format(
      "mode={}\nslots={}\nbackups={}\nstaleness={}\nbatch={}\nepochs={}\nseed={}\ntrain_examples={}"
      "\ntest_examples={}\nevaluation_batch={}\nlast_step={}\nsimultaneous={}\nworkers={}\n"
      "ps={}\nmicro_batches={}\nsparse_mean={}\nclipping={}\naggregate={}\nstaleness_aware={}\nloss_scaling={}"
      "\nschema={}\ncallbacks={}\n{}",
      name(o.mode), slots, backups, mode.staleness, o.batch, o.epochs, o.seed, examples(&plan.train),
      examples(plan.evaluation), o.evaluation_batch, name(o.last_step), o.simultaneous, workers, shards,
      o.micro_batches, name(o.sparse_mean), plan.clipping.to_string(), mode.aggregate, mode.staleness_aware,
      describe(plan.loss_scaling), to_string(plan.train.schema()), describe(o.callbacks), plan.description);
}

std::string library_settings(const Graph& graph) {
  std::string text;
  for (const OpLibraryId& library : libraries_of(graph))
    text += fmt::format("\nop_library_{}={} {}", library.name, library.version, library.sha256);
  return text;
}

std::string settings_to_keep(const std::string& settings) {
  static constexpr std::array<std::string_view, 5> kOthers = {"workers=", "ps=", "epochs=", "graph=", "op_library_"};
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
