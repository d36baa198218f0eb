// Writes the files of a running job, checkpoints and curves: files are slow, and no other actor may wait for them.
// Detached; executes its work in order.
#pragma once

#include <functional>
#include <utility>

#include <troupe/actors/base/counted.hpp>
#include <troupe/messages/caf/protocol.hpp>
#include <troupe/messages/local.hpp>

namespace troupe {

// `work` must not throw.
struct WriteCheckpoint {
  using local_message = void;
  LocalHandle work;
};
// Work for others. `dropped`: called instead of `what` if that never runs because the actor has ended.
class FileWork final : public LocalWork {
 public:
  explicit FileWork(std::function<void()> what, std::function<void()> dropped = nullptr)
      : what_(std::move(what)), dropped_(std::move(dropped)) {}
  FileWork(const FileWork&) = delete;
  FileWork& operator=(const FileWork&) = delete;
  ~FileWork() override {
    if (!done_ && dropped_) dropped_();
  }
  void run() override {
    what_();
    done_ = true;
  }

 private:
  std::function<void()> what_;
  std::function<void()> dropped_;
  bool done_ = false;
};

using CheckpointActor = caf::typed_actor<caf::reacts_to<WriteCheckpoint>, caf::reacts_to<Stop>>;

class CheckpointActorImpl final : public Counted<CheckpointActor> {
 public:
  // `failed`: called when it has failed too often and does no more work.
  CheckpointActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record,
                      std::function<void(const Error&)> failed)
      : Counted(config, std::move(record)), failed_(std::move(failed)) {}
  behavior_type make_behavior() override;

 private:
  void escalate(const Error& why) override {
    over_ = true;
    failed_(why);
  }

  std::function<void(const Error&)> failed_;
  bool over_ = false;
};

}  // namespace troupe
