// Decides which versions are loaded (scheduler/serving/servable_manager.hpp) and publishes those that are ready.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/serving/loaded_servable.hpp>
#include <troupe/actors/serving/serving_directory.hpp>
#include <troupe/actors/serving/serving_protocol.hpp>
#include <troupe/actors/serving/serving_statistics.hpp>

namespace troupe {

// Shows others the state of all versions. Thread-safe.
class ServingStatus {
 public:
  // `decided`: models all of whose versions are ready, or have a reason why not.
  void set(std::vector<ServableManager::Status> status, bool idle, std::set<std::string> decided);
  std::vector<ServableManager::Status> all() const;
  // Waits until `ready` returns true, which is called with all, and whether nothing is loaded or goes on. False: not by
  // then.
  bool wait(std::chrono::nanoseconds timeout,
            const std::function<bool(const std::vector<ServableManager::Status>&, bool idle)>& ready) const;
  // Waits until each of these models is decided.
  bool wait_decided(std::chrono::nanoseconds timeout, const std::vector<std::string>& models) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<ServableManager::Status> status_;
  bool idle_ = true;
  std::set<std::string> decided_;
};

class ManagerActorImpl final : public Counted<ManagerActor> {
 public:
  struct Config {
    Task& task;  // outlives the actor
    ServableManager::Options options{};
    int threads = 0;  // of each version's device
    std::function<void(const ServableManager::Status&)> on_state{};
    std::shared_ptr<ServingDirectory> directory{};
    std::shared_ptr<ServingStatus> status{};
    std::shared_ptr<SharedLoading> loading{};
  };
  ManagerActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, Config given)
      : Counted(config, std::move(record)), config_(std::move(given)), manager_(config_.options) {}
  behavior_type make_behavior() override;

 private:
  struct Version {
    FoundVersion found{};
    LoaderActor loader{};  // null: none, or it has failed
    std::shared_ptr<LoadedServable> servable{};
    std::shared_ptr<ServingStatistics> statistics{};  // also after it is unloaded
    ServableHandle published{};                       // null: requests do not get it
    std::weak_ptr<const Servable> handle{};           // that requests may still have
    std::uint64_t publication = 0;                    // number of the handle
  };

  void inspect(ActorDetails& out) const override;
  void aspire(const Aspire& message);
  void act();
  // Returns whether it has ended already.
  bool begin(const ServableManager::Action& action);
  // A loader has failed, and cannot answer any more.
  void loader_lost(const caf::down_msg& down);
  void publish();
  ServableHandle handle_of(const ServableId& id, Version& version);
  void wake_for_attempts();
  // Tells of what has changed.
  void show();

  const Config config_;
  ServableManager manager_;
  std::map<ServableId, Version> versions_;
  std::map<std::string, ServedModel> models_;
  std::map<std::string, std::map<std::string, std::int64_t>> labels_;  // of publications, by model
  std::map<std::string, Error> why_none_;                              // of models whose source has found no version
  std::vector<ServableManager::Status> shown_;
  std::uint64_t publications_ = 0;
  Nanoseconds next_tick_ = BatchQueue::kNever;
};

}  // namespace troupe
