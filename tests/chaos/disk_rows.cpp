// Saves that are cut off, disks that are full or forget, checkpoints that are damaged.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "tests/actors/checkpoint/cut_off.hpp"
#include "tests/chaos/row.hpp"
#include "tests/error_of.hpp"
#include <troupe/actors/checkpoint/reader.hpp>
#include <troupe/messages/error.hpp>

namespace troupe::chaos {
namespace {

namespace fs = std::filesystem;

// A crash of the machine at each operation of a save, with 24 ways to lose what was not synced.
Outcome crash_while_saving(std::uint64_t seed, bool sync_files) {
  testing::MemoryFileSystem disk;
  const testing::Example before(2 * seed + 1), after(2 * seed + 2);
  const CheckpointId old_id{10, 1}, new_id{20, 2};
  before.save(disk, testing::kCutOffDirectory, old_id, testing::kCutOffShards);
  const testing::CutOff cut = testing::cut_off_everywhere(disk, old_id, before, new_id, after, sync_files, true);
  Outcome outcome;
  outcome.schedule = fmt::format("a crash at each of {} operations of a save", cut.points);
  outcome.counts = {{"points", static_cast<double>(cut.points)},
                    {"disks", static_cast<double>(cut.points * testing::disks().size())},
                    {"old found", static_cast<double>(cut.old_found)},
                    {"new found", static_cast<double>(cut.new_found)}};
  if (!cut.broken.empty())
    outcome.problem =
        fmt::format("{} of {} disks: {}", cut.broken.size(), cut.points * testing::disks().size(), cut.broken.front());
  if (cut.points < 50) outcome.problem = "a save has less than 50 operations";
  return outcome;
}

// ---- Real processes ------------------------------------------------------------------------------------------------

// 32 steps an epoch, 5 ms each; saves every 10 steps, on two shards.
Arguments saving_task(Workshop& workshop, const fs::path& directory) {
  return {workshop.program("chaos_task"),
          "--epochs",
          "6",
          "--examples",
          "512",
          "--batch",
          "4",
          "--slots",
          "4",
          "--before",
          "5",
          "--checkpoint",
          (directory / "checkpoints").string(),
          "--checkpoint-every",
          "10"};
}
constexpr double kSavingEpochs = 6;

// All that was committed must be whole.
void check_checkpoints(Outcome& outcome, const fs::path& directory) {
  double whole = 0;
  for (const ListedCheckpoint& checkpoint :
       list_checkpoints(posix_file_system(), (directory / "checkpoints").string())) {
    if (!checkpoint.committed) continue;
    const Error damage = testing::error_of([&] { open_checkpoint(posix_file_system(), checkpoint.folder).verify(); });
    if (damage && outcome.problem.empty())
      outcome.problem = fmt::format("'{}' was committed, but: {}", checkpoint.folder, damage.message());
    ++whole;
  }
  outcome.counts["whole checkpoints"] = whole;
}

void check_final(Outcome& outcome, const ChaosCluster& cluster) {
  const Told* final = cluster.find("final");
  if (!final || !outcome.problem.empty()) return;
  // Each slot's mean of four: a quarter for each time an example was applied.
  if (final->what.value("least", -1.0) != kSavingEpochs / 4 || final->what.value("most", -1.0) != kSavingEpochs / 4)
    outcome.problem = fmt::format("in {} epochs some example was applied {} times, and some {} times", kSavingEpochs,
                                  4 * final->what.value("least", -1.0), 4 * final->what.value("most", -1.0));
}

Outcome kill_while_saving(Workshop& workshop, std::uint64_t seed) {
  const testing::TemporaryDirectory directory;
  Arguments app = saving_task(workshop, directory.path());
  const std::uint64_t operation = 1 + seed % 50;
  for (const std::string& more : {std::string("--kill-at"), std::to_string(operation), std::string("--once"),
                                  (directory.path() / "once").string()})
    app.push_back(more);
  ChaosCluster cluster({.app = app, .workers = 4, .restarts = 5, .launcher = workshop.program("troupe-launch")});
  Played played = play(cluster, {}, "");
  played.outcome.schedule = fmt::format("a ps task dies in the middle of its operation {} on files", operation);
  check_final(played.outcome, cluster);
  check_checkpoints(played.outcome, directory.path());
  played.outcome.counts["killed"] = fs::exists(directory.path() / "once");
  played.outcome.counts["restored"] = cluster.find("restored") != nullptr;
  return finish(workshop, cluster, played.outcome);
}

Outcome full_disk(Workshop& workshop, std::uint64_t seed) {
  const testing::TemporaryDirectory directory;
  Arguments app = saving_task(workshop, directory.path());
  const std::uint64_t operation = 4 + Dice(seed).below(57);  // a job does not begin if its directory cannot be made
  for (const std::string& more :
       {std::string("--full-from"), std::to_string(operation), std::string("--full-for"), std::string("25")})
    app.push_back(more);
  ChaosCluster cluster({.app = app});
  Played played = play(cluster, {}, "");
  played.outcome.schedule = fmt::format("the disk is full from operation {} of each ps task on, for 25", operation);
  check_final(played.outcome, cluster);
  check_checkpoints(played.outcome, directory.path());
  for (const Told& told : cluster.told()) {
    played.outcome.counts["saved"] += told.kind == "saved";
    played.outcome.counts["saves failed"] += told.kind == "save_failed";
  }
  if (played.outcome.problem.empty() && played.outcome.counts["saves failed"] == 0)
    played.outcome.problem = "no save has failed";
  if (played.outcome.problem.empty() && played.outcome.counts["whole checkpoints"] == 0)
    played.outcome.problem = "no checkpoint is there at the end";
  return finish(workshop, cluster, played.outcome);
}

// ---- Damage --------------------------------------------------------------------------------------------------------

class Saves {
 public:
  explicit Saves(Workshop& workshop) {
    Arguments app = workshop.mnist(2);
    for (const std::string& more :
         {std::string("--checkpoint"), directory(), std::string("--checkpoint-every"), std::string("20")})
      app.push_back(more);
    ChaosCluster cluster({.app = app, .workers = 2});
    const Played played = play(cluster, {}, "");
    if (!played.outcome.problem.empty())
      fail(Code::internal, "an undisturbed run with checkpoints failed: {}", played.outcome.problem);
    auto newest = newest_whole_checkpoint(posix_file_system(), directory());
    if (!newest || list_checkpoints(posix_file_system(), directory()).size() < 2)
      fail(Code::internal, "an undisturbed run has left no two checkpoints");
    folder = newest->folder();
    version = newest->manifest().id.version;
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
    std::ranges::sort(files);
  }
  std::string directory() const { return (temporary.path() / "checkpoints").string(); }

  testing::TemporaryDirectory temporary;
  std::string folder;  // of the newest
  std::uint64_t version = 0;
  std::vector<fs::path> files;  // in it
};

// A byte flipped, or the end cut off, in a file of the newest checkpoint of a real job.
Outcome damage(Workshop& workshop, std::uint64_t seed) {
  static std::map<Workshop*, std::unique_ptr<Saves>> known;
  auto& saves = known[&workshop];
  if (!saves) saves = std::make_unique<Saves>(workshop);
  Outcome outcome;
  Dice dice(seed);
  const fs::path& file = saves->files[dice.below(saves->files.size())];
  std::string whole;
  {
    std::ifstream in(file, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  const std::size_t at = dice.below(whole.size());
  const bool flip = dice.below(2) == 0;
  std::string damaged = flip ? whole : whole.substr(0, at);
  if (flip) damaged[at] = static_cast<char>(damaged[at] ^ (1 << dice.below(8)));
  outcome.schedule =
      fmt::format("{} {} at byte {} of {}", file.filename().string(), flip ? "flipped" : "cut off", at, whole.size());
  const auto write = [&](const std::string& content) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
  };
  write(damaged);
  Error reason;
  auto found = newest_whole_checkpoint(posix_file_system(), saves->directory(),
                                       [&](const std::string&, const Error& error) { reason = error; });
  write(whole);
  if (!reason)
    outcome.problem = "the damage was not noticed";
  else if (reason.message().find(file.filename().string()) == std::string::npos)
    outcome.problem = fmt::format("the file is not named: {}", reason.message());
  else if (!found || found->manifest().id.version >= saves->version)
    outcome.problem = "the checkpoint before was not used";
  outcome.counts[flip ? "flipped" : "cut off"] = 1;
  return outcome;
}

}  // namespace

std::vector<Row> disk_rows() {
  return {
      {.name = "crash-saving",
       .fault = "the machine crashes at each operation of a save; what was not synced is lost in 24 ways",
       .must = "the old or the new checkpoint is whole, the new one once the save is done",
       .short_runs = 1,
       .long_runs = 5,
       .at_most = {},
       .at_least = {{"points", 50}},
       .run = [](Workshop&, std::uint64_t seed) { return crash_while_saving(seed, true); }},
      {.name = "kill-saving",
       .fault = "a ps task is killed in the middle of an operation of a save: another operation in each run",
       .must = "what is committed is whole, the job continues, each example is applied once an epoch",
       .short_runs = 2,
       .long_runs = 50,
       .at_most = {},
       .at_least = {{"killed", 1}},
       .run = kill_while_saving},
      {.name = "full-disk",
       .fault = "the disk is full for 25 operations of each ps task",
       .must = "saves fail, training continues, what is committed is whole",
       .short_runs = 1,
       .long_runs = 10,
       .at_most = {},
       .at_least = {},
       .run = full_disk},
      {.name = "damage",
       .fault = "a bit of a checkpoint is flipped, or a file of it cut off",
       .must = "refused by the name of the file, the checkpoint before is used",
       .short_runs = 50,
       .long_runs = 200,
       .at_most = {},
       .at_least = {},
       .run = damage},
      {.name = "without-fsync",
       .fault = "crash-saving, but files are not synced",
       .must = "is caught",
       .short_runs = 1,
       .long_runs = 1,
       .at_most = {},
       .at_least = {},
       .run = [](Workshop&, std::uint64_t seed) { return crash_while_saving(seed, false); },
       .broken = true},
  };
}

}  // namespace troupe::chaos
