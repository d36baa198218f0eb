// Asks the source of versions (version_source.hpp) about each model, again and again, and tells the manager which
// versions are to be served. Detached: file systems are slow.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/serving/serving_protocol.hpp>

namespace troupe {

class SourceActorImpl final : public Counted<SourceActor> {
 public:
  SourceActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, ManagerActor manager,
                  std::shared_ptr<VersionSource> source, std::chrono::nanoseconds poll)
      : Counted(config, std::move(record)), manager_(std::move(manager)), source_(std::move(source)), poll_(poll) {}
  behavior_type make_behavior() override;

 private:
  struct Watched {
    ServedModel model{};
    bool found = false;  // had versions once: errors of looking change nothing from then on
  };
  void look(Watched& watched);

  ManagerActor manager_;
  const std::shared_ptr<VersionSource> source_;
  const std::chrono::nanoseconds poll_;
  std::map<std::string, Watched> models_;
};

}  // namespace troupe
