#include "troupe/actors/training/checkpoint_keeper.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <future>

#include <troupe/actors/base/spawn.hpp>
#include <troupe/actors/training/job_settings.hpp>
#include <troupe/scheduler/training/coordinator.hpp>

namespace troupe {
namespace {

const Error kWriterFailed(Code::aborted, "the actor that writes checkpoints failed");

std::string size_of(std::uint64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} bytes", bytes);
  return bytes < 100'000'000 ? fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6)
                             : fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9);
}

std::uint64_t bytes_of(const CheckpointManifest& manifest) {
  std::uint64_t bytes = 0;
  for (const ShardManifest& shard : manifest.shards) bytes += shard.bytes;
  return bytes;
}

double seconds_since(CheckpointKeeper::Clock::time_point begin) {
  return std::chrono::duration<double>(CheckpointKeeper::Clock::now() - begin).count();
}

void commit_and_tell(FileSystem& files, const CheckpointManifest& manifest, const std::string& directory, int kept,
                     CheckpointKeeper::Clock::time_point began, const std::function<void(const JobEvent&)>& tell) {
  commit_checkpoint(files, directory, manifest);
  const std::uint64_t bytes = bytes_of(manifest), written = manifest.shards.size() + 1;
  const double seconds = seconds_since(began);
  tell({.kind = "saved",
        .task = {},
        .step = manifest.id.version,
        .seconds = seconds,
        .text = fmt::format("saved step {} in '{}': {} files, {} in {:.2f} s", manifest.id.version, directory, written,
                            size_of(bytes), seconds),
        .counts = {{"files", written}, {"bytes", bytes}}});
  try {
    remove_old_checkpoints(files, directory, kept, manifest.id.version);
  } catch (...) {
    tell({.kind = "save_failed",
          .task = {},
          .step = manifest.id.version,
          .text = fmt::format("cannot remove old checkpoints in '{}': {}", directory, current_error().message()),
          .counts = {}});
  }
}

}  // namespace

CheckpointKeeper::CheckpointKeeper(const TrainingPlan& plan, std::function<void(const Error&)> failed)
    : about_(std::make_shared<About>(plan.files)) {
  const TrainingOptions& options = plan.options;
  const ParameterServers* servers = servers_of(options.mode);
  about_->directory = options.checkpoint;
  about_->kept = options.checkpoints_kept;
  about_->epochs = static_cast<std::uint32_t>(options.epochs);
  about_->on_event = options.on_event ? options.on_event : [](const JobEvent&) {};
  if (keeps() && options.checkpoints_kept < 1)
    invalid_argument("at least one checkpoint in '{}' must be kept, not {}", options.checkpoint,
                     options.checkpoints_kept);
  if (keeps() || (servers && !servers->provenance.empty()))
    writer_ = spawn_actor<ActorKind::checkpoint, CheckpointActorImpl>(
        plan.task.system(), plan.task.actors(), plan.task.name().to_string(),
        [about = about_, failed = std::move(failed)](const Error& why) {
          {
            const std::lock_guard lock(about->mutex);
            about->failure = why;
          }
          if (failed) failed(why);
        });
}

void CheckpointKeeper::stop() const {
  if (writer_) caf::anon_send(writer_, Stop{});
}

std::optional<Checkpoint> CheckpointKeeper::newest(const std::string& settings) const {
  if (!keeps()) return std::nullopt;
  make_directories(about_->files,
                   about_->directory);  // now: a failure at the first save would cost the training until then
  auto found =
      newest_whole_checkpoint(about_->files, about_->directory, [&](const std::string& folder, const Error& reason) {
        about_->on_event({.kind = "passed_over",
                          .task = {},
                          .text = fmt::format("skipping checkpoint '{}': {}", folder, reason.message()),
                          .counts = {}});
      });
  if (!found) return found;
  const std::string wanted = settings_to_keep(settings);
  if (found->manifest().settings != wanted) {
    const bool ranks = found->manifest().job.mode == AllReduceMode::kName;
    fail(Code::failed_precondition,
         "checkpoint '{}' belongs to another job: {}; use another directory, or the options of that job{}",
         found->folder(), setting_differences(wanted, found->manifest().settings),
         ranks ? fmt::format(" (mode allreduce uses one slot per worker, and that job had {})",
                             found->manifest().job.slots)
               : "");
  }
  if (found->manifest().job.epoch >= about_->epochs)
    fail(Code::failed_precondition,
         "checkpoint '{}' is already in epoch {}, but this job has {}: increase the number of epochs", found->folder(),
         found->manifest().job.epoch + 1, about_->epochs);
  return found;
}

void CheckpointKeeper::post(std::function<void()> what, std::function<void()> dropped) const {
  about_->writing.fetch_add(1);
  const auto work = [what = std::move(what), about = about_] {
    what();
    about->writing.fetch_sub(1);
  };
  const auto instead = [dropped = std::move(dropped), about = about_] {
    about->writing.fetch_sub(1);
    if (dropped) dropped();
  };
  caf::anon_send(writer_, WriteCheckpoint{std::make_shared<FileWork>(work, instead)});
}

void CheckpointKeeper::check() const {
  const std::lock_guard lock(about_->mutex);
  if (about_->failure) throw about_->failure;
}

void CheckpointKeeper::run(std::function<void()> work) const {
  caf::anon_send(writer_, WriteCheckpoint{std::make_shared<FileWork>(std::move(work))});
}

void CheckpointKeeper::write(const CheckpointId& id, ShardContents contents,
                             std::function<void(const ShardManifest&, const Error&)> done) const {
  const auto dropped = [done] { done({}, kWriterFailed); };
  post(
      [id, contents = std::move(contents), done = std::move(done), about = about_]() mutable {
        ShardManifest written;
        Error error;
        try {
          written = write_shard(about->files, about->directory, id, std::move(contents));
        } catch (...) {
          error = current_error();
        }
        done(written, error);
      },
      dropped);
}

void CheckpointKeeper::commit(CheckpointManifest manifest, Clock::time_point began, std::function<void()> done) const {
  const auto dropped = [done, step = manifest.id.version, about = about_] {
    about->on_event(failed_to_save(step, about->directory, kWriterFailed));
    done();
  };
  post(
      [manifest = std::move(manifest), began, done = std::move(done), about = about_] {
        try {
          commit_and_tell(about->files, manifest, about->directory, about->kept, began, about->on_event);
        } catch (...) {
          about->on_event(failed_to_save(manifest.id.version, about->directory, current_error()));
        }
        done();
      },
      dropped);
}

void CheckpointKeeper::save(CheckpointManifest manifest, ShardContents contents, Clock::time_point began) const {
  const auto dropped = [step = manifest.id.version, about = about_] {
    about->on_event(failed_to_save(step, about->directory, kWriterFailed));
  };
  post(
      [manifest = std::move(manifest), contents = std::move(contents), began, about = about_]() mutable {
        try {
          manifest.shards = {write_shard(about->files, about->directory, manifest.id, std::move(contents))};
          commit_and_tell(about->files, manifest, about->directory, about->kept, began, about->on_event);
        } catch (...) {
          about->on_event(failed_to_save(manifest.id.version, about->directory, current_error()));
        }
      },
      dropped);
}

bool CheckpointKeeper::may_save(std::uint64_t step) const {
  if (!busy()) return true;
  leave_out(step);
  return false;
}

void CheckpointKeeper::leave_out(std::uint64_t step) const {
  if (about_->told.exchange(true)) return;
  about_->on_event({.kind = "save_left_out",
                    .task = {},
                    .step = step,
                    .text = fmt::format("skipping the save of step {} in '{}': the previous save is still being "
                                        "written; later skips are not reported",
                                        step, directory()),
                    .counts = {}});
}

void CheckpointKeeper::wait(const TrainingOptions& options) const {
  if (!writer_) return;
  const auto written = std::make_shared<std::promise<void>>();
  std::future<void> all = written->get_future();
  post([written] { written->set_value(); });
  while (all.wait_for(std::chrono::milliseconds(200)) != std::future_status::ready) check_stop(options);
}

CheckpointManifest manifest_of(const TrainingPlan& plan, const std::string& settings, std::uint32_t slots,
                               std::uint64_t steps_per_epoch) {
  CheckpointManifest out;
  out.settings = settings_to_keep(settings);
  for (char c : out.settings) out.fingerprint = (out.fingerprint ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  out.job.mode = name(plan.options.mode);
  out.job.slots = slots;
  out.job.batch = static_cast<std::uint64_t>(plan.options.batch);
  out.job.seed = plan.options.seed;
  out.job.staleness = static_cast<std::uint64_t>(fields_of(plan.options.mode).staleness);
  out.job.epochs = static_cast<std::uint32_t>(plan.options.epochs);
  out.job.steps_per_epoch = steps_per_epoch;
  return out;
}

void set_state(CheckpointManifest& manifest, const JobState& state, std::uint64_t version, std::uint64_t attempt) {
  manifest.id = {version, attempt};
  CheckpointJob& job = manifest.job;
  job.epoch = state.epoch;
  job.cursor = (state.step - state.epoch_step) * job.slots;
  job.examples = state.examples;
  job.training_ns = static_cast<std::uint64_t>(state.job_ns);
  job.extra = state.to_string();
}

JobState state_in(const Checkpoint& from) { return JobState::parse(from.manifest().job.extra); }

JobEvent failed_to_save(std::uint64_t step, const std::string& directory, const Error& why) {
  return {.kind = "save_failed",
          .task = {},
          .step = step,
          .text = fmt::format("cannot save step {} in '{}': {}; training continues", step, directory, why.message()),
          .counts = {}};
}

std::string going_on(const Checkpoint& from, std::uint32_t epochs) {
  const CheckpointManifest& manifest = from.manifest();
  const std::uint64_t step = state_in(from).step;
  if (manifest.job.steps_per_epoch == 0 || step < epochs * manifest.job.steps_per_epoch)
    return fmt::format("the job resumes from step {} in '{}'", step, from.folder());
  return fmt::format("the job is complete: '{}' has its last step, {}; increase the number of epochs to continue",
                     from.folder(), step);
}

}  // namespace troupe
