// The checkpoints of a job, in all modes: finds the newest, writes others while training goes on, says what became of
// them.
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

// Files are written by an actor of its own, one piece of work after the other: a save takes from training the memory of
// what is saved, which nobody may write to until then, and no time. What fails is told, and harms nothing. Thread-safe.
class CheckpointKeeper {
 public:
  using Clock = std::chrono::steady_clock;

  // Nothing is kept of a plan without a directory. Throws invalid_argument for options that make no sense. Does not
  // refer to the plan afterwards, but to its files. `failed`: the actor that writes has failed for good
  // (actors/base/actor_kind.hpp), on its thread; what it had to write is told to have failed.
  explicit CheckpointKeeper(const TrainingPlan& plan, std::function<void(const Error&)> failed = nullptr);
  ~CheckpointKeeper() { stop(); }
  CheckpointKeeper(const CheckpointKeeper&) = delete;
  CheckpointKeeper& operator=(const CheckpointKeeper&) = delete;

  bool keeps() const { return !about_->directory.empty(); }
  const std::string& directory() const { return about_->directory; }
  FileSystem& files() const { return about_->files; }

  // What a job with these settings goes on from, if there is any; those that are passed over are told. Makes the
  // directory. Throws what FileSystem does, and failed_precondition if the newest is of another job, or of an epoch
  // that this job does not have.
  std::optional<Checkpoint> newest(const std::string& settings) const;

  // A shard's file. `done` is called on the writer's thread with what to tell the coordinator, or the error.
  void write(const CheckpointId& id, ShardContents contents,
             std::function<void(const ShardManifest&, const Error&)> done) const;
  // All shards have written; `began`: when they were asked to. Removes those that are too many. `done`: likewise, in
  // any case.
  void commit(CheckpointManifest manifest, Clock::time_point began, std::function<void()> done) const;
  // Both, of a job that is one shard.
  void save(CheckpointManifest manifest, ShardContents contents, Clock::time_point began) const;

  // Other files of the job: `work`, which does not throw, is run on the writer's thread, in its turn. There is a writer
  // if the plan has a directory of checkpoints or of provenance.
  void run(std::function<void()> work) const;
  // Throws why it writes no more.
  void check() const;

  // A save of this step is due: may it begin? While another is being written it is left out, which is told once.
  bool may_save(std::uint64_t step) const;
  bool busy() const { return about_->writing.load() > 0; }
  // It is left out.
  void leave_out(std::uint64_t step) const;
  // Returns when all that has been given to it is written. Throws cancelled if `options.stop` is set meanwhile.
  void wait(const TrainingOptions& options) const;
  // Nothing is given to it any more. What has been is still written.
  void stop() const;

 private:
  struct About {
    explicit About(FileSystem& given) : files(given) {}
    FileSystem& files;
    std::string directory;  // "": none
    int kept = 1;
    std::uint32_t epochs = 0;
    std::function<void(const JobEvent&)> on_event;
    std::atomic<int> writing{0};    // pieces of work that wait, or are under way
    std::atomic<bool> told{false};  // that a save was left out
    std::mutex mutex;
    Error failure;  // of the writer
  };
  // `dropped`: called instead of it if the writer has failed.
  void post(std::function<void()> what, std::function<void()> dropped = nullptr) const;

  const std::shared_ptr<About> about_;  // the writer has it too
  CheckpointActor writer_;
};

// What the checkpoints of a job have in common, and what one of them says of where the job stands.
CheckpointManifest manifest_of(const TrainingPlan& plan, const std::string& settings, std::uint32_t slots,
                               std::uint64_t steps_per_epoch);
void set_state(CheckpointManifest& manifest, const JobState& state, std::uint64_t version, std::uint64_t attempt);
// Throws data_loss.
JobState state_in(const Checkpoint& from);
// A save that came to nothing.
JobEvent failed_to_save(std::uint64_t step, const std::string& directory, const Error& why);
// "the job goes on from step 400 of 'DIR/...'", or that it is over.
std::string going_on(const Checkpoint& from, std::uint32_t epochs);

}  // namespace troupe
