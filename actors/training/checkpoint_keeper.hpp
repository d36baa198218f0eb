// The checkpoints of a job, in all modes: finds the newest, writes new ones while training continues, reports the
// outcome.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <troupe/actors/checkpoint/reader.hpp>
#include <troupe/actors/checkpoint/writer.hpp>
#include <troupe/actors/checkpoint/writer_actor.hpp>
#include <troupe/actors/training/training_plan.hpp>
#include <troupe/scheduler/training/job_state.hpp>

namespace troupe {

// Steps between saves if neither the options nor the length of an epoch tell.
inline constexpr std::uint64_t kSaveEvery = 1000;

// Files are written by a separate actor, one after the other. A save costs training no time, only the memory of the
// saved values, which must not be modified until they are written. Failures are reported and do not end training.
// Thread-safe.
class CheckpointKeeper {
 public:
  using Clock = std::chrono::steady_clock;

  // Without a directory in the plan, keeps nothing. Throws invalid_argument for invalid options. Refers to the plan's
  // files, but not to the plan, after construction. `failed`: called on the writer's thread when the writer has failed
  // for good (actors/base/actor_kind.hpp); its remaining work is reported as failed.
  explicit CheckpointKeeper(const TrainingPlan& plan, std::function<void(const Error&)> failed = nullptr);
  ~CheckpointKeeper() { stop(); }
  CheckpointKeeper(const CheckpointKeeper&) = delete;
  CheckpointKeeper& operator=(const CheckpointKeeper&) = delete;

  bool keeps() const { return !about_->directory.empty(); }
  const std::string& directory() const { return about_->directory; }
  FileSystem& files() const { return about_->files; }

  // Returns the checkpoint from which a job with these settings resumes, if any; reports skipped ones. Creates the
  // directory. Throws FileSystem's errors, and failed_precondition if the newest belongs to another job, or is at an
  // epoch that this job does not have.
  std::optional<Checkpoint> newest(const std::string& settings) const;

  // Writes a shard's file. `done` is called on the writer's thread with the manifest for the coordinator, or the error.
  void write(const CheckpointId& id, ShardContents contents,
             std::function<void(const ShardManifest&, const Error&)> done) const;
  // Commits a checkpoint whose shards have all written; `began`: when the save was requested. Removes surplus
  // checkpoints. `done`: as for write(), on success and failure.
  void commit(CheckpointManifest manifest, Clock::time_point began, std::function<void()> done) const;
  // write() and commit() for a job with one shard.
  void save(CheckpointManifest manifest, ShardContents contents, Clock::time_point began) const;

  // Runs `work`, which must not throw, on the writer's thread, in order: for other files of the job. The plan must have
  // a directory for checkpoints or provenance.
  void run(std::function<void()> work) const;
  // Throws the writer's failure, if any.
  void check() const;

  // Whether a save due at this step may begin. Not while another is being written; the first skipped save is reported.
  bool may_save(std::uint64_t step) const;
  bool busy() const { return about_->writing.load() > 0; }
  // Reports a skipped save, the first time only.
  void leave_out(std::uint64_t step) const;
  // Returns when all queued work is done. Throws cancelled if `options.stop` is set meanwhile.
  void wait(const TrainingOptions& options) const;
  // Ends the writer after its queued work.
  void stop() const;

 private:
  struct About {
    explicit About(FileSystem& given) : files(given) {}
    FileSystem& files;
    std::string directory;  // "": none
    int kept = 1;
    std::uint32_t epochs = 0;
    std::function<void(const JobEvent&)> on_event;
    std::atomic<int> writing{0};    // pieces of work queued or running
    std::atomic<bool> told{false};  // a skipped save was reported
    std::mutex mutex;
    Error failure;  // of the writer
  };
  // `dropped`: called instead of `what` if the writer has failed.
  void post(std::function<void()> what, std::function<void()> dropped = nullptr) const;

  const std::shared_ptr<About> about_;  // shared with the writer
  CheckpointActor writer_;
};

// The part of a manifest common to all checkpoints of a job; set_state() adds the job's progress.
CheckpointManifest manifest_of(const TrainingPlan& plan, const std::string& settings, std::uint32_t slots,
                               std::uint64_t steps_per_epoch);
void set_state(CheckpointManifest& manifest, const JobState& state, std::uint64_t version, std::uint64_t attempt);
// Throws data_loss.
JobState state_in(const Checkpoint& from);
// The event for a failed save.
JobEvent failed_to_save(std::uint64_t step, const std::string& directory, const Error& why);
// "the job resumes from step 400 in 'DIR/...'", or that it is complete.
std::string going_on(const Checkpoint& from, std::uint32_t epochs);

}  // namespace troupe
