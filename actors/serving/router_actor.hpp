// Sends requests to replicas (scheduler/serving/request_router.hpp), and publishes what those serve.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/actors/base/counted.hpp>
#include <troupe/actors/serving/replica_state.hpp>
#include <troupe/actors/serving/serving_directory.hpp>
#include <troupe/actors/serving/serving_protocol.hpp>
#include <troupe/actors/serving/serving_statistics.hpp>
#include <troupe/scheduler/serving/replica_configurations.hpp>
#include <troupe/scheduler/serving/request_router.hpp>

namespace troupe {

// A request on its way. Answers once: if it is dropped, with unavailable.
struct RoutedCall {
  RoutedCall() = default;
  RoutedCall(const RoutedCall&) = delete;
  RoutedCall& operator=(const RoutedCall&) = delete;
  ~RoutedCall();
  void answer(ServingResult result);

  std::uint64_t id = 0;
  ServableId wanted{};
  ServingRequest request{};  // kept until the answer is there: it may be sent again
  std::function<void(ServingResult)> done{};
};

// A configuration on its way to all replicas. Answers once: if it is dropped, with unavailable.
struct Reconfiguration {
  Reconfiguration() = default;
  Reconfiguration(const Reconfiguration&) = delete;
  Reconfiguration& operator=(const Reconfiguration&) = delete;
  ~Reconfiguration();
  void answer(const Error& error);

  std::vector<ConfiguredModel> models{};
  std::function<void(const Error&)> done{};
};

// What all replicas serve, for others to see. Thread-safe.
class RoutedModels {
 public:
  // `having`: replicas with a ready version, by model.
  void set(std::map<std::string, std::vector<ServableManager::Status>> models,
           std::map<std::string, std::size_t> having, std::size_t replicas);
  std::map<std::string, std::vector<ServableManager::Status>> all() const;
  std::size_t replicas() const;
  std::size_t serving(const std::string& model) const;
  // Waits until `is_ready` returns true. False: not by then.
  bool wait(std::chrono::nanoseconds timeout, const std::function<bool()>& is_ready) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<std::string, std::vector<ServableManager::Status>> models_;
  std::map<std::string, std::size_t> having_;
  std::size_t replicas_ = 0;
};

class RouterActorImpl final : public Counted<RouterActor> {
 public:
  struct Config {
    RequestRouter::Options options{};
    std::shared_ptr<ServingDirectory> directory{};
    std::shared_ptr<RoutedModels> models{};
    std::function<void()> on_change{};
    std::function<void(const std::string&)> on_trouble{};
  };
  RouterActorImpl(caf::actor_config& config, std::shared_ptr<ActorRecord> record, Config given)
      : Counted(config, std::move(record)), config_(std::move(given)), router_(config_.options) {}
  behavior_type make_behavior() override;
  void on_exit() override;

 private:
  struct ReplicaTask {
    PeerActor peer{};
    ReplicaState state{};
    bool usable = false;  // as far as requests go
  };
  struct Remote {
    std::shared_ptr<const Servable> servable{};
    std::map<std::string, ModelSignature> signatures{};
  };

  void inspect(ActorDetails& out) const override;
  void came(const TaskName& task, const ReplicaModels& models);
  void gone(const TaskName& task);
  void reconfigure(const std::shared_ptr<Reconfiguration>& call);
  void spread(ReplicaConfigurations::Actions actions);
  void offer(RequestRouter::Replica index, const ReplicaTask& replica, RequestRouter::Actions& out);
  void answered(const TaskName& task, ModelAnswer answer);
  void act(RequestRouter::Actions actions);
  void send(const RequestRouter::Send& to);
  void drop(std::uint64_t request, RequestRouter::Replica replica);
  void publish();
  void wake();

  const Config config_;
  RequestRouter router_;
  ReplicaConfigurations configurations_;
  std::shared_ptr<Reconfiguration> reconfiguration_;        // that is under way
  std::map<RequestRouter::Replica, ReplicaTask> replicas_;  // by index of their task
  std::map<ServableId, Remote> remotes_;
  std::map<std::uint64_t, std::shared_ptr<RoutedCall>> calls_;
  Nanoseconds next_tick_ = RequestRouter::kNever;
};

}  // namespace troupe
