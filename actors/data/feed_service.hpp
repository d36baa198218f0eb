// The data of one training, as an input actor makes batches of it. Shared by the training, which waits for its end, and
// by the actors that work for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <troupe/messages/frames.hpp>
#include <troupe/messages/local.hpp>
#include <troupe/scheduler/data/batch_desk.hpp>
#include <troupe/scheduler/data/batch_source.hpp>

namespace troupe {

class FeedService {
 public:
  struct Data {
    const BatchSource* source = nullptr;  // outlives the service's workers: await_release()
    BatchPlan plan{};
  };
  struct Config {
    std::string settings{};  // OpenFeed::settings
    Data train{}, evaluation{};
    BatchDesk::Options desk{};
  };
  explicit FeedService(Config config) : config_(std::move(config)) {}
  const Config& config() const { return config_; }
  const Data& data_of(const BatchName& batch) const { return batch.evaluation ? config_.evaluation : config_.train; }

  // How the training stands, as its workers tell.
  struct Status {
    std::size_t feeds = 0;          // that are open
    bool begun = false;             // a feed has been opened, here or in vain
    std::optional<CloseFeed> over;  // the training has ended well
    Error left{};                   // why the last worker left it
  };
  // Returns when the status may have changed, at the latest after `timeout`.
  Status await(std::chrono::nanoseconds timeout);

  // For the input actor.
  void opened(std::size_t feeds);
  void closed(std::size_t feeds, const CloseFeed& why);
  void lost(std::size_t feeds, const Error& why);

  // A use of the sources, shared by the actors that work for the service: ServeFeeds::service.
  class Use;
  static std::shared_ptr<Use> use(const std::shared_ptr<FeedService>& service);
  // Waits until all uses have ended.
  void await_release();

 private:
  void change(std::size_t feeds);

  const Config config_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Status status_;
  bool news_ = false;
  int users_ = 0;
};

class FeedService::Use final : public LocalWork {
 public:
  explicit Use(std::shared_ptr<FeedService> service);
  ~Use() override;
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  FeedService& service() const { return *service_; }

 private:
  const std::shared_ptr<FeedService> service_;
};

// LocalHandle of MakeBatch and BatchReady.
struct BegunBatch final : LocalWork {
  std::shared_ptr<FeedService::Use> use{};  // outlives the reader
  std::shared_ptr<const BatchReader> reader{};
  UnmadeBatch unmade{};
};
struct ReadyBatch final : LocalWork {
  std::shared_ptr<const MadeBatch> batch{};
};

}  // namespace troupe
